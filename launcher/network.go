package launcher

import (
	"context"
	"net/netip"
	"time"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// probeLimit bounds the search for an address that all nodes reach; each of its few
// rounds takes two seconds at most.
const probeLimit = 20 * time.Second

// reachable finds out by which address the nodes reach node 0, and by which
// interfaces they talk.
func (s *session) reachable() error {
	wish := probeWish{Asked: s.spec.Store.From, Port: s.spec.Store.Port, PreferIPv6: s.namedByIPv6()}
	order := s.fromFirst()
	probers := make([]prober, len(order))
	for i, n := range order {
		probers[i] = n
		wish.Names = append(wish.Names, n.name)
		wish.Addresses = append(wish.Addresses, n.host.Address)
	}
	if addr := s.spec.Store.Addr; addr != "" {
		wish.Addresses[0] = addr
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	if j := s.spec.Join; j != nil {
		if here, err := join.IsEndpointHere(ctx, j.Addr); err == nil && here { // else it is a service's, which leads here
			wish.Addresses[0], wish.Asked = j.Addr, j.From
		}
	}
	choice, notes, err := chooseAddress(ctx, probers, wish)
	for _, note := range notes {
		s.settings.detail(note)
	}
	if err != nil {
		return failure(err.Error())
	}
	s.adopt(order, choice)
	return nil
}

// adopt takes up what was found.
func (s *session) adopt(order []*node, choice probe.Choice) {
	s.settings.detail("network: " + choice.Reason)
	switch {
	case choice.Note == "":
	case s.spec.Tune == job.TuneOff && !s.namedByIPv6(): // who names nodes by IPv6 may have IPv4, too
		s.settings.note(choice.Note)
	default: // the plan sets it
		s.settings.detail("network: " + choice.Note)
	}
	if choice.Warning != "" {
		s.settings.tell(choice.Warning)
	}
	s.master = choice.Addr.String()
	for i, n := range order {
		place := choice.Nodes[i]
		n.facts.Address, n.facts.Interface = place.Addr.WithZone("").String(), place.Interface
		n.facts.Network = job.Network{
			Kind: place.Kind, Device: place.Device, Mbps: place.Mbps, MTU: place.MTU,
			Others: place.Others, OtherFamily: place.OtherFamily,
		}
		n.addresses = append(n.addresses, place.Addr.WithZone(""))
	}
	s.peers = nil
	for _, n := range order {
		for _, a := range n.addresses {
			s.peers = append(s.peers, netip.PrefixFrom(a, a.BitLen()))
		}
	}
}

// fromFirst are the nodes, that of rank 0 first.
func (s *session) fromFirst() []*node {
	order := []*node{s.nodes[s.first]}
	for i, n := range s.nodes {
		if i != s.first {
			order = append(order, n)
		}
	}
	return order
}

// namedByIPv6 reports whether the user named the nodes by such addresses.
func (s *session) namedByIPv6() bool {
	addr, err := netip.ParseAddr(s.nodes[s.first].host.Name)
	return err == nil && addr.Is6() && !addr.Is4In6()
}

// Ask has the node find out whom it reaches.
func (n *node) Ask(_ context.Context, p wire.Probe) (r wire.Reached, err error) {
	if err = n.ask(&p, &r); err != nil {
		return r, err
	}
	for _, c := range r.Candidates {
		n.addresses = append(n.addresses, c.Addr.WithZone(""))
	}
	return r, nil
}
