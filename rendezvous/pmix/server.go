package pmix

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/internal/node"
	"gorun/rendezvous/world"
)

// Config is what a server needs.
type Config struct {
	// Exchange connects the server to those of other nodes. The server serves the ranks whose Rank.Node is its number.
	Exchange *exchange.Node
	Launcher world.Launcher
	// Exited is called when a rank's process is gone and everything that it sent has been served. The default,
	// Exchange.RankExited, reports that to the other nodes.
	Exited func(p world.Proc)
	// Only is the one protocol that the job serves, "" for all. Unless it is "PMIx", all clients are refused.
	Only string
	// UID is the user whose processes may connect.
	UID int
	// Dir makes a directory that only this user can enter, and returns its name. It is called once, when the first rank
	// connects; its owner removes the directory.
	Dir func() (string, error)
	// OnCleanup is called with files that a rank registers for removal at its exit, which the server does, before the
	// rank creates them. nil ignores that.
	OnCleanup func(files []string)
	// Topology describes this machine as XML of hwloc 2. Serve calls it without locks each time that a client asks. nil
	// has no description.
	Topology func() (xml string, err error)
}

// Server serves the ranks of one node. Its methods may be called on any goroutine.
type Server struct {
	cfg         Config
	directories directories

	node        node.Node // its lock guards what follows, and the fields of spaces, members and collectives
	closed      bool
	suspended   bool // the ranks are stopped
	spaces      map[string]*namespace
	conns       map[*conn]struct{}
	pending     []*conn // before the end of their handshake, oldest first
	lastIndex   uint32  // of a connection
	exited      int     // ranks of this node
	collectives map[string]*collective
	queues      map[string][]*collective // by key: the first has entered its fence, the others will after it
	requested   map[string][]*heldGet    // by the request to another node that they share
	events      []event                  // the last ones
	groups      groupData
	outputs     outputs
	shownHelp   map[string]bool // topics of Open MPI's help
}

// New returns a server.
func New(cfg Config) *Server {
	if cfg.Exited == nil {
		cfg.Exited = cfg.Exchange.RankExited
	}
	s := &Server{
		cfg:         cfg,
		node:        node.Node{Exchange: cfg.Exchange, Launcher: cfg.Launcher},
		directories: directories{make: cfg.Dir, failed: map[string]bool{}},
		spaces:      map[string]*namespace{},
		conns:       map[*conn]struct{}{},
		collectives: map[string]*collective{},
		queues:      map[string][]*collective{},
		requested:   map[string][]*heldGet{},
		groups:      groupData{kvals: map[uint64]map[world.Proc][]byte{}},
		outputs:     outputs{pulls: map[pullID]*pull{}},
		shownHelp:   map[string]bool{},
	}
	for name, serve := range map[string]service{
		modexService: s.serveModex, eventService: s.serveEvent, processService: s.serveProcesses,
		pullService: s.servePull, outputService: s.serveOutput,
	} {
		cfg.Exchange.Serve(name, func(from int, body []byte, reply func([]byte, error)) {
			s.node.Lock()
			defer s.node.Unlock()
			d := decoder{b: slices.Clone(body)}
			serve(from, &d, func(body []byte) { reply(body, nil) })
			if d.err != nil {
				reply(nil, d.err)
			}
		})
	}
	return s
}

// service answers requests of other nodes, at once or later. It is called with the lock held, and does nothing if d
// cannot be decoded.
type service func(from int, d *decoder, reply func(body []byte))

// Add makes a world known. That must happen before its ranks start.
func (s *Server) Add(w *world.World) {
	s.node.Lock()
	defer s.node.Unlock()
	s.spaces[w.Name] = newNamespace(w, s.number())
}

// number returns the number of this node.
func (s *Server) number() int { return s.cfg.Exchange.Number() }

// Forget drops what the ranks of a world have committed, all of which have exited on all nodes. The ranks themselves
// stay known: a collective in progress may name them.
func (s *Server) Forget(world string) {
	s.node.Lock()
	defer s.node.Unlock()
	n := s.spaces[world]
	if n == nil {
		return
	}
	s.outputs.drop(func(o piece) bool { return o.source.World == world })
	n.jobReply, n.all = nil, nil // made again on demand
	for rank, m := range n.members {
		switch {
		case len(m.conns)+len(m.held)+len(m.cleanup) > 0:
		case m.exited:
			m.data.local, m.data.remote, m.data.shared = nil, nil, 0
		case !n.IsLocal(rank):
			delete(n.members, rank)
		}
	}
}

// URI returns the value of PMIX_SERVER_URI3 for the ranks of a node where port of 127.0.0.1 accepts connections for
// Serve.
func URI(node, port int) string {
	return fmt.Sprintf("%s.0;tcp4://127.0.0.1:%d", serverName(node), port)
}

// serverName returns the namespace of a node's server, in which it is rank 0.
func serverName(node int) string { return fmt.Sprintf("gorun-node%d", node) }

// Ended reports that the process of a rank is gone. What it sent before is still served.
func (s *Server) Ended(p world.Proc) {
	s.node.Lock()
	defer s.node.Unlock()
	_, m, ok := s.find(p)
	if !ok || m.processEnded {
		return
	}
	m.processEnded = true
	for _, c := range m.conns {
		// A process that it forked may hold the connection open without reading.
		c.SetDeadline(time.Now().Add(drainTimeout))
	}
	s.checkExited(p, m)
}

// checkExited ends the waits for a rank whose process is gone, when everything that it sent has been served.
func (s *Server) checkExited(p world.Proc, m *member) {
	if !m.processEnded || len(m.conns) > 0 || m.exited {
		return
	}
	m.exited = true
	s.exited++
	s.cfg.Exited(p)
	for _, collective := range s.collectives {
		if collective.local[p] {
			s.checkCollective(collective)
		}
	}
	m.groups = map[string][]world.Proc{}
	s.failHeld(m)
	s.removeFiles(m)
}

// Close ends all connections and waits, and removes the files that ranks registered for removal. Call it when they have
// exited.
func (s *Server) Close() {
	s.node.Lock()
	defer s.node.Unlock()
	s.closed = true
	for _, n := range s.spaces {
		for _, m := range n.members {
			s.removeFiles(m)
		}
	}
	for _, c := range slices.AppendSeq(s.pending, maps.Keys(s.conns)) {
		c.out.Close()
	}
	s.pending = nil
	clear(s.queues)
	clear(s.collectives)
	clear(s.requested)
}

// Waits returns which ranks of this node wait, and for whom: in fences and other collectives, and for what others have
// not committed.
func (s *Server) Waits() (list []world.Wait) {
	s.node.Lock()
	defer s.node.Unlock()
	for _, m := range s.collectives {
		missing := slices.DeleteFunc(slices.SortedFunc(maps.Keys(m.local), compareProcs), func(p world.Proc) bool {
			return m.arrived[p] != nil
		})
		list = append(list, world.Wait{Waiting: m.waiting(), For: missing})
	}
	for _, queue := range s.queues {
		for _, m := range queue {
			if !m.over {
				list = append(list, world.Wait{Waiting: m.waiting()})
			}
		}
	}
	held := slices.Concat(slices.Collect(maps.Values(s.requested))...)
	for _, n := range s.spaces {
		for _, m := range n.members {
			held = append(held, m.held...)
		}
	}
	for _, h := range held {
		list = append(list, world.Wait{Waiting: []world.Proc{h.by}, For: []world.Proc{h.of}})
	}
	return list
}
