package exchange

import (
	"slices"
	"sync"
	"time"

	"gorun/rendezvous/world"
)

// Limits of the names of a job.
const (
	maxSpaces      = 16       // in one lookup
	maxLookupNames = 1 << 10  // in one lookup
	maxNameBytes   = 64 << 20 // all names and values together
	maxNames       = 1 << 16
	maxNameWaits   = 1 << 16 // waiting lookups
	maxRankWaits   = 1 << 10 // of them by one rank
	maxNameLength  = 4 << 10 // of a space and of a name, in bytes
)

// Names is the head's registry of published names.
type Names struct {
	hub *Hub

	mu       sync.Mutex
	names    map[nameKey]*Name
	bytes    int
	waits    map[*nameWait]bool
	waitsOf  map[world.Proc]int      // number of waits by rank
	exited   map[string]map[int]bool // ranks by world
	watching bool                    // the hub reports exited ranks
	closed   bool
}

type nameKey struct{ space, name string }

// nameWait is a lookup that waits.
type nameWait struct {
	query Query
	found []Name
	taken int         // bytes of the found names that were removed from the registry
	timer *time.Timer // nil without a time limit
	reply func([]byte, error)
}

// ServeNames has the hub serve Publish, Lookup and Unpublish.
func ServeNames(h *Hub) *Names {
	n := &Names{
		hub: h, names: map[nameKey]*Name{}, waits: map[*nameWait]bool{}, waitsOf: map[world.Proc]int{},
		exited: map[string]map[int]bool{},
	}
	h.Serve(namesService, n.serve)
	return n
}

// Close drops all names. Lookups that wait get no reply.
func (n *Names) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for w := range n.waits {
		n.stop(w)
	}
	clear(n.names)
}

func (n *Names) serve(_ int, body []byte, reply func([]byte, error)) {
	r, ok := readNameRequest(body)
	err := errBadNameRequest
	switch {
	case !ok:
	case r.Op == opPublish:
		err = n.publishAll(r.Published)
	case r.Op == opLookup:
		if r.Query.Wait != 0 {
			n.watch()
		}
		n.lookup(r.Query, reply)
		return
	case r.Op == opUnpublish:
		err = n.unpublish(r.Query)
	}
	reply(packNameReply(nil, err), nil)
}

// watch subscribes to exited ranks when the first request depends on them.
func (n *Names) watch() {
	n.mu.Lock()
	watching := n.watching
	n.watching = true
	n.mu.Unlock()
	if !watching {
		n.hub.OnExit(n.rankExited)
	}
}

// publishAll publishes all names or none.
func (n *Names) publishAll(names []Name) error {
	for i := range names {
		if l := names[i].Lifetime; l == LifetimeWorld || l == LifetimeOwner {
			n.watch()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range names {
		if err := n.publish(&names[i]); err != nil {
			for _, p := range names[:i] {
				n.remove(p.key())
			}
			return err
		}
	}
	return nil
}

func (n *Names) publish(p *Name) error {
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
		if slices.Contains(w.query.Names, p.Name) && slices.Contains(w.query.Spaces, p.Space) {
			n.take(w, p)
			if len(w.found) >= w.query.Need {
				n.finish(w, nil)
			}
			if p.Lifetime == LifetimeFirstRead {
				break
			}
		}
	}
	if n.isOver(p) {
		n.remove(k)
	}
	return nil
}

// take adds a name to what a lookup has found. A name that is read once counts in bytes until the reply.
func (n *Names) take(w *nameWait, p *Name) {
	w.found = append(w.found, *p)
	w.query.Names = slices.DeleteFunc(w.query.Names, func(name string) bool { return name == p.Name })
	if p.Lifetime == LifetimeFirstRead {
		delete(n.names, p.key())
		w.taken += p.size()
	}
}

// finish ends a lookup that waits.
func (n *Names) finish(w *nameWait, err error) {
	n.stop(w)
	n.replyLookup(w, err)
}

func (n *Names) replyLookup(w *nameWait, err error) {
	n.bytes -= w.taken
	w.reply(packNameReply(w.found, err), nil)
}

func (p *Name) key() nameKey { return nameKey{p.Space, p.Name} }

func (p *Name) size() int { return len(p.Space) + len(p.Name) + len(p.Value) }

func (n *Names) remove(k nameKey) {
	if p := n.names[k]; p != nil {
		n.bytes -= p.size()
		delete(n.names, k)
	}
}

func (n *Names) lookup(q Query, reply func([]byte, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &nameWait{query: q, reply: reply}
	for _, name := range slices.Clone(q.Names) {
		if p := n.find(q.Spaces, name); p != nil {
			n.take(w, p)
		}
	}
	switch {
	case len(w.found) >= q.Need:
		n.replyLookup(w, nil)
		return
	case q.Wait == 0 || n.exited[q.By.World][q.By.Rank]:
		n.replyLookup(w, ErrNotPublished)
		return
	case len(n.waits) >= maxNameWaits || n.waitsOf[q.By] >= maxRankWaits:
		n.replyLookup(w, ErrTooManyWaits)
		return
	case n.closed:
		return
	}
	if q.Wait > 0 {
		w.timer = time.AfterFunc(q.Wait, func() { n.expire(w) })
	}
	n.waits[w] = true
	n.waitsOf[q.By]++
}

// find returns the name in the first space that has it, nil if none has.
func (n *Names) find(spaces []string, name string) *Name {
	for _, space := range spaces {
		if p := n.names[nameKey{space, name}]; p != nil {
			return p
		}
	}
	return nil
}

func (n *Names) expire(w *nameWait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits[w] {
		n.finish(w, ErrNotPublished)
	}
}

func (n *Names) stop(w *nameWait) {
	delete(n.waits, w)
	if by := w.query.By; n.waitsOf[by] == 1 {
		delete(n.waitsOf, by)
	} else {
		n.waitsOf[by]--
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (n *Names) unpublish(q Query) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range q.Names {
		p := n.find(q.Spaces, name)
		switch {
		case p == nil:
			return ErrNotPublished
		case q.By.World != "" && p.Owner != q.By:
			return ErrNotOwner
		}
		n.remove(p.key())
	}
	if len(q.Names) > 0 {
		return nil
	}
	for k, p := range n.names {
		if p.Owner == q.By && slices.Contains(q.Spaces, k.space) {
			n.remove(k)
		}
	}
	return nil
}

// rankExited removes the names and ends the lookups that depended on a rank.
func (n *Names) rankExited(p world.Proc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.exited[p.World] == nil {
		n.exited[p.World] = map[int]bool{}
	}
	n.exited[p.World][p.Rank] = true
	for k, name := range n.names {
		if name.Owner.World == p.World && n.isOver(name) {
			n.remove(k)
		}
	}
	for w := range n.waits {
		if w.query.By == p {
			n.finish(w, ErrNotPublished)
		}
	}
}

// isOver reports whether the lifetime of a name has ended with its owner or the owner's world.
func (n *Names) isOver(p *Name) bool {
	exited := n.exited[p.Owner.World]
	switch p.Lifetime {
	case LifetimeWorld:
		return p.WorldSize > 0 && len(exited) >= p.WorldSize
	case LifetimeOwner:
		return exited[p.Owner.Rank]
	}
	return false
}
