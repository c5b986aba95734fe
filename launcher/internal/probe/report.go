package probe

import (
	"net/netip"

	"gorun/launcher/doctor"
)

// Report returns what was measured, without an address.
func (s *Survey) Report() *doctor.Network {
	r := &doctor.Network{Summary: s.Summary(), Transfers: s.Transfers(), Grid: s.Grid()}
	for _, p := range s.Paths {
		r.Paths = append(r.Paths, s.report(p))
	}
	for node, n := range s.Nodes {
		own := s.Endpoints[node]
		for _, c := range n.Candidates {
			r.Interfaces = append(r.Interfaces, doctor.Address{
				Host: n.Name, Name: c.Interface, Address: netip.PrefixFrom(c.Addr, c.Bits).String(),
				Kind: c.Kind, Mbps: c.Mbps, MTU: c.MTU,
				Chosen: own.Interface == c.Interface && own.Addr.WithZone("") == c.Addr,
			})
		}
	}
	return r
}

func (s *Survey) report(p *Path) doctor.Path {
	r := doctor.Path{
		From: s.Nodes[p.From].Name, To: s.Nodes[p.To].Name,
		Address: p.Addr.String(), Port: p.Port, Interface: p.Result.Interface,
		Seconds: p.roundTrip().Seconds(), Problem: p.Result.Problem, Aside: p.Alternate, OtherPorts: p.OtherPorts,
	}
	if m := p.Measured; m != nil {
		r.Bytes, r.TransferSeconds, r.BitsPerSecond = m.Bytes, m.Time.Seconds(), p.Rate()
		r.TransferSegments, r.TransferResent, r.Segments, r.Resent = m.FlowSegments, m.FlowResent, m.Segments, m.Resent
		r.Packet, r.Passes, r.Vanishes, r.Trouble = m.Packet, m.Passes, m.Vanishes, m.Problem
	}
	return r
}
