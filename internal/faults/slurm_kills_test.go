package faults

import (
	"strings"
	"syscall"
	"time"
)

// slurmKillFaults kill processes of gorun and commands of Slurm.
func slurmKillFaults() []slurmFault {
	var all []slurmFault
	for i, form := range []string{inAllocation, inScript, underScript, gorunEveryNode, gorunEveryRank} {
		all = append(all, slurmFault{
			name: form + ", SIGKILL of the head", criterion: "exit code not 0, nothing left", soak: i == 1,
			act: func(s *slurmScene) {
				s.spread(form, "daemon", "ignore")
				s.strike(s.head(), syscall.SIGKILL)
			}, check: func(s *slurmScene, got outcome) {
				// salloc exits with 0 after its command was killed
				s.require(got.code != 0 || form == inAllocation, "exit code 0: %s", s.said())
			},
		})
	}
	node, frozen := "", ""
	all = append(all, slurmFault{
		name: "SIGKILL of an agent", criterion: "exit code 125, the node is named", act: func(s *slurmScene) {
			ranks := s.spread(inAllocation, "daemon", "ignore")
			node = s.variable(ranks[3].pid, "SLURMD_NODENAME")
			s.strike(s.agent(ranks[3]), syscall.SIGKILL)
		}, check: func(s *slurmScene, got outcome) { saysInSlurm(125, node+" is lost")(s, got) },
	})
	all = append(all, slurmFault{
		name:      "SIGKILL of srun, not of its helper",
		criterion: "its helper ends the step; gorun says that Slurm or srun did", act: func(s *slurmScene) {
			s.spread(inScript, "setsid", "ignore")
			for _, p := range s.named("srun") {
				if parent, _ := read(p.parent); parent.name == "gorun" {
					s.strike(p, syscall.SIGKILL)
				}
			}
		}, check: func(s *slurmScene, got outcome) {
			s.require(got.code != 0 && strings.Contains(got.stderr, "srun"), "code %d: %s", got.code, s.said())
		},
	}, slurmFault{
		name: "an agent is frozen", soak: true, criterion: "exit code 125, the node is named", act: func(s *slurmScene) {
			ranks := s.spread(inAllocation, "daemon", "ignore", brief()...)
			frozen = s.variable(ranks[3].pid, "SLURMD_NODENAME")
			s.strike(s.agent(ranks[3]), syscall.SIGSTOP)
		}, check: func(s *slurmScene, got outcome) { saysInSlurm(125, frozen+" is lost")(s, got) },
	})
	for _, by := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		all = append(all, slurmFault{
			name: signalName(by) + " of salloc", criterion: "nothing left", soak: by != syscall.SIGKILL,
			act: func(s *slurmScene) {
				s.spread(inAllocation, "daemon", "ignore")
				found := s.named("salloc")
				s.require(len(found) == 1, "salloc: %v", found)
				s.strike(found[0], by)
				if by == syscall.SIGKILL { // no process releases the allocation
					s.must("scancel", s.number())
				}
			}, check: func(s *slurmScene, got outcome) {
				s.require(got.code != 0 || by == syscall.SIGHUP, "exit code 0: %s", s.said())
			},
		})
	}
	for what, kill := range map[string]func(s *slurmScene, ranks []*member){
		"srun": func(s *slurmScene, _ []*member) {
			s.killSrun()
		}, "the step's daemon on a node": func(s *slurmScene, ranks []*member) { s.killStepd(ranks[3]) },
	} {
		all = append(all, slurmFault{
			name: "SIGKILL of " + what, soak: what != "srun", criterion: "the job goes on; exit code 0",
			act: func(s *slurmScene) {
				ranks := s.spread(inAllocation, "setsid", "ignore")
				kill(s, ranks)
				s.finish(ranks)
			}, check: saysInSlurm(0),
		}, slurmFault{
			name: "SIGKILL of " + what + ", a rank fails", soak: what == "srun", criterion: "exit code 3, the rank is named",
			act: func(s *slurmScene) {
				ranks := s.spread(inAllocation, "daemon", "ignore")
				kill(s, ranks)
				s.order(ranks[2], "exit 3")
			}, check: saysInSlurm(3, "rank 2 failed first"),
		}, slurmFault{
			name: "SIGKILL of " + what + ", then of the head", criterion: "nothing left", act: func(s *slurmScene) {
				ranks := s.spread(inScript, "daemon", "ignore")
				kill(s, ranks)
				s.strike(s.head(), syscall.SIGKILL)
			}, check: saysInSlurm(137),
		}, slurmFault{
			name: "SIGKILL of " + what + ", then scancel", soak: true, criterion: "nothing left", act: func(s *slurmScene) {
				ranks := s.spread(inScript, "daemon", "ignore")
				kill(s, ranks)
				s.at = time.Now()
				s.must("scancel", s.number())
			}, check: func(s *slurmScene, got outcome) { s.require(got.code != 0, "exit code 0") },
		})
	}
	return all
}

// killSrun kills the srun that started the agents. It also kills its child, which would end the step after srun's
// death. Both die at once, so the child cannot react.
func (s *slurmScene) killSrun() {
	found := s.named("srun")
	s.require(len(found) > 0, "no srun")
	s.at = time.Now()
	for _, p := range found {
		s.signal(p.pid, syscall.SIGSTOP)
	}
	for _, p := range found {
		s.signal(p.pid, syscall.SIGKILL)
	}
}

// killStepd kills the slurmstepd that started a rank's agent.
func (s *slurmScene) killStepd(rank *member) {
	p, ok := read(s.agent(rank).parent)
	s.require(ok && strings.HasPrefix(p.name, "slurmstepd"), "no slurmstepd but %v", p)
	s.strike(p, syscall.SIGKILL)
}

// finish ends ranks with success.
func (s *slurmScene) finish(ranks []*member) {
	for _, rank := range ranks {
		s.order(rank, "exit 0")
	}
}

// slurmDaemonFaults kill daemons of nodes.
func slurmDaemonFaults() []slurmFault {
	return []slurmFault{{
		name: "SIGKILL of slurmd, then a rank fails", criterion: "exit code 3", own: true, act: func(s *slurmScene) {
			ranks := s.spread(inAllocation, "daemon", "ignore")
			s.c.KillNode(s.t, s.variable(ranks[3].pid, "SLURMD_NODENAME"))
			s.at = time.Now()
			s.order(ranks[2], "exit 3")
		}, check: saysInSlurm(3, "rank 2 failed first"),
	}}
}
