package join

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// serve opens an empty store at the launcher's port.
func serve(t *testing.T, h *Head) *tcpstore.Server {
	t.Helper()
	s, err := tcpstore.ListenNowhere(tcpstore.Config{}, h.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, h.ServeStore(s.Take))
	return s
}

func dialStore(t *testing.T, h *Head) *tcpstore.Client {
	t.Helper()
	c, err := tcpstore.Dial(t.Context(), h.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStoreBehindThePort(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		h, _ := listenAt(t, 2, key)
		stillWorks(t, h, key)
		s := serve(t, h)
		require.Equal(t, h.Addr(), s.Addr())
		require.NoError(t, dialStore(t, h).Set(t.Context(), "k", []byte("v")))
		value, err := dialStore(t, h).Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "v", string(value))
		cfg := settings(port(h), 2, 1, key)
		cfg.lastJob = time.Millisecond
		late := come(t, t.Context(), cfg) // nodes and clients at the same time
		<-late.done
		require.ErrorContains(t, late.err, "already started")
	})
}

// a client's hello, and a request without a response: SET "/stale" "1".
const staleSet = "\x00\xCE\xF7\x85\x3C" + "\x01\x06\x00\x00\x00\x00\x00\x00\x00/stale\x01\x00\x00\x00\x00\x00\x00\x001"

// Late requests of an ended attempt's clients reach no later store.
func TestStoreOfEachAttempt(t *testing.T) {
	h, log := listenAt(t, 1, secret)
	first := serve(t, h)
	require.NoError(t, dialStore(t, h).Set(t.Context(), "old", nil))
	slow := raw(t, h) // its first bytes arrive when the next attempt's store exists
	_, err := slow.Write([]byte(staleSet[:1]))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.pending.conns) == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, h.ServeStore(nil))
	require.NoError(t, first.Close())
	none := raw(t, h)
	_, err = none.Write([]byte(staleSet))
	require.NoError(t, err)
	closed(t, none)
	next := serve(t, h)
	_, err = slow.Write([]byte(staleSet[1:]))
	require.NoError(t, err)
	closed(t, slow)
	require.Zero(t, next.Snapshot().Keys)
	require.Empty(t, log.text())
}

// A connection in the kernel's queue belongs to the attempt in which it arrived.
func TestStoreDrainsTheQueue(t *testing.T) {
	h, _ := listenAt(t, 1, secret)
	first := serve(t, h)
	h.mu.Lock() // blocks accepting
	queued := raw(t, h)
	_, err := queued.Write([]byte(staleSet))
	require.NoError(t, err)
	h.mu.Unlock()
	next := serve(t, h) // either it was accepted before this call, by the first store, or this call closes it
	require.NoError(t, first.Close())
	closed(t, queued)
	require.Zero(t, next.Snapshot().Keys)
}

// A client that connects before any rank does not belong to the job.
func TestStoreClientThatIsNoRank(t *testing.T) {
	h, log := listenAt(t, 2, secret)
	c := raw(t, h)
	_, err := c.Write([]byte(staleSet))
	require.NoError(t, err)
	require.Empty(t, closed(t, c))
	log.await(t, "a PyTorch client connected from 127.0.0.1, where this job has no ranks: torchrun")
	stillWorks(t, h, secret)
}

// python runs a Python that has PyTorch, and ends it with the test.
func python(t *testing.T, ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, testneeds.Torch(t), args...)
	cmd.Env = append(os.Environ(), "TORCH_CPP_LOG_LEVEL=FATAL", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	return cmd
}

func TestTorchrunAgentDials(t *testing.T) {
	for name, args := range map[string][]string{
		"static": {"--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port"},
		"c10d":   {"--rdzv-backend", "c10d", "--rdzv-conf", "is_host=0,join_timeout=60", "--rdzv-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			h, log := listenAt(t, 2, nil)
			where := strconv.Itoa(port(h))
			if name == "c10d" {
				where = net.JoinHostPort("127.0.0.1", where)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			args := append([]string{"-m", "torch.distributed.run", "--nnodes", "2"},
				append(args, where, "--no-python", "true")...)
			agent := python(t, ctx, args...)
			require.NoError(t, agent.Start())
			log.await(t, "torchrun, or a script without a launcher; start gorun there")
			cancel()
			require.Error(t, agent.Wait())
			stillWorks(t, h, nil)
		})
	}
}

func TestTorchClientAtThePort(t *testing.T) {
	h, _ := listenAt(t, 1, secret)
	serve(t, h)
	const program = `
import sys
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), 2, is_master=False, timeout=timedelta(seconds=60))
store.set("from torch", "x")
assert store.get("from go") == b"y"
other = store.clone() if hasattr(store, "clone") else store
assert other.add("n", 2) == 2
`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := python(t, ctx, "-c", program, strconv.Itoa(port(h)))
	require.NoError(t, client.Start())
	c := dialStore(t, h)
	require.NoError(t, c.Set(ctx, "from go", []byte("y")))
	value, err := c.Get(ctx, "from torch")
	require.NoError(t, err)
	require.Equal(t, "x", string(value))
	require.NoError(t, client.Wait())
}
