package faults

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"gorun/internal/testhosts"
)

// farRankFaults are faults of ranks on other hosts.
func farRankFaults() []hostFault {
	far := func(code int, how ...string) func(*hostScene, outcome) {
		return func(s *hostScene, got outcome) {
			says(code, append([]string{"gorun: rank 2 failed first", "h3"}, how...)...)(s, got)
		}
	}
	return []hostFault{
		{
			name: "far rank exits 3", deadline: orderDeadline, criterion: "exit code 3; rank, host and last lines named",
			act: func(s *hostScene) {
				ranks := s.spread("none", "ignore")
				s.demand(ranks[2], "say 3")
				s.order(ranks[2], "exit 3")
			}, check: far(3, "exit code 3", "rank 2 says line 2"),
		},
		{
			name: "far rank SIGKILL, daemon", deadline: orderDeadline, criterion: "exit code 137, rank and host named (" +
				shapes["daemon"] + ")",
			act: func(s *hostScene) {
				s.signal(s.spread("daemon", "default")[2].pid, syscall.SIGKILL)
			}, check: far(137, "killed by SIGKILL"),
		},
		{
			name: "far rank SIGSEGV", soak: true, deadline: orderDeadline, criterion: "exit code 139, rank and host named",
			act: func(s *hostScene) {
				s.order(s.spread("none", "default")[2], "signal 11")
			}, check: far(139, "killed by SIGSEGV"),
		},
		{
			name: "ranks end well, daemons stay", soak: true, criterion: "exit code 0, nothing left",
			act: func(s *hostScene) {
				for _, rank := range s.spread("daemon", "ignore") {
					s.order(rank, "exit 0")
				}
			}, check: says(0),
		},
		{
			name: "a host is cut while the job ends", soak: true, deadline: cutDeadline,
			criterion: "exit code 3, rank 2 named, though a host is lost then",
			act: func(s *hostScene) {
				ranks := s.spread("setsid", "ignore")
				s.order(ranks[2], "exit 3")
				s.until("the end of rank 2", func() bool { _, ok := read(ranks[2].pid); return !ok })
				s.cut("h1")
			}, check: far(3, "exit code 3"),
		},
	}
}

// farEndFaults are ways in which the launcher ends.
func farEndFaults() []hostFault {
	all := []hostFault{
		{
			name: "launcher SIGINT twice, over hosts", deadline: 3 * time.Second,
			criterion: "exit code 130, though ranks ignore signals",
			act: func(s *hostScene) {
				s.spread("setsid", "tell", "--grace", "30")
				s.signal(s.command.Process.Pid, syscall.SIGINT)
				s.until("SIGINT at all ranks", func() bool { return strings.Count(s.text("stdout"), "got SIGINT\n") == hostsOfSet })
				s.signal(s.command.Process.Pid, syscall.SIGINT)
				s.until("SIGTERM at a rank", func() bool { return strings.Contains(s.text("stdout"), "got SIGTERM\n") })
				s.signal(s.command.Process.Pid, syscall.SIGINT)
			}, check: says(130),
		},
		{
			name: "launcher SIGINT twice, a host cut", soak: true, deadline: cutDeadline,
			criterion: "exit code 130; the cut host ends its ranks by itself",
			act: func(s *hostScene) {
				s.spread("setsid", "tell")
				s.cut("h2")
				s.signal(s.command.Process.Pid, syscall.SIGINT)
				s.until("SIGINT at the others", func() bool {
					return strings.Count(s.text("stdout"), "got SIGINT\n") == hostsOfSet-1
				})
				s.signal(s.command.Process.Pid, syscall.SIGINT)
			}, check: says(130),
		},
		{
			name: "standard output is a full disk, over hosts", criterion: "said on standard error, exit code 125",
			act: func(s *hostScene) {
				full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
				s.require(err == nil, "%v", err)
				s.launch(work{
					around: s.set.Command(testhosts.Head).Args, options: []string{"-H", "h1:1,h2:1,h3:1"},
					program: role("pieces", "20", "1000", "1000"), stdout: full,
				})
			}, check: says(125, "o space left"),
		},
	}
	for _, shape := range []string{"daemon", "bare", "holder", "closed"} {
		for _, manner := range []string{"default", "ignore"} {
			all = append(all, hostFault{
				name: fmt.Sprintf("launcher SIGTERM, %s, %s, over hosts", shape, manner), soak: shape != "daemon" ||
					manner != "ignore", deadline: orderDeadline,
				criterion: fmt.Sprintf("exit code 143 (%s; %s)", shapes[shape], manners[manner]),
				act: func(s *hostScene) {
					s.spread(shape, manner)
					s.signal(s.command.Process.Pid, syscall.SIGTERM)
				}, check: says(143),
			})
		}
	}
	return all
}
