package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// cut is one random fault at a random moment in a job over hosts.
type cut struct {
	host          string
	way           string
	shape, manner string
	moment        string
	wait          time.Duration // after that moment
	lines         int           // lines that ranks write before it
}

// drawCut makes a random cut.
func drawCut(random *rand.Rand) cut {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	return cut{
		host: pick("h1", "h2", "h3"), way: pick("cut", "cut", "blackhole", "frozen", "crash", "sshd", "agent",
			"agent stopped", "launcher"),
		shape: pick("none", "child", "setsid", "daemon", "bare"), manner: pick("default", "ignore", "handle"),
		moment: pick("start", "run", "run", "end"),
		wait:   time.Duration(random.Int64N(int64(300 * time.Millisecond))), lines: random.IntN(20000),
	}
}

func (c cut) String() string {
	return fmt.Sprintf("%s of %s %v after %s (%s, %s, %d lines)", c.way, c.host, c.wait.Round(time.Millisecond),
		c.moment, c.shape, c.manner, c.lines)
}

// asFault makes a case from the cut.
func (c cut) asFault(n int) hostFault {
	return hostFault{
		name: fmt.Sprintf("random %d: %s", n, c), deadline: cutDeadline,
		criterion: "nothing left on any host; where the job did not end well before, the host is named",
		act: func(s *hostScene) {
			if c.moment == "start" {
				s.job(role("rank", c.manner, c.shape), append(brief(), "--ssh-timeout", startLimit)...)
			} else {
				c.reach(s, s.spread(c.shape, c.manner))
			}
			time.Sleep(c.wait) // the fault itself, not a synchronisation
			c.hit(s)
			if c.moment == "start" && (strings.Contains(c.way, "agent") || c.way == "sshd") {
				s.signal(s.command.Process.Pid, syscall.SIGTERM) // the fault may have come too early to end the job
			}
		}, check: c.check,
	}
}

// reach gives the ranks their orders until the moment of the fault.
func (c cut) reach(s *hostScene, ranks []*member) {
	for _, rank := range ranks {
		s.order(rank, "say %d", c.lines)
	}
	if c.moment == "end" {
		s.order(ranks[0], "exit 3")
	}
}

// hit causes the fault.
func (c cut) hit(s *hostScene) {
	set, host := s.set, c.host
	switch c.way {
	case "cut", "blackhole":
		s.sever(host, c.way)
	case "frozen":
		s.mute = []string{host}
		s.strike(func() error { return set.Freeze(host) }, func() error { return set.Thaw(host) })
	case "crash":
		s.strike(func() error { return set.Crash(host) }, func() error { return set.Boot(host) })
		s.mute = []string{host}
	case "sshd":
		s.strike(set.SSHD(host).Kill, func() error { return set.SSHD(host).Start() })
	case "launcher":
		s.strike(func() error { _ = s.command.Process.Kill(); return nil }, nil)
	default:
		c.hitAgent(s)
	}
}

// hitAgent kills or stops an agent, if one exists at the moment.
func (c cut) hitAgent(s *hostScene) {
	agent, found := s.findAgent(c.host)
	number := syscall.SIGKILL
	if c.way == "agent stopped" {
		number = syscall.SIGSTOP
		s.mute = []string{c.host} // thawed at the end
	}
	s.strike(func() error {
		if !found {
			return nil
		}
		return s.set.Signal(c.host, agent, number)
	}, nil)
}

// check accepts the results that are possible for the moment of the fault.
func (c cut) check(s *hostScene, got outcome) {
	switch {
	case c.way == "launcher":
		s.require(got.code == 137 || got.code == 3, "exit code %d: %s", got.code, s.said())
	case got.code == 3 && c.moment == "end":
		says(3, "rank 0 failed first")(s, got)
	case got.code == 143 && c.moment == "start":
	default:
		says(125, c.host)(s, got)
	}
}
