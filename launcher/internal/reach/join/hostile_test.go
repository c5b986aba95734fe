package join

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// closed waits until the other end has closed, and returns its data.
func closed(t *testing.T, c net.Conn) []byte {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	said, err := io.ReadAll(c)
	var late net.Error
	require.False(t, errors.As(err, &late) && late.Timeout(), "nobody closed it")
	return said
}

// stillWorks requires that a job of two nodes can still join.
func stillWorks(t *testing.T, h *Head, key []byte) {
	t.Helper()
	meet(t, h, settings(port(h), 2, 1, key))
}

func TestTokensThatDiffer(t *testing.T) {
	other := bytes.Repeat([]byte("x"), 32)
	for name, row := range map[string]struct {
		head, node         []byte
		headSays, nodeSays string
	}{
		"another":  {secret, other, "its token differs from node 0's", "its token differs from this node's"},
		"none":     {secret, nil, "node 0 requires a token", "node 0 requires a token: give this node the same token"},
		"needless": {nil, secret, "node 0 has no token", "node 0 has no token: give it this node's token"},
	} {
		t.Run(name, func(t *testing.T) {
			h, log := listenAt(t, 2, row.head)
			node := come(t, t.Context(), settings(port(h), 2, 1, row.node))
			<-node.done
			var refused *RefusedError
			require.ErrorAs(t, node.err, &refused)
			require.ErrorContains(t, node.err, row.nodeSays)
			log.await(t, row.headSays)
			stillWorks(t, h, row.head)
		})
	}
}

func TestShortSecret(t *testing.T) {
	_, err := Listen(t.Context(), settings(0, 2, 0, []byte("short")))
	require.ErrorContains(t, err, "a secret of 5 bytes")
	_, err = Dial(t.Context(), settings(1, 2, 1, []byte{}))
	require.ErrorContains(t, err, "a secret of 0 bytes")
}

func TestGarbage(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		h, log := listenAt(t, 2, key)
		for _, said := range []string{
			"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\x00\x00\x00\x00\x00", "\x03\x05\x00garbage", "\x1b[2J", "gorum",
			"\x03\x05\x00\x00\x00\x00\x00\x00\x00init/", "\x16\x03\x01\xff\xff\x00", "\x16\x03",
		} {
			c := raw(t, h)
			_, err := c.Write([]byte(said))
			require.NoError(t, err)
			_ = c.(*net.TCPConn).CloseWrite() // it may be closed by now
			if answer := closed(t, c); said[0] != 0x16 {
				require.Empty(t, answer)
			}
		}
		log.await(t, "unknown protocol")
		log.await(t, "PyTorch before 2.2")
		require.NotContains(t, log.text(), "\x1b")
		stillWorks(t, h, key)
	})
}

// Random bytes after any preamble, cut off or left open anywhere, do not affect nodes that join meanwhile.
func TestRandomPeers(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		r := testneeds.Rand(t)
		h, _ := listenAt(t, 4, key)
		var hello bytes.Buffer
		require.NoError(t, writeMessage(&hello, &Hello{Version: "v1", ID: "job", NumNodes: 4, NodeRank: 9, Host: "other"}))
		nodes := make([]*coming, 4)
		scans := testneeds.Count(100, 1000)
		for i := range scans {
			said := bytes.Clone(hello.Bytes())
			if b := preambles[r.IntN(len(preambles))].bytes; r.IntN(3) > 0 {
				said = append([]byte(b), make([]byte, r.IntN(300))...)
			}
			for range r.IntN(20) {
				said[r.IntN(len(said))] = byte(r.IntN(256))
			}
			c := raw(t, h)
			_, _ = c.Write(said[:r.IntN(len(said)+1)]) // it may be closed by now
			if r.IntN(2) == 0 {
				c.Close()
			}
			if i%(scans/3) == 1 && i/(scans/3) < 3 {
				rank := i/(scans/3) + 1
				nodes[rank] = come(t, t.Context(), settings(port(h), 4, rank, key))
			}
		}
		members := wait(t, h)
		require.Len(t, members, 3)
		for i, m := range members {
			<-nodes[i+1].done
			require.NoError(t, nodes[i+1].err)
			require.Equal(t, settings(0, 4, i+1, nil).Self, m.Hello)
		}
	})
}

