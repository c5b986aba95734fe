package launcher

import (
	"net/netip"

	"gorun/launcher/internal/probe"
)

// NetworkReport says which hosts reach each other by TCP, and how well.
type NetworkReport struct {
	// Address is what MASTER_ADDR would be; "" if no address is reached by all hosts.
	Address string `json:"address,omitempty"`
	Reason  string `json:"reason,omitempty"`  // for Address
	Summary string `json:"summary,omitempty"` // how many paths work, in one line
	// Transfers summarizes the measured throughput; "" without measurements.
	Transfers string `json:"transfers,omitempty"`
	Ways      []Way  `json:"paths,omitempty"` // between all pairs of up to 64 hosts
	// Interfaces lists the addresses of all hosts.
	Interfaces []InterfaceReport `json:"interfaces,omitempty"`
	// Error is set if the network could not be probed.
	Error string `json:"error,omitempty"`

	survey *probe.Survey
}

// Grid draws the round trips in milliseconds, dialing hosts on the left; "" for more than 16 hosts.
func (n *NetworkReport) Grid() string { return n.survey.Grid() }

// Way is the path from one host to an address of another. Values that were not measured are 0.
type Way struct {
	From      string  `json:"from"`                // host that dials
	To        string  `json:"to"`                  // host that it dials
	Address   string  `json:"address"`             // dialed
	Port      int     `json:"port"`                // TCP port that it dials
	Interface string  `json:"interface,omitempty"` // of From
	Seconds   float64 `json:"round_trip_seconds"`  // of the shortest round trip
	Problem   string  `json:"problem,omitempty"`   // why dialing failed; absent if it worked
	// Aside is set for an address that ranks would not use.
	Aside bool `json:"unused,omitempty"`
	// OtherPorts says how ports 22 and 1 respond if Port does not: "answers", "refuses" or
	// "silent".
	OtherPorts string `json:"other_ports,omitempty"`

	Bytes            int64   `json:"transfer_bytes,omitempty"`           // what one TCP connection carried
	TransferSeconds  float64 `json:"transfer_seconds,omitempty"`         // time that it took
	BitsPerSecond    float64 `json:"bits_per_second,omitempty"`          // throughput of that connection
	TransferSegments int     `json:"transfer_segments,omitempty"`        // segments that it sent
	TransferResent   int     `json:"transfer_resent_segments,omitempty"` // of them, sent again
	Segments         int     `json:"segments,omitempty"`                 // sent with few in flight
	Resent           int     `json:"resent_segments,omitempty"`          // of these, sent again, which indicates loss
	Packet           int     `json:"packet_bytes,omitempty"`             // size of TCP's IP packets
	Passes           int     `json:"passing_packet_bytes,omitempty"`     // a size that arrives, if those are lost
	Vanishes         int     `json:"lost_packet_bytes,omitempty"`        // a size that is lost
	// Trouble is why measuring failed on a host that was reached.
	Trouble string `json:"error,omitempty"`
}

// InterfaceReport is an address of a host.
type InterfaceReport struct {
	Host    string `json:"host"`    // as the user named it
	Name    string `json:"name"`    // such as "eth0"
	Address string `json:"address"` // with its prefix length
	// Kind is "ordinary", "no carrier", "tunnel", "host-only" or "loopback".
	Kind string `json:"kind"`
	Mbps int    `json:"megabits_per_second,omitempty"` // speed of the link; absent if unknown
	MTU  int    `json:"mtu_bytes,omitempty"`           // largest IP packet; absent if unknown
	// Chosen is set if ranks would use it.
	Chosen bool `json:"chosen,omitempty"`
}

func networkReport(s *probe.Survey) *NetworkReport {
	r := &NetworkReport{survey: s, Summary: s.Summary(), Transfers: s.Transfers()}
	for _, w := range s.Paths {
		r.Ways = append(r.Ways, wayReport(s, w))
	}
	for node, n := range s.Nodes {
		for _, c := range n.Candidates {
			i := InterfaceReport{
				Host: n.Name, Name: c.Interface, Address: netip.PrefixFrom(c.Addr, c.Bits).String(),
				Kind: c.Kind, Mbps: c.Mbps, MTU: c.MTU,
			}
			i.Chosen = s.Endpoints[node].Interface == c.Interface && s.Endpoints[node].Addr.WithZone("") == c.Addr
			r.Interfaces = append(r.Interfaces, i)
		}
	}
	return r
}

func wayReport(s *probe.Survey, w *probe.Path) Way {
	way := Way{
		From: s.Nodes[w.From].Name, To: s.Nodes[w.To].Name,
		Address: w.Addr.String(), Port: w.Port, Interface: w.Result.Interface,
		Seconds: w.Result.RTT.Seconds(), Problem: w.Result.Problem, Aside: w.Alternate, OtherPorts: w.OtherPorts,
	}
	m := w.Measured
	if m == nil {
		return way
	}
	if m.RTT > 0 {
		way.Seconds = min(way.Seconds, m.RTT.Seconds())
	}
	way.Bytes, way.TransferSeconds, way.BitsPerSecond = m.Bytes, m.Time.Seconds(), w.Rate()
	way.TransferSegments, way.TransferResent, way.Segments, way.Resent = m.FlowSegments, m.FlowResent, m.Segments, m.Resent
	way.Packet, way.Passes, way.Vanishes, way.Trouble = m.Packet, m.Passes, m.Vanishes, m.Problem
	return way
}
