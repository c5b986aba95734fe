package faults

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/internal/testneeds"
)

// slurmQueueFaults are actions of Slurm on jobs other than ending them.
func slurmQueueFaults() []slurmFault {
	all := []slurmFault{{
		name: "requeue", criterion: "the first run is gone; the second ends well", act: func(s *slurmScene) {
			s.batch("exec "+shellLine(s.launcher.command(0, nil, role("rank", "ignore", "daemon")))+"\n", "-N2",
				"--ntasks-per-node=2", "--requeue", "--open-mode=append")
			s.assembled("daemon")
			first := slices.Concat(marked(s.mark), s.guards)
			s.must("scontrol", "requeue", s.number())
			s.until("the end of the first run", func() bool { return !slices.ContainsFunc(first, process.lives) })
			s.until("a job that waits", func() bool { return s.c.State(s.t, s.job) == "PENDING" })
			s.must("scontrol", "update", "JobId="+s.number(), "StartTime=now")
			ranks := s.await("rank", 8)
			s.await("child", 8)
			s.finish(slices.DeleteFunc(ranks, func(m *member) bool { return !m.self.lives() }))
		}, check: saysInSlurm(0),
	}}
	for _, form := range []string{inAllocation, inScript, gorunEveryNode, gorunEveryRank} {
		all = append(all, slurmFault{
			name: form + ", suspended for longer than a lease", criterion: "the job goes on and ends well",
			soak: form != inAllocation, act: func(s *slurmScene) {
				ranks := s.spread(form, "none", "ignore", brief()...)
				s.must("scontrol", "suspend", s.number())
				s.until("stopped ranks", func() bool {
					return !slices.ContainsFunc(ranks, func(m *member) bool { p, ok := read(m.pid); return !ok || p.state != 'T' })
				})
				s.pass(beyondLease())
				s.must("scontrol", "resume", s.number())
				s.finish(ranks)
			}, check: saysInSlurm(0),
		})
	}
	return all
}

// beyondLease is longer than the lease of brief.
func beyondLease() time.Duration {
	if testneeds.Soak() {
		return 20 * time.Second
	}
	return 7 * time.Second
}

// pass lets time pass, which is the point of the case. The job may not end meanwhile.
func (s *slurmScene) pass(long time.Duration) {
	select {
	case <-s.ended:
		s.fail("the job ended: %s", s.said())
	case <-time.After(long):
	}
}

// slurmBesideFaults have several jobs at once, or many ranks.
func slurmBesideFaults() []slurmFault {
	return []slurmFault{
		{
			name: "two jobs in one allocation, SIGKILL of one's head", criterion: "the other ends well",
			act: func(s *slurmScene) {
				line := func(shape string) string { return shellLine(s.launcher.command(0, nil, role("rank", "ignore", shape))) }
				s.batch(line("setsid")+" & a=$!\n"+line("none")+" & b=$!\nwait $a; echo first $?; wait $b\n", "-N2",
					"--ntasks-per-node=2")
				ranks := s.await("rank", 8)
				s.await("child", 4)
				s.settle(ranks)
				isFirst := func(pid int) bool { return slices.Contains(argv(pid), "setsid") }
				first, others := slices.Clone(ranks), slices.Clone(ranks)
				first = slices.DeleteFunc(first, func(m *member) bool { return !isFirst(m.pid) })
				others = slices.DeleteFunc(others, func(m *member) bool { return isFirst(m.pid) })
				for _, head := range s.gorun(false) {
					if isFirst(head.pid) {
						s.strike(head, syscall.SIGKILL)
					}
				}
				s.until("the end of the first", func() bool {
					return !slices.ContainsFunc(first, func(m *member) bool { return m.self.lives() })
				})
				s.finish(others)
			}, check: func(s *slurmScene, got outcome) {
				saysInSlurm(0)(s, got)
				s.require(strings.Contains(got.stdout, "first 137"), "not killed: %q", got.stdout)
			},
		},
		{
			name: "a job inside ranks, SIGKILL of the outer head", criterion: "nothing left of all jobs",
			act: func(s *slurmScene) {
				inner := s.launcher.command(0, []string{"-n", "2"}, role("rank", "ignore", "daemon"))
				s.script("exec ", shell("exec "+shellLine(inner)), "--nproc-per-node", "1")
				s.assembled("daemon")
				s.strike(s.outermost(), syscall.SIGKILL)
			}, check: saysInSlurm(137),
		},
		{
			name: "64 ranks that end at once", criterion: "exit code 0", act: func(s *slurmScene) {
				s.start(work{around: s.around("salloc", "-Q", "-N4", "--ntasks-per-node=16"), program: role("quit", "0")})
			}, check: saysInSlurm(0),
		},
		{
			name: "64 ranks, of which the last fails", criterion: "exit code 5", act: func(s *slurmScene) {
				s.start(work{
					around:  s.around("salloc", "-Q", "-N4", "--ntasks-per-node=16"),
					program: shell(`[ $RANK != 63 ] || exit 5; exec sleep 100`),
				})
			}, check: saysInSlurm(5, "rank 63 failed first"),
		},
		{
			name: "a rank fails, and is started again", criterion: "exit code 0 after the second attempt",
			act: func(s *slurmScene) {
				s.form(inAllocation, role("rank", "ignore", "daemon"), "--max-restarts", "1")
				first := s.assembled("daemon")
				s.order(first[3], "exit 7")
				s.await("rank", 8)
				s.await("child", 8)
				s.until("the end of the first attempt", func() bool {
					return !slices.ContainsFunc(first, func(m *member) bool { return m.self.lives() })
				})
				s.finish(slices.DeleteFunc(s.kind("rank"), func(m *member) bool { return !m.self.lives() }))
			}, check: saysInSlurm(0),
		},
		shortJobs(inAllocation, 40, 1000), shortJobs(gorunEveryNode, 5, 200), shortJobs(gorunEveryRank, 5, 200),
	}
}

// shortJobs are many consecutive jobs in one allocation.
func shortJobs(form string, sample, full int) slurmFault {
	return slurmFault{
		name: form + ", jobs in a row that end at once", criterion: "exit code 0 each time", act: func(s *slurmScene) {
			s.launcher.limit *= time.Duration(1 + testneeds.Count(0, full/20))
			gorun := map[string]string{
				inAllocation:   built("gorun"),
				gorunEveryNode: "srun -N2 --ntasks-per-node=1 " + built("gorun") + " --nproc-per-node 2",
				gorunEveryRank: "srun -N2 -n4 --ntasks-per-node=2 " + built("gorun"),
			}[form]
			line := `for i in $(seq "$1"); do ` + gorun + ` true || exit 9; done`
			s.launcher.argv = []string{"/bin/bash", "-c", line, "sh"}
			s.start(work{
				around:  s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"),
				program: []string{number(testneeds.Count(sample, full))},
			})
		}, check: saysInSlurm(0),
	}
}

// outermost is the head without a rank among its ancestors.
func (s *slurmScene) outermost() (head process) {
	for _, p := range s.gorun(false) {
		if s.variable(p.pid, "RANK") == "" {
			return p
		}
	}
	s.fail("no head outside of ranks")
	return head
}
