package faults

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/internal/testhosts"
)

const (
	// shortLease is the lease that results from sampleHeartbeat; stallTime is longer.
	shortLease = "5s"
	stallTime  = 7 * time.Second
)

// seamFaults combine two events: a lost host, and a reader, a writer, a suspended launcher, or another transport.
func seamFaults() []hostFault {
	return slices.Concat(stalledFaults(), viaProgramFaults(), withThisHostFaults(), []hostFault{
		{
			name: "agent SIGKILL, --max-restarts 3", soak: true, criterion: "exit code 0: the host has another agent",
			act: func(s *hostScene) {
				s.spread("daemon", "default", "--max-restarts", "3")
				s.signalAgent("h2", syscall.SIGKILL)
				s.endSecond(2 * hostsOfSet)
			}, check: says(0, "h2 is lost: its connection ended", "restart 1 of 3 in 1s"),
		},
		{
			name: "agent SIGTERM", soak: true, deadline: killedDeadline, criterion: "exit code 125, the host named as lost",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore")
				s.signalAgent("h2", syscall.SIGTERM)
			}, check: lost("h2", "its connection ended"),
		},
		{
			name: "sessions of sshd stopped", soak: true, deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent",
			act: func(s *hostScene) {
				s.spread("setsid", "default")
				sessions, err := s.set.Sessions("h2")
				s.require(err == nil && len(sessions) > 0, "sessions %v: %v", sessions, err)
				for _, p := range sessions {
					s.strike(func() error {
						return s.set.Signal("h2", p, syscall.SIGSTOP)
					}, func() error { return s.set.Signal("h2", p, syscall.SIGKILL) })
				}
			}, check: lost("h2", "silent for "+lease()),
		},
		{
			name: "time-out while a host is frozen", soak: true, deadline: cutDeadline,
			criterion: "exit code 124; when the host goes on nothing is left there, too",
			act: func(s *hostScene) {
				s.spread("daemon", "default", "--timeout", "3")
				s.mute = []string{"h2"}
				s.strike(func() error { return s.set.Freeze("h2") }, func() error { return s.set.Thaw("h2") })
			}, check: says(124, "timed out after "),
		},
		{
			name: "two hosts cut", soak: true, deadline: cutDeadline, criterion: "exit code 125, the hosts named as silent",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore")
				s.cut("h2")
				s.cut("h3")
			}, check: says(125, "is lost: silent for "+lease()),
		},
		{
			name: "launcher SIGTSTP, longer than a lease, then SIGCONT", soak: true,
			criterion: "the ranks stop and go on, exit code 0",
			act: func(s *hostScene) {
				s.job(role("rank", "default", "none"), "--heartbeat", sampleHeartbeat)
				ranks := s.await("rank", hostsOfSet)
				s.signal(s.command.Process.Pid, syscall.SIGTSTP)
				for _, rank := range ranks {
					s.reachesState(rank.pid, 'T')
				}
				s.reachesState(s.command.Process.Pid, 'T')
				time.Sleep(stallTime) // the fault itself, not a synchronisation
				s.signal(s.command.Process.Pid, syscall.SIGCONT)
				s.stay(ranks)
			}, check: says(0),
		},
	})
}

// stalledFaults are cases with a process that does not read.
func stalledFaults() []hostFault {
	const lines = 200000
	// flood makes ranks write more than all buffers hold, before the reader reads.
	flood := func(s *hostScene) (*os.File, []*member) {
		reader, writer, err := os.Pipe()
		s.require(err == nil, "%v", err)
		s.launch(work{
			around:  s.set.Command(testhosts.Head).Args,
			options: []string{"-H", "h1:1,h2:1,h3:1", "--heartbeat", sampleHeartbeat},
			program: role("rank", "default", "none"), stdout: writer,
		})
		ranks := s.await("rank", hostsOfSet)
		for _, rank := range ranks {
			s.order(rank, "say %d", lines)
		}
		return reader, ranks
	}
	return []hostFault{
		{
			name: "a reader that stalls longer than a lease", soak: true,
			criterion: "exit code 0, and every line of every rank comes",
			act: func(s *hostScene) {
				reader, ranks := flood(s)
				defer reader.Close()
				for _, rank := range ranks {
					s.order(rank, "exit 0")
				}
				time.Sleep(stallTime) // the fault itself, not a synchronisation
				var next [hostsOfSet]int
				for words := bufio.NewScanner(reader); words.Scan(); {
					var rank, n int
					_, err := fmt.Sscanf(words.Text(), "rank %d says line %d", &rank, &n)
					s.require(err == nil && next[rank] == n, "not the next line of a rank: %q", words.Text())
					next[rank]++
				}
				s.require(next == [hostsOfSet]int{lines, lines, lines}, "lines %v", next)
			}, check: says(0),
		},
		{
			name:      "a reader that stalls, and a host cut",
			criterion: "all ranks end though nobody reads; exit code 125, the host named as silent",
			act: func(s *hostScene) {
				reader, ranks := flood(s)
				defer reader.Close()
				s.cut("h2")
				s.until("the end of all ranks", func() bool {
					return !slices.ContainsFunc(ranks, func(m *member) bool { return m.self.lives() })
				})
				_, err := io.Copy(io.Discard, reader)
				s.require(err == nil, "%v", err)
			}, check: lost("h2", "silent for "+shortLease),
		},
		{
			name: "a rank that does not read its input, and its host cut", soak: true, deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent",
			act: func(s *hostScene) {
				reader, writer, err := os.Pipe()
				s.require(err == nil, "%v", err)
				defer writer.Close()
				go func() { _, _ = writer.WriteString(strings.Repeat("input\n", 1<<20)) }() // until the other end closes it
				s.launch(work{
					around: s.set.Command(testhosts.Head).Args, options: append([]string{"-H", "h1:1,h2:1,h3:1", "--stdin", "1"},
						brief()...),
					program: role("rank", "default", "none"), stdin: reader,
				})
				s.await("rank", hostsOfSet)
				s.cut("h2")
				s.result()
			}, check: lost("h2", "silent for "+lease()),
		},
	}
}

