package testslurm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gorun/internal/testneeds"
)

// nodeVariable identifies the node of a slurmd and its slurmstepds.
const nodeVariable = "TESTSLURM_NODE"

// guardScript waits for the end of its standard input, when the process that started the cluster ends. Then it kills
// every
// process with the cluster's SLURM_CONF and removes the folder. With names, it has its own mount namespace. Arguments:
// slurm.conf, folder, names (true or false).
const guardScript = `trap '' HUP INT TERM
[ "$3" = false ] || mount --bind "$2/hosts" /etc/hosts || exit
echo ready
cat
cd /
while :; do
	killed=
	for environ in $(grep -lzxF "SLURM_CONF=$1" /proc/[0-9]*/environ 2>/dev/null); do
		process=${environ#/proc/}
		kill -9 "${process%/environ}" 2>/dev/null && killed=1
	done
	[ -n "$killed" ] || break
done
rm -rf --one-file-system "$2"
`

// outputSuffix is that of files with the standard output and error of daemons.
const outputSuffix = ".out"

// errPort reports that another process took a port before the daemon did.
var errPort = errors.New("a port was taken meanwhile")

// portTaken reports whether a daemon failed because of its port.
func (c *Cluster) portTaken() bool {
	return strings.Contains(c.Logs(), "Address already in use")
}

// startGuard starts the process that cleans up after this one. It has no SLURM_CONF itself.
func (c *Cluster) startGuard() error {
	guard := exec.Command("/bin/sh", "-c", guardScript, "testslurm-guard", c.ConfigFile(), c.dir,
		strconv.FormatBool(c.config.Names))
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.config.Names {
		guard.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
		if err := c.writeNames(); err != nil {
			return err
		}
	}
	var stderr bytes.Buffer
	guard.Stderr = &stderr
	lifeline, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	c.guard, c.lifeline = guard, lifeline
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("start the guard: %w: %s", errors.Join(lifeline.Close(), guard.Wait()), &stderr)
	}
	return nil
}

// writeNames makes the cluster's /etc/hosts.
func (c *Cluster) writeNames() error {
	text, err := os.ReadFile("/etc/hosts")
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(c.path("hosts"), append(text, "\n127.0.0.1 "+strings.Join(c.Nodes(), " ")+"\n"...), 0o644)
}

// daemon is a child of this process.
type daemon struct {
	ended chan struct{} // closed when it was waited for
}

// startDaemon starts a daemon in the foreground, in a session of its own. Its standard output and error go to a file.
func (c *Cluster) startDaemon(name, program string, args ...string) error {
	path, err := testneeds.Daemon(program)
	if err != nil {
		return err
	}
	output, err := os.OpenFile(c.path("log", name+outputSuffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	argv := c.inside(path, args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(c.Environ(), nodeVariable+"="+name)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	d := &daemon{ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(d.ended)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.daemons[name] = d
	return nil
}

// ended reports whether a daemon has ended.
func (c *Cluster) ended(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.daemons[name].ended:
		return true
	default:
		return false
	}
}

// startMunge starts the cluster's munged, and waits for its socket.
func (c *Cluster) startMunge() error {
	args := []string{"--foreground", "--force", "--num-threads=2"} // --force: as root, and below /tmp
	for _, file := range []string{"key", "pid", "seed"} {
		args = append(args, "--"+file+"-file="+c.path("munge", file))
	}
	socket := c.path("munge", "socket")
	if err := c.startDaemon("munged", "munged", append(args, "--socket="+socket)...); err != nil {
		return err
	}
	return c.until("munged answers", func() (bool, error) {
		if c.ended("munged") {
			return false, errors.New("munged has ended")
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
}

// Logs returns the last lines of each daemon.
func (c *Cluster) Logs() string {
	const maxLines = 30 // of each
	var text strings.Builder
	for _, name := range append([]string{"munged", "slurmctld"}, c.Nodes()...) {
		file := c.path("log", name)
		content, err := os.ReadFile(file)
		if err != nil || len(content) == 0 {
			file += outputSuffix // it ended before it had a log
			if content, err = os.ReadFile(file); err != nil || len(content) == 0 {
				continue
			}
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
		fmt.Fprintf(&text, "--- %s\n%s\n", filepath.Base(file), strings.Join(lines[max(len(lines)-maxLines, 0):], ""))
	}
	return text.String()
}

// Process is a process of a cluster.
type Process struct {
	PID  int
	Node string   // such as "n1"; "" for commands such as salloc and srun
	Args []string // argv; empty while it ends
}

// String describes a process in messages.
func (p Process) String() string {
	return strconv.Itoa(p.PID) + " " + p.Node + " " + strings.Join(p.Args, " ")
}

// Daemon reports whether it is part of Slurm itself: a daemon, or a slurmstepd.
func (p Process) Daemon() bool {
	return slices.Contains([]string{"munged", "slurmctld", "slurmd", "slurmstepd"}, p.program())
}

// program returns the name of the executable, whose path may not exist in this mount namespace.
func (p Process) program() string {
	name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "comm"))
	return strings.TrimSpace(string(name))
}

// Processes lists all processes of the cluster and its jobs, except for this one: those that were started with its
// SLURM_CONF.
func (c *Cluster) Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			if p, ours := c.process(pid); ours {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// process describes a process, which may end meanwhile, and reports whether it belongs to the cluster.
func (c *Cluster) process(pid int) (Process, bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	environ, _ := os.ReadFile(filepath.Join(folder, "environ"))
	p, ours := Process{PID: pid}, false
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(pair), "=")
		switch name {
		case "SLURM_CONF":
			ours = value == c.ConfigFile()
		case nodeVariable, "SLURMD_NODENAME":
			p.Node = value
		}
	}
	if !ours {
		return p, false
	}
	if args, err := os.ReadFile(filepath.Join(folder, "cmdline")); err == nil && len(args) > 0 {
		p.Args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	}
	return p, true
}

// kill sends SIGKILL. The process was just listed, and the kernel does not reuse a pid that soon.
func (p Process) kill() error {
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return nil
}
