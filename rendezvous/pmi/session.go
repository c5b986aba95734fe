package pmi

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"gorun/rendezvous/internal/outbox"
	"gorun/rendezvous/world"
)

// session is the connection of a rank. Its fields belong to the goroutine of Serve, save
// those that say otherwise.
type session struct {
	server *Server
	conn   net.Conn
	in     *reader
	out    *outbox.Outbox
	p      world.Proc
	space  *space
	// speakers knows whose words in has read, member is the process that has begun: 0 where
	// it is not known yet, and for connections of which it cannot be.
	speakers *speakers
	member   int

	began, aborted bool
	rings          int // how often it was in PMI-2's ring
	// over is closed when it has ended and the server knows it no more.
	over chan struct{}

	// The server's mutex protects what follows.
	finalized bool // it alone writes that
	ended     bool // its process is gone
	pending   int  // requests whose answers come later
	away      int  // those among them that other nodes' ranks have to bring about
	spawns    int  // and those that wait for ranks which this one spawns
}

// Errors of connections that are not served.
var (
	errClosed  = errors.New("PMI is not served any more")
	errNoWorld = errors.New("PMI: a connection of a rank that this node does not know")
	errTwice   = malformed("a second connection of a rank to PMI, whose first is in MPI: one process of a rank can be " +
		"it; start others by MPI_Comm_spawn, or without the variables PMI_* to run them alone")
	errUnread = malformed("it does not read what it is sent: more than %d bytes wait", maxUnread)
)

// enter makes the session known to the server.
func (c *session) enter() error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	c.space = s.spaces[c.p.World]
	switch {
	case s.closed:
		return errClosed
	case c.p.Rank == world.AllRanks && s.cfg.Claim != nil:
	case c.space == nil || c.p.Rank < 0 || c.p.Rank >= len(c.space.w.Ranks):
		return errNoWorld
	case c.space.sessions[c.p.Rank] != nil:
		return errTwice
	default:
		c.space.sessions[c.p.Rank] = c
	}
	s.open[c] = struct{}{}
	return nil
}

// claim makes the session that of a rank, which the client names by its PMI_ID. It is called with the server not
// locked.
func (c *session) claim(q request, key string) error {
	id, err := q.number(key, 0, 1<<31-1)
	if err != nil {
		return err
	}
	if c.p.Rank != world.AllRanks {
		if own := c.rank().Job; own != id {
			return malformed("rank %d says that it is rank %d", own, id)
		}
		return nil
	}
	p, err := c.server.cfg.Claim(c.conn, id)
	if err != nil {
		return malformed("%v", err)
	}
	return c.become(p)
}

// become waits for a program that was this rank before, and is gone or about to be: a script
// may run several. One that has finalized is of no use any more, even if it goes on.
func (c *session) become(p world.Proc) error {
	patience := time.NewTimer(drain)
	defer patience.Stop()
	for {
		before, err := c.replace(p)
		if before == nil || err != nil {
			return err
		}
		select {
		case <-before.over:
		case <-patience.C:
			return errTwice
		}
	}
}

// replace makes the session that of a rank unless there is one.
func (c *session) replace(p world.Proc) (before *session, err error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[p.World]
	switch {
	case s.closed:
		return nil, errClosed
	case sp == nil || p.Rank < 0 || p.Rank >= len(sp.w.Ranks):
		return nil, malformed("%v", errNoWorld)
	case !sp.isHere(p.Rank):
		return nil, malformed("rank %d of %s is on another node", p.Rank, p.World)
	case sp.ended[p.Rank]:
		return nil, malformed("rank %d of %s has ended", p.Rank, p.World)
	}
	if before = sp.sessions[p.Rank]; before == nil {
		c.p, c.space = p, sp
		sp.sessions[p.Rank] = c
	} else if before.finalized {
		_ = before.conn.Close()
	}
	return before, nil
}

