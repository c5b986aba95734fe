package exchange

import (
	"slices"
	"sync"
	"time"

	"gorun/rendezvous/world"
)

// Limits of the names of a job.
const (
	maxSpaces     = 16       // that one lookup names
	maxWanted     = 1 << 10  // names in one lookup
	maxNameBytes  = 64 << 20 // all names and values together
	maxNames      = 1 << 16
	maxNameWaits  = 1 << 16 // lookups that wait
	maxRankWaits  = 1 << 10 // those of one rank among them
	maxNameLength = 4 << 10 // in bytes, of a space and a name each
)

// Names is the head's registry of published names.
type Names struct {
	hub *Hub

	mu      sync.Mutex
	names   map[nameKey]*Published
	bytes   int
	waits   map[*nameWait]bool
	waitsOf map[world.Proc]int      // how many of them, by who wants it
	left    map[string]map[int]bool // ranks that have ended, by world
	heard   bool                    // they are heard of
	closed  bool
}

type nameKey struct{ space, name string }

// nameWait is a lookup that waits.
type nameWait struct {
	wanted Wanted
	found  []Published
	taken  int         // bytes of those among them that nobody else finds
	timer  *time.Timer // nil: as long as it takes
	reply  func([]byte, error)
}

// ServeNames has the hub answer Publish, Lookup and Unpublish.
func ServeNames(h *Hub) *Names {
	n := &Names{
		hub: h, names: map[nameKey]*Published{}, waits: map[*nameWait]bool{}, waitsOf: map[world.Proc]int{},
		left: map[string]map[int]bool{},
	}
	h.Serve(namesService, n.answer)
	return n
}

// Close forgets all names, and lets those who wait wait.
func (n *Names) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for w := range n.waits {
		n.stop(w)
	}
	clear(n.names)
}

// answer reads a question and answers it.
func (n *Names) answer(_ int, body []byte, reply func([]byte, error)) {
	var q nameQuestion
	c := coder{b: body, reads: true}
	c.question(&q)
	err := errBadNameBody
	switch {
	case c.bad:
	case q.op == opPublish:
		err = n.publishAll(q.published)
	case q.op == opLookup:
		n.hearOfLeft(q.wanted.Wait != 0)
		n.lookup(q.wanted, reply)
		return
	case q.op == opUnpublish:
		err = n.unpublish(q.wanted)
	}
	reply(packNameAnswer(nil, err), nil)
}

// hearOfLeft hears of those who leave, from the first time that somebody wants it.
func (n *Names) hearOfLeft(wanted bool) {
	n.mu.Lock()
	first := wanted && !n.heard
	n.heard = n.heard || wanted
	n.mu.Unlock()
	if first {
		n.hub.OnLeft(n.hasLeft)
	}
}

// publishAll publishes names, or none of them.
func (n *Names) publishAll(names []Published) error {
	n.hearOfLeft(slices.ContainsFunc(names, func(p Published) bool { return p.Keep == KeepWorld || p.Keep == KeepOwner }))
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range names {
		if err := n.publish(&names[i]); err != nil {
			for _, p := range names[:i] {
				n.forget(p.key())
			}
			return err
		}
	}
	return nil
}

func (n *Names) publish(p *Published) error {
	k := p.key()
	switch {
	case n.names[k] != nil:
		return ErrPublished
	case len(n.names) >= maxNames || n.bytes+p.size() > maxNameBytes || len(p.Space) > maxNameLength ||
		len(p.Name) > maxNameLength:
		return ErrTooMany
	}
	n.names[k] = p
	n.bytes += p.size()
	for w := range n.waits {
		if slices.Contains(w.wanted.Names, p.Name) && slices.Contains(w.wanted.Spaces, p.Space) {
			n.take(w, p)
			if len(w.found) >= w.wanted.Need {
				n.settle(w, nil)
			}
			if p.Keep == KeepRead {
				break
			}
		}
	}
	if n.isOver(p) {
		n.forget(k)
	}
	return nil
}

