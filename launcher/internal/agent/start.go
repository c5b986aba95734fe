package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/cgroup"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// running is the job's part on this node, from Start on.
type job struct {
	agent       *Agent
	start       wire.Start
	refused     error         // why this node does not do what the head wishes
	began       process.Ticks // before the first rank
	group       *process.Group
	guard       *guard
	cgroup      *cgroup.Group // nil: none
	logs        *output.Logs
	logRoot     *os.Root // that they are below; nil: they are where the head says
	privateDir  privateDir
	display     *display       // nil: the head shows what ranks print
	plane       *exchange.Node // nil: nobody asks other nodes for anything
	files       []*os.File     // of redirected streams, the ranks' by now
	stdin       *stdin
	credit      *credit
	endings     *endings
	roster      atomic.Pointer[roster]
	oom         process.OOMKills // whom the kernel killed for lack of memory while the ranks ran
	bindNotices bindNotices
	signals     signals
	mpi         *mpi
	ended       sync.Once
	startDone   chan struct{} // closed when the spawning of the first ranks is over

	spawnsLock   sync.Mutex
	spawns       spawns
	gone         atomic.Bool  // nothing of it is left
	endRequested atomic.Bool  // by the head
	killSweep    atomic.Bool  // since it ordered SIGKILL
	queries      atomic.Int32 // that are being answered
	printed      atomic.Int64 // bytes of output so far

	// open counts streams that are read here and have not ended, and one more until every
	// rank was started.
	open countdown
	// reaping says that it will be looked soon which ranks are to be let go of.
	reaping atomic.Bool
	// words are what goroutines have yet to say of this attempt: the end waits for them.
	reports reports
	// growing is held while ranks are started, and while such that have ended are let go of; ending says
	// that neither is any more.
	startGate startGate

	timers   timers
	watchdog watchdog
}

// isOver reports whether another attempt may begin.
func (j *job) isOver() bool { return j.gone.Load() }

// rank is what is known here of one rank.
type rank struct {
	row wire.Row
	dir string       // its working directory; "": the agent's
	pid atomic.Int32 // 0: not started
	end atomic.Pointer[spec.Exit]
	// streams counts those that are read here and have not ended; told says that its own end was passed on.
	streams  atomic.Int32
	reported atomic.Bool
	// printed is how many bytes of output have come from it.
	printed atomic.Int64
	// expired is the scope of PyTorch's timer for which the rank was ended; nil: none.
	expired atomic.Pointer[string]
	// asked is set while it may answer a question.
	query atomic.Pointer[stackQuery]
}

// start does what the head decided. The ranks are started beside the loop that
// reads frames, so that a signal never waits for a slow exec.
func (a *Agent) start(s wire.Start) error {
	if a.job != nil && !a.job.isOver() {
		return errors.New("agent: the ranks were started already")
	}
	refused := a.applyJoined(&s)
	if refused == nil {
		refused = a.checkStart(&s)
	}
	if refused == nil {
		refused = a.openHealth(s.Common)
	}
	if refused != nil { // the head hears why, as of a program that cannot be started
		s = wire.Start{Window: min(max(s.Window, 1), maxWindow)}
	}
	j := &job{
		agent: a, start: s, refused: refused, began: process.Now(), startDone: make(chan struct{}), guard: newGuard(),
	}
	if a.began == 0 {
		a.began = j.began
	}
	j.addRanks(s.Ranks, s.Apps)
	j.display = j.newDisplay()
	if s.MPI.Offered {
		j.plane = j.newPlane(s.MPI.Node)
	}
	j.mpi = j.newMPI()
	j.endings = &endings{job: j}
	j.stdin = newStdin(j)
	j.signals.starting, j.signals.engine = 1, &a.engine
	j.open.add(1) // until all ranks are started
	a.job = j
	a.active.Store(j)
	go j.spawn()
	return nil
}

// spawn starts the ranks and says how that went.
func (j *job) spawn() {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	defer close(j.startDone)
	err := j.startRanks()
	j.guard.skip()
	_ = j.agent.link.Send(&wire.Running{Ranks: j.pids(j.start.Ranks), At: time.Now()})
	if err != nil {
		failed := startFailure(err)
		_ = j.agent.link.Send(&failed)
	}
	j.started(j.start.Ranks, 0)
	j.open.add(-1)
	j.scheduleLateSetup()
	j.watchTorch()
	j.watchStoreWaits()
	j.watchMPI()
	j.watchHang()
	j.reapOrphans()
}

