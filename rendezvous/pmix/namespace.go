package pmix

import (
	"slices"

	"gorun/rendezvous/world"
)

// namespace is a world, as PMIx calls it, and what is known of its ranks here.
type namespace struct {
	world *world.World
	// nodes are those that serve ranks of it, in ascending order; local are the ranks that
	// this one serves.
	nodes []int
	local []int
	// byHost and byApp are its ranks on each host and of each program, appRank each one's
	// number in its program.
	byHost, byApp [][]int
	appRank       []int
	// jobReply and all are answers that are made once.
	jobReply, all []byte
	// members are ranks of which something is known, by rank.
	members map[int]*member
}

// member is a rank, on this node or another.
type member struct {
	// data is what it has committed: here for ranks of this node, else as fences and
	// questions brought it.
	data store
	// conns are its connections: one, and those that have finalized and are not closed yet.
	conns []*conn
	// began: it has had some.
	began bool
	// refused: another was.
	refused bool
	// ended: its process is gone, and all that it had sent is served.
	ended bool
	// gone: its process is gone.
	gone bool
	// groups are the members of each group that it is in, by name: groups of others may have the same.
	groups map[string][]proc
	// waiting are requests for what it has not committed.
	waiting []*held
	// leftovers are files to remove when it has ended.
	leftovers []string
}

// inMPI reports whether a rank of this node has begun and not finalized.
func (m *member) inMPI() bool {
	return slices.ContainsFunc(m.conns, func(c *conn) bool { return !c.finalized })
}

// isCurrent reports whether what is known to be committed is of the program that a rank of that
// era runs: a script may run one after another, and who has come to the second waits for what
// others commit in it. Those in MPI have begun as often as they will for now: a rank may run
// programs alone, too.
func (m *member) isCurrent(era uint32) bool { return m.data.era >= era || m.inMPI() }

func newNamespace(w *world.World, node int) *namespace {
	n := &namespace{
		world:   w,
		members: map[int]*member{},
		byHost:  make([][]int, len(w.Hosts)),
		byApp:   make([][]int, len(w.Apps)),
	}
	for rank, r := range w.Ranks {
		n.nodes = append(n.nodes, r.Node)
		n.byHost[r.Host] = append(n.byHost[r.Host], rank)
		n.appRank = append(n.appRank, len(n.byApp[r.App]))
		n.byApp[r.App] = append(n.byApp[r.App], rank)
		if r.Node == node {
			n.local = append(n.local, rank)
		}
	}
	n.nodes = sorted(n.nodes)
	return n
}

// member is the record of a rank, made when it is first asked for.
func (n *namespace) member(rank int) *member {
	m := n.members[rank]
	if m == nil {
		m = &member{}
		n.members[rank] = m
	}
	return m
}

// has reports whether the world has such a rank.
func (n *namespace) has(rank int) bool { return rank >= 0 && rank < len(n.world.Ranks) }

// find is the world of a name, the record of a rank and whether there is one.
func (s *Server) find(p world.Proc) (*namespace, *member, bool) {
	n := s.spaces[p.World]
	if n == nil || !n.has(p.Rank) {
		return nil, nil, false
	}
	return n, n.member(p.Rank), true
}

// toWorld is a process's name in the launcher's terms. Ranks that are none become -2.
func (p proc) toWorld() world.Proc {
	switch {
	case p.rank == rankWildcard:
		return world.Proc{World: p.nspace, Rank: world.AllRanks}
	case p.rank >= rankLargest:
		return world.Proc{World: p.nspace, Rank: noRank}
	}
	return world.Proc{World: p.nspace, Rank: int(p.rank)}
}

// noRank stands for a number that is no rank's.
const noRank = -2

func fromWorlds(list []world.Proc) (procs []proc) {
	for _, p := range list {
		procs = append(procs, fromWorld(p))
	}
	return procs
}

// fromWorld is a rank's name in PMIx's terms.
func fromWorld(p world.Proc) proc {
	if p.Rank == world.AllRanks {
		return proc{p.World, rankWildcard}
	}
	return proc{p.World, uint32(p.Rank)}
}
