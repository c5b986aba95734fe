package guest

import (
	"fmt"
	"strings"
)

// Arguments are qemu's, for this machine with a kernel and an archive. The kernel's console goes to standard output, what /init says
// to the file results. The process ends when the guest does.
func Arguments(kernel, archive, results string) []string {
	total := 0
	for _, m := range mebibytes {
		total += m
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-cpu", "qemu64,+rdrand",
		"-accel", "tcg,thread=multi", // a KVM that is there may still not work: within another guest, some answer and never run
		"-m", fmt.Sprint(total), "-smp", fmt.Sprintf("%d,sockets=2,cores=%d,threads=1", 2*coresPerSocket, coresPerSocket),
		"-serial", "stdio", "-serial", "file:" + results,
		"-kernel", kernel, "-initrd", archive,
		// Pages stay where they were touched; a guest that panics ends.
		"-append", "console=ttyS0 panic=-1 numa_balancing=disable random.trust_cpu=on quiet",
	}
	return append(args, nodes()...)
}

func nodes() (args []string) {
	numa := func(format string, values ...any) { args = append(args, "-numa", fmt.Sprintf(format, values...)) }
	for node, m := range mebibytes {
		args = append(args, "-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", node, m))
		numa("node,nodeid=%d,memdev=memory%d", node, node)
		for _, cpu := range cpus[node] {
			numa("cpu,node-id=%d,socket-id=%d,core-id=%d,thread-id=0", node, cpu/coresPerSocket, cpu%coresPerSocket)
		}
	}
	for from, row := range distances {
		for to, distance := range row {
			if from < to {
				numa("dist,src=%d,dst=%d,val=%d", from, to, distance)
			}
		}
	}
	return args
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