// Connections that send nothing, or stop in the middle, are dropped and delay no node.
func TestIdlePeers(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		cfg := settings(0, 2, 0, key)
		cfg.patience = 300 * time.Millisecond
		h, err := Listen(t.Context(), cfg)
		require.NoError(t, err)
		defer h.Close()
		var idle []net.Conn
		for _, said := range []string{"", "g", "gorun", "gorun\x02\x00\x10\x00\x00{", "\x16\x03\x01\x00\xff", "\x00\xCE"} {
			c := raw(t, h)
			_, err := c.Write([]byte(said))
			require.NoError(t, err)
			idle = append(idle, c)
		}
		for _, c := range idle {
			closed(t, c)
		}
		stillWorks(t, h, key)
	})
}

// Connections beyond the limit only make later ones wait.
func TestCrowdOfIdlePeers(t *testing.T) {
	h, _ := listenAt(t, 2, secret)
	h.mu.Lock()
	h.pending.max = 200
	h.mu.Unlock()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 60 {
				c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port(h)))
				if err == nil {
					t.Cleanup(func() { c.Close() })
				}
			}
		})
	}
	all.Wait()
	stillWorks(t, h, secret)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.LessOrEqual(t, len(h.pending.conns), 200)
}

// A scan from many addresses fills neither the screen nor the limit of notices about nodes.
func TestTalkIsBounded(t *testing.T) {
	log := newLog()
	others := notices{notify: log.tell}
	for i := range 1000 {
		others.addPerAddr(netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}), "peer %d", i)
		others.addPerAddr(netip.AddrFrom4([4]byte{10, 0, 0, 0}), "peer %d", i)
	}
	require.Len(t, log.lines, maxNotices+1)
	require.Contains(t, log.lines[maxNotices], "no longer reports them")
	h, log := listenAt(t, 2, secret)
	for i := range 100 {
		h.peerNotices.addPerAddr(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), "a peer")
	}
	node := come(t, t.Context(), settings(port(h), 2, 1, bytes.Repeat([]byte("x"), 32)))
	<-node.done
	log.await(t, "its token differs from node 0's")
}

func TestUnknownPeersLeaveDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{3: 1, 64: 16, 1024: 256, 1 << 20: maxPending} {
		require.Equal(t, want, pendingLimit(descriptors))
	}
}

// between forwards data between a node and node 0, and records the node's data.
func between(t *testing.T, h *Head) (where int, said func() []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var kept bytes.Buffer
	var work sync.WaitGroup
	work.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		on, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port(h)))
		if err != nil {
			c.Close()
			return
		}
		work.Go(func() { _, _ = io.Copy(c, on); c.Close() })
		p := make([]byte, 4096)
		for {
			n, err := c.Read(p)
			mu.Lock()
			kept.Write(p[:n])
			mu.Unlock()
			if _, failed := on.Write(p[:n]); err != nil || failed != nil {
				on.Close()
				return
			}
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().(*net.TCPAddr).Port, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(kept.Bytes())
	}
}