// take has a lookup find a name. What is forgotten then counts until it is answered.
func (n *Names) take(w *nameWait, p *Published) {
	w.found = append(w.found, *p)
	w.wanted.Names = slices.DeleteFunc(w.wanted.Names, func(name string) bool { return name == p.Name })
	if p.Keep == KeepRead {
		delete(n.names, p.key())
		w.taken += p.size()
	}
}

// settle answers a lookup that waits.
func (n *Names) settle(w *nameWait, err error) {
	n.stop(w)
	n.answerLookup(w, err)
}

func (n *Names) answerLookup(w *nameWait, err error) {
	n.bytes -= w.taken
	w.reply(packNameAnswer(w.found, err), nil)
}

func (p *Published) key() nameKey { return nameKey{p.Space, p.Name} }

// size is what a name takes, in bytes.
func (p *Published) size() int { return len(p.Space) + len(p.Name) + len(p.Value) }

func (n *Names) forget(k nameKey) {
	if p := n.names[k]; p != nil {
		n.bytes -= p.size()
		delete(n.names, k)
	}
}

func (n *Names) lookup(w Wanted, reply func([]byte, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wait := &nameWait{wanted: w, reply: reply}
	for _, name := range slices.Clone(w.Names) {
		if p := n.find(w.Spaces, name); p != nil {
			n.take(wait, p)
		}
	}
	switch {
	case len(wait.found) >= w.Need:
		n.answerLookup(wait, nil)
		return
	case w.Wait == 0 || n.left[w.By.World][w.By.Rank]:
		n.answerLookup(wait, ErrNotPublished)
		return
	case len(n.waits) >= maxNameWaits || n.waitsOf[w.By] >= maxRankWaits:
		n.answerLookup(wait, ErrTooManyWaits)
		return
	case n.closed:
		return
	}
	if w.Wait > 0 {
		wait.timer = time.AfterFunc(w.Wait, func() { n.giveUp(wait) })
	}
	n.waits[wait] = true
	n.waitsOf[w.By]++
}

// find is the first of the spaces' names of that name.
func (n *Names) find(spaces []string, name string) *Published {
	for _, space := range spaces {
		if p := n.names[nameKey{space, name}]; p != nil {
			return p
		}
	}
	return nil
}

// giveUp answers a lookup that has waited long enough.
func (n *Names) giveUp(w *nameWait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits[w] {
		n.settle(w, ErrNotPublished)
	}
}

func (n *Names) stop(w *nameWait) {
	delete(n.waits, w)
	if by := w.wanted.By; n.waitsOf[by] == 1 {
		delete(n.waitsOf, by)
	} else {
		n.waitsOf[by]--
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (n *Names) unpublish(w Wanted) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range w.Names {
		p := n.find(w.Spaces, name)
		switch {
		case p == nil:
			return ErrNotPublished
		case w.By.World != "" && p.Owner != w.By:
			return ErrNotOwner
		}
		n.forget(p.key())
	}
	if len(w.Names) > 0 {
		return nil
	}
	for k, p := range n.names {
		if p.Owner == w.By && slices.Contains(w.Spaces, k.space) {
			n.forget(k)
		}
	}
	return nil
}

// hasLeft forgets what the end of a rank makes void.
func (n *Names) hasLeft(p world.Proc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left[p.World] == nil {
		n.left[p.World] = map[int]bool{}
	}
	n.left[p.World][p.Rank] = true
	for k, name := range n.names {
		if name.Owner.World == p.World && n.isOver(name) {
			n.forget(k)
		}
	}
	for w := range n.waits {
		if w.wanted.By == p {
			n.settle(w, ErrNotPublished)
		}
	}
}

// isOver reports whether nobody keeps a name any more.
func (n *Names) isOver(p *Published) bool {
	left := n.left[p.Owner.World]
	switch p.Keep {
	case KeepWorld:
		return p.WorldSize > 0 && len(left) >= p.WorldSize
	case KeepOwner:
		return left[p.Owner.Rank]
	}
	return false
}
