package launcher

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/wire"
)

// Input that was read for an ended attempt goes to no rank: the next attempt has not counted it.
func TestLateInput(t *testing.T) {
	h, far := growingHead(t)
	h.stdio.Piped = []int{0}
	p := h.newStdinPump()
	p.send([]byte("first"))
	p.stop()
	p.send([]byte("late"))
	require.NoError(t, h.nodes[0].link.Close())
	f, err := far[0].Read()
	require.NoError(t, err)
	require.Contains(t, string(f.Body), "first")
	_, err = far[0].Read()
	require.Error(t, err)
	require.NoError(t, p.onCredit(h.nodes[0], wire.Credit{Bytes: len("first")}))
	require.Error(t, p.onCredit(h.nodes[0], wire.Credit{Bytes: len("late")}))
}

// An attempt does not end while input is on its way: it would get into the next one.
func TestInputAtTheEnd(t *testing.T) {
	h, _ := growingHead(t)
	h.stdio.Piped = []int{0}
	r, w := io.Pipe()
	h.nodes[0].link = wire.NewLink(duplex{Writer: w, close: func() {}})
	p := h.newStdinPump()
	go p.send([]byte("text"))
	_, err := r.Read(make([]byte, 1))
	require.NoError(t, err)
	require.False(t, p.mu.TryLock())
	require.NoError(t, r.Close())
}
