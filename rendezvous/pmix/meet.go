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

// plan is how ranks come together, on all nodes: in a fence, a connect, a group.
type plan struct {
	// kind tells meetings of the same members apart which are different things.
	kind string
	// members are the ranks, as a request names them.
	members []proc
	// timeout is when it fails with statusTimeout for those who came; 0: never.
	timeout time.Duration
	// blob is what this node gives to the others. It is called with the server locked,
	// once all members of this node have come.
	blob func(m *meeting) []byte
	// undo takes back what blob did where not all nodes got it. It is called like blob.
	undo func(m *meeting)
	// done gets what the nodes gave, in the order of m.nodes, and answers m.arrived. It is
	// called like blob; not at all where the meeting fails.
	done func(m *meeting, blobs [][]byte)
}

// meeting is a plan that is under way on this node. The first rank that comes makes it, and
// its plan counts.
type meeting struct {
	plan
	// key is alike for all meetings of this kind and these members.
	key string
	// who are the members in canonical order, nodes those that serve them.
	who   []world.Proc
	nodes []int
	// here are the members that this node serves, arrived their requests, by rank.
	here    map[world.Proc]bool
	arrived map[world.Proc]*request
	timer   *time.Timer
	// sent: the other nodes hear of it; over: it was answered, or is not to be.
	sent, over bool
}

// meet has the rank that asks take part.
func (s *Server) meet(q *request, p plan) status {
	who, ok := s.named(q, p.members)
	if !ok {
		return statusNotFound
	}
	key := meetingKey(p.kind, who)
	m := s.meetings[key]
	if m == nil {
		m = s.newMeeting(key, who, p)
	}
	if !m.here[q.who] || m.arrived[q.who] != nil {
		return statusBadParameter
	}
	if s.meetings[key] == nil {
		s.meetings[key] = m
		if m.timeout > 0 {
			m.timer = time.AfterFunc(m.timeout, func() { s.expire(m) })
		}
	}
	m.arrived[q.who] = q
	if len(m.arrived) < len(m.here) {
		s.checkStuck(m)
	} else {
		s.cross(m)
	}
	return replied
}

// cross goes from this node's members to the other nodes', after meetings of the same
// members that have gone there before.
func (s *Server) cross(m *meeting) {
	delete(s.meetings, m.key)
	s.crossing[m.key] = append(s.crossing[m.key], m)
	s.advance(m.key)
}

// advance has the first of the meetings of the same members that is not over go to the other nodes. Those before it
// that took too long while they waited for their turn are given up there in it: all have one name.
func (s *Server) advance(key string) {
	for queue := s.crossing[key]; len(queue) > 0; queue = queue[1:] {
		s.crossing[key] = queue
		switch first := queue[0]; {
		case !first.over:
			s.send(first)
			return
		case !first.sent:
			s.cfg.Plane.GiveUp(first.fence(), false)
		}
	}
	delete(s.crossing, key)
}

// send tells the other nodes of a meeting, once.
func (s *Server) send(m *meeting) {
	if m.sent {
		return
	}
	m.sent = true
	fence := m.fence()
	if m.blob != nil {
		fence.Blob = m.blob(m)
	}
	s.cfg.Plane.Fence(fence, func(blobs [][]byte, err error) { s.crossed(m, blobs, err) })
}

// fence is a meeting as the other nodes know it. All of the same members have one name: each
// ends, on all nodes alike, before the next begins.
func (m *meeting) fence() exchange.Fence {
	return exchange.Fence{ID: "pmix/" + m.key, Nodes: m.nodes, Members: m.who}
}

// crossed hears how it went.
func (s *Server) crossed(m *meeting, blobs [][]byte, err error) {
	s.lock()
	defer s.unlock()
	if err != nil && m.undo != nil {
		m.undo(m)
	}
	if err != nil && !heardByAll(err) {
		s.cfg.Plane.GiveUp(m.fence(), false)
	}
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
	s.advance(m.key)
	var left *exchange.LeftError
	switch {
	case errors.As(err, &left):
		s.stuck(m.waiting(), left.Missing)
	case errors.Is(err, exchange.ErrGivenUp):
		m.answerStatus(statusTimeout)
	case err != nil:
		m.answerStatus(statusError)
	default:
		m.done(m, blobs)
	}
}

// stuck tells the launcher of those who wait for a rank that never comes.
func (s *Server) stuck(waiting []world.Proc, missing world.Proc) {
	s.afterUnlock(func() { s.cfg.Launcher.Stuck(waiting, missing) })
}

// heardByAll reports whether the other nodes of a fence know that it failed. What this node
// alone was refused they would wait for.
func heardByAll(err error) bool {
	var left *exchange.LeftError
	return errors.As(err, &left) || errors.Is(err, exchange.ErrGivenUp) || errors.Is(err, exchange.ErrNodeLost) ||
		errors.Is(err, exchange.ErrRefused) || errors.Is(err, exchange.ErrClosed)
}

