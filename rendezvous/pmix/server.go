package pmix

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Config is what a server needs.
type Config struct {
	// Node is the number of this node: the server is for the ranks whose Rank.Node it is.
	Node     int
	Plane    exchange.Plane
	Launcher world.Launcher
	// Only is the one protocol that the job serves; "": all. If it is not "PMIx", all clients are refused.
	Only string
	// UID is the user whose processes may connect.
	UID int
	// Dir makes a directory that this user alone can enter and returns its name. It is
	// called once, when the first rank connects; whoever gave it removes the directory.
	Dir func() (string, error)
	// Leaves hears of files that a rank wishes to have removed when it has ended, which this
	// server does, before the rank makes them; nil: nobody does.
	Leaves func(files []string)
	// Topology describes this machine in hwloc 2's XML, or says why it cannot be described. Serve
	// calls it each time that a client asks, and it may take its time; nil: it is not known.
	Topology func() (xml string, err error)
}

// Server is one node's.
type Server struct {
	cfg         Config
	directories directories

	// mu guards all that follows, and the fields of spaces, members and meetings. Nobody
	// waits while holding it.
	mu        sync.Mutex
	later     []func() // what the holder of mu does once it has unlocked it
	closed    bool
	suspended bool // the ranks have been stopped
	spaces    map[string]*namespace
	conns     map[*conn]struct{}
	pending   []*conn // have not said who they are, oldest first
	index     uint32  // the next connection's
	ended     int     // how many ranks of this node have
	meetings  map[string]*meeting
	crossing  map[string][]*meeting // those that went to the other nodes, or are to when the first has ended
	asked     map[string][]*held
	events    eventHistory
	groups    groups
	outputs   outputs
	helped    map[string]bool // topics of Open MPI's help that were shown
}

// New makes a server. It does nothing before a rank connects.
func New(cfg Config) *Server {
	s := &Server{
		cfg:         cfg,
		directories: directories{make: cfg.Dir},
		spaces:      map[string]*namespace{},
		conns:       map[*conn]struct{}{},
		meetings:    map[string]*meeting{},
		crossing:    map[string][]*meeting{},
		asked:       map[string][]*held{},
		groups:      newGroups(),
		helped:      map[string]bool{},
	}
	for name, answer := range map[string]service{
		modexService: s.answerModex, eventService: s.answerEvent, processService: s.answerProcesses,
		pullService: s.answerPull, outputService: s.answerOutput,
	} {
		cfg.Plane.Serve(name, func(from int, body []byte, reply func([]byte, error)) {
			s.lock()
			defer s.unlock()
			d := decoder{b: slices.Clone(body)}
			answer(from, &d, func(answer []byte) { reply(answer, nil) })
			if d.err != nil {
				reply(nil, d.err)
			}
		})
	}
	return s
}

// service answers questions of other nodes, at once or later. It is called with the server locked, and does nothing
// where d cannot be read.
type service func(from int, d *decoder, reply func(answer []byte))

// Add makes a world known. It must be known before its ranks are started.
func (s *Server) Add(w *world.World) {
	s.lock()
	defer s.unlock()
	s.spaces[w.Name] = newNamespace(w, s.cfg.Node)
}

// URI is PMIX_SERVER_URI3's value for ranks of a node, where somebody accepts connections
// for Serve at a port of 127.0.0.1.
func URI(node, port int) string {
	return fmt.Sprintf("%s.0;tcp4://127.0.0.1:%d", serverName(node), port)
}

// serverName is the namespace of a node's server, in which it is rank 0.
func serverName(node int) string { return fmt.Sprintf("gorun-node%d", node) }

// Close ends all connections, drops what waits, and removes what ranks wished to have
// removed. It is for when they are gone.
func (s *Server) Close() {
	s.lock()
	defer s.unlock()
	s.closed = true
	for _, n := range s.spaces {
		for _, m := range n.members {
			s.removeLeftovers(m)
		}
	}
	for _, c := range slices.AppendSeq(s.pending, maps.Keys(s.conns)) {
		c.out.Close()
	}
	s.pending = nil
	clear(s.crossing)
	clear(s.meetings)
	clear(s.asked)
}

// lock and unlock are mu's; nobody takes it otherwise, so that what afterUnlock was given is done.
func (s *Server) lock() { s.mu.Lock() }

func (s *Server) unlock() {
	later := s.later
	s.later = nil
	s.mu.Unlock()
	for _, do := range later {
		do()
	}
}

// askAll asks a service of several nodes. each gets what one answers, and must copy what it keeps of it; done is called
// when all have, or never will. Whoever calls it has the server locked, and so have both.
func (s *Server) askAll(nodes []int, service string, body []byte, each func(node int, answer []byte, err error),
	done func(),
) {
	left := len(nodes)
	if left == 0 {
		done()
	}
	for _, node := range nodes {
		s.cfg.Plane.Ask(node, service, body, func(answer []byte, err error) {
			s.lock()
			defer s.unlock()
			each(node, answer, err)
			if left--; left == 0 {
				done()
			}
		})
	}
}

// afterUnlock has something done that may wait or call back, as the launcher does.
func (s *Server) afterUnlock(do func()) { s.later = append(s.later, do) }

// say has the launcher show a text.
func (s *Server) say(who world.Proc, text string) {
	s.afterUnlock(func() { s.cfg.Launcher.Say(who, text) })
}
