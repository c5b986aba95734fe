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

// session is the connection of a rank. Its fields belong to the goroutine of Serve, except as noted.
type session struct {
	server *Server
	conn   net.Conn
	in     *reader
	out    *outbox.Outbox
	p      world.Proc
	space  *space
	// sender knows which process wrote what in has read; nil where the connection does not tell. member is the process
	// that has begun MPI, 0 if unknown.
	sender *senderReader
	member int

	began, aborted bool
	rings          int           // how often the rank has entered PMI-2's ring
	done           chan struct{} // closed when the server no longer knows the session

	// The server's lock guards what follows.
	finalized   bool // written by Serve's goroutine only
	ended       bool // the process is gone
	pending     int  // requests that have no reply yet
	remoteWaits int  // of them, those that wait for ranks of other nodes
	spawns      int  // of them, those that wait for spawned ranks
}

// Errors of connections that are not served.
var (
	errClosed  = errors.New("PMI: the server has closed")
	errNoWorld = errors.New("PMI: a connection of a rank that is not on this node")
	errTwice   = malformed("a second process of a rank connects to PMI while the first is in MPI: start it with " +
		"MPI_Comm_spawn, or unset PMI_* to run it alone")
	errUnread = malformed("it does not read its replies: more than %d bytes wait", maxUnread)
)

// register makes the session known to the server.
func (c *session) register() error {
	s := c.server
	s.node.Lock()
	defer s.node.Unlock()
	c.space = s.spaces[c.p.World]
	switch {
	case s.closed:
		return errClosed
	case c.p.Rank == world.AllRanks && s.cfg.Claim != nil:
	case c.space == nil || !c.space.Has(c.p.Rank):
		return errNoWorld
	case c.space.sessions[c.p.Rank] != nil:
		return errTwice
	default:
		c.space.sessions[c.p.Rank] = c
	}
	s.open[c] = struct{}{}
	return nil
}

// claim makes the session that of the rank which the client names by its PMI_ID. The caller does not hold the lock.
func (c *session) claim(q request, key string) error {
	id, err := q.number(key, 0, 1<<31-1)
	if err != nil {
		return err
	}
	if c.p.Rank != world.AllRanks {
		if own := c.rank().Job; own != id {
			return malformed("rank %d claims to be rank %d", own, id)
		}
		return nil
	}
	p, err := c.server.cfg.Claim(c.conn, id)
	if err != nil {
		return malformed("%v", err)
	}
	return c.takeOver(p)
}

// takeOver makes the session that of a rank, after the rank's previous program has ended: a script may run several. A
// program that has finalized may go on, but without its connection.
func (c *session) takeOver(p world.Proc) error {
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	for {
		previous, err := c.tryTakeOver(p)
		if previous == nil || err != nil {
			return err
		}
		select {
		case <-previous.done:
		case <-timeout.C:
			return errTwice
		}
	}
}

// tryTakeOver returns the rank's previous session if there still is one.
func (c *session) tryTakeOver(p world.Proc) (previous *session, err error) {
	s := c.server
	s.node.Lock()
	defer s.node.Unlock()
	sp := s.spaces[p.World]
	switch {
	case s.closed:
		return nil, errClosed
	case sp == nil || !sp.Has(p.Rank):
		return nil, malformed("%v", errNoWorld)
	case !sp.IsLocal(p.Rank):
		return nil, malformed("rank %d of %s is on another node", p.Rank, p.World)
	case sp.ended[p.Rank]:
		return nil, malformed("rank %d of %s has ended", p.Rank, p.World)
	}
	if previous = sp.sessions[p.Rank]; previous == nil {
		c.p, c.space = p, sp
		sp.sessions[p.Rank] = c
	} else if previous.finalized {
		_ = previous.conn.Close()
	}
	return previous, nil
}

