package testhosts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience limits waits for the kernel and sshd, which usually take milliseconds.
const patience = time.Minute

// pause is the polling interval.
const pause = 2 * time.Millisecond

// Command returns a command that runs a program on a host, in cmd.Dir (the current folder) if the host has it, else
// in /.
// On the head, the process is the program itself. On another host it is a helper that waits for the program; use
// Processes
// and Signal to send signals. Down kills the rest.
func (s *Set) Command(host string, argv ...string) *exec.Cmd {
	h, err := s.host(host)
	if err != nil {
		return &exec.Cmd{Err: err}
	}
	if !h.alive() { // its pid may have been reused
		return &exec.Cmd{Err: fmt.Errorf("%s is down: %s", host, strings.Join(argv, " "))}
	}
	enter := "-t " + strconv.Itoa(h.pid) + " -n -u -i -m"
	if h.name != Head {
		enter += " -p"
	}
	// Entering a mount namespace changes to its root, so the script changes back.
	script := `exec nsenter ` + enter + ` -- /bin/sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"`
	return exec.Command("/bin/sh", append([]string{"-c", script, "testhosts"}, argv...)...)
}

// run runs a Command that must succeed.
func (s *Set) run(host string, argv ...string) error {
	out, err := s.Command(host, argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s on %s: %w: %s", strings.Join(argv, " "), host, err, bytes.TrimSpace(out))
	}
	return nil
}

// Mount runs mount(8) on a host, such as "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/data". Only that host sees the
// result.
func (s *Set) Mount(host string, args ...string) error {
	return s.run(host, append([]string{"mount"}, args...)...)
}

// Process is a process of a host.
type Process struct {
	PID     int      // for this process and the head
	HostPID int      // on the host
	Args    []string // argv; empty while it ends
}

// String describes a process in messages.
func (p Process) String() string { return strconv.Itoa(p.PID) + " " + strings.Join(p.Args, " ") }

// Processes lists the processes of a host, except for its first one and sshd.
func (s *Set) Processes(host string) ([]Process, error) {
	return s.list(host, func(p found) bool { return !p.sshd() })
}

// Sessions lists the processes of a host's sshd that serve clients.
func (s *Set) Sessions(host string) ([]Process, error) {
	listener := s.listener(host)
	return s.list(host, func(p found) bool { return p.sshd() && p.HostPID != listener })
}

// list returns the processes of a host for which wanted is true.
func (s *Set) list(host string, wanted func(found) bool) ([]Process, error) {
	h, err := s.host(host)
	if err != nil {
		return nil, err
	}
	all, err := within(h.space)
	if err != nil {
		return nil, err
	}
	var listed []Process
	for _, p := range all {
		if p.PID != h.pid && !p.keeper(h) && h.inside(p.PID) && wanted(p) {
			listed = append(listed, p.Process)
		}
	}
	return listed, nil
}

// found is a process in one of the spaces that were searched.
type found struct {
	Process
	parent int
	where  *space
}

// sshd reports whether it is OpenSSH's server, or a part such as sshd-session.
func (p found) sshd() bool {
	program, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "exe"))
	return strings.HasPrefix(filepath.Base(strings.TrimSuffix(program, " (deleted)")), "sshd")
}

// keeper reports whether it is the child that the head's first process waits for.
func (p found) keeper(h *host) bool { return h.name == Head && p.parent == h.pid }

// inside reports whether a process has the space's PID namespace. The helper of a Command has only its network.
func (s *space) inside(pid int) bool { return hasNamespace(pid, "pid", s.pids) }

// hasNamespace reports whether a process has the namespace that a file refers to.
func hasNamespace(pid int, kind string, file *os.File) bool {
	theirs, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "ns", kind))
	if err != nil {
		return false
	}
	ours, err := file.Stat()
	return err == nil && os.SameFile(theirs, ours)
}

// within lists the processes in the network namespaces of the spaces.
func within(spaces ...*space) ([]found, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []found
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		for _, one := range spaces {
			if hasNamespace(pid, "net", one.network) {
				all = append(all, describe(pid, one))
			}
		}
	}
	return all, nil
}

