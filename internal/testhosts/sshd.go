package testhosts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gorun/internal/testneeds"
)

// SSHD is the sshd of a host.
type SSHD struct {
	set  *Set
	host string
}

// SSHD returns the sshd of a host.
func (s *Set) SSHD(host string) SSHD { return SSHD{s, host} }

// Start starts or restarts sshd with additional lines of sshd_config, which override others: "Port 2222" (ssh_config
// and
// known_hosts follow), "Banner /path", "MaxStartups 1", "TrustedUserCAKeys /path", "PasswordAuthentication yes".
func (d SSHD) Start(options ...string) error {
	h, err := d.set.host(d.host)
	if err != nil {
		return err
	}
	if err := d.Stop(); err != nil {
		return err
	}
	return errors.Join(d.set.startSSHD(h, options...), d.set.writeClientFiles())
}

// Stop kills the listener; sessions go on.
func (d SSHD) Stop() error {
	return d.each(syscall.SIGKILL, func(p Process, listener int) bool { return p.HostPID == listener })
}

// Kill kills the listener and the sessions; their commands go on if they can.
func (d SSHD) Kill() error {
	return d.each(syscall.SIGKILL, func(Process, int) bool { return true })
}

// Freeze stops the listener: the kernel accepts connections, but they get no answer. Thaw undoes it.
func (d SSHD) Freeze() error {
	return d.each(syscall.SIGSTOP, func(p Process, listener int) bool { return p.HostPID == listener })
}

// Thaw resumes a frozen listener.
func (d SSHD) Thaw() error {
	return d.each(syscall.SIGCONT, func(p Process, listener int) bool { return p.HostPID == listener })
}

// each signals processes of sshd for which wanted is true, and waits until killed ones have closed their files: before,
// a listener still accepts connections while it is no longer listed.
func (d SSHD) each(sig syscall.Signal, wanted func(p Process, listener int) bool) error {
	listener := d.set.listener(d.host)
	var signalled []Process
	return until("signal sshd of "+d.host, func() (bool, error) {
		all, err := d.set.list(d.host, found.sshd)
		for _, p := range all {
			if wanted(p, listener) {
				signalled = append(signalled, p)
				err = errors.Join(err, d.set.Signal(d.host, p, sig))
			}
		}
		return sig != syscall.SIGKILL || !slices.ContainsFunc(signalled, Process.endsAsSSHD), err
	})
}

// endsAsSSHD reports whether a killed sshd has not ended yet. A zombie has closed its files.
func (p Process) endsAsSSHD() bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)) // "17 (sshd) S …"
	_, rest, isSSHD := strings.Cut(string(stat), "(sshd")
	_, state, _ := strings.Cut(rest, ") ")
	return isSSHD && !strings.HasPrefix(state, "Z")
}

// Log returns the log of a host's sshd.
func (d SSHD) Log() string {
	text, _ := os.ReadFile(d.set.own(d.host, "sshd.log"))
	return string(text)
}

// listener returns the pid on the host of the sshd that accepts connections; 0 if none exists.
func (s *Set) listener(host string) int {
	text, _ := os.ReadFile(s.own(host, "sshd.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// startSSHD starts a host's sshd and waits until it listens.
func (s *Set) startSSHD(h *host, options ...string) error {
	sshd, err := testneeds.SSHD()
	if err != nil {
		return err
	}
	options = append(options, s.config.SSHD...)
	if h.port = portOf(options); h.port == 0 {
		h.port = 22
		options = append(options, "Port 22")
	}
	config, pidFile, log := s.own(h.name, "sshd_config"), s.own(h.name, "sshd.pid"), s.own(h.name, "sshd.log")
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(config, []byte(s.serverConfig(h, options)), 0o644); err != nil {
		return err
	}
	if err := s.Command(h.name, sshd, "-f", config, "-E", log).Run(); err != nil {
		return fmt.Errorf("start sshd: %w: %s", err, s.SSHD(h.name).Log())
	}
	err = until("start sshd", func() (bool, error) { // it writes its pid once it listens
		text, _ := os.ReadFile(pidFile)
		return strings.HasSuffix(string(text), "\n"), nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.SSHD(h.name).Log())
	}
	return nil
}

// portOf returns the port in options, 0 if none exists.
func portOf(options []string) int {
	for _, option := range options {
		if words := strings.Fields(option); len(words) == 2 && strings.EqualFold(words[0], "Port") {
			if port, err := strconv.Atoi(words[1]); err == nil {
				return port
			}
		}
	}
	return 0
}

// serverConfig returns a host's sshd_config, in which the first value of an option counts.
func (s *Set) serverConfig(h *host, options []string) string {
	return strings.Join(options, "\n") + fmt.Sprintf(`
HostKey %s
PidFile %s
AuthorizedKeysFile /run/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
`, s.HostKey(h.name), s.own(h.name, "sshd.pid"))
}
