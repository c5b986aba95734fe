package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// spawns are the wishes of this node's ranks for a world more that the head has not
// answered.
type spawns struct {
	last    int
	pending map[int]spawn
}

type spawn struct {
	wish world.Spawn
	done func(name string, err error)
}

// askSpawn passes on what a rank wishes by MPI_Comm_spawn.
func (j *running) askSpawn(wish world.Spawn, done func(name string, err error)) {
	if err := readHostFiles(&wish); err != nil {
		done("", err)
		return
	}
	j.spawnsLock.Lock()
	j.spawns.last++
	call := j.spawns.last
	if j.spawns.pending == nil {
		j.spawns.pending = map[int]spawn{}
	}
	j.spawns.pending[call] = spawn{wish, done}
	j.spawnsLock.Unlock()
	if err := j.agent.link.Send(&wire.Spawn{Call: call, Wish: wish}); err != nil {
		j.answerSpawn(wire.Spawned{Call: call, Error: "the launcher is gone"})
	}
}

// hostFileLimit bounds a file of hosts, in bytes.
const hostFileLimit = 1 << 20

// readHostFiles puts the text of a file that the caller named into its name's place: the
// head may be on another host.
func readHostFiles(wish *world.Spawn) error {
	wish.Apps = slices.Clone(wish.Apps)
	for i := range wish.Apps {
		app := &wish.Apps[i]
		if app.HostFile == "" {
			continue
		}
		name := app.HostFile
		if !filepath.IsAbs(name) {
			name = filepath.Join(app.Dir, name)
		}
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("hosts for %s: %w", app.Program, err)
		}
		text, err := io.ReadAll(io.LimitReader(f, hostFileLimit))
		f.Close()
		if err != nil {
			return fmt.Errorf("hosts for %s: %w", app.Program, err)
		}
		app.HostFile = string(text)
	}
	return nil
}

// answerSpawn answers the rank that asked.
func (j *running) answerSpawn(s wire.Spawned) {
	j.spawnsLock.Lock()
	asked, ok := j.spawns.pending[s.Call]
	delete(j.spawns.pending, s.Call)
	j.spawnsLock.Unlock()
	switch {
	case !ok:
	case s.Error != "":
		asked.done("", errors.New(s.Error))
	default:
		asked.done(s.World, nil)
	}
}

// grow takes up a world more, and starts those of its ranks that are this node's beside
// the loop that reads frames.
func (j *running) grow(g wire.Grow) error {
	missed := j.signals.begin()
	j.mpi.add(g.World)
	go func() {
		grown := wire.Grown{Number: g.Number}
		if err := j.startMore(g); err != nil {
			grown.Error = err.Error()
		}
		grown.Ranks, grown.At = j.pids(g.Ranks), time.Now()
		_ = j.agent.link.Send(&grown) // the head may be gone
		j.started(g.Ranks, missed)
	}()
	return nil
}

// startMore starts ranks in the running job.
func (j *running) startMore(g wire.Grow) error {
	<-j.spawned
	j.growing.Lock()
	defer j.growing.Unlock()
	if j.ending {
		return errors.New("the job ends")
	}
	if len(g.Ranks) == 0 {
		return nil
	}
	apps, err := j.resolveMore(&g)
	if err != nil {
		return err
	}
	if err := process.CheckLimits(len(j.rows()), descriptorsPerRank(j.start.MPI.PMI)); err != nil {
		return err
	}
	j.enrol(g.Ranks)
	j.open.add(1) // until all are started
	defer j.open.add(-1)
	ranks, err := j.processes(g.Ranks, apps)
	if err != nil {
		return err
	}
	for i, row := range g.Ranks { // they share no app with those that were there before
		ranks[i].Path, ranks[i].Argv, ranks[i].Dir = apps[row.App].Path, apps[row.App].Argv, apps[row.App].Dir
	}
	return j.group.Start(j.common(g.Common, apps[0]), ranks)
}

// resolveMore finds the programs of a world more. On a node that somebody started by his
// own command line a rank of its own has to have asked for them.
func (j *running) resolveMore(g *wire.Grow) ([]wire.App, error) {
	if own := j.agent.cfg.Own; own != nil {
		if !j.wished(g) {
			return nil, errors.New("this node was started by a command line of its own, and runs that alone")
		}
		g.Common = slices.Concat(own.inherited(j.agent.cfg.Environ), own.Exports, own.decided(g.Common))
		for i := range g.Ranks {
			g.Ranks[i].Env = own.decided(g.Ranks[i].Env)
		}
	}
	var apps []wire.App
	for _, p := range g.Programs {
		found, _ := find(p, g.Common)
		if found.Error != "" {
			return nil, errors.New(found.Error)
		}
		if found.Build {
			return nil, fmt.Errorf("%s is Go source; build it, and spawn the program", p.Name)
		}
		apps = append(apps, wire.App{Path: found.Path, Argv: found.Argv, Dir: p.Dir})
	}
	return apps, nil
}

// wished reports whether a rank of this node asked for these very programs.
func (j *running) wished(g *wire.Grow) bool {
	j.spawnsLock.Lock()
	defer j.spawnsLock.Unlock()
	asked, ok := j.spawns.pending[g.Call]
	if !ok || len(asked.wish.Apps) != len(g.Programs) {
		return false
	}
	for i, app := range asked.wish.Apps {
		p := &g.Programs[i]
		if app.Program != p.Name || !slices.Equal(app.Args, p.Args) {
			return false
		}
		p.Dir = cmp.Or(app.Dir, j.agent.cfg.Own.Dir)
	}
	return true
}
