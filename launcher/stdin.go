package launcher

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/wire"
)

// stdinPump reads standard input for ranks that cannot have it themselves: several of them, or one
// of many on a terminal.
type stdinPump struct {
	head  *head
	in    *os.File
	ranks []int

	mu         sync.Mutex
	room       sync.Cond
	inFlight   int   // bytes
	inFlightOf []int // by node
	closed     bool
}

// stdinWindow limits the input in flight to a rank, in bytes.
const stdinWindow = 256 << 10

func (h *head) newStdinPump() *stdinPump {
	p := &stdinPump{head: h, in: h.settings.Stdin, ranks: h.stdio.Piped, inFlightOf: make([]int, len(h.nodes))}
	p.room.L = &p.mu
	return p
}

func (p *stdinPump) nodeOf(rank int) int { return p.head.plan.Load().Ranks[rank].Node }

// start reads if some rank needs it.
func (p *stdinPump) start() {
	if len(p.ranks) > 0 {
		go p.run()
	}
}

func (p *stdinPump) run() {
	buf := make([]byte, 16<<10)
	for p.wait() {
		n, err := p.in.Read(buf)
		if n > 0 {
			if buf[n-1] == '\n' && isTerminal(p.in) { // #nosec G602 -- n is positive
				p.head.console.LineEntered()
			}
			p.send(buf[:n])
		}
		if err == io.EOF {
			p.send(nil) // end-of-file
		}
		if err != nil {
			return
		}
	}
}

// wait returns true when there is input and room for it, or false when the job is over. A terminal
// is read only in the foreground.
func (p *stdinPump) wait() bool {
	p.mu.Lock()
	for p.inFlight >= stdinWindow && !p.closed {
		p.room.Wait()
	}
	p.mu.Unlock()
	for !p.stopped() {
		const pollMillis = 200 // how soon a move to the foreground or the job's end is noticed
		fds := []unix.PollFd{{Fd: int32(p.in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollMillis)
		if err != nil && err != syscall.EINTR {
			return true // Read returns the error
		}
		if n > 0 && (!isTerminal(p.in) || foreground(p.in)) {
			return true
		}
	}
	return false
}

// send drops input that was read for an attempt that has ended: the next attempt's pump does not
// count it.
func (p *stdinPump) send(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock() // after the last frame, or that of the next attempt might come before
	if p.closed {
		return
	}
	p.inFlight += len(b) * len(p.ranks)
	for _, rank := range p.ranks {
		p.inFlightOf[p.nodeOf(rank)] += len(b)
		_ = p.head.nodes[p.nodeOf(rank)].link.Stdin(rank, b) // else the job is over
	}
}

// onCredit returns credit for input that ranks have read.
func (p *stdinPump) onCredit(from *node, c wire.Credit) error {
	node, n := from.number, c.Bytes
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.inFlightOf[node] {
		return wire.Violation("it reported that its ranks read %d bytes of standard input, of %d that it got", n,
			p.inFlightOf[node])
	}
	p.inFlightOf[node] -= n
	p.inFlight -= n
	p.room.Signal()
	return nil
}

func (p *stdinPump) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *stdinPump) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.room.Signal()
}