// serve answers requests until the connection ends. The error says why the server ends it, nil if the client did.
func (c *session) serve() error {
	for {
		q, err := c.in.next()
		if err == nil {
			c.out.Settle(maxUnsent)
			if err = c.checkSender(q); err == nil {
				err = c.handle(q)
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

// checkSender refuses a second process that begins MPI over a socket that it has inherited, while the first is in MPI.
// Their requests would mix, and whichever reads first would take the other's answers, so that both wait for ever; the
// end of the connection is what both notice. One process may begin again without finalize, as MPICH 5 does in
// MPI_Session_init.
func (c *session) checkSender(q request) error {
	if c.sender == nil || c.sender.pid == 0 {
		return nil
	}
	pid, first := c.sender.pid, c.member
	if first == 0 || q.command() == "init" {
		c.member = pid
	}
	if q.command() == "init" && c.began && !c.finalized && first != 0 && first != pid && isRunning(first) {
		second := &world.SecondError{PID: pid, First: first, Variables: "PMI_*"}
		return &malformedError{second.Error(), second}
	}
	return nil
}

// send sends a text, without waiting.
func (c *session) send(text string) { c.out.Send([]byte(text)) }

// refuse answers a malformed request, so that a client that waits for the answer fails, too.
func (c *session) refuse(q request, err error) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(drainTimeout))
	defer c.out.Settle(0)
	q.framed, q.reply = c.in.framed, "error"
	c.send(q.result(err))
}

// unregister removes the session from the server and reports how it ended.
func (c *session) unregister(err error) {
	s, l := c.server, c.server.cfg.Launcher
	s.node.Lock()
	defer s.node.Unlock()
	delete(s.open, c)
	if c.p.Rank != world.AllRanks {
		delete(c.space.sessions, c.p.Rank)
		c.space.leave(c.p.Rank)
		c.leaveBarriers()
	}
	switch {
	case s.closed:
		return
	case err != nil:
		s.node.AfterUnlock(func() { l.Broken(c.p, err) })
	case c.began && !c.finalized && !c.aborted:
		s.node.AfterUnlock(func() { l.Left(c.p) })
	}
	if c.ended {
		s.rankExited(c.space, c.p)
	}
}

// replyLater sends the reply to a request whose handler returned none.
func (c *session) replyLater(text string) {
	c.pending--
	c.send(text)
}

// init agrees on a version. Clients of both versions read the reply as a line.
func (c *session) init(q request) (string, error) {
	version, err := q.number("pmi_version", 0, 1<<16)
	if err != nil {
		return "", err
	}
	c.in.framed = version == 2 // also if it is refused: the client's abort comes in a frame
	only, asked := c.server.cfg.Only, fmt.Sprint("PMI-", version)
	if version != 1 && version != 2 || only != "" && asked != only {
		c.server.node.Say(c.p, world.NotServed(asked, only != "" && version <= 2))
		served := []string{"pmi_version", "1", "pmi_subversion", "1"}
		if only == "PMI-2" {
			served = []string{"pmi_version", "2", "pmi_subversion", "0"}
		}
		why := "PMI-" + word(q.get("pmi_version")) + "_is_not_served_to_this_job"
		return q.text(append(served, "rc", "-1", "msg", why)...), nil
	}
	reply := q.text("pmi_version", strconv.Itoa(version), "pmi_subversion", strconv.Itoa(2-version), "rc", "0")
	if c.p.Rank == world.AllRanks {
		return reply, nil
	}
	c.begin(version)
	if !c.space.enter(c.p.Rank, func() { c.replyLater(reply) }) {
		return "", nil
	}
	return reply, nil
}

// begin notes that the rank has begun MPI, unless it has before without finalizing.
func (c *session) begin(version int) {
	c.leaveBarriers() // an earlier program's
	if !c.began || c.finalized {
		c.began, c.finalized = true, false
		c.server.node.AfterUnlock(func() { c.server.cfg.Launcher.Began(c.p, fmt.Sprintf("PMI-%d", version)) })
	}
}

func (c *session) rank() *world.Rank { return &c.space.Ranks[c.p.Rank] }
