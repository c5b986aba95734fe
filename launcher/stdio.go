package launcher

import (
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// isTerminal reports whether a writer or reader is a terminal.
func isTerminal(w any) bool {
	f := asFile(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// foreground reports whether this process may read from a terminal: as one of
// its foreground group. A job started with `&` must leave its input alone.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// stdio decides what the ranks' standard streams are.
func (s *session) stdio(numRanks int) wire.Stdio {
	wish, out := s.spec.Stdin, s.spec.Output
	io := wire.Stdio{Direct: -1, PTY: out.PTY, Forward: out.LogsToHead && s.plan.Logs != nil}
	if out.PTY {
		io.Cols, io.Rows = terminalSize(s.settings.stdout)
	}
	in := s.settings.stdin
	switch {
	case in == nil || wish.Kind == job.StdinNone:
	case numRanks == 1 && s.isHere(0) && s.passesTerminal():
		io.Terminal = true
	case wish.Kind == job.StdinAll:
		for rank := range numRanks {
			io.Piped = append(io.Piped, rank)
		}
	case wish.Kind == job.StdinSome:
		io.Piped = wish.Ranks
	case out.PTY, !s.isHere(wish.Rank), isTerminal(in) && (numRanks > 1 || !foreground(in)):
		io.Piped = []int{wish.Rank}
	default:
		io.Direct = wish.Rank
	}
	return io
}

// isHere reports whether a rank runs on this host, where it can have descriptors of
// this process.
func (s *session) isHere(rank int) bool { return s.active[s.plan.Ranks[rank].Node].served != nil }

// wholeTerminal: one rank on a terminal gets the terminal itself, unless
// something was asked for that needs its output to pass through here.
func (s *session) passesTerminal() bool {
	o := s.spec.Output
	return isTerminal(s.settings.stdin) && isTerminal(s.settings.stdout) && isTerminal(s.settings.stderr) &&
		foreground(s.settings.stdin) && !o.PTY && s.spec.HangTimeout == 0 && o.Label != job.LabelAlways && o.LogDir == "" &&
		!o.Tee.Any() && !o.Redirect.Any() && o.ShowLocalRanks == nil && !o.Merge
}

func terminalSize(w any) (cols, rows int) {
	if f := asFile(w); f != nil {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil {
			return cols, rows
		}
	}
	return 80, 24
}

// resize tells the console, and ranks with a pseudo-terminal, the new size of
// ours.
func (h *head) resize() {
	cols, rows := terminalSize(h.settings.stdout)
	h.console.Resize(cols)
	if h.stdio.PTY {
		h.broadcast(&wire.Resize{Rows: rows, Cols: cols})
	}
}

// stdinPump reads our standard input for ranks that cannot have it themselves:
// several of them, or one of many on a terminal.
type stdinPump struct {
	head  *head
	in    *os.File
	ranks []int

	mu         sync.Mutex
	room       sync.Cond
	inFlight   int   // bytes under way
	inFlightOf []int // those of each node
	closed     bool
}

// stdinWindow bounds the input under way to a rank, in bytes.
const stdinWindow = 256 << 10

// newStdinPump makes the pump; begin starts it once ranks are there to be written to.
func (h *head) newStdinPump() *stdinPump {
	p := &stdinPump{head: h, in: h.settings.stdin, ranks: h.stdio.Piped, inFlightOf: make([]int, len(h.nodes))}
	p.room.L = &p.mu
	return p
}

func (p *stdinPump) nodeOf(rank int) int { return p.head.plan.Load().Ranks[rank].Node }

// begin starts the reading if some rank needs it.
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
				p.head.console.Entered()
			}
			p.send(buf[:n])
		}
		if err == io.EOF {
			p.send(nil) // the end
		}
		if err != nil {
			return
		}
	}
}

