package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/internal/testhosts"
)

// Promised deadlines. cutDeadline applies to a cut link or a frozen host, killedDeadline to a killed launcher or a
// remote agent. orderDeadline applies to a graceful stop with a grace period of 2 s.
const (
	cutDeadline    = 30 * time.Second
	killedDeadline = 5 * time.Second
	orderDeadline  = 4 * time.Second
)

// linkFaults are faults of links and whole hosts.
func linkFaults() []hostFault {
	all := []hostFault{
		linkAway("cut", (*testhosts.Set).Cut),
		linkAway("blackhole", (*testhosts.Set).Blackhole),
		{
			name: "host frozen", deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent; when it goes on nothing is left there, too",
			act: func(s *hostScene) {
				s.spread("setsid", "default")
				s.mute = []string{"h2"}
				s.strike(func() error { return s.set.Freeze("h2") }, func() error { return s.set.Thaw("h2") })
			}, check: lost("h2", "silent for "+lease()),
		},
		{
			name: "host crash", deadline: cutDeadline, criterion: "exit code 125, the host named as silent",
			act: func(s *hostScene) {
				s.spread("none", "default")
				s.strike(func() error { return s.set.Crash("h3") }, func() error { return s.set.Boot("h3") })
				s.mute = []string{"h3"}
			}, check: lost("h3", "silent for "+lease()),
		},
		{
			name: "head's link cut", soak: true, deadline: cutDeadline,
			criterion: "exit code 125, a host named as silent; every host cleans up by itself",
			act: func(s *hostScene) {
				s.spread("daemon", "default")
				s.cut(testhosts.Head)
			}, check: says(125, "is lost: silent for "+lease()),
		},
	}
	all = append(all, hostFault{
		name: "link cut, --copy", deadline: cutDeadline,
		criterion: "exit code 125, the host named as silent; what was copied there is taken away, and who kept it goes",
		act: func(s *hostScene) {
			s.spread("child", "default", "--copy", s.write("payload", "x"))
			s.cut("h2")
		}, check: lost("h2", "silent for "+lease()),
	})
	for _, way := range []string{"cut", "blackhole"} {
		for _, manner := range []string{"default", "ignore"} {
			all = append(all, hostFault{
				name: fmt.Sprintf("link %s, daemon, %s", way, manner), soak: way != "cut" || manner != "ignore",
				deadline: cutDeadline,
				criterion: fmt.Sprintf("exit code 125, the host named as silent, nothing left on both sides (%s; %s)",
					shapes["daemon"], manners[manner]),
				act: func(s *hostScene) {
					s.spread("daemon", manner)
					s.sever("h2", way)
				}, check: lost("h2", "silent for "+lease()),
			})
		}
	}
	return append(all, hostFault{
		name: "link cut while a rank there floods, and the reader is slow", soak: true, deadline: cutDeadline,
		criterion: "exit code 125, the host named as silent",
		act: func(s *hostScene) {
			for _, rank := range s.spread("none", "default") {
				s.order(rank, "say 2000000")
			}
			s.until("much output", func() bool { return len(s.text("stdout")) > 1<<20 })
			s.cut("h2")
		}, check: lost("h2", "silent for "+lease()),
	})
}

func (s *hostScene) cut(host string) { s.sever(host, "cut") }

// sever disconnects a host from the network until the end of the case.
func (s *hostScene) sever(host, way string) {
	do := s.set.Cut
	if way == "blackhole" {
		do = s.set.Blackhole
	}
	s.strike(func() error { return do(host) }, func() error { return s.set.Heal(host) })
}

// awayTime is how long a link may fail without any effect on the job.
const awayTime = 5 * time.Second

// linkAway breaks a link while ranks write, and restores it.
func linkAway(way string, do func(*testhosts.Set, string) error) hostFault {
	const lines = 20000
	return hostFault{
		name: "link away for 5 s, " + way, soak: way != "cut",
		criterion: "exit code 0, and every line of every rank has come",
		act: func(s *hostScene) {
			s.job(role("rank", "default", "none")) // with the default lease
			ranks := s.await("rank", hostsOfSet)
			for _, rank := range ranks {
				s.order(rank, "say %d", lines)
			}
			s.strike(func() error { return do(s.set, "h2") }, func() error { return s.set.Heal("h2") })
			time.Sleep(awayTime) // the fault itself, not a synchronisation
			err := s.set.Heal("h2")
			s.require(err == nil, "%v", err)
			for _, rank := range ranks {
				s.order(rank, "exit 0")
			}
		}, check: func(s *hostScene, got outcome) {
			s.require(got.code == 0, "exit code %d: %s", got.code, s.said())
			for rank := range hostsOfSet {
				next := 0
				for text := range strings.Lines(got.stdout) {
					if text == fmt.Sprintf("rank %d says line %d\n", rank, next) {
						next++
					}
				}
				s.require(next == lines, "line %d of rank %d is missing, or not in order", next, rank)
			}
		},
	}
}

