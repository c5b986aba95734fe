package nccllog

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
)

const (
	maxHead     = 512     // bytes within which a line must have the mark of NCCL
	maxLine     = 4 << 10 // bytes of a line that are kept
	maxWarnings = 64      // distinct ones, per job
)

// Collector gathers facts from what ranks print. Output without NCCL's lines costs a search for three letters and the
// buffering of incomplete lines.
type Collector struct {
	streams []stream // two per rank; each is used only by the writer of that rank

	mu          sync.Mutex // guards the fields below
	ranks       map[int]*Facts
	warnings    []*spec.NCCLWarning
	known       map[string]*spec.NCCLWarning // by normalized text
	dropped     int                          // warnings beyond maxWarnings
	versionLine bool                         // a version came by itself, without INFO lines
	total       total
}

// total combines the facts of all ranks. It is updated with each line, because it is read after each line with news.
type total struct {
	size, connected int
	detailed        bool   // a rank logged more than its version
	version         string // the first one
	mixed           bool   // ranks have different versions
}

// update adds what a line changed in the facts of a rank.
func (t *total) update(before, after *Facts) {
	t.size = max(t.size, after.Size)
	t.detailed = t.detailed || after.Network != "" || after.Bootstrap != "" || after.Size > 0
	if after.Connected && !before.Connected {
		t.connected++
	}
	if name := after.name(); name != "" && name != before.name() {
		t.version = cmp.Or(t.version, name)
		t.mixed = t.mixed || name != t.version
	}
}

// name returns the library and its version, "" if unknown.
func (f *Facts) name() string {
	if f.Version == "" {
		return ""
	}
	return f.Library + " " + f.Version
}

// stream buffers the incomplete line of a rank's stream.
type stream struct {
	held []byte
	skip bool // the line is not NCCL's
}

// New returns a Collector for ranks from 0. It ignores other ranks.
func New(ranks int) *Collector { return &Collector{streams: make([]stream, 2*ranks)} }

// Write takes what a rank printed to file descriptor fd (1 or 2), and reports whether Summaries or Versions may have
// changed. A rank must have only one concurrent writer.
func (c *Collector) Write(rank, fd int, p []byte) (news bool) {
	i := 2*rank + fd - 1
	if rank < 0 || i < 0 || i >= len(c.streams) {
		return false
	}
	s := &c.streams[i]
	if len(s.held) > 0 || s.skip {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.hold(p)
			return false
		}
		if s.hold(p[:end]); !s.skip {
			news = c.line(rank, s.held)
		}
		s.held, s.skip = s.held[:0], false
		p = p[end+1:]
	}
	for {
		i := bytes.Index(p, mark)
		if i < 0 {
			break
		}
		end := bytes.IndexByte(p[i:], '\n')
		if end < 0 {
			break
		}
		news = c.line(rank, p[bytes.LastIndexByte(p[:i], '\n')+1:i+end]) || news
		p = p[i+end+1:]
	}
	if tail := p[bytes.LastIndexByte(p, '\n')+1:]; len(tail) > 0 {
		s.hold(tail)
	}
	return news
}

func (s *stream) hold(p []byte) {
	if s.skip {
		return
	}
	s.held = append(s.held, p[:min(len(p), maxLine-len(s.held))]...)
	if len(s.held) > maxHead && !bytes.Contains(s.held[:maxHead], mark) {
		s.held, s.skip = nil, true
	}
}

// line handles a complete line.
func (c *Collector) line(rank int, text []byte) bool {
	l, ok := Parse(text)
	if !ok || l.Level == Other {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ranks == nil {
		c.ranks, c.known = map[int]*Facts{}, map[string]*spec.NCCLWarning{}
	}
	f := c.ranks[rank]
	if f == nil {
		f = &Facts{}
		c.ranks[rank] = f
	}
	if l.Level == Warn {
		c.warn(rank, l.Text)
		return false
	}
	if l.Level == Version { // with NCCL_DEBUG=INFO it is in an INFO line
		c.versionLine = true
	}
	before := *f
	news := f.update(&l)
	c.total.update(&before, f)
	return news
}

func (c *Collector) warn(rank int, text string) {
	text = clip(text)
	key := normalize(text)
	w := c.known[key]
	if w == nil {
		if len(c.warnings) >= maxWarnings {
			c.dropped++
			return
		}
		w = &spec.NCCLWarning{Text: text}
		c.known[key] = w
		c.warnings = append(c.warnings, w)
	}
	w.Times++
	if at, found := slices.BinarySearch(w.Ranks, rank); !found {
		w.Ranks = slices.Insert(w.Ranks, at, rank)
	}
}

// Warnings returns NCCL's warnings, in the order in which each came first. Those that differ only in pointers, ports or
// numbers of ranks and devices are one.
func (c *Collector) Warnings() (list []spec.NCCLWarning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.warnings {
		list = append(list, spec.NCCLWarning{Text: printable.Text(w.Text), Ranks: slices.Clone(w.Ranks), Times: w.Times})
	}
	return list
}

// Facts returns the facts of a rank. ok is false if it logged nothing.
func (c *Collector) Facts(rank int) (facts Facts, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.ranks[rank]
	if f == nil {
		return Facts{}, false
	}
	return *f, true
}
