package nccllog

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
)

// Limits of what is held of lines that have not ended.
const (
	longestHead  = 512     // bytes; later than this no line begins to be NCCL's
	longestLine  = 4 << 10 // what comes behind it is not looked at
	mostDistinct = 64      // warnings that differ, of a whole job
)

// Collector gathers facts from what ranks print. Output without a line of NCCL's costs it a search for three letters,
// and room for the beginning of a line that was written in pieces.
type Collector struct {
	lanes []lane // two for each rank; each belongs to who writes for the rank

	mu           sync.Mutex // guards what follows
	ranks        map[int]*Facts
	warns        []*spec.NCCLWarning
	known        map[string]*spec.NCCLWarning // by Normal
	dropped      int                          // warnings beyond what is kept
	versionAlone bool                         // a version came, and not as a line of INFO
	total        total
}

// total is what all ranks said, kept up with each line: it is asked for after every one that has news, of many ranks.
type total struct {
	size, connected int
	spoke           bool   // somebody said more than a version
	version         string // the first one
	mixed           bool   // somebody has another
}

// add takes up what a line changed in the facts of a rank.
func (t *total) add(before, after *Facts) {
	t.size = max(t.size, after.Size)
	t.spoke = t.spoke || after.Network != "" || after.Bootstrap != "" || after.Size > 0
	if after.Connected && !before.Connected {
		t.connected++
	}
	if name := after.name(); name != "" && name != before.name() {
		t.version = cmp.Or(t.version, name)
		t.mixed = t.mixed || name != t.version
	}
}

// name is that of the library with its version, "" where it is not known.
func (f *Facts) name() string {
	if f.Version == "" {
		return ""
	}
	return f.Library + " " + f.Version
}

// lane is the line of a stream that has not ended.
type lane struct {
	held []byte
	skip bool // it is none of NCCL's, or too long
}

// New makes a Collector for the ranks from 0 to one below that number. What others print is not looked at.
func New(ranks int) *Collector { return &Collector{lanes: make([]lane, 2*ranks)} }

// Write takes what a rank printed to a stream, 1 or 2, and reports whether there are facts that Summaries or Versions
// may show. One goroutine at a time writes for a rank.
func (c *Collector) Write(rank, stream int, p []byte) (news bool) {
	at := 2*rank + stream - 1
	if rank < 0 || at < 0 || at >= len(c.lanes) {
		return false
	}
	l := &c.lanes[at]
	if len(l.held) > 0 || l.skip {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.hold(p)
			return false
		}
		if l.hold(p[:end]); !l.skip {
			news = c.line(rank, l.held)
		}
		l.held, l.skip = l.held[:0], false
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
		l.hold(tail)
	}
	return news
}

// hold keeps more of a line that has not ended.
func (l *lane) hold(p []byte) {
	if l.skip {
		return
	}
	l.held = append(l.held, p[:min(len(p), longestLine-len(l.held))]...)
	if len(l.held) > longestHead && !bytes.Contains(l.held[:longestHead], mark) {
		l.held, l.skip = nil, true
	}
}

// line takes a complete line.
func (c *Collector) line(rank int, text []byte) bool {
	l, ok := Parse(text)
	if !ok || l.Level == Other {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.facts(rank)
	if l.Level == Warn {
		c.warn(rank, l.Text)
		return false
	}
	if l.Level == Version { // NCCL_DEBUG=INFO has it in a line of INFO
		c.versionAlone = true
	}
	before := *f
	news := f.learn(&l)
	c.total.add(&before, f)
	return news
}

func (c *Collector) facts(rank int) *Facts {
	if c.ranks == nil {
		c.ranks, c.known = map[int]*Facts{}, map[string]*spec.NCCLWarning{}
	}
	f := c.ranks[rank]
	if f == nil {
		f = &Facts{}
		c.ranks[rank] = f
	}
	return f
}

func (c *Collector) warn(rank int, text string) {
	text = clip(text)
	key := Normal(text)
	w := c.known[key]
	if w == nil {
		if len(c.warns) >= mostDistinct {
			c.dropped++
			return
		}
		w = &spec.NCCLWarning{Text: text}
		c.known[key] = w
		c.warns = append(c.warns, w)
	}
	w.Times++
	if at, found := slices.BinarySearch(w.Ranks, rank); !found {
		w.Ranks = slices.Insert(w.Ranks, at, rank)
	}
}

// Warnings are what NCCL warned of, those that say the same as one, in the order in which the first of each came.
func (c *Collector) Warnings() (list []spec.NCCLWarning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.warns {
		list = append(list, spec.NCCLWarning{Text: printable.Text(w.Text), Ranks: slices.Clone(w.Ranks), Times: w.Times})
	}
	return list
}

// Facts are those of a rank; false where it printed no line of NCCL's.
func (c *Collector) Facts(rank int) (Facts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.ranks[rank]
	if f == nil {
		return Facts{}, false
	}
	return f.clone(), true
}

func (f *Facts) clone() Facts {
	g := *f
	g.Interfaces, g.Ports, g.Used = slices.Clone(f.Interfaces), slices.Clone(f.Ports), slices.Clone(f.Used)
	return g
}
