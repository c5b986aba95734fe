package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// growableJob returns a job whose first rank, 0, has no process, and the frames to its launcher. Further ranks are
// real processes.
func growableJob(t *testing.T) (*job, <-chan wire.Frame) {
	head, side := reach.Local()
	w := world.World{
		Name: "w", Ranks: []world.Rank{{Job: 0}, {Job: 9, Node: 1}}, Hosts: []string{"h"},
		Apps: []world.App{{NumRanks: 2}},
	}
	j := newJob(&Agent{link: side, cfg: Config{TempDir: t.TempDir()}}, wire.Start{
		Window: 1 << 20, MPI: wire.MPI{Offered: true, NumRanks: 2, Worlds: []world.World{w}},
		Ranks: []wire.Row{{Process: spec.Process{Rank: 0}}}, Apps: []spec.App{{}},
	})
	j.guard.skipStart()
	close(j.startDone)
	received := make(chan wire.Frame, 1<<10)
	go func() {
		defer close(received)
		for {
			f, err := head.Read()
			if err != nil {
				return
			}
			f.Body = append([]byte{}, f.Body...)
			received <- f
		}
	}()
	t.Cleanup(func() {
		j.timers.stop()
		assert.NoError(t, j.group.Close())
		j.mpi.close()
		_ = side.Close()
	})
	return j, received
}

// growBy returns a Grow message for a world of ranks that run a program.
func growBy(number int, program string, ranks ...int) wire.Grow {
	g := wire.Grow{
		Number:   number,
		World:    world.World{Name: "more", Hosts: []string{"h"}, Apps: []world.App{{NumRanks: len(ranks)}}},
		Programs: []spec.Command{{Name: program, Dir: "/"}},
	}
	for i, rank := range ranks {
		g.Ranks = append(g.Ranks, wire.Row{Process: spec.Process{Rank: rank, LocalRank: i}})
		g.World.Ranks = append(g.World.Ranks, world.Rank{Job: rank})
	}
	return g
}

// next returns the next frame of a type.
func next[T any, M wire.PointerTo[T]](t *testing.T, received <-chan wire.Frame) (m T) {
	for f := range received {
		if f.Type == M(&m).Type() {
			require.NoError(t, f.Decode(M(&m)))
			return m
		}
	}
	require.Fail(t, "the link has ended")
	return m
}

// eventually waits for a condition that other goroutines or processes reach.
func eventually(t *testing.T, reached func() bool, what string) {
	require.Eventually(t, reached, time.Minute, time.Millisecond, what)
}
