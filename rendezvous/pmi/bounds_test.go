package pmi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func TestARankCannotPutWithoutEnd(t *testing.T) {
	w := newWorld("w", 0, 0)
	s := newSpace(w, 0)
	for i := range maxKeys {
		require.NoError(t, s.put(0, fmt.Sprint(i), "v"))
	}
	require.ErrorIs(t, s.put(0, "more", "v"), errTooMuch)
	require.NoError(t, s.put(1, "0", "v"), "it replaces another's key")
	require.NoError(t, s.put(0, "more", "v"), "which is on that one's account now")
	require.ErrorIs(t, s.put(0, "yet more", "v"), errTooMuch)

	s = newSpace(w, 0)
	value, n := strings.Repeat("v", valueMax), 0
	for ; s.put(0, fmt.Sprintf("%08d", n), value) == nil; n++ {
	}
	require.Equal(t, maxBytes/(valueMax+8), n)
	require.LessOrEqual(t, len(s.pack()), s.used[0].fresh)
	for i := range n {
		require.NoError(t, s.put(1, fmt.Sprintf("%08d", i), "short"), "another rank has its own account")
	}
	require.Equal(t, usage{}, *s.used[0])
	require.NoError(t, s.put(0, "again", value))
}

func TestPairsOfANodeFitABarrier(t *testing.T) {
	s := newSpace(newWorld("w", 0, 0, 0), 0)
	value, n := strings.Repeat("v", valueMax), 0
	for ; s.put(n%3, fmt.Sprintf("%08d", n), value) == nil; n++ {
	}
	require.Less(t, n, 3*maxBytes/valueMax-3)
	require.LessOrEqual(t, len(s.pack()), maxFresh)
	s.markShared()
	require.Empty(t, s.pack())
	require.NoError(t, s.put(0, "next round", value))
}

func TestMergeOfGarbage(t *testing.T) {
	for _, blob := range []string{
		"\x05ab", "\x01a", "\x01a\x02b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xff\xff\xff\xff\x0fa",
	} {
		require.ErrorIs(t, newSpace(newWorld("w", 0), 0).merge([]byte(blob)), errBody)
	}
	_, err := cutTexts([]byte("\x01a\x05b"), 2)
	require.ErrorIs(t, err, errBody)
}

// A rank that sends requests without reading replies blocks only itself.
func TestARankThatDoesNotRead(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	k, other := c.begun(w, 0), c.begun(w, 1)
	other.asks("cmd=put kvsname=w key=k value="+strings.Repeat("v", valueMax), "cmd=put_result rc=0 msg=success")
	_ = k.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	sent := 0
	for err := error(nil); err == nil; {
		var n int
		n, err = k.conn.Write([]byte("cmd=get kvsname=w key=k\ncmd=get kvsname=x key=k\n"))
		sent += n
	}
	require.Less(t, sent, 4<<20, "it can write no more")
	other.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
	s := c.servers[0]
	s.node.Lock()
	out := s.spaces["w"].sessions[0].out
	s.node.Unlock()
	require.Less(t, out.Waiting(), maxUnsent+2*valueMax)
}

// The server closes the connection of a rank with too many pending requests.
func TestRequestsWithoutAnswer(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0))
	k := c.begun2(w, 0)
	for i := range maxPending {
		k.says2(fmt.Sprintf("cmd=info-getnodeattr;key=%d;wait=TRUE;", i))
	}
	k.asks2("cmd=job-getid;", "cmd=job-getid-response;jobid=w;rc=0;")
	k.says2("cmd=info-getnodeattr;key=more;wait=TRUE;")
	c.log.await(t, "broken w.0: more than 256 requests at once")

	w = c.add(newWorld("v", 0, 0))
	k = c.begun(w, 0)
	for i := range maxPending {
		k.says(fmt.Sprintf("cmd=barrier_in group=WORLD:%d", i))
	}
	k.says("cmd=barrier_in group=WORLD:x")
	c.log.await(t, "broken v.0: more than 256 requests at once")
}

// The server drops the barriers of groups in which no rank waits.
func TestBarriersOfManyGroups(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0))
	k := c.begun(w, 0)
	for i := range maxGroups + 1 {
		k.asks(fmt.Sprintf("cmd=barrier_in group=0:%d", i), fmt.Sprintf("cmd=barrier_out tag=%d", i))
	}
}

