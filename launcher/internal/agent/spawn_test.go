package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// grownBy returns the Grow frame for call 1 of a rank on this node.
func grownBy() *wire.Grow {
	return &wire.Grow{
		Call: 1, Programs: []spec.Command{{Name: "child", Args: []string{"x"}}},
		Ranks: []wire.Row{{Process: spec.Process{Rank: 4}}, {Process: spec.Process{Rank: 5}}},
	}
}

// A node that joined starts only ranks that one of its own ranks has requested, and only once.
func TestWhatAHeadMayNotGrow(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(g *wire.Grow)
		claimRequest bool
	}{
		"what was asked for":   {func(*wire.Grow) {}, true},
		"some of it":           {func(g *wire.Grow) { g.Ranks = g.Ranks[:1] }, true},
		"a program of another": {func(g *wire.Grow) { g.Programs[0].Name = "evil" }, false},
		"other arguments":      {func(g *wire.Grow) { g.Programs[0].Args = nil }, false},
		"more programs":        {func(g *wire.Grow) { g.Programs = append(g.Programs, g.Programs[0]) }, false},
		"more ranks": {func(g *wire.Grow) {
			g.Ranks = append(g.Ranks,
				wire.Row{Process: spec.Process{Rank: 6}})
		}, false},
		"what nobody asked": {func(g *wire.Grow) { g.Call = 2 }, false},
	} {
		j := &job{agent: ownAgent(t.TempDir())}
		j.spawns.pending = map[int]spawn{1: {request: world.Spawn{Apps: []world.SpawnApp{{
			Program: "child",
			Args:    []string{"x"}, NumRanks: 2,
		}}}}}
		g := grownBy()
		g.Programs[0].Start, g.Programs[0].Interpreter, g.Programs[0].Dir = 1, "evil", "/evil"
		c.change(g)
		assert.Equal(t, c.claimRequest, j.claimRequest(g), name)
		if c.claimRequest {
			assert.Equal(t, spec.Command{Name: "child", Args: []string{"x"}, Dir: "/srv"}, g.Programs[0], name)
			assert.False(t, j.claimRequest(g), "%s, again", name)
		}
	}
}

// A launcher's Grow message is validated before it has any effect.
func TestRowsOfNewRanks(t *testing.T) {
	j := &job{}
	j.addRanks([]wire.Row{{Process: spec.Process{Rank: 0}}}, []spec.App{{}})
	require.ErrorContains(t, j.checkSpawned([]wire.Row{{Process: spec.Process{Rank: 0}}}, 1), "rank 0 already exists")
	require.ErrorContains(t, j.checkSpawned([]wire.Row{{Process: spec.Process{Rank: 1, App: 1}}}, 1), "to program 1 of 1")
	rows := []wire.Row{{Process: spec.Process{Rank: 1, LocalRank: 9, Argv: []string{"evil"}}}}
	require.NoError(t, j.checkSpawned(rows, 1))
	assert.Equal(t, []wire.Row{{Process: spec.Process{Rank: 1, LocalRank: 9, Spawned: true}}}, rows)
}

// A node without new ranks adds their world and sends nothing: its own part of the job may have ended.
func TestAWorldOfOthers(t *testing.T) {
	head, side := reach.Local()
	j := &job{agent: &Agent{link: side}}
	j.mpi = j.newMPI()
	require.NoError(t, j.grow(wire.Grow{Number: 1, World: world.World{Name: "w"}}))
	assert.Contains(t, j.mpi.worlds, "w")
	require.NoError(t, side.Send(&wire.Notice{Text: "next"}))
	f, err := head.Read()
	require.NoError(t, err)
	assert.Equal(t, wire.TypeNotice, f.Type)
}

// A pipe as a host file does not block the agent.
func TestHostFileThatIsAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	request := world.Spawn{Apps: []world.SpawnApp{{Program: "child", Dir: dir, HostFile: "pipe"}}}
	require.ErrorContains(t, readHostFiles(&request, "/elsewhere"), "not a regular file")
}

// A relative host file is relative to the program's directory, which is relative to the spawning rank's.
func TestHostFileOfARank(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	for _, sub := range []string{"", "sub"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, sub, "hosts"), []byte("from "+sub), 0o600))
		request := world.Spawn{
			By:   world.Proc{World: "w"},
			Apps: []world.SpawnApp{{Program: "child", Dir: sub, HostFile: "hosts"}},
		}
		j := &job{mpi: &mpi{mpiState: mpiState{worlds: map[string]*world.World{"w": {Ranks: []world.Rank{{Job: 7}}}}}}}
		j.addRanks([]wire.Row{{Process: spec.Process{Rank: 7}}}, []spec.App{{Dir: dir}})
		require.NoError(t, readHostFiles(&request, j.workingDirOf(request.By)))
		require.Equal(t, "from "+sub, request.Apps[0].HostFile)
	}
}

// On a node that joined, spawned ranks get the environment that the node's own rank has requested. Programs are
// searched for in that rank's directory.
func TestWhatARankOfAJoinedNodeSpawns(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "child"), []byte("#!/bin/sh\n"), 0o700))
	j := &job{agent: ownAgent(t.TempDir())}
	request := world.Spawn{Apps: []world.SpawnApp{{
		Program: "child", Args: []string{"x"}, NumRanks: 2, Path: dir,
		Env: []string{"A=b", "RANK=9"},
	}}}
	j.spawns.pending = map[int]spawn{1: {request: request}}
	g := grownBy()
	g.Programs[0].Path = "/evil"
	g.Ranks[0].Env = []string{"RANK=1", "EVIL=1"}
	apps, err := j.resolveSpawned(g)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "child"), apps[0].Path)
	assert.Equal(t, []string{"A=b", "PWD=/srv", "RANK=1"}, g.Ranks[0].Env)
}

// Other nodes may query data that ranks on this node will commit, before these ranks have started.
func TestAskedBeforeTheStart(t *testing.T) {
	head, side := reach.Local()
	j := &job{
		agent: &Agent{link: side},
		start: wire.Start{MPI: wire.MPI{Offered: true, Worlds: []world.World{{Name: "w", Hosts: []string{"h"}}}}},
	}
	j.plane = j.newPlane(0)
	j.mpi = j.newMPI()
	j.agent.job = j
	ask := exchange.Message{Kind: exchange.Request, Number: 1, From: 1, Service: "pmix.modex", Blobs: [][]byte{{}}}
	require.NoError(t, j.agent.exchange(wire.Exchange{Message: ask}))
	f, err := head.Read()
	require.NoError(t, err)
	var answer wire.Exchange
	require.NoError(t, f.Decode(&answer))
	assert.NotContains(t, answer.Message.Error, "no service")
}
