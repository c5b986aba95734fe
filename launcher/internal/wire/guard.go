package wire

import (
	"slices"
	"sync"
	"sync/atomic"
)

// guard checks the frames that a link receives against a table. It sees all frames of both directions, and derives the
// state and the open requests from them.
type guard struct {
	table *table
	peer  Peer
	state atomic.Uint32 // a State

	mu    sync.Mutex
	open  [numTypes]int32 // answers that may come, by type
	count [numTypes]int32 // frames since the last start of ranks, by type
}

// Guard makes the head's end of a link refuse, by a [*ViolationError], frames that an agent of a kind may not send.
// Call it before the first frame.
func (l *Link) Guard(peer Peer) { l.guardBy(&fromAgent, peer) }

// GuardHead makes an agent's end refuse frames that no head sends to its kind: joined is that of a node with a command
// line of its own.
func (l *Link) GuardHead(joined bool) {
	peer := PeerSSH
	if joined {
		peer = PeerJoined
	}
	l.guardBy(&fromHead, peer)
}

func (l *Link) guardBy(t *table, peer Peer) {
	l.guard = &guard{table: t, peer: peer}
	l.guard.state.Store(uint32(StateConnected))
	l.Reader.admit = l.guard.admit
}

// admit refuses a frame by its header, before its body is read.
func (g *guard) admit(t Type, size int) error {
	r := g.table.row(t)
	if err := r.check(g.table.sender, t, g.peer, State(g.state.Load()), size); err != nil {
		return err
	}
	if !t.isControl() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(r.answers) > 0 {
		if g.open[t] == 0 {
			return Violation("it sent %s without a request", article(t))
		}
		g.open[t]--
	}
	if g.count[t]++; r.most > 0 && int(g.count[t]) > r.most {
		return Violation("it sent more than %d frames of type %s", r.most, t)
	}
	if t == TypeStart || t == TypeCleanedUp {
		g.pass(t, true) // an agent itself checks frames about MPI from a head that serves none
	}
	return nil
}

// sending notes a frame that is about to be sent.
func (g *guard) sending(t Type, mpi bool) {
	if g == nil || !t.isControl() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass(t, mpi)
	for answer := range g.table.rules {
		switch {
		case !slices.Contains(g.table.rules[answer].answers, t):
		case t == TypeStart: // what an earlier one allowed has ended
			g.open[answer] = 1
		default:
			g.open[answer]++
		}
	}
}

// pass updates the state by a frame of either direction.
func (g *guard) pass(t Type, mpi bool) {
	switch {
	case t == TypeCleanedUp:
		g.state.Store(uint32(StateCleanedUp))
	case t == TypeStart && mpi:
		clear(g.count[:])
		g.state.Store(uint32(StateStartedMPI))
	case t == TypeStart:
		clear(g.count[:])
		g.state.Store(uint32(StateStarted))
	}
}