// answerStatus is answer with a status alone.
func (m *meeting) answerStatus(code status) {
	for _, q := range m.arrived {
		q.status(code)
	}
}

// succeed ends a meeting that was for its own sake.
func succeed(m *meeting, _ [][]byte) { m.answerStatus(statusSuccess) }

func (s *Server) newMeeting(key string, who []world.Proc, p plan) *meeting {
	m := &meeting{plan: p, key: key, who: who, here: map[world.Proc]bool{}, arrived: map[world.Proc]*request{}}
	m.nodes = s.nodesOfRanks(who)
	for _, w := range who {
		for _, rank := range s.spaces[w.World].local {
			if w.Rank == rank || w.Rank == world.AllRanks {
				m.here[world.Proc{World: w.World, Rank: rank}] = true
			}
		}
	}
	return m
}

// nodesOfRanks are the nodes that serve ranks which are known, in ascending order.
func (s *Server) nodesOfRanks(who []world.Proc) (nodes []int) {
	for _, w := range who {
		if n := s.spaces[w.World]; w.Rank == world.AllRanks {
			nodes = append(nodes, n.nodes...)
		} else {
			nodes = append(nodes, n.world.Ranks[w.Rank].Node)
		}
	}
	return sorted(nodes)
}

// sorted is a list in ascending order, without doubles.
func sorted(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// others are nodes but this one.
func (s *Server) others(nodes []int) []int {
	return slices.DeleteFunc(nodes, func(node int) bool { return node == s.cfg.Node })
}

// expire ends a meeting that took too long. Once the other nodes know of it they all hear
// the same of its end. Before, they are to hear in its turn that it was given up: what they
// know by this name is the one that crosses.
func (s *Server) expire(m *meeting) {
	s.lock()
	defer s.unlock()
	switch {
	case m.over:
	case m.sent:
		s.cfg.Plane.GiveUp(m.fence(), true)
	default:
		m.over = true
		m.answerStatus(statusTimeout)
		if s.meetings[m.key] == m {
			s.cross(m)
		}
	}
}

// checkStuck tells the launcher if a member of this node that has not come never will.
func (s *Server) checkStuck(m *meeting) {
	if len(m.arrived) == 0 || s.ended == 0 {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(m.here), compareProcs) {
		if _, member, ok := s.find(p); ok && member.ended && m.arrived[p] == nil {
			s.stuck(m.waiting(), p)
			return
		}
	}
}

// waiting are those who came.
func (m *meeting) waiting() []world.Proc {
	return slices.SortedFunc(maps.Keys(m.arrived), compareProcs)
}

// named are the ranks that a request names, as canonical has them, with the members of a group in place of its name,
// where that is not a world's: a rank may name groups that it is in like worlds.
func (s *Server) named(q *request, procs []proc) ([]world.Proc, bool) {
	var all []proc
	for _, p := range procs {
		group := q.member.groups[p.nspace]
		switch {
		case s.spaces[p.nspace] != nil || group == nil:
			all = append(all, p)
		case p.rank == rankWildcard:
			all = append(all, group...)
		default:
			if each := s.each(group); uint64(p.rank) < uint64(len(each)) {
				all = append(all, each[p.rank])
			} else {
				all = append(all, p) // which nobody is
			}
		}
	}
	return s.canonical(all)
}

// each is processes one by one, in place of whole worlds.
func (s *Server) each(procs []proc) (all []proc) {
	for _, p := range procs {
		if n := s.spaces[p.nspace]; p.rank != rankWildcard || n == nil {
			all = append(all, p)
			continue
		}
		for rank := range s.spaces[p.nspace].world.Ranks {
			all = append(all, proc{p.nspace, uint32(rank)})
		}
	}
	return all
}

// canonical is the members in one order, without doubles, a world of which all are named as
// the whole of it. false: one is not known.
func (s *Server) canonical(members []proc) ([]world.Proc, bool) {
	ranks := map[string]map[int]bool{}
	for _, p := range members {
		w := p.toWorld()
		n := s.spaces[w.World]
		if n == nil || w.Rank != world.AllRanks && !n.has(w.Rank) {
			return nil, false
		}
		if ranks[w.World] == nil {
			ranks[w.World] = map[int]bool{}
		}
		ranks[w.World][w.Rank] = true
	}
	var all []world.Proc
	for name, set := range ranks {
		if set[world.AllRanks] || len(set) == len(s.spaces[name].world.Ranks) {
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

// meetingKey names a meeting alike on all nodes. Long lists of members are hashed.
func meetingKey(kind string, who []world.Proc) string {
	var b strings.Builder
	for _, p := range who {
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