// describe reads /proc of a process, which may end meanwhile.
func describe(pid int, where *space) found {
	p := found{Process: Process{PID: pid, HostPID: pid}, where: where}
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	if args, err := os.ReadFile(filepath.Join(folder, "cmdline")); err == nil && len(args) > 0 {
		p.Args = strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
	}
	status, _ := os.ReadFile(filepath.Join(folder, "status"))
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		switch {
		case len(words) < 2:
		case words[0] == "NSpid:":
			p.HostPID, _ = strconv.Atoi(words[len(words)-1])
		case words[0] == "PPid:":
			p.parent, _ = strconv.Atoi(words[1])
		}
	}
	return p
}

// signal sends a signal to a process of a space, but not to another process that reuses its pid.
func (p found) signal(sig syscall.Signal) error {
	process, err := os.FindProcess(p.PID) // holds a pidfd
	if err != nil {
		return err
	}
	defer process.Release()
	if !hasNamespace(p.PID, "net", p.where.network) {
		return nil // it ended
	}
	if err := process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// Signal sends a signal to a process that Processes or Sessions listed.
func (s *Set) Signal(host string, p Process, sig syscall.Signal) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	return found{Process: p, where: h.space}.signal(sig)
}

// until polls done.
func until(what string, done func() (bool, error)) error {
	for limit := time.Now().Add(patience); ; time.Sleep(pause) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
}

// killAll kills every process of the set: first those that end a PID namespace, then the rest.
func (s *Set) killAll() error {
	var problems []error
	spaces := s.spaces()
	for _, one := range spaces {
		problems = append(problems, one.kill())
	}
	problems = append(problems, until("end all processes", func() (bool, error) { return killWithin(spaces) }))
	for _, one := range spaces {
		<-one.ended
	}
	return errors.Join(problems...)
}

// killWithin kills the processes in the spaces' networks, and reports whether there were none.
func killWithin(spaces []*space) (bool, error) {
	left, err := within(spaces...)
	// the test may itself run on the head
	left = slices.DeleteFunc(left, func(p found) bool { return p.PID == os.Getpid() })
	for _, p := range left {
		err = errors.Join(err, p.signal(syscall.SIGKILL))
	}
	return len(left) == 0, err
}

// Crash simulates a loss of power: the link goes down first, so that peers notice nothing, then all processes die.
func (s *Set) Crash(host string) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if h.name == Head {
		return errors.New("crash the head: it is where the test's own processes run")
	}
	if err := errors.Join(s.Cut(host), h.kill()); err != nil {
		return err
	}
	return until("crash "+host, func() (bool, error) {
		gone, err := killWithin([]*space{h.space})
		return gone && !h.alive(), err
	})
}

// Boot restarts a crashed host with the same name, address, keys, users and homes, but without added interfaces and
// mounts.
func (s *Set) Boot(host string) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if h.alive() {
		return fmt.Errorf("boot %s: it runs", host)
	}
	if err := s.Slow(host, 0); err != nil {
		return err
	}
	if s.links.ip("link show dev "+h.cable+"\n") == nil { // the kernel removes it with a delay
		if err := s.links.ip("link del " + h.cable + "\n"); err != nil && s.links.ip("link show dev "+h.cable+"\n") == nil {
			return err
		}
	}
	h.close()
	if err := os.WriteFile(s.own(host, "etc", "boot_id"), []byte(bootID()), 0o644); err != nil {
		return err
	}
	if err := s.begin(h); err != nil {
		return err
	}
	return errors.Join(s.plug(h), s.startSSHD(h))
}

// Freeze stops every process of a host (SIGSTOP), as if its kernel hung, while its link stays up. Thaw undoes it.
func (s *Set) Freeze(host string) error { return s.freeze(host, syscall.SIGSTOP, true) }

// Thaw resumes a frozen host.
func (s *Set) Thaw(host string) error { return s.freeze(host, syscall.SIGCONT, false) }

// freeze signals the processes of a host until all are stopped, or none is.
func (s *Set) freeze(host string, sig syscall.Signal, stopped bool) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	return until("freeze or thaw "+host, func() (bool, error) {
		all, err := within(h.space)
		done := true
		for _, p := range all {
			if p.stopped() != stopped {
				done = false
				err = errors.Join(err, p.signal(sig))
			}
		}
		return done, err
	})
}

// stopped reports whether a process is in state T.
func (p found) stopped() bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "stat"))
	return err == nil && bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T"))
}
