//go:build cgo

package cpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/comm/internal/backend"
)

// Another process fills the backlog of the lowest rank's socket before that rank starts to reject peers.
func TestFullQueueIsWaitedFor(t *testing.T) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{})) // the kernel chooses the name
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	socket := name.(*unix.SockaddrUnix).Name
	filler, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer filler.Close()
	_, err = net.Dial("unix", socket)
	require.ErrorIs(t, err, unix.EAGAIN)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err = dial(ctx, socket)
	require.Error(t, ctx.Err(), "it gave up before the time was over")
	require.ErrorIs(t, err, unix.EAGAIN)
	cancel()

	made := make(chan error)
	go func() {
		conn, err := dial(t.Context(), socket)
		if err == nil {
			err = conn.Close()
		}
		made <- err
	}()
	taken, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(taken)
	require.NoError(t, <-made)
}

// A card of another rank can contain anything.
func FuzzCards(f *testing.F) {
	l := newLinks(nil)
	own, err := ownCard(l, "", nil, true)
	require.NoError(f, err)
	l.listener.Close()
	blob, err := json.Marshal(own)
	require.NoError(f, err)
	f.Add(blob)
	f.Add([]byte(`{"Version":3,"Socket":"@gorun-comm-00112233445566778899aabbccddeeff","CPUs":[18446744073709551615]}`))
	f.Add([]byte(`{"Version":3,"Socket":"/x"}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		c := &Config{Ranks: 2, Exchange: func(_ context.Context, blob []byte) ([][]byte, error) {
			return [][]byte{blob, said}, nil
		}}
		cards, err := exchangeCards(t.Context(), c, own, sha256.New())
		if err != nil {
			return
		}
		require.True(t, isSocket(cards[1].Socket))
		crowded(cards, 1)
		numbers, count := hostNumbers(cards)
		require.Contains(t, neighbours(cards, 1), 1)
		if count > 1 {
			require.Error(t, sameKey(cards, numbers), "this rank has no key")
		}
	})
}

// Addresses of another rank, in the format of the exchange.
func FuzzAddresses(f *testing.F) {
	f.Add([]byte(`["192.0.2.1:80","[2001:db8::1]:80"]`), false)
	f.Add([]byte(`["[::ffff:127.0.0.1]:1","0.0.0.0:1","224.0.0.1:1","[fe80::1%eth0]:1"]`), false)
	f.Fuzz(func(t *testing.T, said []byte, loopback bool) {
		var all []string
		if json.Unmarshal(said, &all) != nil || checkAddresses(all, loopback) != nil {
			return
		}
		require.LessOrEqual(t, len(all), mostAddresses)
		for _, address := range all {
			resolved, err := net.ResolveTCPAddr("tcp", address)
			require.NoError(t, err)
			require.Equal(t, loopback, resolved.IP.IsLoopback())
		}
	})
}

// A peer without the key can send anything to the rank that it dials. It never authenticates.
func FuzzHello(f *testing.F) {
	dialler := newWire(1, nil)
	hello := dialler.hello(slot{0, forData})
	f.Add(append(hello, make([]byte, sha256.Size)...))
	f.Add(append(hello, dialler.proof("dialling", hello, nil)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		w := newWire(0, bytes.Repeat([]byte{1}, KeySize))
		w.wanted[slot{1, forData}] = true
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		go func() {
			there.Write(said)
			there.Close()
		}()
		require.Error(t, w.admit(here))
		require.Empty(t, w.made)
		here.Close()
	})
}

// A process at a rank's address can answer anything.
func FuzzAnswer(f *testing.F) {
	f.Add(make([]byte, nonceSize+sha256.Size+1))
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		w := newWire(1, bytes.Repeat([]byte{1}, KeySize))
		here, there := net.Pipe()
		go func() {
			io.ReadFull(there, make([]byte, helloSize))
			there.Write(said)
			there.Close()
		}()
		require.Error(t, w.introduce(here, slot{0, forData}))
		require.Empty(t, w.made)
		here.Close()
	})
}

// A rank on another host that has the key can send any control message. Its numbers must not become indices out of
// range.
func FuzzControl(f *testing.F) {
	f.Add([]byte{sayLeave})
	f.Add(append([]byte{sayFailed}, make([]byte, 2000)...))
	f.Add(append([]byte{sayHere}, bytes.Repeat([]byte{0xff}, 100)...))
	f.Add(append([]byte{sayHere, 1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 100)...))
	f.Add(append([]byte{sayHere, 1, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0x7f}, 100)...))
	f.Add(append([]byte{sayWhere}, make([]byte, 8)...))
	for kind := range byte(7) { // kinds of failures
		f.Add(append([]byte{sayFailed, kind, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}, make([]byte, 2000)...))
		f.Add(append([]byte{sayFailed, kind, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 2000)...))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		b := &Backend{config: Config{Ranks: 2, Job: []int{7, 8}}, locals: []int{0}}
		answers := make(chan answer, 1)
		b.far = &far{owner: b, mates: [][]int{{0}, {1}}, answers: map[uint64]chan answer{1: answers}}
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		go func() {
			there.Write(said)
			there.Close()
		}()
		c := &control{conn: here}
		for b.far.receive(1, c) == nil {
		}
		here.Close()
		s := &survey{me: 0, all: numbered(b.whereabouts()), silent: map[int]bool{}, answered: map[int]bool{1: true}}
		select {
		case a := <-answers:
			s.all[1] = a.where[0]
		default:
		}
		s.late(2)
		s.opposite(1)
		require.Contains(t, []int{0, 1}, culprit(s.all, 1, 0))
		if failure, err := failureIn(said[min(1, len(said)):], 2); err == nil {
			require.NotEmpty(t, b.explain(failure, backend.Barrier).Error())
		}
	})
}

func numbered[T any](all []T) map[int]T { return maps.Collect(slices.All(all)) }

// The kernel drops the descriptor if the process can have no more.
func TestMemoryWithoutADescriptor(t *testing.T) {
	l := newLinks(func(int, int) {})
	name, err := l.listen()
	require.NoError(t, err)
	lowest, err := dial(t.Context(), name)
	require.NoError(t, err)
	defer lowest.Close()
	peer, err := l.listener.AcceptUnix()
	require.NoError(t, err)
	_, err = lowest.Write([]byte{sayMemory, sayBye})
	require.NoError(t, err)
	l.peers = []*net.UnixConn{peer}
	l.watch()
	defer l.close()
	_, err = mapped(<-l.regions, 1)
	require.ErrorContains(t, err, "no free descriptor")
}
