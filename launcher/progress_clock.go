package launcher

import (
	"os"
	"time"

	"gorun/launcher/job"
)

// progressClock measures how much of a job's attempts was useful.
type progressClock struct {
	policy  *job.Restarts
	began   time.Time     // of the job
	attempt time.Time     // when the attempt began
	changed time.Time     // when ProgressFile had changed last before that
	useful  time.Duration // of all attempts that have ended
}

func (p *progressClock) start() { p.attempt, p.changed = time.Now(), p.lastChange() }

// lastChange returns when ProgressFile changed last by its file system's clock; zero: it does not exist.
func (p *progressClock) lastChange() (at time.Time) {
	if info, err := os.Stat(p.policy.ProgressFile); err == nil {
		at = info.ModTime()
	}
	return at
}

// end returns how much of an attempt brought progress. All of one that ended well, or with a checkpoint, was useful.
func (p *progressClock) end(r *job.Result) time.Duration {
	changed := time.Duration(-1)
	if at := p.lastChange(); !at.Equal(p.changed) {
		changed = max(0, at.Sub(p.attempt))
	}
	useful := p.policy.Useful(time.Duration(r.After), changed)
	if r.Cause == job.CauseDone || p.policy.Checkpointed(r) {
		p.useful += time.Duration(r.Elapsed)
	} else {
		p.useful += useful
	}
	return useful
}
