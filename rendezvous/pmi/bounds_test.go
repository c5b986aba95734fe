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
	require.LessOrEqual(t, len(s.pack()), s.freshBytes)
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
	s.published()
	require.Empty(t, s.pack())
	require.NoError(t, s.put(0, "next round", value))
}

func TestMergeOfGarbage(t *testing.T) {
	for _, blob := range []string{"\x05ab", "\x01a", "\x01a\x02b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\x0fa"} {
		require.ErrorIs(t, newSpace(newWorld("w", 0), 0).merge([]byte(blob)), errBody)
	}
	_, err := cutTexts([]byte("\x01a\x05b"), 2)
	require.ErrorIs(t, err, errBody)
}

// A rank that asks and asks, and reads nothing, only stops itself.
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
	s.mu.Lock()
	out := s.spaces["w"].sessions[0].out
	s.mu.Unlock()
	out.mu.Lock()
	require.Less(t, len(out.unsent), maxUnsent+2*valueMax)
	out.mu.Unlock()
}

// A rank that asks for what nobody answers yet is ended at some number of requests.
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

// Groups in which nobody waits any more are forgotten.
func TestBarriersOfManyGroups(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0))
	k := c.begun(w, 0)
	for i := range maxGroups + 1 {
		k.asks(fmt.Sprintf("cmd=barrier_in group=0:%d", i), fmt.Sprintf("cmd=barrier_out tag=%d", i))
	}
}

func TestBarriersOfTooManyGroups(t *testing.T) {
	const ranks = maxGroups / maxPending
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", make([]int, ranks+1)...))
	for rank := range ranks {
		k := c.begun(w, rank)
		for i := range maxPending {
			k.says(fmt.Sprintf("cmd=barrier_in group=%d,%d:%d", rank, ranks, i))
		}
		k.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
	}
	c.begun(w, ranks).says("cmd=barrier_in group=0,16:more")
	c.log.await(t, "broken w.16: barriers of more than 4096 groups")
}

// Hundreds of ranks of one node begin and end together.
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
		k.asks(fmt.Sprintf("cmd=get kvsname=w key=card-%d", next), fmt.Sprintf("cmd=get_result rc=0 msg=success value=%d", next))
	}
	together(ranks, "cmd=finalize", "cmd=finalize_ack rc=0")
	for rank := range w.Ranks {
		c.servers[0].Ended(world.Proc{World: "w", Rank: rank})
		require.NoError(t, ranks[rank].conn.Close())
	}
	c.serving.Wait()
	require.Len(t, c.log.all(), 600)
}
