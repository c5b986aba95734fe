package agent

import (
	"crypto/rand"
	"errors"

	"gorun/launcher/internal/process/cgroup"
)

// makeCgroup makes a cgroup for the job if that is requested and possible. Inside Slurm it does not, as Slurm
// identifies the processes of a step by their cgroup.
func (j *job) makeCgroup() {
	if !j.start.Cgroup || lookup(j.agent.cfg.Environ, "SLURM_JOB_ID") != "" {
		return
	}
	group, err := cgroup.Make(rand.Text())
	if err != nil {
		return // most users may not, and lose little
	}
	j.cgroup.Store(group)
	j.guard.AddCgroup(group.Dir())
}

// removeCgroup removes the cgroup and reports whether it was empty.
func (j *job) removeCgroup() bool {
	group := j.cgroup.Load()
	return group == nil || !errors.Is(group.Remove(), cgroup.ErrBusy)
}

// closeCgroup removes the cgroup, if possible, and closes it.
func (j *job) closeCgroup() {
	if group := j.cgroup.Load(); group != nil {
		_ = group.Remove()
		group.Close()
	}
}

func (j *job) tidyCgroups() {
	if group := j.cgroup.Load(); group != nil {
		group.Tidy()
	}
}
