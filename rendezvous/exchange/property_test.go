package exchange_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// schedule is a random history: the actions of nodes, and their results.
type schedule struct {
	t      *testing.T
	rng    *rand.Rand
	star   *exchangetest.Star
	nodes  int
	fences []*planned
	todo   []func()
	left   map[world.Proc]bool
	lost   int  // the node that is lost, -1 for none
	gone   bool // it ended after its ranks and was not lost
	asks   int

	mu   sync.Mutex // guards the results
	got  []string   // results of requests, and expected results
	want []string
}

// planned is a fence and its history.
type planned struct {
	f    exchange.Fence
	late map[int]bool // nodes that entered after one of their members had exited
	came map[int]bool
	done map[int]int
	err  map[int]error
	got  map[int][][]byte
}

// ranksPerNode is the number of ranks of each node in the only world: rank r is on node r/ranksPerNode.
const ranksPerNode = 2

func newSchedule(t *testing.T, rng *rand.Rand) *schedule {
	s := &schedule{t: t, rng: rng, nodes: 2 + rng.IntN(4), left: map[world.Proc]bool{}, lost: -1}
	s.star = exchangetest.NewStopped(s.nodes)
	for i := range 1 + rng.IntN(5) {
		s.planFence(i)
	}
	for range rng.IntN(4) {
		p := world.Proc{World: "w", Rank: rng.IntN(s.nodes * ranksPerNode)}
		s.todo = append(s.todo, func() { s.leave(p) })
	}
	if rng.IntN(4) == 0 {
		node := rng.IntN(s.nodes)
		s.todo = append(s.todo, func() { s.lose(node) })
	}
	for _, n := range s.star.Nodes {
		n.Serve("echo", func(from int, body []byte, reply func([]byte, error)) {
			reply(fmt.Appendf(nil, "%d>%d:%s", from, n.Number(), body), nil)
		})
	}
	for range rng.IntN(6) {
		from, to := rng.IntN(s.nodes), rng.IntN(s.nodes)
		s.todo = append(s.todo, func() { s.ask(from, to) })
	}
	rng.Shuffle(len(s.todo), func(i, j int) { s.todo[i], s.todo[j] = s.todo[j], s.todo[i] })
	return s
}

// lose makes a node fail, or end after its ranks.
func (s *schedule) lose(node int) {
	s.lost, s.gone = node, s.rng.IntN(2) == 0
	if !s.gone {
		s.star.Lose(node)
		return
	}
	var procs []world.Proc
	for i := range ranksPerNode {
		p := world.Proc{World: "w", Rank: node*ranksPerNode + i}
		s.left[p] = true
		procs = append(procs, p)
	}
	s.star.Cut(node)
	s.star.Hub.NodeExited(node, procs)
}

// planFence makes some nodes enter a fence, mostly with all their ranks.
func (s *schedule) planFence(i int) {
	p := &planned{
		late: map[int]bool{}, came: map[int]bool{}, done: map[int]int{}, err: map[int]error{},
		got: map[int][][]byte{},
	}
	p.f.ID = fmt.Sprint("fence ", i)
	for node := range s.nodes {
		if s.rng.IntN(4) > 0 {
			p.f.Nodes = append(p.f.Nodes, node)
		}
	}
	if len(p.f.Nodes) == 0 {
		p.f.Nodes = []int{0}
	}
	if s.rng.IntN(2) == 0 && len(p.f.Nodes) == s.nodes {
		p.f.Members = []world.Proc{{World: "w", Rank: world.AllRanks}}
	} else {
		for _, node := range p.f.Nodes {
			p.f.Members = append(p.f.Members, world.Proc{World: "w", Rank: node*ranksPerNode + s.rng.IntN(ranksPerNode)})
		}
	}
	s.fences = append(s.fences, p)
	for _, node := range p.f.Nodes {
		if s.rng.IntN(8) > 0 {
			s.todo = append(s.todo, func() { s.come(p, node) })
		}
	}
}

func (p *planned) blob(node int) []byte { return fmt.Appendf(nil, "%s of %d", p.f.ID, node) }

func (p *planned) has(r world.Proc) bool {
	return slices.Contains(p.f.Members, r) ||
		slices.Contains(p.f.Members, world.Proc{World: r.World, Rank: world.AllRanks})
}