// The server refuses a rank that names too many groups on consecutive connections, in which others wait. Other ranks
// are not affected.
func TestBarriersOfTooManyGroups(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", make([]int, 3+maxGroups/maxPending)...))
	c.claim = func(id int) (world.Proc, error) { return world.Proc{World: "w", Rank: id}, nil }
	name := func(n int) string { return fmt.Sprintf("cmd=barrier_in group=0,1,%d:%d", 3+n/maxPending, n) }
	for n := 0; n < maxGroups; n += maxPending {
		k := c.anonymous()
		k.says("cmd=initack pmiid=0")
		size := fmt.Sprint("cmd=set size=", len(w.Ranks))
		for _, line := range []string{"cmd=initack rc=0", size, "cmd=set rank=0", "cmd=set debug=0"} {
			k.receives(line)
		}
		k.init1()
		for i := range maxPending {
			k.says(name(n + i))
		}
		k.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
		other := c.begun(w, 3+n/maxPending)
		for i := range maxPending {
			other.says(name(n + i))
		}
		other.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
		require.NoError(t, k.conn.Close())
		require.Eventually(t, func() bool {
			return strings.Count(strings.Join(c.log.all(), "\n"), "left w.0") == 1+n/maxPending
		}, 20*time.Second, time.Millisecond)
	}
	many := c.begun(w, 0)
	many.asks("cmd=barrier_in group=0,1:x", "cmd=barrier_out rc=-1 msg=more_than_1024_barriers_are_in_progress")
	many.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
	together([]*client{c.begun(w, 1), c.begun(w, 2)}, "cmd=barrier_in group=1,2", "cmd=barrier_out")
	require.NotContains(t, strings.Join(c.log.all(), "\n"), "broken")
}

// A rank that puts the maximum leaves the other ranks of its node their share.
func TestARankThatPutsMuchLeavesRoom(t *testing.T) {
	w := newWorld("w", 0, 0, 0, 0)
	s := newSpace(w, 0)
	value := strings.Repeat("v", valueMax)
	fill := func(rank int) (n int) {
		for ; s.put(rank, fmt.Sprintf("%d/%08d", rank, n), value) == nil; n++ {
		}
		return n
	}
	require.Greater(t, fill(0), maxBytes/valueMax-3, "all that one rank may put")
	fill(1)
	share := maxFresh / 2 / len(w.Ranks) / (valueMax + 100)
	require.GreaterOrEqual(t, fill(2), share)
	require.NoError(t, s.put(3, "0/00000000", "replaced"), "which is on its account then")
	require.GreaterOrEqual(t, fill(3), share)
	require.LessOrEqual(t, len(s.pack()), maxFresh)
	s.markShared()
	require.Positive(t, fill(2))
}

// An attribute counts for the last rank that put it.
func TestARankCannotPutAttributesWithoutEnd(t *testing.T) {
	s := newSpace(newWorld("w", 0, 0), 0)
	value, n := strings.Repeat("v", valueMax), 0
	for ; s.putAttribute(0, fmt.Sprintf("%08d", n), value); n++ {
	}
	require.Equal(t, maxAttrs/(valueMax+8), n)
	require.True(t, s.putAttribute(0, "00000000", value), "in place of its own")
	require.True(t, s.putAttribute(1, "another's", value))
	require.True(t, s.putAttribute(1, "00000000", value), "in place of another key")
	require.True(t, s.putAttribute(0, "one more", value))
	require.False(t, s.putAttribute(0, "and more", value))
}

// Hundreds of ranks of one node begin and finalize together.
func TestManyRanks(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", make([]int, 300)...))
	var ranks []*client
	for i := range w.Ranks {
		ranks = append(ranks, c.begun(w, i))
	}
	for i, k := range ranks {
		k.asks(fmt.Sprintf("cmd=put kvsname=w key=card-%d value=%d", i, i), "cmd=put_result rc=0 msg=success")
	}
	together(ranks, "cmd=barrier_in", "cmd=barrier_out")
	for i, k := range ranks {
		next := (i + 1) % len(ranks)
		k.asks(fmt.Sprintf("cmd=get kvsname=w key=card-%d", next), fmt.Sprintf("cmd=get_result rc=0 msg=success value=%d",
			next))
	}
	together(ranks, "cmd=finalize", "cmd=finalize_ack rc=0")
	for rank := range w.Ranks {
		c.servers[0].Ended(world.Proc{World: "w", Rank: rank})
		require.NoError(t, ranks[rank].conn.Close())
	}
	c.serving.Wait()
	require.Len(t, c.log.all(), 600)
}
