package guest

import (
	"fmt"
	"slices"
	"strings"
)

// Machine describes a machine that qemu emulates. CPUs are numbered by socket, core and thread.
type Machine struct {
	Sockets, Cores, Threads int // cores per socket, threads per core
	Nodes                   []Node
	// Distances are the distances between NUMA nodes, in the firmware's units (10: to itself).
	Distances [][]int
	Kernel    string // more kernel parameters
}

// Node is a NUMA node. It may have no CPUs or no memory.
type Node struct {
	CPUs []int
	MiB  int
}

// twoByTwo are the distances of two sockets with two nodes each; there are four different distances.
var twoByTwo = [][]int{
	{10, 12, 21, 31},
	{12, 10, 31, 21},
	{21, 31, 10, 12},
	{31, 21, 12, 10},
}

// The machines. Each has 8 CPUs and 512 MiB.
var (
	// FourNodes has two sockets with two NUMA nodes each. The CPU numbers of a node of the first socket are not
	// contiguous.
	FourNodes = Machine{
		Sockets: 2, Cores: 4, Threads: 1, Distances: twoByTwo,
		Nodes: []Node{{[]int{0, 2}, 176}, {[]int{1, 3}, 112}, {[]int{4, 5}, 96}, {[]int{6, 7}, 128}},
	}
	// TwoThreads has cores with two hardware threads each.
	TwoThreads = Machine{
		Sockets: 2, Cores: 2, Threads: 2, Distances: [][]int{{10, 21}, {21, 10}},
		Nodes: []Node{{[]int{0, 1, 2, 3}, 256}, {[]int{4, 5, 6, 7}, 256}},
	}
	// Patchy has a node without memory and a node without CPUs; CPU 5 is isolated and CPU 7 is offline.
	Patchy = Machine{
		Sockets: 2, Cores: 4, Threads: 1, Distances: twoByTwo, Kernel: "isolcpus=5 maxcpus=7",
		Nodes: []Node{{[]int{0, 2}, 224}, {[]int{1, 3}, 0}, {[]int{4, 5, 6, 7}, 144}, {nil, 144}},
	}
)

// Arguments returns the arguments of qemu for this machine with a kernel and an archive. The kernel's console goes
// to standard output, the output of /init to the file results. qemu exits when the guest ends.
func (m Machine) Arguments(kernel, archive, results string) []string {
	total := 0
	for _, n := range m.Nodes {
		total += n.MiB
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-cpu", "Nehalem,+rdrand",
		// KVM may be present but not work: inside some virtual machines a nested guest never runs
		"-accel", "tcg,thread=multi",
		"-m", fmt.Sprint(total), "-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.Sockets*m.Cores*m.Threads,
			m.Sockets, m.Cores, m.Threads),
		"-serial", "stdio", "-serial", "file:" + results,
		"-kernel", kernel, "-initrd", archive,
		// numa_balancing=disable keeps pages where they were touched; panic=-1 ends a guest that panics.
		// mitigations=off saves time. no_timer_check: on a busy machine the kernel finds its timer broken and stops.
		"-append", strings.TrimSpace("console=ttyS0 panic=-1 mitigations=off numa_balancing=disable random.trust_cpu=on " +
			"no_timer_check quiet " + m.Kernel),
	}
	return append(args, m.nodes()...)
}

func (m Machine) nodes() (args []string) {
	numa := func(format string, values ...any) { args = append(args, "-numa", fmt.Sprintf(format, values...)) }
	for number, n := range m.Nodes {
		memory := ""
		if n.MiB > 0 {
			args = append(args, "-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", number, n.MiB))
			memory = fmt.Sprintf(",memdev=memory%d", number)
		}
		numa("node,nodeid=%d%s", number, memory)
		for _, cpu := range n.CPUs {
			numa("cpu,node-id=%d,socket-id=%d,core-id=%d,thread-id=%d", number, m.Socket(cpu), cpu/m.Threads%m.Cores,
				cpu%m.Threads)
		}
	}
	for from, row := range m.Distances {
		for to, distance := range row {
			if from < to {
				numa("dist,src=%d,dst=%d,val=%d", from, to, distance)
			}
		}
	}
	return args
}

// Socket returns the socket of a CPU.
func (m Machine) Socket(cpu int) int { return cpu / (m.Cores * m.Threads) }

// Node returns the NUMA node of a CPU.
func (m Machine) Node(cpu int) int {
	return slices.IndexFunc(m.Nodes, func(n Node) bool { return slices.Contains(n.CPUs, cpu) })
}

// Nearest returns the NUMA node from which the kernel first allocates memory for a CPU. It considers the allowed
// nodes only (nil: all).
func (m Machine) Nearest(cpu int, allowed []int) int {
	best, here := -1, m.Node(cpu)
	for number, n := range m.Nodes {
		if n.MiB > 0 && (allowed == nil || slices.Contains(allowed, number)) &&
			(best < 0 || m.Distances[here][number] < m.Distances[here][best]) {
			best = number
		}
	}
	return best
}

// File is one file of an archive.
type File struct {
	Name string
	Mode uint32 // type and permissions as in stat(2)
	Text []byte
	// Major and Minor are the device numbers.
	Major, Minor int
}

// Archive packs files in cpio's format "newc", which the kernel unpacks into its root file system. The source is
// the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. A folder must precede its files.
func Archive(files []File) []byte {
	var b strings.Builder
	pad := func() { b.WriteString("\x00\x00\x00"[:(4-b.Len()%4)%4]) }
	for number, f := range append(files, File{Name: "TRAILER!!!"}) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			number+1, f.Mode, 0, 0, 1, 0, len(f.Text), 0, 0, f.Major, f.Minor, len(f.Name)+1, 0)
		b.WriteString(f.Name + "\x00")
		pad()
		b.Write(f.Text)
		pad()
	}
	return []byte(b.String())
}
