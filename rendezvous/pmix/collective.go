package pmix

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// plan describes how ranks meet across all nodes: in a fence, a connect or a group. Its functions are called with the
// lock held.
type plan struct {
	kind    string        // separates different collectives of the same members
	members []world.Proc  // as a request names them; in canonical form once it is a collective
	timeout time.Duration // after which those who have arrived get statusTimeout; 0 for none
	// blob returns what this node contributes, once all members on it have arrived. nil is nothing.
	blob func(m *collective) []byte
	// undo undoes blob if the collective fails. nil does nothing.
	undo func(m *collective)
	// done gets the contributions in the order of m.nodes, and replies to m.arrived. It is not called if the collective
	// fails.
	done func(m *collective, blobs [][]byte)
}

// collective is a plan in progress on this node. The plan of the first rank that arrives counts.
type collective struct {
	plan
	key     string // shared by all collectives of this kind and these members
	nodes   []int  // that serve the members
	local   map[world.Proc]bool
	arrived map[world.Proc]*request // of the local members
	timer   *time.Timer
	sent    bool // this node has entered the fence
	over    bool // the requests were answered, or will not be
}

// joinCollective adds the rank that sent a request to its collective.
func (s *Server) joinCollective(q *request, p plan) status {
	var ok bool
	if p.members, ok = s.resolve(q, p.members); !ok {
		return statusNotFound
	}
	key := collectiveKey(p.kind, p.members)
	m := s.collectives[key]
	if m == nil {
		m = s.newCollective(key, p)
	}
	if !m.local[q.proc] || m.arrived[q.proc] != nil {
		return statusBadParameter
	}
	if s.collectives[key] == nil {
		s.collectives[key] = m
		if m.timeout > 0 {
			m.timer = time.AfterFunc(m.timeout, func() { s.expire(m) })
		}
	}
	m.arrived[q.proc] = q
	if len(m.arrived) < len(m.local) {
		s.checkCollective(m)
	} else {
		s.enqueue(m)
	}
	return replied
}

func (s *Server) newCollective(key string, p plan) *collective {
	m := &collective{
		plan: p, key: key, nodes: s.nodesOfRanks(p.members), local: map[world.Proc]bool{},
		arrived: map[world.Proc]*request{},
	}
	for _, p := range m.members {
		for _, rank := range s.spaces[p.World].Local {
			if p.Rank == rank || p.Rank == world.AllRanks {
				m.local[world.Proc{World: p.World, Rank: rank}] = true
			}
		}
	}
	return m
}

// leaveCollectives takes a program that has ended out of the collectives in which it waits for others here, so that its
// rank's next program may join them.
func (s *Server) leaveCollectives(c *conn) {
	for key, m := range s.collectives {
		if q := m.arrived[c.proc]; q == nil || q.conn != c {
			continue
		}
		delete(m.arrived, c.proc)
		if len(m.arrived) == 0 {
			m.over = true
			if m.timer != nil {
				m.timer.Stop()
			}
			delete(s.collectives, key)
		}
	}
}

// enqueue continues a collective on the other nodes, after earlier ones with the same key.
func (s *Server) enqueue(m *collective) {
	delete(s.collectives, m.key)
	s.queues[m.key] = append(s.queues[m.key], m)
	s.advance(m.key)
}

// advance has the first collective in a queue that is not over enter its fence. All in a queue have the same fence ID,
// so that those which expired while they waited for their turn have to withdraw in it.
func (s *Server) advance(key string) {
	for queue := s.queues[key]; len(queue) > 0; queue = queue[1:] {
		s.queues[key] = queue
		switch first := queue[0]; {
		case !first.over:
			s.enterFence(first)
			return
		case !first.sent:
			s.cfg.Exchange.Withdraw(first.fence(), false)
		}
	}
	delete(s.queues, key)
}

// enterFence enters the fence of a collective, once.
func (s *Server) enterFence(m *collective) {
	if m.sent {
		return
	}
	m.sent = true
	fence := m.fence()
	if m.blob != nil {
		fence.Blob = m.blob(m)
	}
	s.cfg.Exchange.Fence(fence, func(blobs [][]byte, err error) { s.fenceDone(m, blobs, err) })
}

// fence returns the fence of a collective. Collectives with the same key share its ID: each ends, on all nodes alike,
// before the next begins.
func (m *collective) fence() exchange.Fence {
	return exchange.Fence{ID: "pmix/" + m.key, Nodes: m.nodes, Members: m.members}
}

func (s *Server) fenceDone(m *collective, blobs [][]byte, err error) {
	s.node.Lock()
	defer s.node.Unlock()
	if err != nil && m.undo != nil {
		m.undo(m)
	}
	exited, isExited := errors.AsType[*exchange.ExitedError](err)
	if err != nil && !isExited && !isKnownToAll(err) {
		s.cfg.Exchange.Withdraw(m.fence(), false)
	}
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
	s.advance(m.key)
	switch {
	case isExited:
		s.node.Stuck(m.waiting(), exited.Missing)
	case errors.Is(err, exchange.ErrWithdrawn):
		m.replyStatus(statusTimeout)
	case err != nil:
		m.replyStatus(statusError)
	default:
		m.done(m, blobs)
	}
}

