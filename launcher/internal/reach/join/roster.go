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

	"gorun/internal/printable"
)

// Member is a node that has joined node 0.
type Member struct {
	// Conn is the stream to the node: TLS where there is a token.
	Conn net.Conn
	// Hello is the node's description, with the rank that it has: 1 to NumNodes-1. Its texts may hold control bytes.
	Hello
	// Peer is the remote address of its connection.
	Peer netip.AddrPort

	since    time.Time     // when it joined
	watched  chan struct{} // closed when watch no longer reads from Conn
	released bool          // watch ends by request: ignore the error of its read
}

func (m *Member) String() string { return fmt.Sprintf("%s (%v)", m.Name(), m.Peer.Addr()) }

// roster holds the nodes that have joined so far. The head's lock guards it.
type roster struct {
	members  []*Member     // once the job has started: those that wait for a place
	complete bool          // no more members are accepted, except to wait
	started  bool          // the first members belong to Wait's caller
	failure  string        // why there will be no job; "" while there may be one
	changed  chan struct{} // holds a token when members changed
}

// closeAll closes the connections that were not handed out.
func (r *roster) closeAll() {
	r.failure = cmp.Or(r.failure, "node 0 has ended")
	for _, m := range r.members {
		m.Conn.Close()
	}
}

// accept adds a node, or returns a refusal.
func (h *Head) accept(c *inbound, m *Member) *Welcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending.remove(c) // at once: Close must not close a member's connection, and lets others read the refusal
	if refusal := h.checkHello(m); refusal != nil {
		return refusal
	}
	_ = m.Conn.SetDeadline(time.Time{})
	if h.roster.started { // the first bytes to a peer fit into the kernel's buffer
		h.send(m, &Welcome{Waits: true})
		h.nodeNotices.add("node %s waits until the job restarts", m)
	}
	m.since = time.Now()
	h.roster.members = append(h.roster.members, m)
	signal(h.roster.changed)
	h.onChange(m, true)
	h.watch(m)
	return nil
}

// send sends a welcome to a member. Errors show at the next use of its connection.
func (h *Head) send(m *Member, w *Welcome) {
	w.Host = h.cfg.Self.Host
	_ = m.Conn.SetWriteDeadline(time.Now().Add(stepTimeout))
	_ = writeMessage(m.Conn, w)
	_ = m.Conn.SetWriteDeadline(time.Time{})
}

func (h *Head) onChange(m *Member, here bool) {
	if h.cfg.OnChange != nil {
		h.cfg.OnChange(m.NodeRank, here)
	}
}

func refuse(format string, args ...any) *Welcome {
	return &Welcome{Refusal: fmt.Sprintf(format, args...)}
}

// checkHello returns a refusal if a node cannot join. It assigns the node's rank where the configuration does.
func (h *Head) checkHello(m *Member) *Welcome {
	own := &h.cfg.Self
	if h.cfg.AssignRank != nil {
		rank, refusal := h.cfg.AssignRank(&m.Hello, h.roster.members)
		if refusal != "" {
			return refuse("%s", refusal)
		}
		m.NodeRank = rank
	}
	switch {
	case m.ID != own.ID: // first: nothing else matters of another job
		w := h.refuseJob(m)
		w.Started = h.roster.complete && h.roster.started
		return w
	case m.Version != own.Version:
		return refuse("it runs gorun %s, node 0 runs gorun %s: install the same gorun on all nodes",
			m.Version, own.Version)
	case m.Nonce != nil:
		return refuse(
			"it uses MUNGE, which node 0 lacks: give all nodes a token (--token-file, GORUN_TOKEN)")
	case m.nodes() != own.nodes():
		return refuse("it expects %s nodes, node 0 expects %s (--nnodes)", m.nodes(), own.nodes())
	case m.NodeRank >= own.NumNodes:
		return refuse("its node rank is %d, but the job has %d nodes: 0 to %d (--node-rank)", m.NodeRank, own.NumNodes,
			own.NumNodes-1)
	case m.NodeRank == 0:
		return refuse("two nodes have node rank 0: %s listens at the endpoint, and %s connects to it (--node-rank)",
			own.Name(), m)
	case h.roster.failure != "":
		return refuse("%s", h.roster.failure)
	}
	return h.checkRank(m)
}