// startRanks makes everything that ranks need to exist before them, then them.
func (j *job) startRanks() (err error) {
	j.group = process.NewGroup((*sink)(j))
	j.credit = newCredit(j.start.Window, j.group)
	if j.refused != nil {
		return j.refused
	}
	if err = j.agent.checkLimits(len(j.start.Ranks), j.start.MPI.Offered); err != nil {
		return err
	}
	if err = j.build(); err != nil {
		return err
	}
	j.choosePrivateDir()
	if err = j.writeKey(); err != nil {
		return err
	}
	if err = j.openWatchdog(); err != nil {
		return err
	}
	if err = j.openLogs(); err != nil {
		return err
	}
	ranks, err := j.processes(j.start.Ranks, j.start.Apps)
	if err != nil {
		return err
	}
	j.makeCgroup()
	j.guard.begin(j)
	j.mpi.open()
	defer j.closeFiles()
	defer j.mpi.acceptConnections() // the ranks that run may have come
	return j.group.Start(j.common(j.start.Common, j.start.Apps[0]), ranks)
}

// build compiles the Go programs among the apps, once for all ranks.
func (j *job) build() error {
	for i := range j.start.Apps {
		app := &j.start.Apps[i]
		if !app.Build {
			continue
		}
		dir, err := j.makeBuildDir()
		if err != nil {
			return fmt.Errorf("build %s: %w", app.Argv[0], err)
		}
		file := filepath.Join(dir, filepath.Base(app.Argv[0]))
		app.Path = file
		goBuild := j.agent.programs[i].Build
		environ := append(slices.Clone(j.start.Common), "GOTMPDIR="+dir) // go itself leaves its files when it is killed
		if err := goBuild.Run(context.Background(), file, environ, noticeWriter{j.agent}); err != nil {
			return err
		}
	}
	return nil
}

// makeBuildDir makes a place for a program to be built in. A build takes time, so the guard is there before.
func (j *job) makeBuildDir() (string, error) {
	j.guard.begin(j)
	<-j.guard.started
	dir := filepath.Join(j.agent.cfg.TempDir, "gorun-build-"+rand.Text())
	root, err := j.guard.makeDir(dir)
	if err != nil {
		return "", err
	}
	return dir, root.Close()
}

// common is what ranks of one program share. What only this node knows is added to their environment. The directory
// is each rank's own: a program that names none is not to begin in that of the first one.
func (j *job) common(environ []string, app spec.App) process.Common {
	return process.Common{
		Env: slices.Concat(j.watchdog.environ(environ), j.keyEnviron(), j.mpi.environ(environ)), Path: app.Path,
		Argv: app.Argv, Cgroup: j.cgroup,
		Sockets: j.start.MPI.Offered && !j.start.MPI.PMIPort,
	}
}

// processes are the ranks of rows as they are executed.
func (j *job) processes(rows []wire.Row, apps []spec.App) ([]process.Rank, error) {
	ranks := make([]process.Rank, len(rows))
	for i, row := range rows {
		app := apps[row.App]
		r := process.Rank{ID: row.Rank, Env: slices.Concat(row.Env, j.errorEnviron(row)), Argv: row.Argv, Dir: app.Dir}
		r.Binding = process.Binding{CPUs: row.CPUs.Mask(), Policy: int(row.MemoryPolicy), Nodes: row.Memories.Mask()}
		if row.App != 0 {
			r.Path = app.Path
			if r.Argv == nil {
				r.Argv = app.Argv
			}
		}
		var err error
		if r.Stdin, r.Stdout, r.Stderr, err = j.streams(row); err != nil {
			return nil, err
		}
		ranks[i] = r
	}
	return ranks, nil
}

// startFailed tells the errors of a program (126, 127) from those of the
// machine (125).
func startFailure(err error) wire.StartFailed {
	f := wire.StartFailed{Rank: -1, Code: 125, Text: err.Error(), At: time.Now()}
	var start *process.StartError
	var prog *program.Error
	switch {
	case errors.As(err, &prog):
		f.Code, f.Hint = prog.Code, prog.Hint
	case errors.As(err, &start):
		f.Rank, f.Code = start.ID, startCode(start)
	}
	return f
}

func startCode(e *process.StartError) int {
	switch {
	case errors.Is(e.Err, syscall.ENOENT):
		return 127
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.ENOEXEC), errors.Is(e.Err, syscall.E2BIG):
		return 126
	}
	return 125
}

// pids are the processes of the ranks that were started.
func (j *job) pids(rows []wire.Row) []wire.RankPID {
	list := make([]wire.RankPID, 0, len(rows))
	for _, row := range rows {
		if r := j.rank(row.Rank); r != nil && r.pid.Load() != 0 {
			list = append(list, wire.RankPID{Rank: row.Rank, PID: int(r.pid.Load())})
		}
	}
	return list
}

// noticeWriter passes a compiler's messages on to the user.
type noticeWriter struct{ a *Agent }

func (w noticeWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.a.notice("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

// startGate is held while ranks are started or reaped. It is closed when the job ends; neither happens any more then.
type startGate struct {
	sync.Mutex
	closed bool // guarded by the mutex
}
