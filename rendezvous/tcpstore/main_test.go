package tcpstore

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		role(os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

// opened is a server that the end of the test closes.
type opened struct {
	*Server
	log *logbook
}

// logbook collects the log of a server.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) logf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *logbook) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

func open(t testing.TB, cfg Config) opened {
	t.Helper()
	log := &logbook{}
	cfg.Logf = log.logf
	s, err := Listen(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return opened{s, log}
}

func dial(t testing.TB, s opened) *Client {
	t.Helper()
	c, err := Dial(t.Context(), s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
