package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// start handles a Start frame. The ranks are started on another goroutine, so that signals do not wait for a slow
// execve.
func (a *Agent) start(s wire.Start) error {
	if a.job != nil && !a.job.cleanedUp.Load() {
		return errors.New("agent: the ranks were started already")
	}
	refused := a.applyJoined(&s)
	if refused == nil {
		refused = a.checkStart(&s)
	}
	if refused == nil {
		refused = a.openHealth(s.Common)
	}
	if refused != nil { // spawn reports it, like a program that cannot be started
		s = wire.Start{Window: min(max(s.Window, 1), maxWindow)}
	}
	j := newJob(a, s)
	j.refused = refused
	if a.since == 0 {
		a.since = j.since
	}
	j.signals.starting = 1
	j.open.add(1) // until all ranks are started
	a.job = j
	a.active.Store(j)
	go j.spawn()
	return nil
}

// spawn starts the ranks, reports the result, and schedules what comes later.
func (j *job) spawn() {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	defer close(j.startDone)
	err := j.startRanks()
	j.guard.skipStart()
	_ = j.agent.link.Send(&wire.Running{Ranks: j.pids(j.start.Ranks), At: j.rankStart})
	if err != nil {
		failed := startFailure(err)
		_ = j.agent.link.Send(&failed)
	}
	j.replaySignals(j.start.Ranks, 0)
	j.open.add(-1)
	j.scheduleLateSetup()
	j.watchTorch()
	j.watchStoreWaits()
	j.watchMPI()
	j.reapOrphans()
	if err == nil {
		j.agent.warmJoined(&j.start)
	}
}

// startRanks makes everything that must exist before the ranks, and starts them.
func (j *job) startRanks() (err error) {
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
	j.prepareDumps()
	if err = j.openLogs(); err != nil {
		return err
	}
	ranks, err := j.newRanks(j.start.Ranks, j.start.Apps)
	if err != nil {
		return err
	}
	j.makeCgroup()
	j.guard.start(j)
	j.mpi.open()
	defer j.closeRedirected()
	defer j.mpi.acceptConnections() // also if some ranks could not be started
	<-j.guard.started               // a rank may leave a child behind in its first microseconds
	if slices.ContainsFunc(j.agent.programs, func(p program.Resolved) bool { return p.Interpreted }) {
		j.prepareErrorFiles() // others write none in their first milliseconds
	}
	j.rankStart = time.Now()
	return j.group.Start(j.common(j.start.Common, j.start.Apps[0]), ranks)
}

// build compiles the apps that are Go source.
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
		environ := append(slices.Clone(j.start.Common), "GOTMPDIR="+dir) // the go command leaves files if it is killed
		if err := goBuild.Run(context.Background(), file, environ, noticeWriter{j.agent}); err != nil {
			return err
		}
	}
	return nil
}

// makeBuildDir makes a directory for a build. As a build takes time, it waits for the guard.
func (j *job) makeBuildDir() (string, error) {
	j.guard.start(j)
	<-j.guard.started
	dir := filepath.Join(j.agent.cfg.TempDir, "gorun-build-"+rand.Text())
	root, err := j.guard.makeDir(dir)
	if err != nil {
		return "", err
	}
	return dir, root.Close()
}

// common returns what the ranks of one app share, with this node's additions to the environment. The directory is not
// shared: an app without one must not start in another's.
func (j *job) common(environ []string, app spec.App) process.Common {
	common := process.Common{
		Env: slices.Concat(j.watchdog.environ(environ), j.keyEnviron(), j.dumps, j.mpi.environ(environ)), Path: app.Path,
		Argv: app.Argv, Cgroup: j.cgroup.Load(),
		Sockets: j.start.MPI.Offered && !j.start.MPI.PMIPort,
	}
	if forks := j.agent.forks.Load(); forks != nil {
		common.Fork = func(f process.Fork) (int, process.BindError, error) { return forks.Fork(f, j.hurry) }
	}
	return common
}

// newRanks returns the processes to start for rows.
func (j *job) newRanks(rows []wire.Row, apps []spec.App) ([]process.Rank, error) {
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
		if r.Stdin, r.Stdout, r.Stderr, err = j.standardStreams(row); err != nil {
			return nil, err
		}
		ranks[i] = r
	}
	return ranks, nil
}

// startFailure distinguishes errors of a program (exit codes 126 and 127) from those of the machine (125).
func startFailure(err error) wire.StartFailed {
	f := wire.StartFailed{Rank: -1, Code: 125, Text: printable.Error(err), At: time.Now()}
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

// pids returns the processes of those ranks in rows that were started.
func (j *job) pids(rows []wire.Row) []wire.RankPID {
	list := make([]wire.RankPID, 0, len(rows))
	for _, row := range rows {
		if r := j.rank(row.Rank); r != nil && r.pid.Load() != 0 {
			list = append(list, wire.RankPID{Rank: row.Rank, PID: int(r.pid.Load())})
		}
	}
	return list
}

// noticeWriter sends a compiler's messages to the user.
type noticeWriter struct{ a *Agent }

func (w noticeWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.a.notice("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}