func (s *schedule) come(p *planned, node int) {
	if node == s.lost {
		return
	}
	f := p.f
	f.Blob = p.blob(node)
	p.came[node] = true
	for r := range s.left {
		p.late[node] = p.late[node] || r.Rank/ranksPerNode == node && p.has(r)
	}
	s.star.Nodes[node].Fence(f, func(blobs [][]byte, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.done[node]++
		p.got[node], p.err[node] = blobs, err
	})
}

func (s *schedule) leave(r world.Proc) {
	if node := r.Rank / ranksPerNode; node != s.lost && !s.left[r] {
		s.left[r] = true
		s.star.Nodes[node].RankExited(r)
	}
}

func (s *schedule) ask(from, to int) {
	if from == s.lost || to == s.lost {
		return
	}
	s.asks++
	body := fmt.Sprint("question ", s.asks)
	want := fmt.Sprintf("%d>%d:%s", from, to, body)
	s.want = append(s.want, want)
	s.star.Nodes[from].Request(to, "echo", []byte(body), func(answer []byte, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			answer = []byte(want + err.Error())
		}
		s.got = append(s.got, string(answer))
	})
}

// run runs the schedule, delivers some messages in between, and then delivers the rest.
func (s *schedule) run() {
	for _, do := range s.todo {
		for range s.rng.IntN(4) {
			s.step()
		}
		do()
		s.settle()
	}
	for s.step() {
	}
}

// end stops the callbacks.
func (s *schedule) end() {
	s.star.Close()
	s.settle()
}

// settle waits for the callbacks of all nodes. It waits twice, because a node's requests to itself cause more
// callbacks.
func (s *schedule) settle() {
	for range 2 {
		for _, n := range s.star.Nodes {
			n.Settle()
		}
	}
}

// step delivers a message and waits for its consequences.
func (s *schedule) step() bool {
	more := s.star.Step(s.rng)
	s.settle()
	return more
}

// check compares the results with the history.
func (s *schedule) check() {
	waiting := 0
	for _, p := range s.fences {
		if s.checkFence(p) {
			waiting++
		}
	}
	fences, questions, bytes := s.star.Hub.Kept()
	require.LessOrEqual(s.t, fences, waiting, "what is over is forgotten")
	require.Zero(s.t, questions)
	if fences == 0 {
		require.Zero(s.t, bytes)
	}
	if s.lost < 0 {
		slices.Sort(s.got)
		slices.Sort(s.want)
		require.Equal(s.t, s.want, s.got)
	}
}

// checkFence reports whether a node may still enter.
func (s *schedule) checkFence(p *planned) (waits bool) {
	complete, doomed := len(p.came) == len(p.f.Nodes), false
	for r := range s.left {
		node := r.Rank / ranksPerNode
		if at := p.f.Nodes; p.has(r) && slices.Contains(at, node) && len(at) > 1 && (!p.came[node] || p.late[node]) {
			doomed = true
		}
	}
	doomed = doomed || s.lost >= 0 && slices.Contains(p.f.Nodes, s.lost) && !p.came[s.lost]
	for _, node := range p.f.Nodes {
		if !p.came[node] || node == s.lost {
			waits = waits || p.came[node]
			continue
		}
		require.LessOrEqual(s.t, p.done[node], 1)
		var left *exchange.ExitedError
		switch done := p.done[node] == 1; {
		case done && p.err[node] == nil:
			require.True(s.t, complete && !doomed && len(p.got[node]) == len(p.f.Nodes), "%s at %d", p.f.ID, node)
			for i, other := range p.f.Nodes {
				require.Equal(s.t, p.blob(other), p.got[node][i])
			}
		case done && errors.As(p.err[node], &left):
			require.True(s.t, s.left[left.Missing] && p.has(left.Missing))
		case done:
			require.ErrorIs(s.t, p.err[node], exchange.ErrNodeLost)
			require.True(s.t, s.lost >= 0 && !s.gone, "%v", p.err[node])
		default:
			waits = true
			require.False(s.t, complete && s.lost < 0 || doomed, "%s: node %d waits for ever", p.f.ID, node)
		}
		if complete && !doomed && s.lost < 0 {
			require.NoError(s.t, p.err[node])
		}
	}
	return waits
}

// In any order of entries, exits and messages, either all nodes that enter get all parts, or all get the reason for
// the failure.
func TestAnySchedule(t *testing.T) {
	rng := testneeds.Rand(t)
	for range testneeds.Count(2000, 200_000) {
		s := newSchedule(t, rng)
		s.run()
		func() {
			defer s.end()
			s.check()
		}()
	}
}
