package pmi

import (
	"net"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/internal/node"
	"gorun/rendezvous/internal/outbox"
	"gorun/rendezvous/world"
)

// Config is what a server needs.
type Config struct {
	// Exchange connects the server to those of other nodes. Its number is the one of world.Rank.Node.
	Exchange *exchange.Node
	Launcher world.Launcher
	// Exited is called when a rank's process is gone and everything that it sent has been served. The default,
	// Exchange.RankExited, reports that to the other nodes.
	Exited func(p world.Proc)
	// Only is the one protocol that the job serves, such as "PMI-1", "PMI-2" or that of another server. "" serves both.
	Only string
	// Claim returns the rank of a client that has connected to PMI_PORT and gives id as its PMI_ID, or why it has no rank.
	// Serve calls it without locks. nil serves no such clients.
	Claim func(conn net.Conn, id int) (world.Proc, error)
	// TopologyFile returns the name of a file that describes this machine as XML of hwloc 2. Serve calls it without
	// locks each time that a rank asks. nil is unlimited.
	TopologyFile func() (name string, err error)
}

// Server serves the ranks of one node. Its methods may be called on any goroutine.
type Server struct {
	cfg  Config
	node node.Node // its lock guards what follows, the spaces and the sessions

	spaces map[string]*space
	open   map[*session]struct{}
	closed bool
}

// New returns a server, which answers the other nodes' servers from now on.
func New(cfg Config) *Server {
	if cfg.Exited == nil {
		cfg.Exited = cfg.Exchange.RankExited
	}
	s := &Server{
		cfg: cfg, node: node.Node{Exchange: cfg.Exchange, Launcher: cfg.Launcher}, spaces: map[string]*space{},
		open: map[*session]struct{}{},
	}
	s.serve(attributesService, 5, s.serveAttributes)
	s.serve(pairsService, 2, s.servePairs)
	return s
}

// serve answers requests of other nodes, which are lists of size strings. answer is called with the lock held.
func (s *Server) serve(
	service string, size int, answer func(from int, texts []string, reply func(outcome, value string)),
) {
	s.cfg.Exchange.Serve(service, func(from int, body []byte, reply func([]byte, error)) {
		texts, err := cutTexts(body, size)
		if err != nil {
			reply(nil, err)
			return
		}
		s.node.Lock()
		defer s.node.Unlock()
		answer(from, texts, func(outcome, value string) { reply(packTexts(outcome, value), nil) })
	})
}

// request has a service of another node answer with two strings. done is called with the lock held.
func (s *Server) request(to int, service string, done func(texts []string, err error), texts ...string) {
	s.node.Request(to, service, packTexts(texts...), func(reply []byte, err error) {
		var texts []string
		if err == nil {
			texts, err = cutTexts(reply, 2)
		}
		done(texts, err)
	})
}

// Add makes a world known, which must not change afterwards. Every server needs every world of the job before any of
// its ranks is served anywhere.
func (s *Server) Add(w *world.World) {
	s.node.Lock()
	defer s.node.Unlock()
	s.spaces[w.Name] = newSpace(w, s.cfg.Exchange.Number())
}

// Forget drops a world whose ranks have exited on all nodes.
func (s *Server) Forget(world string) {
	s.node.Lock()
	defer s.node.Unlock()
	if sp := s.spaces[world]; sp != nil && len(sp.sessions) == 0 { // a child of a rank may hold its connection
		delete(s.spaces, world)
	}
}

// Serve serves the connection of a rank until it ends, and closes it. p.Rank is world.AllRanks for a client that has
// connected to PMI_PORT: it names its rank itself, and Config.Claim decides.
func (s *Server) Serve(conn net.Conn, p world.Proc) {
	c := &session{
		server: s, conn: conn, in: newReader(conn), out: outbox.New(conn, maxUnread), p: p, done: make(chan struct{}),
	}
	defer close(c.done)
	if c.sender = newSenderReader(conn); c.sender != nil {
		c.in = newReader(c.sender)
	}
	defer func() { _ = conn.Close() }()
	if err := c.register(); err != nil {
		if err != errClosed {
			s.cfg.Launcher.Broken(p, err)
		}
		return
	}
	c.unregister(c.serve())
}

// Ended reports that the process of a rank is gone. Call it after Serve if the rank connected. Ranks that wait for it
// are reported to the launcher.
func (s *Server) Ended(p world.Proc) {
	s.node.Lock()
	defer s.node.Unlock()
	sp := s.spaces[p.World]
	if sp == nil {
		return
	}
	if c := sp.sessions[p.Rank]; c != nil {
		// What it sent last is read first. Its children may hold the connection without reading.
		c.ended = true
		_ = c.conn.SetDeadline(time.Now().Add(drainTimeout))
		return
	}
	s.rankExited(sp, p)
}

// rankExited handles the end of a rank after everything that it sent.
func (s *Server) rankExited(sp *space, p world.Proc) {
	sp.ended[p.Rank] = true
	for _, rank := range sp.attributeWaiters() {
		s.checkAttributeWait(sp, rank)
	}
	for _, b := range sp.barriers {
		s.checkBarrier(sp, b)
	}
	s.node.AfterUnlock(func() { s.cfg.Exited(p) })
}

// Close ends all connections, and reports nothing about their ranks.
func (s *Server) Close() {
	s.node.Lock()
	defer s.node.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.conn.Close()
	}
}

// Waits returns which ranks of this node wait, and for whom: in barriers, for attributes of their host, and for ranks
// that they spawn.
func (s *Server) Waits() (list []world.Wait) {
	s.node.Lock()
	defer s.node.Unlock()
	for _, sp := range s.spaces {
		for _, b := range sp.barriers {
			if len(b.arrived) > 0 {
				missing := sp.procsOf(b.local, func(rank int) bool { return b.arrived[rank] == nil })
				list = append(list, world.Wait{Waiting: sp.procs(b.arrived), For: missing})
			}
			if len(b.crossing) > 0 {
				list = append(list, world.Wait{Waiting: sp.procs(b.crossing)})
			}
		}
		for _, rank := range sp.attributeWaiters() {
			// Any other rank of the host may put the attribute, as far as it is on this node and runs.
			putters := sp.procsOf(sp.peers(rank), func(peer int) bool { return sp.IsLocal(peer) && !sp.ended[peer] })
			if sp.IsLocal(rank) && !sp.ended[rank] {
				list = append(list, world.Wait{Waiting: []world.Proc{sp.Proc(rank)}, For: putters})
			}
		}
		for _, c := range sp.sessions {
			if t := sp.turns[c.p.Rank]; t != nil && t.begin != nil {
				others := sp.procsOf(sp.Local, func(rank int) bool { return t.awaited[rank] })
				list = append(list, world.Wait{Waiting: []world.Proc{c.p}, For: others})
			}
			if c.remoteWaits > 0 || c.spawns > 0 {
				list = append(list, world.Wait{Waiting: []world.Proc{c.p}, Spawns: c.spawns > 0})
			}
		}
	}
	return list
}

// procsOf returns the ranks for which holds is true.
func (s *space) procsOf(ranks []int, holds func(rank int) bool) (list []world.Proc) {
	for _, rank := range ranks {
		if holds(rank) {
			list = append(list, s.Proc(rank))
		}
	}
	return list
}

// procs returns the waiting ranks, ascending.
func (s *space) procs(waiting map[int]func(error)) []world.Proc {
	return s.procsOf(s.Local, func(rank int) bool { return waiting[rank] != nil })
}