// checkRank returns a refusal if the rank, or every rank, is taken.
func (h *Head) checkRank(m *Member) *Welcome {
	members := h.roster.members
	if h.roster.started && h.cfg.Self.MinNodes > 0 {
		if len(members) >= h.cfg.Self.NumNodes {
			return refuse("%d other nodes wait already until the job needs them", len(members))
		}
		return nil // a node that comes back has the rank of a node that may still seem to be here
	}
	if m.NodeRank > 0 {
		same := slices.IndexFunc(members, func(o *Member) bool { return o.NodeRank == m.NodeRank })
		if same >= 0 && !h.roster.complete {
			return refuse("two nodes have node rank %d: %s joined first, then %s (--node-rank)", m.NodeRank, members[same], m)
		}
	}
	switch {
	case h.roster.complete && h.roster.started:
		w := refuse("the job has already started with all %d nodes", h.cfg.Self.NumNodes)
		w.Started = true
		return w
	case h.roster.complete || len(members) >= h.cfg.Self.NumNodes-1:
		w := refuse("all %d nodes have already joined: node 0 %s, %s", h.cfg.Self.NumNodes, h.cfg.Self.Name(),
			listMembers(members))
		w.Retry = h.roster.complete // a member may turn out to be gone
		return w
	}
	return nil
}

// watch removes a node that disconnects before the job starts, so that it or another one can take its rank. The head's
// lock is held.
func (h *Head) watch(m *Member) {
	m.watched, m.released = make(chan struct{}), false
	watched := m.watched
	h.work.Go(func() {
		defer close(watched)
		n, _ := m.Conn.Read(make([]byte, 1))
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.released && n == 0 {
			return
		}
		// It disconnected, or sent something out of turn.
		h.roster.members = slices.DeleteFunc(h.roster.members, func(o *Member) bool { return o == m })
		signal(h.roster.changed)
		m.Conn.Close()
		if !h.closed {
			h.onChange(m, false)
			before := "before all nodes had joined"
			if h.roster.started {
				before = "while it waited"
			}
			h.nodeNotices.add("node %s disconnected %s", m, before)
		}
	})
}

// Wait waits until all nodes have joined, numbers those without a rank, and welcomes them. The members are in the order
// of their node ranks, from 1 on, and their connections are the caller's. The error at the deadline, unless the job may
// start with the nodes that are there, or when ctx ends, says which nodes are missing; the nodes receive it, too.
func (h *Head) Wait(ctx context.Context) ([]*Member, error) {
	deadline, notice := time.After(h.cfg.Timeout), time.After(noticeDelay)
	var lastCall <-chan time.Time // while the nodes that are there suffice
	needed := h.cfg.Self.NumNodes
	for late := false; ; {
		members, done := h.start(needed)
		if done {
			for _, m := range members {
				h.send(m, &Welcome{NodeRank: m.NodeRank})
			}
			return members, nil
		}
		h.mu.Lock()
		sufficient := h.sufficient()
		h.mu.Unlock()
		switch {
		case sufficient && lastCall == nil:
			lastCall = time.After(h.cfg.LastCall)
		case sufficient:
		case late:
			return nil, h.fail(fmt.Sprintf("not all nodes joined within %v", h.cfg.Timeout))
		default:
			lastCall, needed = nil, h.cfg.Self.NumNodes
		}
		select {
		case <-lastCall:
			needed = h.cfg.Self.MinNodes
		case <-h.roster.changed:
		case <-notice:
			h.cfg.Notify(h.progress())
		case <-deadline:
			late = true
		case <-ctx.Done():
			return nil, h.fail("node 0 stopped waiting for nodes")
		case <-h.open.Done():
			return nil, errors.New("join: node 0's port was closed")
		}
	}
}

// sufficient reports whether the job may start with the nodes that are there. The head's lock is held.
func (h *Head) sufficient() bool {
	return h.cfg.Self.MinNodes > 0 && len(h.roster.members) >= h.cfg.Self.MinNodes-1
}

// start takes the members if needed nodes are there and none disconnects meanwhile.
func (h *Head) start(needed int) (members []*Member, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.roster.members) < needed-1 || h.closed {
		return nil, false
	}
	h.roster.complete = true
	members = slices.Clone(h.roster.members)
	h.release(members)
	if len(h.roster.members) == len(members) && !h.closed {
		numberNodes(members, h.cfg.Self.NumNodes)
		h.roster.started, h.roster.members = true, nil
		return members, true
	}
	h.roster.complete = false
	for _, m := range h.roster.members {
		h.watch(m)
	}
	return nil, false
}

// release ends the watch over members. Those that disconnect meanwhile leave the roster. The head's lock is held, but
// not all the time.
func (h *Head) release(members []*Member) {
	for _, m := range members {
		m.released = true
		_ = m.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	h.mu.Unlock()
	for _, m := range members {
		<-m.watched
		_ = m.Conn.SetReadDeadline(time.Time{})
	}
	h.mu.Lock()
}

// Waiting returns how many nodes wait for a place in the job that runs, and since when the first of them does.
func (h *Head) Waiting() (number int, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.roster.members) > 0 {
		since = h.roster.members[0].since
	}
	return len(h.roster.members), since
}

