package join

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// occupied returns a free port, and one whose listener accepts connections, reads all data and never answers.
func occupied(t *testing.T) (taken, free int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	return l.Addr().(*net.TCPAddr).Port, other.Addr().(*net.TCPAddr).Port
}

// listenAmong listens as node 0 of a job that has several ports.
func listenAmong(t *testing.T, cfg Config) *Head {
	t.Helper()
	h, err := Listen(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// Node 0 takes the first free port. Nodes find it, even if silent listeners have the other ports.
func TestOtherPorts(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		taken, free := occupied(t)
		head := settings(taken, 2, 0, key)
		head.Ports = []int{free}
		h := listenAmong(t, head)
		require.Equal(t, free, port(h))
		require.Contains(t, h.progress(), h.Addr().String(), "the one that it has")

		cfg := settings(taken, 2, 1, key)
		cfg.Ports = []int{free}
		meet(t, h, cfg)
	})
}

// Nodes skip another gorun job at the first port, whether it has its own token or none.
func TestPortOfAnotherJob(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		for name, otherKey := range map[string][]byte{"token": []byte("another secret, of another job!!"), "plain": nil} {
			t.Run(name, func(t *testing.T) {
				unknown := settings(0, 2, 0, otherKey)
				unknown.Self.ID, unknown.Self.Version = "another", "v2"
				first := port(listenAmong(t, unknown))
				head := settings(first, 2, 0, key)
				_, free := occupied(t)
				head.Ports = []int{free}
				h := listenAmong(t, head)
				cfg := settings(first, 2, 1, key)
				cfg.Ports = head.Ports
				meet(t, h, cfg)
			})
		}
	})
}

// A refusal by the job's own node 0 is final, even if there are other ports.
func TestRefusedAtOneOfThePorts(t *testing.T) {
	taken, free := occupied(t)
	head := settings(taken, 2, 0, nil)
	head.Ports = []int{free}
	listenAmong(t, head)
	cfg := settings(taken, 3, 1, nil)
	cfg.Ports = head.Ports
	node := come(t, t.Context(), cfg)
	<-node.done
	var refused *RefusedError
	require.ErrorAs(t, node.err, &refused)
	require.Contains(t, node.err.Error(), "it expects 3 nodes, node 0 expects 2")
}

// A script may run one job after another in the same step. A node of the next job may dial while node 0 of the
// previous one still listens.
func TestNextJob(t *testing.T) {
	_, spare := occupied(t)
	for name, c := range map[string]struct {
		ports  []int
		lastID string
	}{"same id": {[]int{spare}, "job"}, "same id, one port": {nil, "job"}, "another id, one port": {nil, "job before"}} {
		t.Run(name, func(t *testing.T) {
			_, where := occupied(t)
			cfg := func(rank int, id string) Config {
				s := settings(where, 2, rank, nil)
				s.Ports, s.Self.ID = c.ports, id
				return s
			}
			last := listenAmong(t, cfg(0, c.lastID))
			come(t, t.Context(), cfg(1, c.lastID))
			wait(t, last)

			log := newLog()
			second := cfg(1, "job")
			second.Notify = log.tell
			node := come(t, t.Context(), second)
			log.await(t, "waiting for node 0 at")
			require.NoError(t, last.Close())
			h := listenAmong(t, cfg(0, "job"))
			wait(t, h)
			<-node.done
			require.NoError(t, node.err)
		})
	}
}

func TestAllPortsTaken(t *testing.T) {
	first, _ := occupied(t)
	second, _ := occupied(t)
	cfg := settings(first, 2, 0, nil)
	cfg.Ports = []int{second}
	_, err := Listen(t.Context(), cfg)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Contains(t, err.Error(), "all 2 ports of this job are taken")

	cfg.Ports = []int{70000}
	_, err = Listen(t.Context(), cfg)
	require.EqualError(t, err, "join: port 70000: ports are 0 to 65535")
}

// Several nodes on node 0's host that do not know their rank have a single port. With several ports, each would
// become node 0 at its own.
func TestComeWithoutRankHasOnePort(t *testing.T) {
	_, first := occupied(t)
	_, second := occupied(t)
	cfg := settings(first, 2, -1, nil)
	cfg.Ports = []int{second}
	h, joined, err := Connect(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, joined)
	t.Cleanup(func() { _ = h.Close() })
	type came struct {
		head   *Head
		joined *Membership
		err    error
	}
	other := make(chan came, 1)
	go func() {
		head, joined, err := Connect(t.Context(), cfg)
		other <- came{head, joined, err}
	}()
	wait(t, h)
	c := <-other
	require.NoError(t, c.err)
	require.Nil(t, c.head)
	c.joined.Conn.Close()
}
