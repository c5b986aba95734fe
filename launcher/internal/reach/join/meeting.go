package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Member is a node that came to node 0.
type Member struct {
	// Conn is the stream to the node: TLS where there is a token.
	Conn net.Conn
	// NodeRank is its number, 1 to NumNodes-1.
	NodeRank int
	// Hello is what it said of itself. Its texts may hold control bytes.
	Hello Hello
	// Peer is where its connection comes from.
	Peer netip.AddrPort

	watched chan struct{} // closed when nobody reads from Conn any more
	stopped bool          // watched ends by request: what its read fails with means nothing
	lost    bool          // the node went away
}

// who names a member in a message.
func (m *Member) who() string { return fmt.Sprintf("%s (%v)", m.Hello.Name(), m.Peer.Addr()) }

// meeting is who has come so far. The head's lock guards it.
type meeting struct {
	members  []*Member
	complete bool          // nobody is taken any more
	started  bool          // the members belong to Wait's caller
	ended    string        // why there will be no job; "" while there may be one
	changed  chan struct{} // holds one token when members changed
}

func (m *meeting) change() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// closeAll ends those who were not handed out.
func (m *meeting) closeAll() {
	m.ended = cmp.Or(m.ended, "node 0 has ended")
	if m.started {
		return
	}
	for _, member := range m.members {
		member.Conn.Close()
	}
}

// take takes a node in, or says why not.
func (h *Head) take(m *Member) *Welcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	if refusal := h.refusal(m); refusal != nil {
		return refusal
	}
	h.meeting.members = append(h.meeting.members, m)
	h.meeting.change()
	h.came(m, true)
	h.watch(m)
	return nil
}

func (h *Head) came(m *Member, here bool) {
	if h.cfg.OnChange != nil {
		h.cfg.OnChange(m.NodeRank, here)
	}
}

// refusal says why a node cannot be taken; nil: it can.
func (h *Head) refusal(m *Member) *Welcome {
	own, said := &h.cfg.Self, &m.Hello
	refuse := func(format string, args ...any) *Welcome { return &Welcome{Refusal: fmt.Sprintf(format, args...)} }
	if h.cfg.AssignRank != nil {
		rank, why := h.cfg.AssignRank(said)
		if why != "" {
			return refuse("%s", why)
		}
		m.NodeRank, said.NodeRank = rank, rank
	}
	switch {
	case said.ID != own.ID: // first: of another job nothing else matters
		w := refuse("it belongs to job %q, node 0 to job %q (--rdzv-id)", said.ID, own.ID)
		w.Other, w.Started = true, h.meeting.complete && h.meeting.started
		return w
	case said.Version != own.Version:
		return refuse("it is gorun %s, node 0 is gorun %s: all nodes need the same", said.Version, own.Version)
	case said.Nonce != nil:
		return refuse(
			"MUNGE vouches for it, and does not answer at node 0: give all nodes a token (--token-file, GORUN_TOKEN)")
	case said.NumNodes != own.NumNodes:
		return refuse("it expects %d nodes, node 0 expects %d (--nnodes)", said.NumNodes, own.NumNodes)
	case said.NodeRank >= own.NumNodes:
		return refuse("its node rank is %d, but the job has %d nodes: 0 to %d (--node-rank)", said.NodeRank, own.NumNodes,
			own.NumNodes-1)
	case said.NodeRank == 0:
		return refuse("node rank 0 is here twice: %s listens at the endpoint, and %s dials it (--node-rank)", own.Name(),
			m.who())
	case h.meeting.ended != "":
		return refuse("%s", h.meeting.ended)
	}
	return h.noPlace(m, refuse)
}

// noPlace says that somebody else has the place that a node wants.
func (h *Head) noPlace(m *Member, refuse func(string, ...any) *Welcome) *Welcome {
	members := h.meeting.members
	if m.NodeRank > 0 {
		same := slices.IndexFunc(members, func(o *Member) bool { return o.NodeRank == m.NodeRank })
		if same >= 0 && !h.meeting.complete {
			return refuse("node rank %d is here twice: %s came first, then %s (--node-rank)", m.NodeRank, members[same].who(),
				m.who())
		}
	}
	switch {
	case h.meeting.complete && h.meeting.started:
		w := refuse("the job has started already, with all of its %d nodes", h.cfg.Self.NumNodes)
		w.Started = true
		return w
	case h.meeting.complete || len(members) >= h.cfg.Self.NumNodes-1:
		w := refuse("all %d nodes have come already: node 0 %s, %s", h.cfg.Self.NumNodes, h.cfg.Self.Name(), names(members))
		w.Again = h.meeting.complete // one of them may turn out to be gone
		return w
	}
	return nil
}

// watch notices a node that goes away before all have come, so that it, or another
// one in its place, can come again. The head's lock is held.
func (h *Head) watch(m *Member) {
	m.watched, m.stopped, m.lost = make(chan struct{}), false, false
	over := m.watched
	h.work.Go(func() {
		defer close(over)
		n, _ := m.Conn.Read(make([]byte, 1))
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.stopped && n == 0 {
			return
		}
		m.lost = true // it went away, or it speaks out of turn
		h.meeting.members = slices.DeleteFunc(h.meeting.members, func(o *Member) bool { return o == m })
		h.meeting.change()
		m.Conn.Close()
		if !h.closed {
			h.came(m, false)
			h.told.node("node %s went away again before all had come", m.who())
		}
	})
}

