package launcher

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
)

// prober is a node that can probe the network.
type prober struct {
	name string // for messages
	// address is what the user named the node by (ifhn=, --master-addr for node 0), or "".
	address string
	request func(p *wire.Probe) (wire.Reached, error)
}

// patience is how long to wait for more addresses of node 0 once one has answered. Slower ones are
// tried again if nodes need them.
const patience = 50 * time.Millisecond

// firstTimeout limits the first try of the most plausible addresses. The second try is long enough
// for the retransmission of a lost packet.
const firstTimeout = time.Second

// probeSession probes the network between nodes.
type probeSession struct {
	probers []prober
	nodes   []probe.Node
	key     []byte
	options probe.Options
	notes   []string
}

// chooseAddress finds the address of node 0 that all other nodes reach, and each node's interface.
// Every node lists its addresses, dials the most plausible ones of node 0, and dials others (all of
// up to eight, see probe.PeerTargets), since ranks talk to each other. If that fails, nodes dial
// all addresses with more time. port is a fixed MASTER_PORT or 0: a firewall may let nothing else
// pass. notes are for the user.
func chooseAddress(probers []prober, port int, options probe.Options) (choice probe.Choice, notes []string, err error) {
	if len(probers) < 2 {
		return probe.Choice{}, nil, errors.New("a single node has no peers")
	}
	s := newProbeSession(probers, options)
	if err = s.listen(port); err == nil {
		choice, err = s.choose(probe.Limits{})
	}
	return choice, s.notes, err
}

// choose tries node 0's most plausible addresses, then all of them with more time.
func (s *probeSession) choose(second probe.Limits) (probe.Choice, error) {
	order := probe.Order(s.nodes, s.options)
	choice, err := s.try(order[:probe.FirstTry(s.nodes, order)], 1,
		probe.Limits{Timeout: firstTimeout, Patience: patience})
	if unreached := (*probe.UnreachedError)(nil); errors.As(err, &unreached) || err == nil && choice.Warning != "" {
		return s.try(order, len(order), second)
	}
	return choice, err
}

// try chooses among some of node 0's addresses. Peers are dialed for at most most of the addresses
// that all nodes reach; all of them must answer, so there is no patience.
func (s *probeSession) try(indexes []int, most int, haste probe.Limits) (probe.Choice, error) {
	if err := s.dialZero(indexes, haste); err != nil {
		return probe.Choice{}, err
	}
	if agreed := probe.Agreed(s.nodes, s.options); len(agreed) > 0 {
		if err := s.dialPeers(agreed[:min(most, len(agreed))], probe.Limits{Timeout: haste.Timeout}); err != nil {
			return probe.Choice{}, err
		}
	}
	return probe.Choose(s.nodes, s.options)
}

func newProbeSession(probers []prober, options probe.Options) *probeSession {
	s := &probeSession{
		probers: probers, nodes: make([]probe.Node, len(probers)), key: make([]byte, 2*probe.MinKey), options: options,
	}
	rand.Read(s.key) // never fails
	for i, p := range probers {
		s.nodes[i].Name = p.name
	}
	return s
}

// request sends a request to all nodes in parallel; build returns nil for a node to skip. The error
// is that of the first node that has one.
func (s *probeSession) request(build func(node int) *wire.Probe, receive func(node int, r wire.Reached)) error {
	replies, errs := make([]*wire.Reached, len(s.probers)), make([]error, len(s.probers))
	var all sync.WaitGroup
	for i, prober := range s.probers {
		p := build(i)
		if p == nil {
			continue
		}
		p.Key, p.Node = s.key, i
		all.Go(func() {
			r, err := prober.request(p)
			replies[i], errs[i] = &r, err
		})
	}
	all.Wait()
	for i, r := range replies {
		switch {
		case errs[i] != nil:
			return fmt.Errorf("%s: %w", s.nodes[i].Name, errs[i])
		case r != nil && r.Error != "":
			return fmt.Errorf("%s: %s", s.nodes[i].Name, printable.Text(r.Error))
		case r != nil:
			for _, note := range r.Notes {
				s.notes = append(s.notes, s.nodes[i].Name+": "+printable.Text(note))
			}
			receive(i, *r)
		}
	}
	return nil
}

// listen has every node list its addresses and listen on them.
func (s *probeSession) listen(port int) error {
	return s.request(func(node int) *wire.Probe {
		p := &wire.Probe{Listen: true}
		if address := s.probers[node].address; address != "" {
			p.Names = []string{address}
		}
		if node == 0 {
			p.Port = port
		}
		return p
	}, func(node int, r wire.Reached) {
		s.nodes[node].Port, s.nodes[node].Free = r.Port, r.Free
		for _, c := range r.Candidates {
			c.Interface, c.Kind = printable.Text(c.Interface), printable.Text(c.Kind)
			s.nodes[node].Candidates = append(s.nodes[node].Candidates, c)
		}
	})
}

// dialZero has all other nodes dial some of node 0's addresses, by their indexes.
func (s *probeSession) dialZero(indexes []int, haste probe.Limits) error {
	targets := make([]probe.Target, 0, len(indexes))
	for _, i := range indexes {
		targets = append(targets, probe.Target{Node: 0, Addr: s.nodes[0].Candidates[i].Addr, Port: s.nodes[0].Port})
	}
	return s.request(func(node int) *wire.Probe {
		if node == 0 {
			return nil
		}
		return &wire.Probe{Targets: targets, Timeout: haste.Timeout, Patience: haste.Patience}
	}, func(node int, r wire.Reached) {
		s.nodes[node].Peers, s.nodes[node].Reached = nil, map[int]probe.Result{}
		for _, a := range answers(r, len(indexes)) {
			s.nodes[node].Reached[indexes[a.Target]] = a
		}
	})
}

// dialPeers has every node dial its peers for each agreed address.
func (s *probeSession) dialPeers(agreed []int, haste probe.Limits) error {
	return s.request(func(node int) *wire.Probe {
		targets := probe.PeerTargets(s.nodes, agreed, node)
		if len(targets) == 0 {
			return nil
		}
		return &wire.Probe{Targets: targets, Timeout: haste.Timeout, Patience: haste.Patience}
	}, func(node int, r wire.Reached) {
		s.nodes[node].Peers = map[probe.Target]probe.Result{}
		targets := probe.PeerTargets(s.nodes, agreed, node)
		for _, a := range answers(r, len(targets)) {
			s.nodes[node].Peers[targets[a.Target]] = a
		}
	})
}

// answers returns those answers that are about one of the targets.
func answers(r wire.Reached, targets int) (all []probe.Result) {
	for _, a := range r.Answers {
		a.Interface, a.Problem = printable.Text(a.Interface), printable.Text(a.Problem)
		if a.Target >= 0 && a.Target < targets {
			all = append(all, a)
		}
	}
	return all
}