// AwaitWaiting waits until that many nodes wait for a place.
func (h *Head) AwaitWaiting(ctx context.Context, number int) error {
	for {
		if n, _ := h.Waiting(); n >= number {
			return nil
		}
		select {
		case <-h.roster.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitingChanged has a token when nodes have come or gone since the last one, once Wait has returned.
func (h *Head) WaitingChanged() <-chan struct{} { return h.roster.changed }

// Admit welcomes up to most of the nodes that wait, those with the lowest node ranks first. Their connections are the
// caller's.
func (h *Head) Admit(most int) []*Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	chosen := slices.Clone(h.roster.members)
	slices.SortStableFunc(chosen, func(a, b *Member) int {
		return cmp.Or(cmp.Compare(uint(a.NodeRank), uint(b.NodeRank)), compareMembers(a, b, false)) // -1: last
	})
	chosen = chosen[:min(len(chosen), most)]
	h.release(chosen)
	here := func(m *Member) bool { return slices.Contains(h.roster.members, m) }
	chosen = slices.DeleteFunc(chosen, func(m *Member) bool { return !here(m) })
	h.roster.members = slices.DeleteFunc(h.roster.members, func(m *Member) bool { return slices.Contains(chosen, m) })
	for _, m := range chosen {
		h.send(m, &Welcome{NodeRank: max(m.NodeRank, 1)})
	}
	return chosen
}

// Dismiss tells the nodes that wait how the job has ended.
func (h *Head) Dismiss(code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endMembers("the job has ended", &Welcome{Ended: true, Code: code})
}

// endMembers sends all members w and closes their connections. Later nodes are refused for the reason.
func (h *Head) endMembers(reason string, w *Welcome) {
	h.roster.failure = reason
	for _, m := range h.roster.members {
		m.released = true
		h.send(m, w)
		m.Conn.Close()
	}
	h.roster.members = nil
}

// noticeDelay is the time after which a node reports once what it waits for.
const noticeDelay = 5 * time.Second

func (h *Head) progress() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, limit := "node 0", h.cfg.Timeout
	switch {
	case h.cfg.RankPerNode:
		name = "rank 0's gorun"
	case h.sufficient():
		limit = h.cfg.LastCall
	}
	return fmt.Sprintf("%s waits at %s, up to %v: %s", name, h.cfg.endpoint(), limit, h.describeMembers())
}

// describeMembers counts and names the nodes; the head's lock is held.
func (h *Head) describeMembers() string {
	members := h.roster.members
	if h.cfg.RankPerNode {
		return fmt.Sprintf("%d of %d processes (one rank each) have joined", len(members)+1, h.cfg.Self.NumNodes) +
			h.listMissing("rank")
	}
	text := fmt.Sprintf("%d of %s nodes have joined (node 0 %s", len(members)+1, h.cfg.Self.nodes(), h.cfg.Self.Name())
	if len(members) > 0 {
		text += ", " + listMembers(members)
	}
	if h.sufficient() {
		return text + ")"
	}
	text += ")" + h.listMissing("node rank")
	if isLoopback(h.cfg.Addr) {
		text += "; " + h.cfg.Addr + " is each host's own address: nodes on other hosts cannot reach it"
	} else if h.isElsewhere {
		text += "; " + h.cfg.Addr + " is not an address of this host: does --node-rank 0 belong to another host?"
	}
	return text
}

// maxListed limits the nodes in a message.
const maxListed = 16

func listMembers(members []*Member) string {
	var list []string
	for _, m := range members[:min(len(members), maxListed)] {
		if m.NodeRank >= 0 {
			list = append(list, fmt.Sprintf("node %d %s", m.NodeRank, m))
		} else {
			list = append(list, m.String())
		}
	}
	if more := len(members) - maxListed; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// Missing returns the ranks that no node has.
func (h *Head) Missing() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.missing()
}

func (h *Head) missing() (ranks []int) {
	here := map[int]bool{}
	for _, m := range h.roster.members {
		here[m.NodeRank] = true
	}
	for rank := 1; rank < h.cfg.Self.NumNodes; rank++ {
		if !here[rank] {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// listMissing lists the ranks that no node has, unless nodes have no ranks yet.
func (h *Head) listMissing(name string) string {
	ranks := h.missing()
	unranked := func(m *Member) bool { return m.NodeRank < 0 }
	if len(ranks) == 0 || slices.ContainsFunc(h.roster.members, unranked) {
		return ""
	}
	return "; missing: " + name + " [" + printable.Ranges(ranks) + "]"
}

// fail sends all nodes the reason why there will be no job, and returns it as an error.
func (h *Head) fail(reason string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	reason += ": " + h.describeMembers()
	h.endMembers(reason, &Welcome{Refusal: reason})
	return errors.New(reason)
}
