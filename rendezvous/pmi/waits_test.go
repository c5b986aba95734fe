package pmi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func TestWhoWaitsForWhom(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 0, 1))
	require.Empty(t, c.servers[0].Waits())
	ranks := []*client{c.begun(w, 0), c.begun(w, 1), c.begun(w, 2), c.begun(w, 3)}
	ranks[0].says("cmd=barrier_in")
	ranks[2].says("cmd=barrier_in")
	c.awaitInBarrier(w, 0, 2)
	proc := func(rank int) world.Proc { return world.Proc{World: "w", Rank: rank} }
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc(0), proc(2)}, For: []world.Proc{proc(1)}}}, c.servers[0].Waits())
	ranks[1].says("cmd=barrier_in")
	c.awaitInBarrier(w, 0, 1, 2)
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc(0), proc(1), proc(2)}}}, c.servers[0].Waits(), "those of another node")
	require.Empty(t, c.servers[1].Waits())
	ranks[3].says("cmd=barrier_in")
	for _, k := range ranks {
		k.hears("cmd=barrier_out")
	}
	require.Empty(t, c.servers[0].Waits())
}
