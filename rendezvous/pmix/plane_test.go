package pmix

import (
	"errors"
	"slices"
	"sync"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// hub joins nodes of a test in memory.
type hub struct {
	mu       sync.Mutex
	fences   map[string]*gathering
	left     map[world.Proc]bool
	services map[int]map[string]service
	fenced   int // fences that were completed
}

type service func(from int, body []byte, reply func([]byte, error))

// gathering is a fence that is under way.
type gathering struct {
	fence exchange.Fence
	blobs map[int][]byte
	done  map[int]func([][]byte, error)
}

func newHub() *hub {
	return &hub{fences: map[string]*gathering{}, left: map[world.Proc]bool{}, services: map[int]map[string]service{}}
}

// nodePlane is one node's end.
type nodePlane struct {
	hub  *hub
	node int
}

func (h *hub) plane(node int) *nodePlane { return &nodePlane{h, node} }

func (p *nodePlane) Node() int { return p.node }

func (p *nodePlane) Fence(f exchange.Fence, done func([][]byte, error)) {
	p.hub.mu.Lock()
	g := p.hub.fences[f.ID]
	if g == nil {
		g = &gathering{fence: f, blobs: map[int][]byte{}, done: map[int]func([][]byte, error){}}
		p.hub.fences[f.ID] = g
	}
	g.blobs[p.node], g.done[p.node] = f.Blob, done
	var later []func()
	if len(g.done) == len(f.Nodes) {
		delete(p.hub.fences, f.ID)
		p.hub.fenced++
		blobs := make([][]byte, len(f.Nodes))
		for i, node := range f.Nodes {
			blobs[i] = g.blobs[node]
		}
		for _, done := range g.done {
			later = append(later, func() { done(blobs, nil) })
		}
	} else {
		later = p.hub.broken(g)
	}
	p.hub.mu.Unlock()
	for _, do := range later {
		do()
	}
}

// broken are the answers to those who wait in a fence that can never be complete. Ranks
// that have left have not come: their servers would not have told else.
func (h *hub) broken(g *gathering) []func() {
	var later []func()
	for p := range h.left {
		member := slices.Contains(g.fence.Members, p) || slices.Contains(g.fence.Members, world.Proc{World: p.World, Rank: world.AllRanks})
		if !member {
			continue
		}
		for _, done := range g.done {
			later = append(later, func() { done(nil, &exchange.LeftError{Missing: p}) })
		}
		delete(h.fences, g.fence.ID)
		return later
	}
	return nil
}

func (p *nodePlane) GiveUp(f exchange.Fence) {
	p.hub.mu.Lock()
	g := p.hub.fences[f.ID]
	delete(p.hub.fences, f.ID)
	p.hub.mu.Unlock()
	if g != nil {
		for _, done := range g.done {
			done(nil, exchange.ErrGivenUp)
		}
	}
}

func (p *nodePlane) Leave(who world.Proc) {
	p.hub.mu.Lock()
	p.hub.left[who] = true
	var later []func()
	for _, g := range p.hub.fences {
		if g.done[p.node] == nil {
			later = append(later, p.hub.broken(g)...)
		}
	}
	p.hub.mu.Unlock()
	for _, do := range later {
		do()
	}
}

func (p *nodePlane) Serve(name string, answer func(int, []byte, func([]byte, error))) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if p.hub.services[p.node] == nil {
		p.hub.services[p.node] = map[string]service{}
	}
	p.hub.services[p.node][name] = answer
}

func (p *nodePlane) Ask(node int, name string, body []byte, done func([]byte, error)) {
	p.hub.mu.Lock()
	answer := p.hub.services[node][name]
	p.hub.mu.Unlock()
	if answer == nil {
		done(nil, errors.New("nobody there"))
		return
	}
	answer(p.node, body, done)
}
