package pmix

import (
	"errors"
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
	kvals := appendKval(nil, kval{"k", bytesValue(make([]byte, maxStore/2))})
	require.True(t, s.add(scopeLocal, kvals))
	require.False(t, s.add(scopeLocal, kvals))
	require.True(t, s.add(scopeLocal, kvals[:100]))
}

func TestLearning(t *testing.T) {
	var s store
	s.learn(0, []byte("abc"))
	s.learn(3, []byte("def"))
	require.Equal(t, "abcdef", string(s.away))
	s.learn(2, []byte("cdefgh"))
	s.learn(0, []byte("abc"))
	s.learn(9, []byte("late"))
	s.learn(maxStore+1, []byte("x"))
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