// isKnownToAll reports whether the other nodes know of the error. They would wait after one of this node alone.
func isKnownToAll(err error) bool {
	return slices.ContainsFunc([]error{
		exchange.ErrWithdrawn, exchange.ErrNodeLost, exchange.ErrRefused, exchange.ErrClosed,
	}, func(known error) bool { return errors.Is(err, known) })
}

// replyStatus replies a status to all who have arrived.
func (m *collective) replyStatus(code status) {
	for _, q := range m.arrived {
		q.status(code)
	}
}

// succeed ends a collective without a result.
func succeed(m *collective, _ [][]byte) { m.replyStatus(statusSuccess) }

// nodesOfRanks returns the nodes that serve ranks, which are known, in ascending order.
func (s *Server) nodesOfRanks(procs []world.Proc) (nodes []int) {
	for _, p := range procs {
		if n := s.spaces[p.World]; p.Rank == world.AllRanks {
			nodes = append(nodes, n.Nodes...)
		} else {
			nodes = append(nodes, n.Ranks[p.Rank].Node)
		}
	}
	return sorted(nodes)
}

// sorted sorts a list and drops duplicates.
func sorted(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// others returns the nodes without this one.
func (s *Server) others(nodes []int) []int {
	return slices.DeleteFunc(nodes, func(node int) bool { return node == s.number() })
}

// expire ends a collective that took too long. If this node has entered the fence, it ends alike on all nodes. If not,
// the node withdraws when it is the collective's turn: until then the fence of that ID is another one.
func (s *Server) expire(m *collective) {
	s.node.Lock()
	defer s.node.Unlock()
	switch {
	case m.over:
	case m.sent:
		s.cfg.Exchange.Withdraw(m.fence(), true)
	default:
		m.over = true
		m.replyStatus(statusTimeout)
		if s.collectives[m.key] == m {
			s.enqueue(m)
		}
	}
}

// checkCollective reports a collective that waits for a local member which has exited.
func (s *Server) checkCollective(m *collective) {
	if len(m.arrived) == 0 || s.exited == 0 {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(m.local), compareProcs) {
		if _, member, ok := s.find(p); ok && member.exited && m.arrived[p] == nil {
			s.node.Stuck(m.waiting(), p)
			return
		}
	}
}

// waiting returns the local members that have arrived.
func (m *collective) waiting() []world.Proc {
	return slices.SortedFunc(maps.Keys(m.arrived), compareProcs)
}

// resolve returns the ranks that a request names, in canonical form. It may name groups that it is in like worlds, and
// their members by index.
func (s *Server) resolve(q *request, procs []world.Proc) ([]world.Proc, bool) {
	var all []world.Proc
	for _, p := range procs {
		group := q.member.groups[p.World]
		switch {
		case s.spaces[p.World] != nil || group == nil:
			all = append(all, p)
		case p.Rank == world.AllRanks:
			all = append(all, group...)
		default:
			if members := s.expand(group); p.Rank >= 0 && p.Rank < len(members) {
				all = append(all, members[p.Rank])
			} else {
				all = append(all, p) // canonical does not know it
			}
		}
	}
	return s.canonical(all)
}

// expand replaces whole worlds by their ranks.
func (s *Server) expand(procs []world.Proc) (all []world.Proc) {
	for _, p := range procs {
		n := s.spaces[p.World]
		if p.Rank != world.AllRanks || n == nil {
			all = append(all, p)
			continue
		}
		for rank := range n.Ranks {
			all = append(all, n.Proc(rank))
		}
	}
	return all
}

// canonical sorts members and drops duplicates. A world of which all ranks are named becomes world.AllRanks. It reports
// false if none exist, or one is not known.
func (s *Server) canonical(members []world.Proc) ([]world.Proc, bool) {
	ranks := map[string]map[int]bool{}
	for _, p := range members {
		n := s.spaces[p.World]
		if n == nil || p.Rank != world.AllRanks && !n.Has(p.Rank) {
			return nil, false
		}
		if ranks[p.World] == nil {
			ranks[p.World] = map[int]bool{}
		}
		ranks[p.World][p.Rank] = true
	}
	var all []world.Proc
	for name, set := range ranks {
		if set[world.AllRanks] || len(set) == len(s.spaces[name].Ranks) {
			all = append(all, world.Proc{World: name, Rank: world.AllRanks})
			continue
		}
		for rank := range set {
			all = append(all, world.Proc{World: name, Rank: rank})
		}
	}
	slices.SortFunc(all, compareProcs)
	return all, len(all) > 0
}

// collectiveKey names a collective alike on all nodes. Long lists of members are hashed.
func collectiveKey(kind string, members []world.Proc) string {
	var b strings.Builder
	for _, p := range members {
		fmt.Fprintf(&b, "/%s.%d", p.World, p.Rank)
	}
	if b.Len() <= 160 {
		return kind + b.String()
	}
	sum := sha256.Sum256([]byte(b.String()))
	return kind + "/" + hex.EncodeToString(sum[:])
}

func compareProcs(a, b world.Proc) int {
	return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
}
