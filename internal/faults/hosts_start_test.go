package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gorun/internal/testhosts"
)

// startLimit is the timeout for connecting to a host, in cases that wait for it.
const startLimit = "4"

// unreachableFaults are hosts that cannot start ranks. No process or file may remain on the other hosts.
func unreachableFaults() []hostFault {
	all := []hostFault{
		{
			name: "several hosts out of reach", criterion: "one list with each host, its step and the way out; exit code 125",
			act: func(s *hostScene) {
				s.freezeSSHD("h2")
				s.unreached("-H", "h1:1,h2:1,no-such-user@h3:1,no-such-host:1")
			}, check: says(125, "h2: key exchange: ", "h3: authentication: ", "no-such-host: cannot resolve host name"),
		},
		{
			name: "host cut before the start", soak: true, criterion: "host, step and time named; exit code 125",
			act: func(s *hostScene) {
				s.cut("h2")
				s.unreached()
			}, check: says(125, "h2: connect: "),
		},
		{
			name: "host cut and its address unanswered, others refuse", soak: true, criterion: "both named; exit code 125",
			act: func(s *hostScene) {
				s.sever("h2", "blackhole")
				s.strike(s.set.SSHD("h3").Stop, func() error { return s.set.SSHD("h3").Start() })
				s.unreached()
			}, check: says(125, "h2: connect: ", "h3: connect: ", "refused"),
		},
		{
			name: "changed host key", soak: true, criterion: "refused, the file named; exit code 125",
			act: func(s *hostScene) {
				public, err := os.ReadFile(s.set.HostKey("h1") + ".pub")
				s.require(err == nil, "%v", err)
				s.reconfigure("h3", "UserKnownHostsFile "+s.write("known", "h3 "+string(public)))
				s.unreached()
			}, check: says(125, "h3: host key: ", "/known"),
		},
		{
			name: "unknown host key", soak: true, criterion: "refused, the fingerprint named; exit code 125",
			act: func(s *hostScene) {
				s.reconfigure("h3", "UserKnownHostsFile "+s.write("known", ""))
				s.unreached()
			}, check: says(125, "h3: host key: ", "SHA256:"),
		},
		{
			name: "wrong key", soak: true, criterion: "host and step named; exit code 125",
			act: func(s *hostScene) {
				s.on("h3", "cp", "/run/authorized_keys", "/run/good_keys")
				s.strike(func() error {
					return s.set.Command("h3", "cp", "/dev/null", "/run/authorized_keys").Run()
				}, func() error {
					return s.set.Command("h3", "cp", "/run/good_keys", "/run/authorized_keys").Run()
				})
				s.unreached()
			}, check: says(125, "h3: authentication: "),
		},
		{
			name: "link cut when an agent has just begun", soak: true, deadline: cutDeadline,
			criterion: "host named; exit code 125; the agent ends by itself",
			act: func(s *hostScene) {
				s.job(role("rank", "default", "none"), append(brief(), "--ssh-timeout", startLimit)...)
				s.agent("h2")
				s.cut("h2")
			}, check: says(125, "h2"),
		},
		{
			name: "link cut while gorun is copied", soak: true, criterion: "host named; exit code 125",
			act: func(s *hostScene) {
				s.forget("h2")
				s.job(role("print"), "--ssh-timeout", startLimit)
				s.until("a session", func() bool { all, _ := s.set.Sessions("h2"); return len(all) > 0 })
				s.cut("h2")
			}, check: func(s *hostScene, got outcome) {
				s.require(got.code == 125 && strings.Contains(got.stderr, "h2"), "exit code %d: %s", got.code, s.said())
			},
		},
	}
	return append(all, differentHosts()...)
}