// endSecond has the ranks of a second attempt end well, once there have been number of them in both.
func (s *hostScene) endSecond(number int) {
	all := s.await("rank", number)
	for _, rank := range slices.DeleteFunc(all, func(m *member) bool { return !m.self.lives() }) {
		s.order(rank, "exit 0")
	}
}

// chaosFault has gorun itself do a fault to one of two hosts, whose place a spare takes.
func chaosFault(kind string, soak bool) hostFault {
	return hostFault{
		name: "--chaos " + kind, soak: soak, deadline: cutDeadline,
		criterion: "exit code 0 of the second attempt, and a report on the fault; nothing is left on the host",
		act: func(s *hostScene) {
			s.job(role("rank", "default", "daemon"),
				append(brief(), "--nnodes", "1:2", "--chaos", kind+":h2@0s", "--chaos-seed", "7")...)
			s.until("the end of the second attempt", func() bool {
				if strings.Contains(s.text("stderr"), "ranks ran again") {
					for _, rank := range s.kind("rank") {
						_, _ = fmt.Fprintln(rank.conn, "exit 0") // those of the first attempt may be gone
					}
				}
				select {
				case <-s.ended:
					return true
				default:
					return false
				}
			})
		}, check: says(0, "h2 is lost", "spare h3 takes its ranks [1]; attempt 1", "1 fault (--chaos-seed 7)",
			kind+":h2@0s: h2; ranks ran again after "),
	}
}