// Wait waits until all nodes have come, numbers those who have no number, and welcomes
// them. The members are in the order of their node ranks, from 1 on, and their
// connections are the caller's. The error, at the deadline or when ctx ends, says who
// came and who is missing; those who came are told it, too.
func (h *Head) Wait(ctx context.Context) ([]*Member, error) {
	deadline := time.NewTimer(h.cfg.Timeout)
	defer deadline.Stop()
	remark := time.NewTimer(remarkAfter)
	defer remark.Stop()
	for {
		members, done := h.settle()
		if done {
			h.welcome(members)
			return members, nil
		}
		select {
		case <-h.meeting.changed:
		case <-remark.C:
			h.cfg.Notify(h.waiting())
		case <-deadline.C:
			return nil, h.giveUp(fmt.Sprintf("not all nodes came within %v", h.cfg.Timeout))
		case <-ctx.Done():
			return nil, h.giveUp("node 0 stopped waiting for nodes")
		case <-h.open.Done():
			return nil, errors.New("join: node 0's port was closed")
		}
	}
}

// settle takes the members if all have come and none went away meanwhile.
func (h *Head) settle() (members []*Member, done bool) {
	h.mu.Lock()
	if len(h.meeting.members) < h.cfg.Self.NumNodes-1 || h.closed {
		h.mu.Unlock()
		return nil, false
	}
	h.meeting.complete = true
	members = slices.Clone(h.meeting.members)
	for _, m := range members {
		m.stopped = true
		_ = m.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	h.mu.Unlock()
	for _, m := range members {
		<-m.watched
		_ = m.Conn.SetReadDeadline(time.Time{})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.meeting.members) == len(members) && !h.closed {
		number(members, h.cfg.Self.NumNodes)
		h.meeting.started = true
		return members, true
	}
	h.meeting.complete = false
	for _, m := range h.meeting.members {
		h.watch(m)
	}
	return nil, false
}

// welcome tells the nodes their numbers. Who is gone by now is noticed by whoever
// speaks to it next.
func (h *Head) welcome(members []*Member) {
	for _, m := range members {
		_ = m.Conn.SetWriteDeadline(time.Now().Add(firstWithin))
		_ = writeMessage(m.Conn, &Welcome{NodeRank: m.NodeRank, Host: h.cfg.Self.Host})
		_ = m.Conn.SetWriteDeadline(time.Time{})
	}
}

// remarkAfter is when the user is told, once, what is being waited for.
const remarkAfter = 5 * time.Second

// waiting says what is being waited for.
func (h *Head) waiting() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := "node 0"
	if h.cfg.RankPerNode {
		who = "rank 0's gorun"
	}
	return who + " waits at " + h.cfg.endpoint() + ": " + h.whoCame()
}

// whoCame counts and names; the head's lock is held.
func (h *Head) whoCame() string {
	n, members := h.cfg.Self.NumNodes, h.meeting.members
	if h.cfg.RankPerNode {
		return fmt.Sprintf("%d of %d processes, each of which is one rank, are here", len(members)+1, n) +
			strings.Replace(missing(members, n), "node rank", "rank", 1)
	}
	text := fmt.Sprintf("%d of %d nodes are here (node 0 %s", len(members)+1, n, h.cfg.Self.Name())
	if len(members) > 0 {
		text += ", " + names(members)
	}
	text += ")" + missing(members, n)
	if isLoopback(h.cfg.Addr) {
		text += "; " + h.cfg.Addr + " is each host's own address: nodes on other hosts cannot come there"
	} else if h.elsewhere {
		text += "; " + h.cfg.Addr + " is not an address of this host: is --node-rank 0 meant for another one?"
	}
	return text
}

// maxNamed is how many nodes are named one by one.
const maxNamed = 16

// names lists nodes.
func names(members []*Member) string {
	var all []string
	for _, m := range members[:min(len(members), maxNamed)] {
		if m.NodeRank >= 0 {
			all = append(all, fmt.Sprintf("node %d %s", m.NodeRank, m.who()))
		} else {
			all = append(all, m.who())
		}
	}
	if more := len(members) - maxNamed; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// missing says which numbers nobody has, unless nodes come without.
func missing(members []*Member, numNodes int) string {
	have := map[int]bool{0: true}
	for _, m := range members {
		if m.NodeRank < 0 {
			return ""
		}
		have[m.NodeRank] = true
	}
	var ranks []string
	for r := 1; r < numNodes; {
		end := r
		for end < numNodes && !have[end] {
			end++
		}
		switch {
		case end > r+1:
			ranks = append(ranks, fmt.Sprintf("%d-%d", r, end-1))
		case end == r+1:
			ranks = append(ranks, fmt.Sprint(r))
		}
		r = end + 1
	}
	if len(ranks) == 0 {
		return ""
	}
	return "; missing: node rank [" + strings.Join(ranks, ",") + "]"
}

// giveUp tells everybody that there will be no job, and returns that as an error.
func (h *Head) giveUp(why string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	why += ": " + h.whoCame()
	h.meeting.ended, h.meeting.complete = why, true
	for _, m := range h.meeting.members {
		m.stopped = true
		_ = m.Conn.SetDeadline(time.Now().Add(time.Second))
		_ = writeMessage(m.Conn, &Welcome{Host: h.cfg.Self.Host, Refusal: why})
		m.Conn.Close()
	}
	h.meeting.members = nil
	return errors.New(why)
}
