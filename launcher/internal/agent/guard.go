package agent

import (
	"os"
	"sync"
	"time"

	"gorun/launcher/internal/process"
)

// guard is the job's process.Guard. It starts while what the ranks need is made; they start once it has. It is safe for
// concurrent use.
type guard struct {
	process.Guard
	once      sync.Once     // start or skipStart
	started   chan struct{} // closed when the start is over
	dismissed chan struct{} // closed by dismiss
}

func newGuard() *guard { return &guard{started: make(chan struct{}), dismissed: make(chan struct{})} }

// skipStart is for a job that failed before its guard was needed.
func (g *guard) skipStart() { g.once.Do(func() { close(g.started) }) }

// start starts the guard on another goroutine. Further calls do nothing.
func (g *guard) start(j *job) {
	g.once.Do(func() {
		go func() {
			defer close(g.started)
			cfg := &j.agent.cfg
			err := g.Start(process.GuardConfig{ID: j.start.JobID, Executable: cfg.Executable, Link: cfg.Link})
			if err != nil {
				j.agent.notice("cannot start the guard, so ranks' children would survive a SIGKILL of gorun: %v", err)
				return
			}
			go g.watch(j)
		}()
	})
}

// watch replaces a killed guard. If threads are limited it also prepares the guard; both only after settleDelay, so
// that instant jobs do without.
func (g *guard) watch(j *job) {
	select {
	case <-g.dismissed:
		return
	case <-time.After(settleDelay):
	}
	if process.ReserveThreads() {
		_ = g.Prepare() // on error the old guard stays
	}
	for {
		select {
		case <-g.dismissed:
			return
		case <-g.Died():
		}
		if err := g.Replace(); err != nil {
			j.agent.notice("the guard was killed and cannot be replaced: %v", err)
			return
		}
	}
}

// makeDir makes a directory that is removed when the job ends. It is guarded before it exists, as this process may be
// killed in between.
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

// addPath removes the file at a path when the job ends, or at once if it has ended.
func (g *guard) addPath(path string) {
	if owned, err := process.Identify(path); err == nil {
		g.AddOwned(owned)
	}
}

// pid returns the guard's pid, 0 for none. It waits for a pending start.
func (g *guard) pid() int {
	<-g.started
	return g.PID()
}

// dismiss ends the guard, after a pending start, and removes what it guards.
func (g *guard) dismiss() {
	<-g.started
	close(g.dismissed)
	g.Dismiss()
}
