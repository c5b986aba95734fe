package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// DefaultTailLines is how many last lines of a stream a report has.
const DefaultTailLines = 20

// Config configures a Console. Its callbacks run on the Console's own goroutines, one at a time for each destination,
// never within its methods. They may block, which delays that destination, but must not call Flush or Close.
type Config struct {
	Stdout, Stderr Destination
	Ranks          []RankInfo // of the job, ascending by Rank; Add adds more

	Label    Label
	Pattern  Pattern // of all labels; empty: they have gorun's or torchrun's format
	Template Pattern // of tee'd streams' labels, torchrun's --log-line-prefix-template
	// Merge writes the ranks' stderr to Stdout, too; gorun's own lines still go to Stderr.
	Merge bool
	// Now is the clock of tags with the time; nil is time.Now.
	Now func() time.Time

	// Show reports whether a rank's output is written; nil: it is. Tail has it in any case.
	Show func(RankInfo) bool

	// Consumed gives back credit: n bytes that Write got for the stream have been written or dropped. In the end the sum
	// is what Write got.
	Consumed func(rank, stream, n int)

	// Failed reports, once a stream, that stdout or stderr cannot be written: EPIPE without a reader, ENOSPC, EIO. Later
	// bytes are dropped, and their credit given back.
	Failed func(stream int, err error)

	TailLines int // the most lines that Tail returns; 0 means DefaultTailLines

	// Tap gets everything that Write gets from known ranks, before Write returns; nil: no tap. It must not block.
	Tap func(rank, stream int, p []byte)
}

// Console writes the output of ranks to gorun's stdout and stderr. It is safe for concurrent use.
type Console struct {
	cfg     Config
	several bool
	writes  atomic.Int64 // counts writes, to order those of a rank's streams
	sinks   [2]*sink     // by stream; the same one if the destinations are the same
	notices *sink        // of gorun's own lines: stderr's, even with Merge
	taggers [2]tagger
	lanes   [2][]*lane // by stream and index in Ranks; nil until the first byte
}

// NewConsole returns a Console, which the caller closes. It starts goroutines with the first bytes.
func NewConsole(cfg Config) *Console {
	c := &Console{cfg: cfg.complete(), several: len(cfg.Ranks) > 1}
	stdout := newSink(c.cfg, cfg.Stdout, Stdout)
	c.sinks = [2]*sink{stdout, stdout}
	if same(cfg.Stdout, cfg.Stderr) {
		stdout.streams = append(stdout.streams, Stderr)
	} else {
		c.sinks[1] = newSink(c.cfg, cfg.Stderr, Stderr)
	}
	c.notices = c.sinks[1]
	shown := [2]Destination{cfg.Stdout, cfg.Stderr}
	if cfg.Merge {
		c.sinks[1], shown[1] = c.sinks[0], shown[0]
	}
	for i, d := range shown {
		c.taggers[i] = newTagger(c.cfg, d)
		c.lanes[i] = make([]*lane, len(cfg.Ranks))
	}
	return c
}

