package join

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// both runs a test with a token and without.
func both(t *testing.T, test func(t *testing.T, key []byte)) {
	t.Run("token", func(t *testing.T) { test(t, secret) })
	t.Run("plain", func(t *testing.T) { test(t, nil) })
}

func TestNodesInAnyOrder(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		const n = 8
		h, log := listenAt(t, n, key)
		nodes := map[int]*coming{}
		for _, r := range rand.Perm(n - 1) {
			nodes[r+1] = come(t, t.Context(), settings(port(h), n, r+1, key))
		}
		members := wait(t, h)
		require.Len(t, members, n-1)
		for i, m := range members {
			require.Equal(t, i+1, m.NodeRank)
			require.Equal(t, settings(0, n, i+1, key).Self, m.Hello)
			node := nodes[i+1]
			<-node.done
			require.NoError(t, node.err)
			require.Equal(t, i+1, node.joined.NodeRank)
			require.Equal(t, "hosta"[:4]+"b", node.joined.Host)
			exchange(t, m.Conn, node.joined.Conn, fmt.Sprint("down ", i))
			exchange(t, node.joined.Conn, m.Conn, fmt.Sprint("up ", i))
		}
		require.Empty(t, log.text())
	})
}

// exchange sends text from one end to the other.
func exchange(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	_, err := from.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(to, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// The connection of a member is not pending any more: Close would close it right after Wait has returned it.
func TestMembersAreNotPending(t *testing.T) {
	heads, pending := make(chan *Head, 1), make(chan int, 1)
	cfg := settings(0, 2, 0, secret)
	cfg.OnChange = func(int, bool) { pending <- len((<-heads).pending.conns) } // the head's lock is held
	h, err := Listen(t.Context(), cfg)
	require.NoError(t, err)
	defer h.Close()
	heads <- h
	node := come(t, t.Context(), settings(port(h), 2, 1, secret))
	require.Zero(t, <-pending)
	member := wait(t, h)[0]
	require.NoError(t, h.Close())
	<-node.done
	require.NoError(t, node.err)
	exchange(t, member.Conn, node.joined.Conn, "down")
}

// A node that starts before node 0 connects once node 0 listens.
func TestLateHead(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // reserves the port
		require.NoError(t, err)
		where := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		log := newLog()
		cfg := settings(where, 2, 1, key)
		cfg.Notify = log.tell
		node := come(t, t.Context(), cfg)
		log.await(t, "waiting for node 0")
		require.Contains(t, log.text(), "connection refused")
		head := settings(where, 2, 0, key)
		h, err := Listen(t.Context(), head)
		require.NoError(t, err)
		defer h.Close()
		wait(t, h)
		<-node.done
		require.NoError(t, node.err)
	})
}

func TestRefusals(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		for name, row := range map[string]struct {
			change func(*Config)
			says   string
		}{
			"version":   {func(c *Config) { c.Self.Version = "v2" }, "it runs gorun v2, node 0 runs gorun v1"},
			"id":        {func(c *Config) { c.Self.ID = "other" }, `it belongs to job "other", node 0 to job "job"`},
			"nodes":     {func(c *Config) { c.Self.NumNodes = 4 }, "it expects 4 nodes, node 0 expects 3"},
			"too large": {func(c *Config) { c.Self.NumNodes, c.Self.NodeRank = 9, 7 }, "expects 9 nodes"},
			"zero": {func(c *Config) {
				c.Self.NodeRank = 0
			}, "two nodes have node rank 0: hostb listens at the endpoint, and hostc"},
			"same": {func(c *Config) {
				c.Self.Host = "evil\x1b[2J"
			}, `two nodes have node rank 1: hostc (127.0.0.1) joined first, then evil^[[2J (127.0.0.1)`},
			"without number": {func(c *Config) { c.Self.NodeRank, c.Self.Host = -1, "x" }, ""},
		} {
			t.Run(name, func(t *testing.T) {
				h, log := listenAt(t, 3, key)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				come(t, ctx, settings(port(h), 3, 1, key))
				awaitMembers(t, h, 1)
				cfg := settings(port(h), 3, 1, key)
				row.change(&cfg)
				node := come(t, ctx, cfg)
				if row.says == "" {
					awaitMembers(t, h, 2)
					cancel()
					return
				}
				<-node.done
				var refused *RefusedError
				require.ErrorAs(t, node.err, &refused)
				require.Contains(t, node.err.Error(), row.says)
				log.await(t, row.says)
				awaitMembers(t, h, 1) // the first is not disturbed
			})
		}
	})
}

// awaitMembers waits until n nodes have joined.
func awaitMembers(t *testing.T, h *Head, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.roster.members) == n
	}, time.Minute, time.Millisecond)
}

func TestStartedAlready(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		h, log := listenAt(t, 2, key)
		come(t, t.Context(), settings(port(h), 2, 1, key))
		wait(t, h)
		for _, rank := range []int{1, -1} {
			cfg := settings(port(h), 2, rank, key)
			cfg.lastJob = time.Millisecond
			late := come(t, t.Context(), cfg)
			<-late.done
			require.ErrorContains(t, late.err, "the job has already started with all 2 nodes")
		}
		log.await(t, "has already started")
	})
}

