package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// slurmRankFaults are ranks that fail.
func slurmRankFaults() (all []slurmFault) {
	for i, form := range []string{inAllocation, inScript, underScript, gorunEveryNode, gorunEveryRank} {
		for j, row := range []struct {
			order string
			code  int
			how   string
		}{{"exit 7", 7, "exit code 7"}, {"signal 9", 137, "killed by SIGKILL"}, {"signal 11", 139, "killed by SIGSEGV"}} {
			node := ""
			all = append(all, slurmFault{
				name: form + ", rank 3: " + row.order, criterion: fmt.Sprintf("exit code %d; rank, node and last lines named",
					row.code), soak: (i+j)%3 != 0,
				act: func(s *slurmScene) {
					ranks := s.spread(form, []string{"none", "daemon", "setsid"}[j], "ignore")
					if form != gorunEveryNode { // in gorunEveryNode, nodes use host names
						node = s.variable(ranks[3].pid, "SLURMD_NODENAME")
					}
					s.demand(ranks[3], "say 3")
					s.at = time.Now()
					s.order(ranks[3], "%s", row.order)
				},
				check: func(s *slurmScene, got outcome) {
					saysInSlurm(row.code, "rank 3 failed first: ", node+", pid ", row.how, "rank 3 says line 2")(s, got)
					once := strings.Count(got.stderr, "rank 3 failed first") == 1 || form == gorunEveryNode // or per node
					s.require(once, "named more than once: %s", s.said())
				},
			})
		}
	}
	return all
}

// slurmSignalFaults end a job by Slurm or by a user's signal; some ranks ignore it.
func slurmSignalFaults() []slurmFault {
	var all []slurmFault
	inSoak := []string{"two scancels", "scancel --signal=KILL", "Ctrl-C", "Ctrl-C twice"}
	add := func(name, criterion string, form, shape, manner string, act func(s *slurmScene, ranks []*member),
		check func(*slurmScene, outcome),
	) {
		all = append(all, slurmFault{
			name: name, criterion: criterion, soak: slices.Contains(inSoak, name),
			act: func(s *slurmScene) {
				ranks := s.spread(form, shape, manner)
				s.at = time.Now()
				act(s, ranks)
			}, check: check,
		})
	}
	cancel := func(words ...string) func(*slurmScene, []*member) {
		return func(s *slurmScene, _ []*member) { s.must(append(append([]string{"scancel"}, words...), s.number())...) }
	}
	any := func(words ...string) func(*slurmScene, outcome) {
		return func(s *slurmScene, got outcome) {
			s.require(got.code != 0, "exit code 0: %s", s.said())
			for _, word := range words {
				s.require(strings.Contains(got.stderr, word), "no word of %q: %s", word, s.said())
			}
			s.require(!strings.Contains(got.stderr, "failed first"), "a rank is blamed: %s", s.said())
		}
	}
	add("scancel, stubborn daemons", "nothing left", inScript, "daemon", "ignore", cancel(), any())
	add("scancel in salloc, stubborn ranks", "nothing left", inAllocation, "setsid", "ignore", cancel(), any())
	add("scancel --signal=KILL", "nothing left", inScript, "daemon", "ignore", cancel("--signal=KILL"),
		func(s *slurmScene, got outcome) {
			s.require(got.code != 0, "exit code 0")
		})
	add("scancel --signal=KILL --full", "nothing left", inScript, "setsid", "ignore", cancel("--signal=KILL", "--full"),
		func(s *slurmScene, got outcome) {
			s.require(got.code != 0, "exit code 0")
		})
	add("two scancels", "nothing left", inScript, "setsid", "ignore", func(s *slurmScene, _ []*member) {
		s.must("scancel", s.number())
		s.must("scancel", s.number())
	}, any())
	add("scancel of gorun's step", "exit code 143, cancelled (scancel)", inScript, "setsid", "ignore",
		func(s *slurmScene, _ []*member) {
			s.must("scancel", s.number()+".0")
		}, func(s *slurmScene, got outcome) {
			saysInSlurm(143, "killed by Slurm: cancelled (scancel)")(s, got)
		})
	add("scancel of gorun's step, one gorun per node", "nothing left", gorunEveryNode, "setsid", "ignore",
		func(s *slurmScene, _ []*member) {
			s.must("scancel", s.number()+".0")
		}, any())
	add("scancel, one gorun per rank", "nothing left", gorunEveryRank, "daemon", "ignore", cancel(), any())
	add("Ctrl-C", "exit code 130", inAllocation, "setsid", "ignore", func(s *slurmScene, _ []*member) {
		s.strike(s.head(), syscall.SIGINT)
	}, saysInSlurm(130))
	add("Ctrl-C twice", "exit code 130", inAllocation, "daemon", "ignore", func(s *slurmScene, _ []*member) {
		head := s.head()
		s.strike(head, syscall.SIGINT)
		s.until("the first notice", func() bool { return strings.Contains(s.text("stderr"), "SIGINT") })
		s.strike(head, syscall.SIGINT)
	}, saysInSlurm(130))
	add("SIGTERM to the batch shell, which is gorun", "exit code 143", inScript, "setsid", "ignore",
		cancel("--batch", "--signal=TERM"), saysInSlurm(143))
	add("SIGTERM to the batch shell, whose child gorun is", "nothing left", underScript, "setsid", "ignore",
		cancel("--batch", "--signal=TERM"), func(s *slurmScene, got outcome) {
			s.require(got.code != 0, "exit code 0: %s", s.said())
		})
	for _, twice := range []bool{false, true} {
		all = append(all, slurmFault{
			name: fmt.Sprintf("Ctrl-C typed at salloc's terminal, twice: %t", twice), criterion: "exit code 130",
			act: func(s *slurmScene) {
				tty, err := openTerminal()
				s.require(err == nil, "%v", err)
				s.start(work{
					around:  s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"),
					program: role("rank", "ignore", "setsid"), tty: tty,
				})
				s.assembled("setsid")
				s.at = time.Now()
				_, _ = tty.master.WriteString("\x03")
				if twice { // at once: a later SIGINT sometimes makes salloc itself hang
					_, _ = tty.master.WriteString("\x03")
				}
			}, check: func(s *slurmScene, got outcome) {
				s.require(got.code == 130, "exit code %d: %s", got.code, s.text("stdout"))
			},
		})
	}
	all = append(all, slurmFault{
		name: "time limit, stubborn daemons", soak: true, criterion: "killed by Slurm: time limit; nothing left",
		act: func(s *slurmScene) {
			s.spread(inScript, "daemon", "ignore")
			s.at = time.Now()
			s.c.Expire(s.t, s.job)
		}, check: any("killed by Slurm: time limit"),
	})
	return all
}
