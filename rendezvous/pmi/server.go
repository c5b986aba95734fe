package pmi

import (
	"net"
	"sync"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/internal/outbox"
	"gorun/rendezvous/world"
)

// Config is what a server needs.
type Config struct {
	// Node is the number of this node, as world.Rank.Node has it.
	Node     int
	Plane    exchange.Plane
	Launcher world.Launcher
	// Only is the one protocol to serve, "PMI-1", "PMI-2" or that of another server; "": both of these.
	Only string
	// Claim says which rank a client is that has come to PMI_PORT and says that its PMI_ID is
	// id, or why it is none. Serve calls it, and it may wait. nil: nobody comes there.
	Claim func(conn net.Conn, id int) (world.Proc, error)
	// TopologyFile gives the name of a file that describes this machine in hwloc 2's XML, or says
	// why there is none. Serve calls it each time that a rank asks, and it may take its time; nil:
	// there is none.
	TopologyFile func() (name string, err error)
}

// Server serves the ranks of one node.
type Server struct {
	cfg Config

	// mu guards all that follows, the worlds and the sessions. Nobody waits while holding it.
	mu     sync.Mutex
	later  []func() // what the launcher is to hear when mu is let go
	spaces map[string]*space
	open   map[*session]struct{}
	closed bool
}

// New makes a server, which answers other nodes' servers from now on.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, spaces: map[string]*space{}, open: map[*session]struct{}{}}
	s.serve(attributesService, 5, s.serveAttributes)
	s.serve(pairsService, 2, s.servePairs)
	return s
}

// serve answers other nodes' questions, which are lists of so many texts, with the server locked.
func (s *Server) serve(service string, size int, answer func(texts []string, reply func(how, value string))) {
	s.cfg.Plane.Serve(service, func(_ int, body []byte, reply func([]byte, error)) {
		texts, err := cutTexts(body, size)
		if err != nil {
			reply(nil, err)
			return
		}
		s.mu.Lock()
		defer s.unlock()
		answer(texts, func(how, value string) { reply(packTexts(how, value), nil) })
	})
}

// unlock lets mu go, and then tells the launcher what it is to hear.
func (s *Server) unlock() {
	later := s.later
	s.later = nil
	s.mu.Unlock()
	for _, do := range later {
		do()
	}
}

// tell has the launcher told something. The caller holds mu, and lets it go by unlock.
func (s *Server) tell(do func()) { s.later = append(s.later, do) }

// say has the launcher show a text.
func (s *Server) say(p world.Proc, text string) { s.tell(func() { s.cfg.Launcher.Say(p, text) }) }

// Add makes a world known, which is not changed afterwards: every world of the job, also
// those without ranks on this node, and before any of its ranks is served anywhere.
func (s *Server) Add(w *world.World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spaces[w.Name] = newSpace(w, s.cfg.Node)
}

// Serve serves the connection of a rank, and returns when that has ended, which closes it.
// p.Rank may be world.AllRanks where a client has connected to PMI_PORT: it says itself
// which rank it is, and Config.Claim whether that is so.
func (s *Server) Serve(conn net.Conn, p world.Proc) {
	c := &session{
		server: s, conn: conn, in: newReader(conn), out: outbox.New(conn, maxUnread), p: p, over: make(chan struct{}),
	}
	defer close(c.over)
	if c.speakers = newSpeakers(conn); c.speakers != nil {
		c.in = newReader(c.speakers)
	}
	defer func() { _ = conn.Close() }()
	if err := c.enter(); err != nil {
		if err != errClosed {
			s.cfg.Launcher.Broken(p, err)
		}
		return
	}
	err := c.talk()
	c.leave(err)
}

// Ended hears that the process of a rank is gone, after Serve was called for what it sent,
// if it sent anything. Ranks that wait for it are named to the launcher.
func (s *Server) Ended(p world.Proc) {
	s.mu.Lock()
	defer s.unlock()
	sp := s.spaces[p.World]
	if sp == nil {
		return
	}
	if c := sp.sessions[p.Rank]; c != nil {
		// What it sent last is read first; then the session ends, and calls gone. Nobody may read
		// the answers any more.
		c.ended = true
		_ = c.conn.SetDeadline(time.Now().Add(drain))
		return
	}
	s.gone(sp, p)
}

// gone is the end of a rank whose words have all been read.
func (s *Server) gone(sp *space, p world.Proc) {
	sp.ended[p.Rank] = true
	for _, rank := range sp.attributeWaiters() {
		s.checkAttribute(sp, rank)
	}
	for _, b := range sp.barriers {
		s.checkStuck(sp, b)
	}
	s.tell(func() { s.cfg.Plane.Leave(p) })
}

// Close ends all connections. Nothing is said of their ranks.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.conn.Close()
	}
}
