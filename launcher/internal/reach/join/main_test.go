package join

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logbook collects messages to the user.
type logbook struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newLog() *logbook { return &logbook{more: make(chan struct{}, 1)} }

func (b *logbook) tell(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	select {
	case b.more <- struct{}{}:
	default:
	}
}

func (b *logbook) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// await waits for a line that contains the text.
func (b *logbook) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(b.text(), text) {
		select {
		case <-b.more:
		case <-limit:
			t.Fatalf("nobody said %q, but\n%s", text, b.text())
		}
	}
}

// secret is the secret of a token.
var secret = []byte("0123456789abcdef0123456789ABCDEF")

// settings returns the configuration of one of n nodes that join at port.
func settings(port, n, rank int, key []byte) Config {
	return Config{
		Addr: "127.0.0.1", Port: port, Secret: key, Timeout: time.Minute,
		Self: Hello{Version: "v1", ID: "job", NumNodes: n, NodeRank: rank, Host: "host" + string(rune('a'+rank+1))},
	}
}

// listenAt listens as node 0 of n nodes at a free port.
func listenAt(t *testing.T, n int, key []byte) (*Head, *logbook) {
	t.Helper()
	log := newLog()
	cfg := settings(0, n, 0, key)
	cfg.Notify = log.tell
	h, err := Listen(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h, log
}

func port(h *Head) int { return int(h.Addr().Port()) }

// coming is a node that is joining.
type coming struct {
	joined *Membership
	err    error
	done   chan struct{}
}

func come(t *testing.T, ctx context.Context, cfg Config) *coming {
	c := &coming{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.joined, c.err = Dial(ctx, cfg)
	}()
	t.Cleanup(func() {
		<-c.done
		if c.joined != nil {
			c.joined.Conn.Close()
		}
	})
	return c
}

// meet makes the last node join and waits until it is accepted.
func meet(t *testing.T, h *Head, cfg Config) *Membership {
	t.Helper()
	node := come(t, t.Context(), cfg)
	wait(t, h)
	<-node.done
	require.NoError(t, node.err)
	return node.joined
}

// wait returns the members. Their connections end with the test.
func wait(t *testing.T, h *Head) []*Member {
	t.Helper()
	members, err := h.Wait(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, m := range members {
			m.Conn.Close()
		}
	})
	return members
}

// raw returns a connection that does not come from a node.
func raw(t *testing.T, h *Head) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), h.Addr().Port()).String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
