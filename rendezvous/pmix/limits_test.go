package pmix

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// A stopped rank that does not read its replies delays no other rank.
func TestRankThatDoesNotRead(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	a.ask(commandCommit, func(e *encoder) { commitBody(e, scopeGlobal, "k", "v") })
	a.ask(commandFence, fenceBody(everybody(w)))
	text, _ := b.get(proc(w.Name, 0), "k")
	require.Equal(t, "v", text)
	require.Equal(t, statusSuccess, b.status(commandFence, fenceBody(everybody(w))))
}

func TestTooManyRequestsThatWait(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	for range maxWaiting + 1 {
		c.ask(commandGet, getBody(proc(w.Name, 1), "k"))
	}
	require.Contains(t, all.received.next(t), "broken 0 more than 16384 requests are pending")
}

func TestCommitOfTooMuch(t *testing.T) {
	var s store
	kvals := encodeKvals(attr("k", make([]byte, maxStore/2)))
	require.False(t, s.add(scopeLocal, kvals), "no answer between nodes holds it")
	kvals = kvals[:maxScope-100]
	require.True(t, s.add(scopeGlobal, kvals))
	require.False(t, s.add(scopeLocal, kvals))
	require.True(t, s.add(scopeLocal, kvals[:100]))
	require.False(t, s.add(scopeLocal, kvals[:1]))
}

func TestMergedCommits(t *testing.T) {
	var s store
	s.merge(0, 0, []byte("abc"))
	s.merge(0, 3, []byte("def"))
	require.Equal(t, "abcdef", string(s.remote))
	s.merge(0, 2, []byte("cdefgh"))
	s.merge(0, 0, []byte("abc"))
	s.merge(0, 9, []byte("late"))
	s.merge(0, maxStore+1, []byte("x"))
	require.Equal(t, "abcdefgh", string(s.remote), "what is known stays, a gap is not filled")
}

func TestNoDirectories(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	all.servers[0].directories.make = func() (string, error) { return "", errors.New("make a directory: no space") }
	c := all.join(w, 0)
	for range 2 {
		job, _, _ := c.jobInfo(w)
		require.NotContains(t, job, "pmix.tmpdir")
		require.Equal(t, "1", job["pmix.job.size"])
	}
	require.Equal(t, "say 0 gorun: make a directory: no space", all.received.next(t))
	require.Empty(t, all.received.received, "it is said once, beside that the rank began")
}

// The server keeps data of groups up to a limit, and drops the oldest first.
func TestGroupDataIsBounded(t *testing.T) {
	g := groupData{kvals: map[uint64]map[world.Proc][]byte{}}
	large := []info{attr(keyGroupInfo, strings.Repeat("x", maxGroupData/8))}
	for number := range uint64(20) {
		for rank := range 2 {
			g.add(number, contribution{proc("w", rank), large})
			g.add(number, contribution{proc("w", rank), nil})
		}
	}
	require.LessOrEqual(t, g.bytes, maxGroupData)
	require.Len(t, g.kvals, len(g.numbers))
	require.Contains(t, g.kvals, uint64(19))
	left := 0
	for _, ranks := range g.kvals {
		for _, kvals := range ranks {
			left += len(kvals) + groupDataCost
		}
	}
	require.Equal(t, left, g.bytes)
}

// After a rank begins MPI again, its earlier commits are gone on all nodes.
func TestRankThatBeginsAgain(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	other := all.join(w, 1)
	for _, text := range []string{"first", "second", "third"} {
		c := all.join(w, 0)
		c.commit(scopeGlobal, "k", text)
		fenceAll(t, w, []*client{c, other}, collecting)
		got, _ := other.get(proc(w.Name, 0), "k")
		require.Equal(t, text, got)
		require.Equal(t, statusSuccess, c.status(commandFinalize, func(*encoder) {}))
		c.conn.Close()
	}
	here, there := all.servers[0].spaces[w.Name].member(0).data, all.servers[1].spaces[w.Name].member(0).data
	require.Equal(t, here.remote, there.remote)
	found, _ := other.data(other.call(commandGet, getBody(proc(w.Name, 0), "k")))
	require.Equal(t, map[string]string{"k": "third"}, found[proc(w.Name, 0)])
}