// wait returns when there is something to read and room for it, or false when
// the job has ended. A terminal is read only in its foreground.
func (p *stdinPump) wait() bool {
	p.mu.Lock()
	for p.inFlight >= stdinWindow && !p.closed {
		p.room.Wait()
	}
	p.mu.Unlock()
	for !p.stopped() {
		const pollMillis = 200 // how soon we see that we came to the foreground, or that the job ended
		fds := []unix.PollFd{{Fd: int32(p.in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollMillis)
		if err != nil && err != syscall.EINTR {
			return true // the read will say what is wrong
		}
		if n > 0 && (!isTerminal(p.in) || foreground(p.in)) {
			return true
		}
	}
	return false
}

// send hands on what was read, unless that took until the next attempt, whose pump counts what its ranks get.
func (p *stdinPump) send(b []byte) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.inFlight += len(b) * len(p.ranks)
	for _, rank := range p.ranks {
		p.inFlightOf[p.nodeOf(rank)] += len(b)
	}
	p.mu.Unlock()
	for _, rank := range p.ranks {
		_ = p.head.nodes[p.nodeOf(rank)].link.Stdin(rank, b) // or the job is over
	}
}

// credit hears that ranks of a node have read bytes.
func (p *stdinPump) acknowledge(node, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.inFlightOf[node] {
		return wire.Violation("it says that its ranks read %d bytes of standard input, of %d that it got", n,
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

// consumed gives credit back to the node whose rank's bytes were written.
func (h *head) consumed(rank, stream, n int) {
	node := 0
	if rank < len(h.plan.Load().Ranks) {
		node = h.plan.Load().Ranks[rank].Node
	}
	h.credits[node].consumed(stream, n)
}

// credit gives back to the node, in few frames, what the console has written.
type outputCredit struct {
	link   *wire.Link
	window int
	// excess is how much more than it was given the node may send: what its threads were reading
	// when the credit was used up, and what ranks that ended left in their pipes.
	excess   int
	mu       sync.Mutex
	owed     [3]int
	inFlight [3]int // bytes that came and were not given back
}

// Bounds of a node's excess.
const (
	rankExcess = 1<<20 + 256<<10 // for each of its ranks: the largest pipe, a read and what it is asked by a signal
	allExcess  = 64 << 20
)

// take takes up that bytes came, and reports whether the node had credit for them.
func (c *outputCredit) receive(stream, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight[stream] += n
	return c.inFlight[stream] <= c.window+c.excess
}

// grow is for a node that got more ranks.
func (c *outputCredit) addRanks(ranks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excess = min(c.excess+ranks*rankExcess, allExcess)
}

func (c *outputCredit) consumed(stream, n int) {
	c.mu.Lock()
	c.owed[stream] += n
	give := 0
	if c.owed[stream] >= c.window/4 {
		give, c.owed[stream] = c.owed[stream], 0
		c.inFlight[stream] -= give
	}
	c.mu.Unlock()
	if give > 0 {
		_ = c.link.Send(&wire.Credit{Stream: stream, Bytes: give})
	}
}

// owes: bytes are to be given back once more than they came.
func (c *outputCredit) countTwice(stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed[stream] -= n
}

// tailLines are the last lines kept of each stream: tracebacks of PyTorch are
// long, and the user's own frame stands at their beginning.
const tailLines = 60

// consoleConfig is how the ranks' output is shown: all of it or, where each process
// shows that of its own rank, this one's.
func (h *head) consoleConfig() (output.Config, error) {
	c, err := h.settings.consoleConfig(h.spec.Output)
	if err != nil {
		return c, err
	}
	c.Consumed, c.Failed, c.Tap = h.consumed, h.outputFailed, h.monitor.tap()
	p := h.plan.Load()
	for i := range p.Ranks {
		if r := &p.Ranks[i]; !h.spec.IsTask() || !h.nodes[r.Node].joined {
			info := rankInfo(p, r)
			info.Tee = h.teed(r.LocalRank)
			c.Ranks = append(c.Ranks, info)
		}
	}
	return c, nil
}

// consoleConfig is how this process shows what any ranks print.
func (s *settings) consoleConfig(o job.OutputSpec) (output.Config, error) {
	template, err := output.ParseTemplate(o.Template)
	if err != nil {
		return output.Config{}, &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	pattern, err := output.ParsePattern(o.Pattern)
	if err != nil {
		return output.Config{}, &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	return output.Config{
		Pattern:   pattern,
		Merge:     o.Merge,
		Stdout:    destination(s.stdout, s.colour),
		Stderr:    destination(s.stderr, s.colour),
		Label:     output.Label(o.Label),
		Template:  template,
		Show:      localRankFilter(o.ShowLocalRanks),
		TailLines: tailLines,
	}, nil
}

func destination(w io.Writer, colour bool) output.Destination {
	d := output.Destination{W: w, Terminal: isTerminal(w), Color: colour}
	if d.Terminal {
		d.Width, _ = terminalSize(w)
	}
	return d
}

// teed are the streams of a local rank that go to files and to the console, as torchrun's --tee has it, with its label.
func (h *head) teed(localRank int) spec.Streams {
	if l := h.plan.Load().Logs; l != nil && l.Files() && !l.Named() {
		return l.Tee[localRank]
	}
	return 0
}

// shows is --local-ranks-filter.
func localRankFilter(localRanks []int) func(output.RankInfo) bool {
	if localRanks == nil {
		return nil
	}
	return func(r output.RankInfo) bool { return slices.Contains(localRanks, r.LocalRank) }
}