// farProcessFaults are faults of gorun's own processes on other hosts, and of sshd.
func farProcessFaults() []hostFault {
	all := []hostFault{
		{
			name: "sshd killed with its sessions", deadline: killedDeadline, criterion: "exit code 125, the host named as lost",
			act: func(s *hostScene) {
				s.spread("daemon", "default")
				s.strike(func() error { return s.set.SSHD("h2").Kill() }, func() error { return s.set.SSHD("h2").Start() })
			}, check: lost("h2", "its connection ended"),
		},
		{
			name: "agent SIGSTOP", deadline: cutDeadline,
			criterion: "exit code 125, the host named as silent; nothing left, though the agent stays stopped",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore")
				s.signalAgent("h2", syscall.SIGSTOP)
			}, check: lost("h2", "silent for "+lease()),
		},
		{
			name: "launcher SIGKILL, an agent stopped", soak: true, deadline: killedDeadline,
			criterion: "nothing left, though the agent never goes on",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore")
				s.signalAgent("h2", syscall.SIGSTOP)
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: says(137),
		},
		{
			name:      "agent SIGKILL, --max-restarts 1",
			criterion: "exit code 0 of the second attempt, with another agent on that host; the host named",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore", "--max-restarts", "1", "--restart-delay", "0")
				before := s.agent("h2")
				s.signalAgent("h2", syscall.SIGKILL)
				all := s.await("rank", 2*hostsOfSet)
				s.require(s.agent("h2").PID != before.PID, "the agent of h2 is the one before")
				for _, rank := range slices.DeleteFunc(all, func(m *member) bool { return !m.self.lives() }) {
					s.order(rank, "exit 0")
				}
			}, check: says(0, "h2 is lost: its connection ended", "restart 1 of 1"),
		},
		{
			name: "host crash with a spare, then agent SIGKILL on node 0",
			criterion: "exit code 0 of the third attempt: the spare has the lost host's ranks, node 0 another agent, and the " +
				"lost host is a spare again",
			act: func(s *hostScene) {
				const nodes = 2
				s.job(role("rank", "default", "none"), append(brief(), "--nnodes", "1:2")...)
				s.await("rank", nodes)
				s.strike(func() error { return s.set.Crash("h2") }, nil)
				s.await("rank", 2*nodes)
				err := s.set.Boot("h2")
				s.require(err == nil, "%v", err)
				s.signalAgent("h1", syscall.SIGKILL)
				all := s.await("rank", 3*nodes)
				for _, rank := range slices.DeleteFunc(all, func(m *member) bool { return !m.self.lives() }) {
					s.order(rank, "exit 0")
				}
			}, check: func(s *hostScene, got outcome) {
				says(0, "h2 is lost: silent for "+lease(), "spare h3 takes its ranks [1]; attempt 1",
					"h1 is lost: its connection ended", "h2 is back, as a spare")(s, got)
				known := s.text("state/gorun/hosts.json")
				s.require(strings.Contains(known, `"h1"`) && strings.Contains(known, "silent for "+lease()), "failures: %s", known)
			},
		},
		chaosFault("kill-node", false),
		chaosFault("cut-link", false),
		chaosFault("stop-agent", true),
		chaosFault("kill-agent", true),
		{
			name: "host of node 0 crashes, --min-nodes 2", soak: true, criterion: "exit code 0: the others go on without it",
			act: func(s *hostScene) {
				s.spread("child", "default", "--min-nodes", "2")
				s.strike(func() error { return s.set.Crash("h1") }, func() error { return s.set.Boot("h1") })
				s.mute = []string{"h1"}
				s.endSecond(2*hostsOfSet - 1)
			}, check: says(0, "h1 is lost: silent for "+lease(), "2 nodes left; attempt 1"),
		},
		{
			name: "agent SIGKILL, --max-restarts 1, sshd gone", soak: true, deadline: killedDeadline,
			criterion: "exit code 125, the host named, and why it cannot be reached again",
			act: func(s *hostScene) {
				s.spread("daemon", "ignore", "--max-restarts", "1")
				s.strike(s.set.SSHD("h2").Stop, func() error { return s.set.SSHD("h2").Start() })
				s.signalAgent("h2", syscall.SIGKILL)
			}, check: says(125, "h2 is lost: its connection ended", "no restart: h2: connect: "),
		},
		{
			name: "agent SIGSTOP for 5 s", soak: true, criterion: "exit code 0: nobody notices",
			act: func(s *hostScene) {
				s.job(role("rank", "default", "none"))
				ranks := s.await("rank", hostsOfSet)
				s.signalAgent("h2", syscall.SIGSTOP)
				time.Sleep(awayTime) // the fault itself, not a synchronisation
				s.signalAgent("h2", syscall.SIGCONT)
				s.stay(ranks)
			}, check: says(0),
		},
		{
			name: "launcher SIGSTOP, longer than a lease, then SIGCONT", soak: true,
			criterion: "every host ends the job by itself, and the launcher says which hosts are lost",
			act: func(s *hostScene) {
				s.spread("setsid", "default")
				s.signal(s.command.Process.Pid, syscall.SIGSTOP)
				s.until("the end of all ranks", func() bool {
					return !slices.ContainsFunc(s.kind("rank"), func(m *member) bool { return m.self.lives() })
				})
				s.signal(s.command.Process.Pid, syscall.SIGCONT)
			}, check: says(125, "is lost", "no message from the launcher for "+lease()),
		},
	}
	for _, shape := range []string{"none", "daemon", "bare", "stopped"} {
		all = append(all, hostFault{
			name: "agent SIGKILL, " + shape, soak: shape != "bare", deadline: killedDeadline,
			criterion: "exit code 125, the host named as lost (" + shapes[shape] + ")",
			act: func(s *hostScene) {
				s.spread(shape, "default")
				s.signalAgent("h2", syscall.SIGKILL)
			}, check: lost("h2", "its connection ended"),
		}, hostFault{
			name: "launcher SIGKILL, " + shape, soak: shape != "daemon", deadline: killedDeadline,
			criterion: "nothing left (" + shapes[shape] + "; they ignore signals)",
			act: func(s *hostScene) {
				s.spread(shape, "ignore")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: says(137),
		})
	}
	return append(all, hostFault{
		name: "launcher and an agent SIGKILL at once", soak: true, deadline: killedDeadline, criterion: "nothing left",
		act: func(s *hostScene) {
			s.spread("daemon", "ignore")
			agent := s.agent("h1")
			s.strike(func() error { return s.set.Signal("h1", agent, syscall.SIGKILL) }, nil)
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		}, check: says(137),
	})
}
