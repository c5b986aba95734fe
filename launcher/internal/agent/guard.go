package agent

import (
	"os"
	"sync"
	"time"

	"gorun/launcher/internal/process"
)

// guard is the process that ends the job should this one be killed. It is
// started beside the ranks, not before them, and nothing waits for it but its
// dismissal.
type guard struct {
	process.Guard
	once      sync.Once     // begin or neverBegan
	started   chan struct{} // closed when starting is over
	dismissed chan struct{} // closed by dismiss
}

func newGuard() *guard { return &guard{started: make(chan struct{}), dismissed: make(chan struct{})} }

// neverBegan is for a job that failed before its guard was due.
func (g *guard) skip() { g.once.Do(func() { close(g.started) }) }

// begin starts the guard beside the ranks.
func (g *guard) begin(j *job) {
	g.once.Do(func() {
		go func() {
			defer close(g.started)
			cfg := &j.agent.cfg
			err := g.Start(process.GuardConfig{ID: j.start.JobID, Executable: cfg.Executable, Link: cfg.Link})
			if err != nil {
				j.agent.notice("no guard process, so children of ranks would survive a SIGKILL of gorun: %v", err)
				return
			}
			go g.watch(j)
		}()
	})
}

// watch replaces a guard that was killed, and before that one which would need
// threads that ranks may leave it none of. A job that is over in an instant is
// spared that.
func (g *guard) watch(j *job) {
	timer := time.NewTimer(settleDelay)
	defer timer.Stop()
	select {
	case <-g.dismissed:
		return
	case <-timer.C:
	}
	if process.ReserveThreads() {
		_ = g.Prepare() // the guard before is still there
	}
	for {
		select {
		case <-g.dismissed:
			return
		case <-g.Died():
		}
		if err := g.Replace(); err != nil {
			j.agent.notice("the guard process was killed and cannot be replaced: %v", err)
			return
		}
	}
}

// makeDir makes a directory that is removed when the job ends. The guard knows of it before it exists: a SIGKILL may
// come in between.
func (g *guard) makeDir(path string) (*os.Root, error) {
	g.AddOwned(process.Owned{Path: path})
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	root, owned, err := process.OpenNew(path)
	if err == nil {
		g.AddOwned(owned)
	}
	return root, err
}

// addPath has what a path names now removed when the job ends; at once when that is over.
func (g *guard) addPath(path string) {
	if owned, err := process.Identify(path); err == nil {
		g.AddOwned(owned)
	}
}

// pid is the guard's own process, 0 if there is none. It waits for one that is
// on its way.
func (g *guard) pid() int {
	<-g.started
	return g.PID()
}

// dismiss ends the guard, also one that is on its way, and removes what it would
// have removed.
func (g *guard) dismiss() {
	<-g.started
	close(g.dismissed)
	g.Dismiss()
}