// viaProgramFaults are the same faults with the user's own program as the transport.
func viaProgramFaults() []hostFault {
	spread := func(s *hostScene) {
		s.launcher.argv = slices.Replace(slices.Clone(s.launcher.argv), 1, 3, "--ssh", s.set.SSH())
		s.spread("daemon", "ignore")
	}
	var all []hostFault
	for _, way := range []string{"cut", "blackhole"} {
		all = append(all, hostFault{
			name: "--ssh program, link " + way, soak: true, deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent; no ssh is left",
			act: func(s *hostScene) {
				spread(s)
				s.sever("h2", way)
			}, check: lost("h2", "silent for "+lease()),
		})
	}
	for _, number := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		all = append(all, hostFault{
			name: "--ssh program, launcher " + signalName(number), soak: number != syscall.SIGKILL, deadline: killedDeadline,
			criterion: fmt.Sprintf("exit code %d; no ssh is left", 128+int(number)),
			act: func(s *hostScene) {
				spread(s)
				s.signal(s.command.Process.Pid, number)
			}, check: says(128 + int(number)),
		})
	}
	return append(all, hostFault{
		name: "--ssh program killed", soak: true, deadline: killedDeadline, criterion: "exit code 125, a host named as lost",
		act: func(s *hostScene) {
			spread(s)
			all, err := s.set.Processes(testhosts.Head)
			s.require(err == nil, "%v", err)
			at := slices.IndexFunc(all, func(p testhosts.Process) bool {
				return len(p.Args) > 0 && strings.HasSuffix(p.Args[0], "ssh")
			})
			s.require(at >= 0, "no ssh in %v", all)
			s.strike(func() error { return s.set.Signal(testhosts.Head, all[at], syscall.SIGKILL) }, nil)
		}, check: says(125, " is lost: "),
	}, hostFault{
		name: "--ssh program, agent SIGKILL", soak: true, deadline: killedDeadline,
		criterion: "exit code 125, the host named as lost",
		act: func(s *hostScene) {
			spread(s)
			s.signalAgent("h2", syscall.SIGKILL)
		}, check: lost("h2", "its connection ended"),
	})
}

// withThisHostFaults also run ranks on the launcher's host.
func withThisHostFaults() []hostFault {
	spread := func(s *hostScene, manner string) {
		s.job(role("rank", manner, "daemon"), append([]string{"-H", "localhost:1,h2:2"}, brief()...)...)
		s.await("rank", 3)
		s.await("child", 3)
	}
	return []hostFault{
		{
			name: "ranks on this host, too: link cut", deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent",
			act: func(s *hostScene) {
				spread(s, "ignore")
				s.cut("h2")
			}, check: lost("h2", "silent for "+lease()),
		},
		{
			name: "ranks on this host, too: launcher SIGKILL", soak: true, deadline: killedDeadline, criterion: "nothing left",
			act: func(s *hostScene) {
				spread(s, "ignore")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: says(137),
		},
		{
			name: "ranks on this host, too: launcher SIGTERM", soak: true, deadline: orderDeadline, criterion: "exit code 143",
			act: func(s *hostScene) {
				spread(s, "ignore")
				s.signal(s.command.Process.Pid, syscall.SIGTERM)
			}, check: says(143),
		},
		{
			name: "ranks on this host, too: agent SIGKILL", soak: true, deadline: orderDeadline,
			criterion: "exit code 125, the host named as lost",
			act: func(s *hostScene) {
				spread(s, "ignore")
				s.signalAgent("h2", syscall.SIGKILL)
			}, check: lost("h2", "its connection ended"),
		},
	}
}
