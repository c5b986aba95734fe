package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// spawns are the calls of MPI_Comm_spawn by this node's ranks that the head has not answered. It is safe for concurrent
// use.
type spawns struct {
	mu      sync.Mutex
	last    int
	pending map[int]spawn
}

type spawn struct {
	request world.Spawn
	done    func(name string, err error)
	used    bool // the head has used it to start ranks here
}

var errJobEnded = errors.New("the job ends")

// requestSpawn sends a rank's MPI_Comm_spawn to the head. Host files are read on another goroutine, so that
// nothing, not even the end of the job, waits for a file server that does not answer.
func (j *job) requestSpawn(request world.Spawn, done func(name string, err error)) {
	if !slices.ContainsFunc(request.Apps, func(app world.SpawnApp) bool { return app.HostFile != "" }) {
		j.sendSpawn(request, done)
		return
	}
	dir := j.workingDirOf(request.By)
	go func() {
		err := readHostFiles(&request, dir)
		if !j.reports.begin() {
			err = errJobEnded
		} else {
			defer j.reports.end()
		}
		if err != nil {
			done("", err)
			return
		}
		j.sendSpawn(request, done)
	}()
}

func (j *job) sendSpawn(request world.Spawn, done func(name string, err error)) {
	j.spawns.mu.Lock()
	j.spawns.last++
	call := j.spawns.last
	if j.spawns.pending == nil {
		j.spawns.pending = map[int]spawn{}
	}
	j.spawns.pending[call] = spawn{request: request, done: done}
	j.spawns.mu.Unlock()
	if err := j.agent.link.Send(&wire.Spawn{Call: call, Request: request}); err != nil {
		j.spawnAnswered(wire.Spawned{Call: call, Error: "the launcher has ended"})
	}
}

// workingDirOf returns the working directory in which a rank of this node was started.
func (j *job) workingDirOf(p world.Proc) string {
	if r := j.rank(j.mpi.rank(p)); r != nil {
		return r.dir
	}
	return ""
}

// hostFileLimit bounds the size of a host file in bytes.
const hostFileLimit = 1 << 20

// readHostFiles replaces the names of host files by their contents, as the head may be on another host. A name is
// relative to the program's working directory, which is relative to that of the spawning rank.
func readHostFiles(request *world.Spawn, dir string) error {
	request.Apps = slices.Clone(request.Apps)
	for i := range request.Apps {
		app := &request.Apps[i]
		if app.HostFile == "" {
			continue
		}
		text, err := readHostFile(pathFrom(pathFrom(dir, app.Dir), app.HostFile))
		if err != nil {
			return fmt.Errorf("hosts for %s: %w", app.Program, err)
		}
		app.HostFile = text
	}
	return nil
}

// readHostFile reads regular files only: reading a pipe could block forever.
func readHostFile(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s is not a regular file", name))
	}
	text, err := io.ReadAll(io.LimitReader(f, hostFileLimit))
	return string(text), err
}

// spawnAnswered passes the head's answer to the rank.
func (j *job) spawnAnswered(s wire.Spawned) {
	j.spawns.mu.Lock()
	requested, ok := j.spawns.pending[s.Call]
	delete(j.spawns.pending, s.Call)
	j.spawns.mu.Unlock()
	switch {
	case !ok:
	case s.Error != "":
		requested.done("", errors.New(s.Error))
	default:
		requested.done(s.World, nil)
	}
}

// grow handles a Grow frame: it adds a world and starts this node's ranks of it on another goroutine. A node
// without ranks sends no answer.
func (j *job) grow(g wire.Grow) error {
	if err := checkWorlds([]world.World{g.World}); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	j.mpi.forget(g.Over)
	if j.mpi.numWorlds() >= maxWorlds {
		return fmt.Errorf("agent: more than %d worlds", maxWorlds)
	}
	j.mpi.addWorld(&g.World)
	if len(g.Ranks) == 0 {
		return nil
	}
	if !j.reports.begin() {
		return nil // the head has given up this node
	}
	missed := j.signals.begin()
	go func() {
		defer j.reports.end()
		grown := wire.Grown{Number: g.Number, At: time.Now()}
		if err := j.startSpawned(g); err != nil {
			grown.Error = err.Error()
		}
		grown.Ranks = j.pids(g.Ranks)
		_ = j.agent.link.Send(&grown) // the head may be gone
		j.replaySignals(g.Ranks, missed)
	}()
	return nil
}

