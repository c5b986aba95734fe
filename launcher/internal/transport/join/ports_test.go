package join

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// taken is a port at which somebody listens who never says a word.
func taken(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// Of several ports node 0 takes the first that is free, and the others find it there, past
// a stranger who keeps silent and past another job.
func TestSeveralPorts(t *testing.T) {
	both(t, func(t *testing.T, key []byte) {
		other, log := listen(t, 2, key)
		other.cfg.Self.ID, other.cfg.Ports = "another job", []int{1}
		silent := taken(t)
		head := settings(silent, 3, 0, key)
		head.Ports = []int{port(other), 0}
		h, err := Listen(t.Context(), head)
		require.NoError(t, err)
		defer h.Close()
		var nodes []*coming
		for rank := range 2 {
			cfg := settings(silent, 3, rank+1, key)
			cfg.Ports = []int{port(other), port(h)}
			nodes = append(nodes, come(t, t.Context(), cfg))
		}
		require.Len(t, wait(t, h), 2)
		for _, n := range nodes {
			<-n.done
			require.NoError(t, n.err)
		}
		require.Empty(t, log.text(), "it is to be expected that others try")
	})
}

func TestNoPortIsFree(t *testing.T) {
	cfg := settings(taken(t), 2, 0, nil)
	cfg.Ports = []int{taken(t), taken(t)}
	_, err := Listen(t.Context(), cfg)
	var first *PortTakenError
	require.ErrorAs(t, err, &first)
	require.Equal(t, cfg.Port, first.Port)
	require.ErrorContains(t, err, "3 ports were tried and none is free")
}

// Node 0's own refusal counts, whoever else is silent; without one, the first port's.
func TestRefusedAtSomePort(t *testing.T) {
	h, _ := listen(t, 3, nil)
	cfg := settings(taken(t), 4, 1, nil)
	cfg.Ports = []int{port(h)}
	_, err := Dial(t.Context(), cfg)
	require.ErrorContains(t, err, "it expects 4 nodes, node 0 expects 3")
	cfg.Self.NumNodes, cfg.Self.ID, cfg.Timeout = 3, "another job", 200*time.Millisecond
	_, err = Dial(t.Context(), cfg)
	require.ErrorContains(t, err, "did not take this node within 200ms")
}
