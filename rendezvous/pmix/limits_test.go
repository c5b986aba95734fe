package pmix

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rank that does not read its answers, since it was stopped, holds up nobody.
func TestRankThatDoesNotRead(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	a.ask(commandCommit, func(e *encoder) { commitBody(e, scopeGlobal, "k", "v") })
	a.ask(commandFence, fenceBody(everybody(w)))
	text, _ := b.get(proc{w.Name, 0}, "k")
	require.Equal(t, "v", text)
	require.Equal(t, statusSuccess, b.status(commandFence, fenceBody(everybody(w))))
}

func TestTooManyRequestsThatWait(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	for range maxWaiting + 1 {
		c.ask(commandGet, getBody(proc{w.Name, 1}, "k"))
	}
	require.Contains(t, all.heard.next(t), "broken 0 more than 16384 requests wait")
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

func TestLearning(t *testing.T) {
	var s store
	s.learn(0, 0, []byte("abc"))
	s.learn(0, 3, []byte("def"))
	require.Equal(t, "abcdef", string(s.away))
	s.learn(0, 2, []byte("cdefgh"))
	s.learn(0, 0, []byte("abc"))
	s.learn(0, 9, []byte("late"))
	s.learn(0, maxStore+1, []byte("x"))
	require.Equal(t, "abcdefgh", string(s.away), "what is known stays, a gap is not filled")
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
	require.Equal(t, "say 0 gorun: make a directory: no space", all.heard.next(t))
	require.Empty(t, all.heard.heard, "it is said once, beside that the rank began")
}

// What ranks gave to groups is kept until there is too much of it; the oldest goes first.
func TestGivenToGroupsIsBounded(t *testing.T) {
	g := newGroups()
	large := []info{attr(keyGroupInfo, strings.Repeat("x", maxGiven/8))}
	for number := range uint64(20) {
		for rank := range uint32(2) {
			g.give(number, contribution{proc{"w", rank}, large})
			g.give(number, contribution{proc{"w", rank}, nil})
		}
	}
	require.LessOrEqual(t, g.bytes, maxGiven)
	require.Len(t, g.given, len(g.oldest))
	require.Contains(t, g.given, uint64(19))
	for len(g.oldest) > 0 {
		g.forget(g.oldest[0])
		g.oldest = g.oldest[1:]
	}
	require.Zero(t, g.bytes)
}

// A rank that begins MPI again has committed nothing, here and where others know of it.
func TestRankThatBeginsAgain(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	other := all.join(w, 1)
	for _, text := range []string{"first", "second", "third"} {
		c := all.join(w, 0)
		c.commit(scopeGlobal, "k", text)
		fenceAll(t, w, []*client{c, other}, collecting)
		got, _ := other.get(proc{w.Name, 0}, "k")
		require.Equal(t, text, got)
		require.Equal(t, statusSuccess, c.status(commandFinalize, func(*encoder) {}))
		c.conn.Close()
	}
	here, there := all.servers[0].spaces[w.Name].member(0).data, all.servers[1].spaces[w.Name].member(0).data
	require.Equal(t, here.away, there.away)
	found, _ := other.data(other.call(commandGet, getBody(proc{w.Name, 0}, "k")))
	require.Equal(t, map[string]string{"k": "third"}, found[proc{w.Name, 0}])
}
