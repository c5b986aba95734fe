package launcher

import (
	"os"
	"sync"
	"time"

	"gorun/launcher/job"
)

// progressClock measures how much of a job's attempts was useful.
type progressClock struct {
	policy  *job.Restarts
	began   time.Time     // of the job
	mu      sync.Mutex    // guards what follows
	attempt time.Time     // when the attempt began; zero: it has ended
	changed time.Time     // when ProgressFile had changed last before that
	useful  time.Duration // of all attempts that have ended
}

func (p *progressClock) start() {
	changed := p.lastChange()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempt, p.changed = time.Now(), changed
}

// lastChange returns when ProgressFile changed last by its file system's clock; zero: it does not exist.
func (p *progressClock) lastChange() (at time.Time) {
	if info, err := os.Stat(p.policy.ProgressFile); err == nil {
		at = info.ModTime()
	}
	return at
}

// end returns how much of an attempt brought progress. All of one that ended well was useful.
func (p *progressClock) end(r *job.Result) time.Duration {
	at := p.lastChange()
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.sinceStart(at)
	p.attempt = time.Time{}
	useful := p.policy.Useful(r, changed)
	if r.Cause == job.CauseDone {
		p.useful += time.Duration(r.Elapsed)
	} else {
		p.useful += useful
	}
	return useful
}

// sinceStart is when in the attempt ProgressFile changed last; -1: it did not.
func (p *progressClock) sinceStart(at time.Time) time.Duration {
	if at.Equal(p.changed) {
		return -1
	}
	return max(0, at.Sub(p.attempt))
}

// sofar is the goodput until now. An attempt that runs has been useful until ProgressFile changed last or, without one,
// until now.
func (p *progressClock) sofar() *job.Goodput {
	at := p.lastChange()
	p.mu.Lock()
	defer p.mu.Unlock()
	useful := p.useful
	switch {
	case p.attempt.IsZero():
	case p.policy.ProgressFile == "":
		useful += time.Since(p.attempt)
	default:
		useful += max(0, p.sinceStart(at))
	}
	return job.NewGoodput(time.Since(p.began), useful)
}
