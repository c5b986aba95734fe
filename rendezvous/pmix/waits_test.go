package pmix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func TestWaits(t *testing.T) {
	w := spread("gorun-1", 3, 2) // ranks 0 and 1 here
	all := start(t, 2, w)
	here := all.servers[0]
	require.Empty(t, here.Waits())
	a, b, c := all.join(w, 0), all.join(w, 1), all.join(w, 2)
	proc0, proc1 := world.Proc{World: w.Name, Rank: 0}, world.Proc{World: w.Name, Rank: 1}
	tag := a.ask(commandFence, fenceBody(everybody(w)))
	a.unanswered(tag)
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc0}, For: []world.Proc{proc1}}}, here.Waits())
	other := b.ask(commandFence, fenceBody(everybody(w)))
	b.unanswered(other)
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc0, proc1}}}, here.Waits(), "the other node")
	require.Equal(t, statusSuccess, c.status(commandFence, fenceBody(everybody(w))))
	require.Equal(t, statusSuccess, a.wait(tag).oneStatus())
	require.Equal(t, statusSuccess, b.wait(other).oneStatus())
	require.Empty(t, here.Waits())

	get := a.ask(commandGet, getBody(proc1, "k"))
	a.unanswered(get)
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc0}, For: []world.Proc{proc1}}}, here.Waits())
}
