package launcher

import (
	"cmp"
	"context"
	"net/netip"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// chooseMaster finds the address that the nodes reach node 0 at, and each node's interface.
func (s *session) chooseMaster() error {
	options := probe.Options{Source: s.spec.Store.From, PreferIPv6: s.namedByIPv6()}
	order := s.nodesFromRank0()
	probers := make([]prober, len(order))
	for i, n := range order {
		probers[i] = n.prober()
	}
	probers[0].address = cmp.Or(s.spec.Store.Addr, probers[0].address)
	if j := s.spec.Join; j != nil {
		// The address may also be that of a service that leads here.
		if here, err := join.IsEndpointHere(context.Background(), j.Addr); err == nil && here {
			probers[0].address, options.Source = j.Addr, j.From
		}
	}
	choice, notes, err := chooseAddress(probers, s.spec.Store.Port, options)
	for _, note := range notes {
		s.settings.detail(note)
	}
	if err != nil {
		return failure(printable.Error(err))
	}
	s.applyChoice(order, choice)
	return nil
}

func (s *session) applyChoice(order []*node, choice probe.Choice) {
	s.settings.detail("network: " + choice.Reason)
	switch {
	case choice.Note == "":
	case s.spec.Tune == job.TuneOff && !s.namedByIPv6(): // nodes with IPv6 names may have IPv4 as well
		s.settings.note(choice.Note)
	default: // the plan sets the variable
		s.settings.detail("network: " + choice.Note)
	}
	if choice.Warning != "" {
		s.settings.notify(choice.Warning)
	}
	s.masterAddr = choice.Addr.String()
	for i, n := range order {
		place := choice.Endpoints[i]
		n.facts.Endpoint = plan.Endpoint{Address: place.Addr.WithZone("").String(), Interface: place.Interface}
		if place.Device { // virtual devices report made-up speeds
			n.facts.Mbps = place.Mbps
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

// nodesFromRank0 returns the nodes, that of rank 0 first.
func (s *session) nodesFromRank0() []*node {
	order := []*node{s.nodes[s.rank0Node]}
	for i, n := range s.nodes {
		if i != s.rank0Node {
			order = append(order, n)
		}
	}
	return order
}

// namedByIPv6 reports whether the user named node 0 by an IPv6 address.
func (s *session) namedByIPv6() bool {
	addr, err := netip.ParseAddr(s.nodes[s.rank0Node].host.Name)
	return err == nil && addr.Is6() && !addr.Is4In6()
}

// prober has the node probe the network.
func (n *node) prober() prober {
	return prober{n.name, n.host.Address, func(p *wire.Probe) (r wire.Reached, err error) {
		if err = n.request(p, &r); err != nil {
			return r, err
		}
		for _, c := range r.Candidates {
			n.addresses = append(n.addresses, c.Addr.WithZone(""))
		}
		return r, nil
	}}
}