// complete sets defaults.
func (c Config) complete() Config {
	if c.Tap == nil {
		c.Tap = func(int, int, []byte) {}
	}
	if c.Show == nil {
		c.Show = func(RankInfo) bool { return true }
	}
	if c.Consumed == nil {
		c.Consumed = func(int, int, int) {}
	}
	if c.Failed == nil {
		c.Failed = func(int, error) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.TailLines = cmp.Or(c.TailLines, DefaultTailLines)
	return c
}

// Add adds ranks that the job got while it ran; their numbers are above those of all others.
func (c *Console) Add(ranks []RankInfo) {
	for _, s := range c.distinct() {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	c.cfg.Ranks = slices.Concat(c.cfg.Ranks, ranks)
	c.several = true
	for i := range c.lanes {
		c.taggers[i].several = true
		c.lanes[i] = append(c.lanes[i], make([]*lane, len(ranks))...)
	}
}

func newSink(cfg Config, d Destination, stream int) *sink {
	s := &sink{terminal: d.Terminal, width: d.Width, streams: []int{stream}}
	s.init()
	s.w, s.consumed = writerOf(d.W), cfg.Consumed
	s.failed = func(err error) {
		for _, stream := range s.streams {
			cfg.Failed(stream, err)
		}
	}
	if d.Terminal {
		s.tick = s.showDue
	}
	return s
}

func newTagger(cfg Config, d Destination) tagger {
	t := tagger{Config: cfg, several: len(cfg.Ranks) > 1, terminal: d.Terminal, color: d.Color, digits: 1}
	if n := len(cfg.Ranks); n > 0 {
		t.digits = len(fmt.Sprint(cfg.Ranks[n-1].Rank))
	}
	return t
}

// Write writes bytes that a rank printed. It never blocks, and copies p.
func (c *Console) Write(rank, stream int, p []byte) {
	if len(p) == 0 {
		return
	}
	s := c.sinks[streamIndex(stream)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	hint := new(int)
	if l := c.lane(rank, stream); l != nil {
		l.tail.add(p, tailLimit(stream))
		l.last = c.writes.Add(1)
		c.cfg.Tap(rank, stream, p)
		s.accept(l, p)
		hint = &l.creditHint
	}
	s.credit(hint, credit{rank, stream, len(p)})
	s.signal()
}

// End ends a rank's stream: its final partial line is written, with a newline on a terminal or if it has a label. A
// later Write begins anew (the next attempt's rank).
func (c *Console) End(rank, stream int) {
	s := c.sinks[streamIndex(stream)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := c.known(rank, stream); l != nil && !s.closed {
		s.finish(l)
		s.signal()
	}
}

// Notice writes a line of gorun's own to stderr, between the lines of ranks. Foreign text in it must have passed
// printable.Text.
func (c *Console) Notice(line string) {
	s := c.notices
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.notice(line)
		s.signal()
	}
}

// EndStderr ends the streams that go to stderr and any line left open there, before gorun itself writes to it.
func (c *Console) EndStderr() {
	s := c.notices
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for i := range c.lanes {
		if c.sinks[i] != s { // another lock guards its lanes
			continue
		}
		for _, l := range c.lanes[i] {
			if l != nil {
				s.finish(l)
			}
		}
	}
	s.startLine()
	s.signal()
}

// LineEntered notes that the user has ended a line at the terminal, such as the answer to a prompt. Its echo has moved
// the cursor to a new row, so the rank's next output is a new line.
func (c *Console) LineEntered() {
	c.onTerminals(func(s *sink) { s.lineEntered() })
}

// Resize sets the terminal's number of columns.
func (c *Console) Resize(width int) {
	c.onTerminals(func(s *sink) { s.width = width })
}

func (c *Console) onTerminals(do func(*sink)) {
	for _, s := range c.distinct() {
		s.mu.Lock()
		if s.terminal {
			do(s)
		}
		s.mu.Unlock()
	}
}

// Tail returns the last lines that a rank printed to the stream, with the unfinished one, as [Plain]. Of a line that
// is longer than what is kept it returns the end, after three dots.
func (c *Console) Tail(rank, stream int) (lines []string) {
	c.recent(rank, stream, func(l *lane) {
		if l != nil {
			lines = l.tail.lines(c.cfg.TailLines)
		}
	})
	return lines
}

// Shown reports whether a rank's stream is shown where gorun's own lines go.
func (c *Console) Shown(rank, stream int) bool {
	at := c.index(rank)
	return at >= 0 && c.sinks[streamIndex(stream)] == c.notices && c.cfg.Show(c.cfg.Ranks[at])
}

// Last returns the line that a rank printed last to any stream, as [Plain]; "" for none.
func (c *Console) Last(rank int) (last string) {
	var when int64
	for _, stream := range []int{Stdout, Stderr} {
		c.recent(rank, stream, func(l *lane) {
			if l == nil || l.last < when {
				return
			}
			if lines := l.tail.lines(1); len(lines) > 0 {
				last, when = lines[0], l.last
			}
		})
	}
	return last
}

// Recent calls then with the end of what a rank printed to a stream; truncated reports that it had printed more
// before. Nothing of the stream reaches Tap meanwhile.
func (c *Console) Recent(rank, stream int, then func(end []byte, truncated bool)) {
	c.recent(rank, stream, func(l *lane) {
		if l == nil {
			then(nil, false)
		} else {
			then(l.tail.buf, l.tail.truncated)
		}
	})
}

func (c *Console) recent(rank, stream int, then func(*lane)) {
	s := c.sinks[streamIndex(stream)]
	s.mu.Lock()
	defer s.mu.Unlock()
	then(c.known(rank, stream))
}

// Flush waits until everything so far is written or dropped, except held partial lines.
func (c *Console) Flush(ctx context.Context) error {
	var errs []error
	for _, s := range c.distinct() {
		if err := s.flush(ctx); err != nil {
			errs = append(errs, fmt.Errorf("write the ranks' output to %s: %w", streamName(s.streams[0]), err))
		}
	}
	return errors.Join(errs...)
}

// Close ends all streams, waits until everything is written or dropped, and ends the Console's goroutines. It returns
// the context's error if that ends first, as a reader is stuck. Writes to a closed Console are dropped without credit.
func (c *Console) Close(ctx context.Context) error {
	for i := range c.lanes {
		s := c.sinks[i]
		s.mu.Lock()
		for _, l := range c.lanes[i] {
			if l != nil && !s.closed {
				s.finish(l)
			}
		}
		s.mu.Unlock()
	}
	for _, s := range c.distinct() {
		s.mu.Lock()
		s.close()
		s.mu.Unlock()
	}
	return c.Flush(ctx)
}

// distinct returns the sinks, each once.
func (c *Console) distinct() []*sink {
	if c.sinks[0] == c.notices {
		return c.sinks[:1]
	}
	return []*sink{c.sinks[0], c.notices}
}

// lane returns the lane of a rank's stream, which it makes if necessary; nil for an unknown rank.
func (c *Console) lane(rank, stream int) *lane {
	at := c.index(rank)
	if at < 0 {
		return nil
	}
	of := &c.lanes[streamIndex(stream)][at]
	if *of == nil {
		*of = c.newLane(c.cfg.Ranks[at], stream)
	}
	return *of
}

// known returns the lane of a rank's stream; nil before its first byte.
func (c *Console) known(rank, stream int) *lane {
	if at := c.index(rank); at >= 0 {
		return c.lanes[streamIndex(stream)][at]
	}
	return nil
}

// index returns the index of a rank in Ranks, -1 for an unknown one.
func (c *Console) index(rank int) int {
	if rank >= 0 && rank < len(c.cfg.Ranks) && c.cfg.Ranks[rank].Rank == rank {
		return rank
	}
	at, found := slices.BinarySearchFunc(c.cfg.Ranks, rank, func(r RankInfo, rank int) int { return r.Rank - rank })
	if !found {
		return -1
	}
	return at
}

func (c *Console) newLane(r RankInfo, stream int) *lane {
	i := streamIndex(stream)
	l := &lane{tag: c.taggers[i].tag(r, stream)}
	if c.cfg.Pattern.timed && l.tag != nil {
		l.stamp = &stamp{tagger: &c.taggers[i], rank: r, stream: stream}
	}
	switch {
	case !c.cfg.Show(r):
		l.discipline = dropBytes
	case !c.several && len(l.tag) == 0:
		l.discipline = passBytes
	case c.sinks[i].terminal:
		l.discipline = screenRows
	default:
		l.discipline = wholeLines
	}
	return l
}

func tailLimit(stream int) int {
	if stream == Stdout {
		return stdoutTail
	}
	return stderrTail
}
