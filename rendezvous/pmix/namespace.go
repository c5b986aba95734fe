package pmix

import (
	"slices"

	"gorun/rendezvous/internal/node"
	"gorun/rendezvous/world"
)

// namespace is PMIx's name of a world, here with what is known of its ranks.
type namespace struct {
	node.World
	byApp   [][]int // ranks, by program
	appRank []int   // each rank's index in its program
	// jobReply and all are encoded replies, made once.
	jobReply, all []byte
	members       map[int]*member // ranks of which something is known
}

// member is a rank, of this node or another.
type member struct {
	data         store   // what it has committed, or what fences and requests brought of that from its node
	conns        []*conn // one in MPI, and those that have finalized and are not closed yet
	began        bool    // it has had a connection
	refused      bool    // a second process was refused
	processEnded bool
	exited       bool // its process has ended, and everything that it sent has been served
	// groups are the members of each group that it is in, by name. Other ranks may be in others of that name.
	groups  map[string][]world.Proc
	held    []*heldGet // requests for what it has not committed
	cleanup []string   // files to remove at its exit
}

// inMPI reports whether a rank of this node has begun MPI and not finalized.
func (m *member) inMPI() bool {
	return slices.ContainsFunc(m.conns, func(c *conn) bool { return !c.finalized })
}

// isCurrent reports whether the known commits are from the program that a rank of the given epoch runs. A script may
// run several, and a rank in the second waits for what others commit in theirs. A rank that is in MPI will not begin
// again for now, even if its epoch is lower: it may have run fewer programs.
func (m *member) isCurrent(epoch uint32) bool { return m.data.epoch >= epoch || m.inMPI() }

func newNamespace(w *world.World, number int) *namespace {
	n := &namespace{
		World: node.NewWorld(w, number), members: map[int]*member{}, byApp: make([][]int, len(w.Apps)),
	}
	for rank, r := range w.Ranks {
		n.appRank = append(n.appRank, len(n.byApp[r.App]))
		n.byApp[r.App] = append(n.byApp[r.App], rank)
	}
	return n
}

// member returns the record of a rank, which the world has.
func (n *namespace) member(rank int) *member {
	m := n.members[rank]
	if m == nil {
		m = &member{groups: map[string][]world.Proc{}}
		n.members[rank] = m
	}
	return m
}

// wildcard returns the name of all ranks.
func (n *namespace) wildcard() world.Proc { return n.Proc(world.AllRanks) }

// find returns the world and the record of a rank, and whether there is one.
func (s *Server) find(p world.Proc) (*namespace, *member, bool) {
	n := s.spaces[p.World]
	if n == nil || !n.Has(p.Rank) {
		return nil, nil, false
	}
	return n, n.member(p.Rank), true
}

// serves reports whether a node serves a rank. A host may speak for its own ranks only.
func (s *Server) serves(node int, p world.Proc) bool {
	n, _, ok := s.find(p)
	return ok && n.Ranks[p.Rank].Node == node
}
