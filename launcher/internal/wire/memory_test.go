package wire

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/placement"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// agentMessages are those that an agent may send.
func agentMessages() []Message {
	return []Message{
		&Facts{}, &Opened{}, &Reached{}, &Checked{}, &Pong{}, &Notice{}, &Running{}, &StartFailed{}, &Ended{}, &Credit{},
		&CleanedUp{}, &Suspend{}, &Hung{}, &Stalled{},
		&Used{}, &OutputLost{}, &Signal{}, &Signalled{}, &Exchange{}, &MPIEvent{}, &Spawn{}, &Grown{},
	}
}

// grown is how many bytes were allocated while do ran.
func grown(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// allowed is what reading a message may allocate, in bytes: what it takes, and as much again and
// again while a list grows.
func allowed(size int) uint64 { return uint64(8*roomFor(size)) + 1<<20 }

// Messages that repeat a few bytes, among them lists that announce the most and parts that are empty, take no more
// memory than is due.
func TestEmptyPartsTakeNoMemory(t *testing.T) {
	const size = 64 << 10
	announced := binary.AppendVarint([]byte{same}, maxList)
	for _, m := range agentMessages() {
		for skip := range 12 {
			for _, repeated := range []string{
				"\x00", "\x01", "\x01\x00", "\x01\x02", "\x08\x02", string(announced), "\x02\x08\x02",
			} {
				body := append(make([]byte, skip), bytes.Repeat([]byte(repeated), size/len(repeated))...)
				took := grown(func() { _ = readMessage(body, m) })
				require.LessOrEqual(t, took, allowed(len(body)), "%s: %x after %d bytes", m.Type(), repeated, skip)
			}
			body := append(make([]byte, skip), announced...)
			took := grown(func() { _ = readMessage(body, m) })
			require.LessOrEqual(t, took, allowed(len(body)), "%s: a list after %d bytes", m.Type(), skip)
		}
	}
}

// What large nodes and large jobs say is read.
func TestLargeMessagesAreRead(t *testing.T) {
	var ended Ended
	for rank := range 4096 {
		ended.Streams = append(ended.Streams, StreamEnd{rank, 1}, StreamEnd{rank, 2})
		ended.Ranks = append(ended.Ranks, spec.Exit{Rank: rank, PID: 1000 + rank, At: time.Now()})
	}
	running, gone := &Running{At: time.Now()}, &Exchange{Message: exchange.Message{Kind: exchange.Exited}}
	w := world.World{Name: "w", Hosts: make([]string, 1000)}
	for rank := range 100_000 {
		running.Ranks = append(running.Ranks, RankPID{rank, 1000 + rank})
		gone.Message.Members = append(gone.Message.Members, world.Proc{World: "w", Rank: rank})
		w.Ranks = append(w.Ranks, world.Rank{
			Job: rank, Host: rank / 100, Node: rank / 100, LocalRank: rank % 100,
			NodeRank: rank % 100,
		})
	}
	machine, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	for _, m := range []Message{
		&ended, running, gone, &Facts{Facts: spec.Facts{Machine: machine}},
		&Start{MPI: MPI{Offered: true, Worlds: []world.World{w}}}, &Grow{World: w},
	} {
		got := newOf(m)
		require.NoError(t, readMessage(appendMessage(nil, m), got), m.Type())
	}
}

func newOf(m Message) Message {
	switch m.(type) {
	case *Start:
		return &Start{}
	case *Grow:
		return &Grow{}
	}
	for _, other := range agentMessages() {
		if other.Type() == m.Type() {
			return other
		}
	}
	return nil
}

// FuzzMemory reads anything as any message, within bounds.
func FuzzMemory(f *testing.F) {
	for i, m := range agentMessages() {
		f.Add(uint8(i), appendMessage(nil, m))
		f.Add(uint8(i), bytes.Repeat([]byte{0x0a, 0}, 1000))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		list := agentMessages()
		m := list[int(which)%len(list)]
		took := grown(func() { _ = readMessage(body, m) })
		assert.LessOrEqual(t, took, allowed(len(body)))
	})
}