// A replay of all of a node's data proves nothing where there is a token, complete or not.
func TestReplayWithToken(t *testing.T) {
	h, _ := listenAt(t, 2, secret)
	where, said := between(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	node := come(t, ctx, settings(where, 2, 1, secret))
	awaitMembers(t, h, 1)
	cancel()
	<-node.done
	awaitMembers(t, h, 0)
	recorded := said()
	require.Greater(t, len(recorded), 1000)
	for _, length := range []int{len(recorded), len(recorded) - 1, len(recorded) / 2, 300, 6} {
		c := raw(t, h)
		_, err := c.Write(recorded[:length])
		require.NoError(t, err)
		_ = c.(*net.TCPConn).CloseWrite() // it may be closed by now
		closed(t, c)
		awaitMembers(t, h, 0)
	}
	stillWorks(t, h, secret)
}

// Without a token, a recorded hello can claim a free rank, but never one that a node already has.
func TestReplayWithoutToken(t *testing.T) {
	h, log := listenAt(t, 3, nil)
	where, said := between(t, h)
	come(t, t.Context(), settings(where, 3, 1, nil))
	awaitMembers(t, h, 1)
	c := raw(t, h)
	_, err := c.Write(said())
	require.NoError(t, err)
	require.Contains(t, string(closed(t, c)), "two nodes have node rank 1")
	log.await(t, "two nodes have node rank 1")
	awaitMembers(t, h, 1)
	come(t, t.Context(), settings(port(h), 3, 2, nil))
	wait(t, h)
}

// Node 0's data sent back to it, or a node's sent back to the node, proves nothing.
func TestReflection(t *testing.T) {
	own, err := tlsConfig(secret, roleHead, roleNode)
	require.NoError(t, err)
	theirs, err := tlsConfig(secret, roleNode, roleHead)
	require.NoError(t, err)
	require.NotEqual(t, own.Certificates[0].Certificate, theirs.Certificates[0].Certificate)
	h, log := listenAt(t, 2, secret)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a node 0 with the keys of a node
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	cfg := settings(l.Addr().(*net.TCPAddr).Port, 2, 1, secret)
	cfg.Timeout = 300 * time.Millisecond
	_, err = Dial(t.Context(), cfg)
	require.Error(t, err)
	// a node with node 0's key
	d := &dialer{cfg: settings(port(h), 2, 1, secret), tls: own, dial: (&net.Dialer{}).DialContext}
	d.cfg.Notify = func(string) {}
	d.tls.VerifyConnection = nil
	_, err = d.join(t.Context())
	require.ErrorContains(t, err, "its token differs from this node's")
	log.await(t, "its token differs from node 0's")
	awaitMembers(t, h, 0)
}

func TestWrongProtocol(t *testing.T) {
	h, log := listenAt(t, 2, nil)
	c := raw(t, h)
	_, err := c.Write([]byte("gorun\x03\x02\x00\x00\x00{}"))
	require.NoError(t, err)
	require.Contains(t, string(closed(t, c)), "uses version 3 of the join protocol, node 0 uses 2")
	log.await(t, "it uses version 3 of the join protocol")

	l, err := net.Listen("tcp", "127.0.0.1:0") // a node 0 of a later version
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte("gorun\x04"))
			c.Close()
		}
	}()
	_, err = Dial(t.Context(), settings(l.Addr().(*net.TCPAddr).Port, 2, 1, nil))
	require.ErrorContains(t, err, "it uses version 4 of the join protocol, this node uses 2")
}

// A fake launcher cannot fill this node's memory or control its terminal.
func TestHostileHead(t *testing.T) {
	for name, row := range map[string]struct{ said, says string }{
		"long":    {"gorun\x02\xff\xff\xff\x7f", "a message of 2147483647 bytes"},
		"escapes": {message(`{"refusal":"\u001b[2J","host":"\u001b"}`), "^[[2J"},
		"number":  {message(`{"node_rank":7}`), "it assigns the invalid node rank 7 to this node"},
		"other":   {message(`{"node_rank":2}`), "it assigns the invalid node rank 2 to this node"},
		"garbage": {"HTTP/1.1 400 Bad Request\r\n", "not a message from gorun"},
		"no JSON": {message(`{"node_rank":`), "not a message from gorun"},
		"nothing": {"", "another program may listen there"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = readMessage(c, &Hello{})
					_, _ = c.Write([]byte(row.said))
					c.Close()
				}
			}()
			cfg := settings(l.Addr().(*net.TCPAddr).Port, 3, 1, nil)
			cfg.Timeout = 2 * time.Second
			_, err = Dial(t.Context(), cfg)
			require.ErrorContains(t, err, row.says)
			require.NotContains(t, err.Error(), "\x1b")
			l.Close()
			<-over
		})
	}
}

// message returns JSON in the format of the connection.
func message(body string) string {
	return magic + "\x02" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))) + body
}
