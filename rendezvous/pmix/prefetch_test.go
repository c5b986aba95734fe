package pmix

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// A rank that requests the data of one peer on its host also gets that of the others, each once.
func TestGetPrefetches(t *testing.T) {
	w := spread("gorun-1", 6, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	for rank, c := range ranks {
		if rank != 1 {
			commitScopes(c, rank)
		}
	}
	key := "both"
	get := func(of int, infos ...info) map[world.Proc]map[string]string {
		found, code := ranks[0].data(ranks[0].call(commandGet, getBody(proc(w.Name, of), key, infos...)))
		require.Equal(t, statusSuccess, code)
		return found
	}
	two := proc(w.Name, 2)
	require.Equal(t, map[world.Proc]map[string]string{two: {"near": "near2", "both": "both2"}}, get(2),
		"rank 1 has committed nothing, the others are on another host")
	commitScopes(ranks[1], 1)
	require.Equal(t, map[string]string{"near": "near1", "both": "both1"}, get(2)[proc(w.Name, 1)])
	require.Len(t, get(2), 1, "it has the others")
	ranks[1].commit(scopeLocal, "later", "x")
	require.Len(t, get(2, attr(keyRefresh, true)), 1)
	require.Equal(t, map[world.Proc]map[string]string{
		two: {"near": "near2", "both": "both2"}, proc(w.Name, 1): {"later": "x"},
	}, get(2))
	found, _ := ranks[0].data(ranks[0].call(commandGet, getBody(proc(w.Name, 4), "far")))
	require.Len(t, found, 1, "of another host")

	for _, rank := range []int{1, 2} {
		all.servers[0].Ended(proc(w.Name, rank))
		require.NoError(t, ranks[rank].conn.Close())
		all.received.next(t)
	}
	all.servers[0].Forget(w.Name)
	key = ""
	get(2) // of what the client was sent, nothing is left
}

func TestPrefetchIsBounded(t *testing.T) {
	w := spread("gorun-1", 4, 1)
	all := start(t, 1, w)
	ranks := all.joinAll(w)
	for _, c := range ranks {
		c.commit(scopeLocal, "k", strings.Repeat("x", maxPrefetch-100))
	}
	for range 2 {
		found, _ := ranks[0].data(ranks[0].call(commandGet, getBody(proc(w.Name, 2), "k")))
		require.Len(t, found, 2)
	}
	found, _ := ranks[0].data(ranks[0].call(commandGet, getBody(proc(w.Name, 2), "k")))
	require.Len(t, found, 1)
}
