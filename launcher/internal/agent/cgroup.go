package agent

import (
	"crypto/rand"
	"errors"

	"gorun/launcher/internal/process/cgroup"
)

// makeCgroup gives the job a cgroup of its own if that is wished and can be done. Slurm
// knows the processes of a step by its own cgroups, whatever the head's host knows of it.
func (j *job) makeCgroup() {
	if !j.start.Cgroup || lookup(j.agent.cfg.Environ, "SLURM_JOB_ID") != "" {
		return
	}
	group, err := cgroup.Make(rand.Text())
	if err != nil {
		return // most users have none, and lose little
	}
	j.cgroup = group
	j.guard.AddCgroup(group.Dir())
}

// vacant removes the cgroup, and reports whether it can: nothing of the job is in
// it any more.
func (j *job) removeCgroup() bool {
	return j.cgroup == nil || !errors.Is(j.cgroup.Remove(), cgroup.ErrBusy)
}

// leaveCgroup gives up a cgroup that has been removed, or cannot be.
func (j *job) closeCgroup() {
	if j.cgroup != nil {
		_ = j.cgroup.Remove()
		j.cgroup.Close()
	}
}

func (j *job) tidyCgroups() {
	if j.cgroup != nil {
		j.cgroup.Tidy()
	}
}
