package guest

import (
	"fmt"
	"slices"
	"strings"
)

// Machine is one that qemu makes up. CPUs are numbered by socket, core and thread.
type Machine struct {
	Sockets, Cores, Threads int // cores of a socket, threads of a core
	Nodes                   []Node
	// Distances are those between NUMA nodes, in the firmware's units (10: to itself).
	Distances [][]int
	Kernel    string // more words for the kernel
}

// Node is a NUMA node. It may have no CPUs or no memory.
type Node struct {
	CPUs []int
	MiB  int
}

// twoByTwo are two sockets of two nodes each, with ways of four lengths.
var twoByTwo = [][]int{
	{10, 12, 21, 31},
	{12, 10, 31, 21},
	{21, 31, 10, 12},
	{31, 21, 12, 10},
}

// The machines. Each has 8 CPUs and 512 MiB.
var (
	// FourNodes has two sockets of two NUMA nodes; on the first the CPUs of a node are not neighbours.
	FourNodes = Machine{
		Sockets: 2, Cores: 4, Threads: 1, Distances: twoByTwo,
		Nodes: []Node{{[]int{0, 2}, 176}, {[]int{1, 3}, 112}, {[]int{4, 5}, 96}, {[]int{6, 7}, 128}},
	}
	// TwoThreads has cores of two hardware threads.
	TwoThreads = Machine{
		Sockets: 2, Cores: 2, Threads: 2, Distances: [][]int{{10, 21}, {21, 10}},
		Nodes: []Node{{[]int{0, 1, 2, 3}, 256}, {[]int{4, 5, 6, 7}, 256}},
	}
	// Patchy has a node without memory and one without CPUs; CPU 5 is isolated, 7 is offline.
	Patchy = Machine{
		Sockets: 2, Cores: 4, Threads: 1, Distances: twoByTwo, Kernel: "isolcpus=5 maxcpus=7",
		Nodes: []Node{{[]int{0, 2}, 224}, {[]int{1, 3}, 0}, {[]int{4, 5, 6, 7}, 144}, {nil, 144}},
	}
)

// Arguments are qemu's, for this machine with a kernel and an archive. The kernel's console goes to standard output,
// what /init says to the file results. The process ends when the guest does.
func (m Machine) Arguments(kernel, archive, results string) []string {
	total := 0
	for _, n := range m.Nodes {
		total += n.MiB
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-cpu", "Nehalem,+rdrand",
		// a KVM that is there may still not work: within another guest, some answer and never run
		"-accel", "tcg,thread=multi",
		"-m", fmt.Sprint(total), "-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.Sockets*m.Cores*m.Threads,
			m.Sockets, m.Cores, m.Threads),
		"-serial", "stdio", "-serial", "file:" + results,
		"-kernel", kernel, "-initrd", archive,
		// Pages stay where they were touched; a guest that panics ends. What the kernel does against flaws of real CPUs
		// only costs time.
		"-append", strings.TrimSpace("console=ttyS0 panic=-1 mitigations=off numa_balancing=disable random.trust_cpu=on " +
			"quiet " + m.Kernel),
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

// Socket is the one that has a CPU.
func (m Machine) Socket(cpu int) int { return cpu / (m.Cores * m.Threads) }

// Node is the NUMA node that has a CPU.
func (m Machine) Node(cpu int) int {
	return slices.IndexFunc(m.Nodes, func(n Node) bool { return slices.Contains(n.CPUs, cpu) })
}

// Nearest is the NUMA node, of those allowed (nil: of all), from which the kernel takes memory first for what runs on a
// CPU.
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
	Mode uint32 // type and permissions as stat(2) has them
	Text []byte
	// Major and Minor are the numbers of a device.
	Major, Minor int
}

// Archive packs files as cpio's format "newc", which the kernel unpacks into its root file system; see the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst. Folders come before what is in them.
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