// differentHosts are hosts that lack a part of what a job needs.
func differentHosts() []hostFault {
	return []hostFault{
		{
			name: "program missing on one host", criterion: "exit code 127, program and host named",
			act: func(s *hostScene) {
				for _, host := range []string{"h1", "h2"} {
					s.on(host, "cp", "/bin/true", "/run/only-here")
				}
				s.on(testhosts.Head, "cp", "/bin/true", "/run/only-here")
				s.job([]string{"/run/only-here"})
			}, check: says(127, "h3: ", "/run/only-here"),
		},
		{
			name: "working directory missing on other hosts", soak: true,
			criterion: "the directory, the hosts and --chdir named; exit code not 0",
			act: func(s *hostScene) {
				inside := s.set.Command(testhosts.Head, shell(`mkdir -p /run/dir && cd /run/dir && exec "$@"`)...).Args
				s.launch(work{around: inside, options: []string{"-H", "h1:1,h2:1,h3:1"}, program: role("print")})
			}, check: func(s *hostScene, got outcome) {
				for _, word := range []string{"/run/dir", "--chdir"} {
					s.require(got.code != 0 && strings.Contains(got.stderr, word), "exit code %d, no word of %q: %s", got.code,
						word, s.said())
				}
			},
		},
		{
			name: "no room for gorun on a host", soak: true, criterion: "host and step named; exit code 125",
			act: func(s *hostScene) {
				s.forget("h2")
				s.mount("h2", "/root", "size=64k")
				s.mount("h2", "/dev/shm", "size=64k")
				s.strike(func() error {
					return s.set.Mount("h2", "-o", "remount,size=64k", "/tmp")
				}, func() error { return s.set.Mount("h2", "-o", "remount,size=50%", "/tmp") })
				s.job([]string{"true"})
			}, check: func(s *hostScene, got outcome) {
				says(125, "h2: copy: ", "/root")(s, got)
				s.on("h2", "sh", "-c", "rmdir /tmp/gorun-* /dev/shm/gorun-*") // failed attempts leave no files
			},
		},
		{
			name: "home of a host is read-only", soak: true, criterion: "exit code 0",
			act: func(s *hostScene) {
				s.forget("h2")
				s.mount("h2", "/root", "ro")
				s.job([]string{"true"})
			}, check: func(s *hostScene, got outcome) {
				says(0)(s, got)
				s.on("h2", "sh", "-c", "rm -r /tmp/gorun-*") // the copy is in the next folder of the search order
			},
		},
		{
			name: "two launches at once, no gorun on the hosts yet", criterion: "exit code 0 of both",
			act: func(s *hostScene) {
				for _, host := range s.set.Hosts() {
					s.forget(host)
				}
				inner, err := openSceneIn(s.launcher, s.set.Dir())
				s.require(err == nil, "%v", err)
				other := &hostScene{scene: inner, set: s.set}
				defer other.close()
				other.job(role("print"))
				s.job(role("print"))
				says(0)(other, other.result())
			}, check: says(0),
		},
	}
}

// unreached starts a job with a short timeout for connecting.
func (s *hostScene) unreached(options ...string) {
	s.job(role("print"), append([]string{"--ssh-timeout", startLimit}, options...)...)
}

// freezeSSHD makes a host accept connections without ever answering.
func (s *hostScene) freezeSSHD(host string) {
	s.strike(s.set.SSHD(host).Freeze, s.set.SSHD(host).Thaw)
}

// reconfigure gives the job another SSH configuration, with options for one host.
func (s *hostScene) reconfigure(host string, options ...string) {
	text, err := os.ReadFile(s.set.SSHConfig())
	s.require(err == nil, "%v", err)
	own := s.write("ssh_config", fmt.Sprintf("Host %s\n  %s\n%s", host, strings.Join(options, "\n  "), text))
	s.launcher.argv = append(s.launcher.argv, "--ssh-config", own)
}

// write writes a file of the scene.
func (s *hostScene) write(name, text string) string {
	err := os.WriteFile(s.path(name), []byte(text), 0o600)
	s.require(err == nil, "%v", err)
	return s.path(name)
}

// on runs a command on a host.
func (s *hostScene) on(host string, argv ...string) {
	out, err := s.set.Command(host, argv...).CombinedOutput()
	s.require(err == nil, "%v on %s: %v: %s", argv, host, err, out)
}

// forget removes gorun's copies from a host.
func (s *hostScene) forget(host string) {
	// the set's own home directory, even if the host has another file system mounted there
	err := os.RemoveAll(filepath.Join(s.set.Home(host), ".cache"))
	s.require(err == nil, "forget gorun's copy on %s: %v", host, err)
}

// mount mounts a file system over a folder of a host until the end of the case.
func (s *hostScene) mount(host, dir, options string) {
	s.strike(func() error { return s.set.Mount(host, "-t", "tmpfs", "-o", options, "tmpfs", dir) }, func() error {
		return s.set.Command(host, "umount", "-l", dir).Run()
	})
}
