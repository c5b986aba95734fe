package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are two network namespaces, with mounts and a name of their own, that a cable of the kernel (veth) connects: two hosts, for programs that know each other by address. They
// live as long as the two processes that hold them, and those as long as this one.
type namespaces struct {
	holders [2]*exec.Cmd
	leave   [2]io.Closer
	cpus    []int // of this process
}

// device is the cable's end in each namespace.
const device = "bench0"

func hostAddress(host int) string { return fmt.Sprintf("10.213.78.%d", host+1) }

// hold is what the process does that keeps a host: it gives the host what hosts don't share, says so, and does nothing until its parent has ended. In
// /sys MPICH's UCX looks for network devices; Open MPI names files in /dev/shm by the host's name.
func hold(name string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("the host's name: %w", err)
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// newNamespaces makes them. self is this program, which holds them with -hold.
func newNamespaces(self string) (n *namespaces, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("to make network namespaces needs root")
	}
	n = &namespaces{}
	if n.cpus, err = ownCPUs(); err != nil {
		return nil, err
	}
	for host := range n.holders {
		if err := n.start(host, self); err != nil {
			n.close()
			return nil, fmt.Errorf("a network namespace: %w", err)
		}
	}
	if err := n.connect(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *namespaces) start(host int, self string) error {
	command := exec.Command(self, "-hold", fmt.Sprintf("bench%d", host))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS, Setsid: true, Pdeathsig: syscall.SIGKILL}
	leave, err := command.StdinPipe()
	if err != nil {
		return err
	}
	ready, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	command.Stderr = &complaint
	if err := command.Start(); err != nil {
		return err
	}
	n.holders[host], n.leave[host] = command, leave
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		return fmt.Errorf("%w: %s", command.Wait(), complaint.String())
	}
	return nil
}

func (n *namespaces) connect() error {
	other := strconv.Itoa(n.holders[1].Process.Pid)
	steps := [][]string{n.inside(0, "ip", "link", "add", device, "type", "veth", "peer", "name", device, "netns", other)}
	for host := range n.holders {
		steps = append(steps,
			n.inside(host, "ip", "addr", "add", hostAddress(host)+"/24", "dev", device),
			n.inside(host, "ip", "link", "set", "lo", "up"),
			n.inside(host, "ip", "link", "set", device, "up"))
	}
	// The kernel says up to a second later that the cable is connected; UCX does not use it before.
	connected := fmt.Sprintf("until grep -q up /sys/class/net/%s/operstate; do sleep 0.05; done", device)
	for host := range n.holders {
		steps = append(steps, n.inside(host, "timeout", "10", "sh", "-c", connected))
	}
	for _, argv := range steps {
		if err := step(argv...); err != nil {
			return err
		}
	}
	return nil
}

// inside is the command that runs argv on that host.
func (n *namespaces) inside(host int, argv ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(n.holders[host].Process.Pid), "-n", "-m", "-u", "--"}, argv...)
}

// bound is inside where ranks have a CPU each: then those of one host have one, as with any launcher that binds.
func (n *namespaces) bound(host, ranksEach int, argv ...string) []string {
	if 2*ranksEach > len(n.cpus) || ranksEach > 1 {
		return n.inside(host, argv...)
	}
	return n.inside(host, append([]string{"taskset", "-c", strconv.Itoa(n.cpus[host])}, argv...)...)
}

// remoteShell is the text of a program that is called as ssh is, with options, a host and a command, and runs the command there.
func (n *namespaces) remoteShell(ranksEach int) string {
	text := "#!/bin/sh\nwhile :; do case \"$1\" in -*) shift ;; *) break ;; esac; done\nhost=$1\nshift\ncase $host in\n"
	for host := range n.holders {
		text += fmt.Sprintf("%s) exec %s -c \"$*\" ;;\n", hostAddress(host), strings.Join(n.bound(host, ranksEach, "/bin/sh"), " "))
	}
	return text + "esac\necho \"$host is none of the two hosts\" >&2\nexit 1\n"
}

// close ends both: the kernel takes a namespace and its cable away when nobody is in it.
func (n *namespaces) close() {
	for host, holder := range n.holders {
		if holder != nil {
			n.leave[host].Close()
			_ = holder.Wait()
		}
	}
}

// ownCPUs are those that this process may use.
func ownCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for cpu := range len(set) * strconv.IntSize {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