func TestDeadline(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		log := newLog()
		cfg := settings(0, 5, 0, key)
		cfg.Timeout, cfg.Notify = 300*time.Millisecond, log.tell
		h, err := Listen(t.Context(), cfg)
		require.NoError(t, err)
		defer h.Close()
		node := come(t, t.Context(), settings(port(h), 5, 2, key))
		awaitMembers(t, h, 1)
		_, err = h.Wait(t.Context())
		says := "not all nodes joined within 300ms: 2 of 5 nodes have joined (node 0 hostb, node 2 hostd (127.0.0.1)); " +
			"missing: node rank [1,3-4]"
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "127.0.0.1 is each host's own address")
		<-node.done
		require.ErrorContains(t, node.err, says)
	})
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	where := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cfg := settings(where, 2, 1, nil)
	cfg.Timeout = 200 * time.Millisecond
	_, err = Dial(t.Context(), cfg)
	require.ErrorContains(t, err,
		fmt.Sprintf("node 0 at 127.0.0.1:%d did not accept this node within 200ms: connection refused", where))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Dial(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
}

// A node that disconnects before all have joined frees its rank for the next one.
func TestNodeComesAgain(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		h, log := listenAt(t, 3, key)
		ctx, cancel := context.WithCancel(t.Context())
		first := come(t, ctx, settings(port(h), 3, 1, key))
		awaitMembers(t, h, 1)
		cancel()
		<-first.done
		require.ErrorIs(t, first.err, context.Canceled)
		log.await(t, "node hostc (127.0.0.1) disconnected")
		second := come(t, t.Context(), settings(port(h), 3, 1, key))
		third := come(t, t.Context(), settings(port(h), 3, 2, key))
		wait(t, h)
		<-second.done
		<-third.done
		require.NoError(t, second.err)
		require.NoError(t, third.err)
	})
}

// The first node waits for the last one longer than the handshake timeout.
func TestWhoCameFirstIsWelcomeAtLast(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		cfg := settings(0, 3, 0, key)
		here := make(chan bool, 2)
		cfg.patience, cfg.OnChange = 200*time.Millisecond, func(int, bool) { here <- true }
		h, err := Listen(t.Context(), cfg)
		require.NoError(t, err)
		defer h.Close()
		first := come(t, t.Context(), settings(port(h), 3, 1, key))
		<-here
		closed(t, raw(t, h)) // its timeout has passed
		last := come(t, t.Context(), settings(port(h), 3, 2, key))
		wait(t, h)
		<-first.done
		<-last.done
		require.NoError(t, first.err)
		require.NoError(t, last.err)
	})
}

// A node with the token may still be hostile, because its host may be.
func TestLongMessagesAreRefused(t *testing.T) {
	var m Hello
	long := binary.LittleEndian.AppendUint32([]byte("gorun\x02"), 1<<31)
	require.ErrorContains(t, readMessage(bytes.NewReader(long), &m), "bytes")
	require.Error(t, writeMessage(&bytes.Buffer{}, Hello{Host: strings.Repeat("x", maxMessage)}))
	require.Error(t, readMessage(strings.NewReader("gorun\x02\x02\x00\x00\x00{"), &m))
}

func TestNumbers(t *testing.T) {
	h, _ := listenAt(t, 4, secret)
	for _, host := range []string{"node10", "node9", "node2"} {
		cfg := settings(port(h), 4, -1, secret)
		cfg.Self.Host = host
		come(t, t.Context(), cfg)
	}
	var hosts []string
	for _, m := range wait(t, h) {
		hosts = append(hosts, fmt.Sprint(m.NodeRank, " ", m.Hello.Host))
	}
	require.Equal(t, []string{"1 node2", "2 node9", "3 node10"}, hosts)
}

func TestOneNode(t *testing.T) {
	h, _ := listenAt(t, 1, secret)
	require.Empty(t, wait(t, h))
}

func TestWaitEnds(t *testing.T) {
	h, _ := listenAt(t, 2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Wait(ctx)
	require.ErrorContains(t, err, "stopped waiting")
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
}

func TestCome(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	where := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cfg := settings(where, 2, -1, secret)
	never := cfg
	never.NeverNode0, never.Timeout = true, time.Millisecond
	head, _, err := Connect(t.Context(), never)
	require.Error(t, err)
	require.Nil(t, head, "another node may come there as node 0")
	head, _, err = Connect(t.Context(), cfg)
	require.NoError(t, err)
	require.NotNil(t, head)
	defer head.Close()
	second := make(chan *Membership, 1)
	go func() {
		_, j, _ := Connect(t.Context(), cfg)
		second <- j
	}()
	wait(t, head)
	j := <-second
	require.Equal(t, 1, j.NodeRank)
	j.Conn.Close()
	cfg.Self.NodeRank = 0
	_, _, err = Connect(t.Context(), cfg)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
}
