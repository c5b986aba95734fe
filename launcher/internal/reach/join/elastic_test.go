package join

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The time limit is for the nodes that the job needs: others may take the time of the last call, and are waited for.
func TestLastCallBeyondTheTimeout(t *testing.T) {
	cfg := settings(0, 2, 0, nil)
	cfg.Self.MinNodes, cfg.Timeout, cfg.LastCall = 1, time.Nanosecond, time.Minute
	h, err := Listen(t.Context(), cfg)
	require.NoError(t, err)
	defer h.Close()
	cfg.Port, cfg.Self.NodeRank = port(h), 1
	n := come(t, t.Context(), cfg)
	require.Len(t, wait(t, h), 1)
	<-n.done
	require.NoError(t, n.err)
}

// A job that needs 2 of 4 nodes starts without the others after the last call; those that come later wait for a place.
func TestElastic(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		elastic := func(port, rank int) Config {
			cfg := settings(port, 4, rank, key)
			cfg.Self.MinNodes, cfg.LastCall = 2, time.Millisecond
			return cfg
		}
		log := newLog()
		cfg := elastic(0, 0)
		cfg.Notify = log.tell
		h, err := Listen(t.Context(), cfg)
		require.NoError(t, err)
		defer h.Close()
		first := come(t, t.Context(), elastic(port(h), -1))
		require.Len(t, wait(t, h), 1)
		<-first.done
		require.Equal(t, 1, first.joined.NodeRank)

		fixed := come(t, t.Context(), settings(port(h), 4, 1, key))
		<-fixed.done
		require.ErrorContains(t, fixed.err, "it expects 4 nodes, node 0 expects 2:4 (--nnodes)")

		late := elastic(port(h), -1)
		late.Notify, late.Timeout = log.tell, time.Second // waiting for a place takes any time
		waiting := come(t, t.Context(), late)
		second := come(t, t.Context(), elastic(port(h), 1)) // the rank of a node that may be lost
		require.Eventually(t, func() bool { n, _ := h.Waiting(); return n == 2 }, time.Minute, time.Millisecond)
		log.await(t, "this node waits as a spare until it restarts")
		admitted := h.Admit(1)
		require.Len(t, admitted, 1)
		<-second.done
		require.NoError(t, second.err)
		exchange(t, admitted[0].Conn, second.joined.Conn, "down")
		require.NoError(t, admitted[0].Conn.Close())
		h.Dismiss(7)
		<-waiting.done
		require.NoError(t, waiting.err)
		require.True(t, waiting.joined.Ended)
		require.Equal(t, 7, waiting.joined.Code)
	})
}

// Node 0 may be lost while a node waits for a place.
func TestNode0EndsWhileASpareWaits(t *testing.T) {
	cfg, log, once := settings(0, 2, 0, secret), newLog(), make(chan struct{})
	cfg.Self.MinNodes, cfg.LastCall = 1, time.Nanosecond
	h, err := Listen(t.Context(), cfg)
	require.NoError(t, err)
	defer h.Close()
	require.Empty(t, wait(t, h))
	close(once)
	cfg.Port, cfg.Self.NodeRank, cfg.NoRetry, cfg.Notify = port(h), 1, once, log.tell
	n := come(t, t.Context(), cfg)
	log.await(t, "this node waits as a spare")
	require.NoError(t, h.Close())
	<-n.done
	require.ErrorContains(t, n.err, ": it ended while this node waited, or its host went down")
}
