package cpu

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ends contains both ends of a wire between ranks 0 and 1, and the results of connect.
type ends struct {
	wires  [2]*wire
	errors [2]error
}

// wired connects two ranks. meanwhile can access the address of rank 0 before rank 1 does.
func wired(t *testing.T, limit time.Duration, change func(w *wire), meanwhile func(address string)) (e ends) {
	t.Helper()
	var addresses [2][]string
	for rank := range 2 {
		w := newWire(rank, bytes.Repeat([]byte{1}, KeySize))
		w.session = []byte("session")
		require.NoError(t, w.listen())
		t.Cleanup(w.close)
		all, err := w.addresses("", true)
		require.NoError(t, err)
		e.wires[rank], addresses[rank] = w, all
	}
	change(e.wires[1])
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.errors[0] = e.wires[0].connect(ctx, []int{1}, addresses[:])
	}()
	if meanwhile != nil {
		meanwhile(addresses[0][0])
	}
	e.errors[1] = e.wires[1].connect(ctx, []int{0}, addresses[:])
	<-done
	return e
}

func TestWireNeedsTheKeyOnBothSides(t *testing.T) {
	t.Parallel()
	e := wired(t, 10*time.Second, func(*wire) {}, nil)
	require.NoError(t, errors.Join(e.errors[:]...))
	for _, w := range e.wires {
		assert.Len(t, w.made, 2)
	}
	for name, change := range map[string]func(w *wire){
		"key":     func(w *wire) { w.key = bytes.Repeat([]byte{2}, KeySize) },
		"session": func(w *wire) { w.session = []byte("another") },
	} {
		e := wired(t, time.Second, change, nil)
		assert.ErrorContains(t, e.errors[1], "who answers there as rank 0 has another key or belongs to another group", name)
		assert.ErrorContains(t, e.errors[0], "no connection with rank 1", name)
		assert.ErrorContains(t, e.errors[0],
			"somebody who said to be rank 1 was refused: it broke off before it proved to have the key", name)
	}
}

func TestNearConnectionsAreNotPaced(t *testing.T) {
	t.Parallel()
	e := wired(t, 10*time.Second, func(w *wire) { w.pacer = "cubic" }, nil)
	require.NoError(t, errors.Join(e.errors[:]...))
	for _, conn := range e.wires[1].made {
		fd, err := e.wires[1].descriptor(conn)
		require.NoError(t, err)
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		require.NoError(t, errors.Join(err, unix.Close(fd)))
		assert.Equal(t, "reno", name)
	}
}

func TestWireSurvivesUnknownPeers(t *testing.T) {
	t.Parallel()
	e := wired(t, time.Minute, func(*wire) {}, func(address string) {
		for i := range maxHandshakes + 20 { // silent peers, more than the limit, and some that send data
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { conn.Close() })
			if i%3 == 0 {
				conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 100))
			}
		}
	})
	require.NoError(t, errors.Join(e.errors[:]...))
}

func TestWireRefusesAnEcho(t *testing.T) {
	t.Parallel()
	e := wired(t, 10*time.Second, func(*wire) {}, func(address string) {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		imposter := newWire(1, nil)
		_, err = conn.Write(imposter.hello(slot{0, forData}))
		require.NoError(t, err)
		var answer [nonceSize + 32]byte
		_, err = io.ReadFull(conn, answer[:])
		require.NoError(t, err)
		_, err = conn.Write(answer[nonceSize:]) // its own proof
		require.NoError(t, err)
		_, err = conn.Read(answer[:])
		assert.Error(t, err, "an echo is no proof")
	})
	require.NoError(t, errors.Join(e.errors[:]...))
}

// The context of the handshakes ends with the last one, no matter which rank notices first.
func TestHandshakesEndWithoutHarm(t *testing.T) {
	e := wired(t, time.Minute, func(*wire) {}, nil)
	require.NoError(t, errors.Join(e.errors[:]...))
	dialler := e.wires[1]
	for s, conn := range dialler.made {
		dialler.breakOff(s, conn)
		_, err := e.wires[0].made[slot{1, s.purpose}].Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err, "purpose %d", s.purpose)
	}
}

// full is a listener of a process that can have no more descriptors.
type full struct{ net.Listener }

func (full) Accept() (net.Conn, error) { return nil, unix.EMFILE }

// The error says why no connection comes, at once.
func TestAcceptFails(t *testing.T) {
	w := newWire(0, nil)
	require.NoError(t, w.listen())
	w.listener = full{w.listener}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorIs(t, w.connect(ctx, []int{1}, nil), unix.EMFILE)
}
