package agent

import (
	"syscall"
	"time"

	"gorun/launcher/internal/process"
)

// mpiLooks are the times, after the start of the ranks, at which rank 0 is looked
// at: when its libraries are loaded, and when a Python program has imported its
// modules.
var mpiLooks = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}

// watchMPI remarks on MPI programs: a library that finds none of its launchers
// makes each rank a job of its own, without a word.
func (j *running) watchMPI() {
	if len(j.rows()) < 2 {
		return
	}
	first := j.rank(j.start.Ranks[0].Rank)
	var seen bool
	for _, after := range mpiLooks {
		j.timers.after(after, func() {
			library := process.Mapped(int(first.pid.Load()), "libmpi.so", "libmpich.so", "libmpi_ft.so")
			j.timers.unlessOver(func() {
				if seen || library == "" {
					return
				}
				seen = true
				j.agent.notice("%s is loaded: gorun does not speak the start-up protocols of MPI yet, so each rank of an MPI program runs as 0 of 1; "+
					"start it by its own mpiexec", library)
			})
		})
	}
}

// Spoke is for ranks with a socket, which none has yet.
func (s *sink) Spoke(_, fd int) { _ = syscall.Close(fd) }
