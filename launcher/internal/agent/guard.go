package agent

import (
	"os"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/process"
)

// guard is the process that ends the job should this one be killed. It is
// started beside the ranks, not before them, and nothing waits for it but its
// dismissal.
type guard struct {
	mu      sync.Mutex // held briefly: spawner threads come by
	process *process.Guard
	owned   []process.Owned
	// numbered are what names of files begin with, see process.RemoveNumbered.
	numbered []string
	cgroup   string        // "": none
	pids     []int         // of ranks
	once     sync.Once     // begin or neverBegan
	began    chan struct{} // closed when starting is over
	over     chan struct{} // closed by dismiss
}

func newGuard() *guard { return &guard{began: make(chan struct{}), over: make(chan struct{})} }

// neverBegan is for a job that failed before its guard was due.
func (g *guard) neverBegan() { g.once.Do(func() { close(g.began) }) }

// begin starts the guard beside the ranks.
func (g *guard) begin(j *running) {
	g.once.Do(func() {
		go func() {
			defer close(g.began)
			g.start(j)
		}()
	})
}

func (g *guard) start(j *running) {
	g.mu.Lock()
	cfg := process.GuardConfig{
		ID: j.start.JobID, Remove: slices.Clone(g.owned), Numbered: slices.Clone(g.numbered), Cgroup: g.cgroup,
		Executable: j.agent.cfg.Executable,
		Link:       j.agent.cfg.Link,
	}
	g.mu.Unlock()
	p, err := process.StartGuard(cfg)
	if err != nil {
		j.agent.notice("no guard process, so children of ranks would survive a SIGKILL of gorun: %v", err)
		return
	}
	g.adopt(p, cfg)
	go g.watch(j, p)
}

// adopt tells a new guard what happened before it was there.
func (g *guard) adopt(p *process.Guard, known process.GuardConfig) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pid := range g.pids {
		_ = p.AddRank(pid) // a guard that died is replaced, and told everything again
	}
	for _, o := range g.owned[len(known.Remove):] {
		_ = p.AddOwned(o)
	}
	for _, prefix := range g.numbered[len(known.Numbered):] {
		_ = p.AddNumbered(prefix)
	}
	if g.cgroup != known.Cgroup {
		_ = p.AddCgroup(g.cgroup)
	}
	g.process = p
}

// watch replaces a guard that was killed, and before that one which would need
// threads that ranks may leave it none of. A job that is over in an instant is
// spared that.
func (g *guard) watch(j *running, p *process.Guard) {
	if !g.stays(settled) {
		return
	}
	if process.ReserveThreads() {
		_ = g.unlessOver(p.Prepare) // the guard before is still there
	}
	for {
		select {
		case <-g.over:
			return
		case <-p.Died():
		}
		if err := g.unlessOver(p.Replace); err != nil {
			j.agent.notice("the guard process was killed and cannot be replaced: %v", err)
			return
		}
	}
}

// stays waits, and reports false if the guard is dismissed meanwhile.
func (g *guard) stays(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.over:
		return false
	case <-timer.C:
		return true
	}
}

// unlessOver changes the guard process unless it was dismissed meanwhile.
func (g *guard) unlessOver(change func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver() {
		return nil
	}
	return change()
}

// isOver reports whether the guard was dismissed. The lock is held.
func (g *guard) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

func (g *guard) addRank(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pids = append(g.pids, pid)
	if g.process != nil {
		_ = g.process.AddRank(pid)
	}
}

// removeRanks is for ranks that are about to be reaped.
func (g *guard) removeRanks(pids []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pids = slices.DeleteFunc(g.pids, func(pid int) bool { return slices.Contains(pids, pid) })
	if g.process != nil {
		_ = g.process.RemoveRanks(pids) // a guard that died is replaced, and told of the others
	}
}

func (g *guard) addCgroup(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cgroup = dir
	if g.process != nil {
		_ = g.process.AddCgroup(dir)
	}
}

// makeDir makes a directory that is removed when the job ends. The guard knows of it before it exists: a SIGKILL may
// come in between.
func (g *guard) makeDir(path string) (*os.Root, error) {
	g.add(process.Owned{Path: path})
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	root, owned, err := process.OpenNew(path)
	if err == nil {
		g.add(owned)
	}
	return root, err
}

// addPath has what a path names now removed when the job ends; at once when that is over.
func (g *guard) addPath(path string) {
	if owned, err := process.Identify(path); err == nil {
		g.add(owned)
	}
}

func (g *guard) add(o process.Owned) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver() {
		o.Remove()
		return
	}
	g.owned = append(g.owned, o)
	if g.process != nil {
		_ = g.process.AddOwned(o)
	}
}

// watchPath has a file or directory of somebody else's removed by the guard process alone.
func (g *guard) watchPath(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		_ = g.process.AddPath(path) // a guard that died is replaced, and told everything again
	}
}

func (g *guard) addNumbered(prefix string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver() {
		process.RemoveNumbered(prefix)
		return
	}
	if slices.Contains(g.numbered, prefix) {
		return
	}
	g.numbered = append(g.numbered, prefix)
	if g.process != nil {
		_ = g.process.AddNumbered(prefix)
	}
}

// pid is the guard's own process, 0 if there is none. It waits for one that is
// on its way.
func (g *guard) pid() int {
	<-g.began
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.PID()
}

// dismiss ends the guard, also one that is on its way, and removes what it would
// have removed.
func (g *guard) dismiss() {
	<-g.began
	g.mu.Lock()
	close(g.over)
	guard, owned, numbered := g.process, g.owned, g.numbered
	g.mu.Unlock()
	if guard != nil {
		guard.Dismiss()
	}
	for _, o := range owned {
		o.Remove() // what cannot be removed is the user's to see
	}
	for _, prefix := range numbered {
		process.RemoveNumbered(prefix)
	}
}
