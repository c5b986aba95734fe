package pmix

import (
	"slices"
	"time"

	"gorun/rendezvous/world"
)

// leave hears that a client's connection has ended, and what was wrong with it, if
// anything.
func (s *Server) leave(c *conn, wrong error) {
	s.lock()
	defer s.unlock()
	delete(s.conns, c)
	c.stopMonitors("")
	s.endPulls(c)
	m := c.member
	m.conns = slices.DeleteFunc(m.conns, func(other *conn) bool { return other == c })
	if s.closed {
		return
	}
	if wrong != nil {
		s.afterUnlock(func() { s.cfg.Launcher.Broken(c.who, wrong) })
	} else if !c.finalized {
		s.afterUnlock(func() { s.cfg.Launcher.Left(c.who) })
	}
	s.checkEnded(c.who, m)
}

// Ended hears that a rank's process is gone. What it had sent before is served first.
func (s *Server) Ended(p world.Proc) {
	s.lock()
	defer s.unlock()
	_, m, ok := s.find(p)
	if !ok || m.gone {
		return
	}
	m.gone = true
	for _, c := range m.conns {
		// A process that it forked may hold the connection open, and read nothing.
		c.SetDeadline(time.Now().Add(lastWords))
	}
	s.checkEnded(p, m)
}

// checkEnded tells those who wait for a rank which is gone, once all that it sent is served.
func (s *Server) checkEnded(p world.Proc, m *member) {
	if !m.gone || len(m.conns) > 0 || m.ended {
		return
	}
	m.ended = true
	s.ended++
	s.cfg.Plane.Leave(p)
	for _, meeting := range s.meetings {
		if meeting.here[p] {
			s.checkStuck(meeting)
		}
	}
	m.groups = nil
	s.dropHeld(m)
	s.removeLeftovers(m)
}