// talk answers requests until the connection ends. The error is nil then, else why the
// server ends it.
func (c *session) talk() error {
	for {
		q, err := c.in.next()
		if err == nil {
			c.out.Settle(maxUnsent)
			if err = c.heed(q); err == nil {
				err = c.answer(q)
			}
		}
		var bad *malformedError
		switch {
		case errors.As(err, &bad):
			c.refuse(q, bad)
			return bad
		case errors.Is(c.out.Err(), outbox.ErrUnread):
			return errUnread
		case err != nil:
			return nil
		}
	}
}

// heed keeps in mind which process is in MPI, and refuses a second one that begins over
// the same socket, which it has inherited. Its words and those of the first would come
// mixed, and whichever of the two reads first gets an answer: both would wait for ever.
// That the connection ends is what both of them notice. One process may begin again
// without finalize: MPICH 5 does so in MPI_Session_init.
func (c *session) heed(q request) error {
	if c.speakers == nil || c.speakers.pid == 0 {
		return nil
	}
	pid, before := c.speakers.pid, c.member
	if before == 0 || q.command() == "init" {
		c.member = pid
	}
	if q.command() == "init" && c.began && !c.finalized && before != 0 && before != pid && runs(before) {
		second := &world.SecondError{PID: pid, First: before, Variables: "PMI_*"}
		return &malformedError{second.Error(), second}
	}
	return nil
}

// say sends a text, without waiting.
func (c *session) say(text string) { c.out.Send([]byte(text)) }

// refuse answers what no client sends, so that one that waits for an answer fails, too.
func (c *session) refuse(q request, err error) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(drain))
	defer c.out.Settle(0)
	q.framed, q.answer = c.in.framed, "error"
	c.say(q.result(err))
}

// leave takes the session out of the server, and says how it ended.
func (c *session) leave(err error) {
	s, l := c.server, c.server.cfg.Launcher
	s.mu.Lock()
	defer s.unlock()
	delete(s.open, c)
	if c.p.Rank != world.AllRanks {
		delete(c.space.sessions, c.p.Rank)
	}
	switch {
	case s.closed:
		return
	case err != nil:
		s.tell(func() { l.Broken(c.p, err) })
	case c.began && !c.finalized && !c.aborted:
		s.tell(func() { l.Left(c.p) })
	}
	if c.ended {
		s.gone(c.space, c.p)
	}
}

// errPending is a client that does not wait for answers.
var errPending = malformed("more than %d requests at once", maxPending)

// answerLater answers a request which its command has not.
func (c *session) answerLater(text string) {
	c.pending--
	c.say(text)
}

// begin is init: it agrees on a version. Clients of both read the answer as a line.
func (c *session) begin(q request) (string, error) {
	version, err := q.number("pmi_version", 0, 1<<16)
	if err != nil {
		return "", err
	}
	c.in.framed = version == 2 // as comes its abort where it is refused
	only, asked := c.server.cfg.Only, fmt.Sprint("PMI-", version)
	if version != 1 && version != 2 || only != "" && asked != only {
		c.server.say(c.p, world.NotServed(asked, only != "" && version <= 2))
		serves := []string{"pmi_version", "1", "pmi_subversion", "1"}
		if only == "PMI-2" {
			serves = []string{"pmi_version", "2", "pmi_subversion", "0"}
		}
		why := "PMI-" + word(q.get("pmi_version")) + "_is_not_served_to_this_job"
		return q.text(append(serves, "rc", "-1", "msg", why)...), nil
	}
	if c.p.Rank != world.AllRanks {
		c.start(version)
	}
	return q.text("pmi_version", strconv.Itoa(version), "pmi_subversion", strconv.Itoa(2-version), "rc", "0"), nil
}

// start is that the rank has begun MPI, unless it has without finalizing.
func (c *session) start(version int) {
	if !c.began || c.finalized {
		c.began, c.finalized = true, false
		c.server.tell(func() { c.server.cfg.Launcher.Began(c.p, fmt.Sprintf("PMI-%d", version)) })
	}
}

// rank is what the world says of the session's rank.
func (c *session) rank() *world.Rank { return &c.space.w.Ranks[c.p.Rank] }
