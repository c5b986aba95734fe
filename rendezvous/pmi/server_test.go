package pmi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The life of a rank on two nodes: init, put, barrier, get, finalize.
func TestKeysAreKnownEverywhereAfterABarrier(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 1, 1))
	ranks := make([]*client, len(w.Ranks))
	for i := range ranks {
		k := c.begun(w, i)
		ranks[i] = k
		k.asks("cmd=get_maxes", "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=16384 rc=0")
		k.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
		k.asks("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=w rc=0")
		k.asks("cmd=get_universe_size", "cmd=universe_size size=-1 rc=0")
		k.asks("cmd=get kvsname=w key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))")
	}
	ranks[0].asks("cmd=put kvsname=w key=card-0 value=a=b", "cmd=put_result rc=0 msg=success")
	ranks[3].asks("cmd=put value=from-3 key=card-3 kvsname=w", "cmd=put_result rc=0 msg=success")
	ranks[1].asks("cmd=get kvsname=w key=card-0", "cmd=get_result rc=0 msg=success value=a=b")
	ranks[2].asks("cmd=get kvsname=w key=card-0", "cmd=get_result rc=-1 msg=key_card-0_not_found value=unknown")
	together(ranks, "cmd=barrier_in", "cmd=barrier_out")
	for _, k := range ranks {
		k.asks("cmd=get kvsname=w key=card-0", "cmd=get_result rc=0 msg=success value=a=b")
		k.asks("cmd=get kvsname=w key=card-3", "cmd=get_result rc=0 msg=success value=from-3")
		k.asks("cmd=finalize", "cmd=finalize_ack rc=0")
	}
	for _, k := range ranks {
		require.NoError(t, k.conn.Close())
	}
	c.serving.Wait()
	require.Len(t, c.log.all(), 8, "four began and finalized, and none of them left: %q", c.log.all())
}

// together sends a line from all ranks, and then requires the reply for each.
func together(ranks []*client, line, answer string) {
	for _, k := range ranks {
		k.t.Helper()
		k.says(line)
	}
	for _, k := range ranks {
		k.receives(answer)
	}
}

func TestABarrierIsOneMessageForEachNode(t *testing.T) {
	c := newCluster(t, 3, 0)
	w := c.add(newWorld("w", 0, 0, 0, 1, 1, 2))
	var ranks []*client
	for i := range w.Ranks {
		ranks = append(ranks, c.begun(w, i))
	}
	together(ranks, "cmd=barrier_in", "cmd=barrier_out") // the first barrier makes the hub watch for exits
	messages := c.star.Messages()
	together(ranks, "cmd=barrier_in", "cmd=barrier_out")
	require.Equal(t, 6, c.star.Messages()-messages, "one up and one down each")
}