// startSpawned starts ranks in the running job.
func (j *job) startSpawned(g wire.Grow) error {
	<-j.startDone
	j.startGate.Lock()
	defer j.startGate.Unlock()
	if j.startGate.closed {
		return errJobEnded
	}
	if err := j.checkSpawned(g.Ranks, len(g.Programs)); err != nil {
		return err
	}
	apps, err := j.resolveSpawned(&g)
	if err != nil {
		return err
	}
	perRank := process.DescriptorsPerRank(j.start.MPI.Offered)
	if err := process.CheckLimits(len(g.Ranks), len(j.rows()), perRank); err != nil {
		return err
	}
	j.addRanks(g.Ranks, apps)
	err = j.startRows(g, apps)
	if err != nil {
		j.removeUnstarted(g.Ranks)
	}
	return err
}

// startRows starts ranks that are on the roster.
func (j *job) startRows(g wire.Grow, apps []spec.App) error {
	j.open.add(1) // until all are started
	defer j.open.add(-1)
	ranks, err := j.newRanks(g.Ranks, apps)
	if err != nil {
		return err
	}
	for i, row := range g.Ranks { // none uses the first app, which processes leaves out
		ranks[i].Path, ranks[i].Argv = apps[row.App].Path, apps[row.App].Argv
	}
	return j.group.Start(j.common(g.Common, apps[0]), ranks)
}

// checkSpawned refuses existing ranks and unknown programs, and marks the others as spawned.
func (j *job) checkSpawned(rows []wire.Row, programs int) error {
	for i := range rows {
		r := &rows[i]
		if j.rank(r.Rank) != nil {
			return fmt.Errorf("rank %d already exists", r.Rank)
		}
		r.Spawned, r.Argv = true, nil
	}
	return checkRows(rows, programs, nil)
}

// resolveSpawned finds the programs of a new world. On a node that joined, one of its own ranks must have requested
// them.
func (j *job) resolveSpawned(g *wire.Grow) ([]spec.App, error) {
	if joined := j.agent.cfg.Joined; joined != nil {
		if !j.claimRequest(g) {
			return nil, errors.New("this node joined by its own command line and runs only that")
		}
		environ := j.agent.cfg.Environ
		g.Common = slices.Concat(joined.inherited(environ), joined.Exports, joined.acceptedEnviron(g.Common, environ))
		for i := range g.Ranks {
			dir := joined.workingDir(j.agent.cfg.Environ, g.Programs[g.Ranks[i].App].Dir)
			g.Ranks[i].Env = slices.Concat(j.requestedEnv(g.Call, g.Ranks[i].App), dir,
				joined.acceptedEnviron(g.Ranks[i].Env, j.agent.cfg.Environ))
		}
	}
	var apps []spec.App
	for _, p := range g.Programs {
		found, _ := find(p, g.Common)
		if found.Error != "" {
			return nil, errors.New(found.Error)
		}
		if found.Build {
			return nil, fmt.Errorf("%s is Go source: build it, and spawn the program", p.Name)
		}
		apps = append(apps, spec.App{Path: found.Path, Argv: found.Argv, Dir: p.Dir})
	}
	return apps, nil
}

// requestedEnv returns the environment that a rank of this node has requested for the ranks that it spawns, without the
// launcher's own variables.
func (j *job) requestedEnv(call, app int) []string {
	j.spawns.mu.Lock()
	defer j.spawns.mu.Unlock()
	apps := j.spawns.pending[call].request.Apps
	if app >= len(apps) {
		return nil
	}
	return j.agent.cfg.Joined.inherited(apps[app].Env)
}

// claimRequest reports whether a rank of this node has requested exactly these programs, for at least that number of
// ranks, and marks the request as used.
func (j *job) claimRequest(g *wire.Grow) bool {
	j.spawns.mu.Lock()
	defer j.spawns.mu.Unlock()
	requested, ok := j.spawns.pending[g.Call]
	if !ok || requested.used || len(requested.request.Apps) != len(g.Programs) {
		return false
	}
	ranks := make([]int, len(g.Programs))
	for _, row := range g.Ranks {
		ranks[row.App]++
	}
	for i, app := range requested.request.Apps {
		p := &g.Programs[i]
		if app.Program != p.Name || !slices.Equal(app.Args, p.Args) || ranks[i] > app.NumRanks {
			return false
		}
		// no interpreter
		*p = spec.Command{Name: p.Name, Args: p.Args, Dir: cmp.Or(app.Dir, j.agent.cfg.Joined.Dir), Path: app.Path}
	}
	requested.used = true
	j.spawns.pending[g.Call] = requested
	return true
}
