package doctor

// IDs of the checks that package probe makes.
const (
	Unreachable      = "unreachable"
	PathMTU          = "path-mtu"
	PacketLoss       = "packet-loss"
	NetworkSpeed     = "network-speed"
	NetworkInterface = "network-interface"
	NoAddress        = "no-address"
)

func networkChecks() []Check {
	return []Check{
		{
			Unreachable, "network",
			"whether hosts reach each other by TCP, on random ports",
			"Ranks listen on random ports. A firewall that drops other packets makes them wait for minutes.",
			pass,
		},
		{
			PathMTU, "network",
			"whether large packets arrive between the hosts as small ones do",
			"If a link on the path passes only smaller packets and no router reports it, connections open and then stall.",
			pass,
		},
		{
			PacketLoss, "network",
			"the share of resent packets between hosts",
			"TCP treats a lost packet as congestion and slows down: one in a hundred at least halves the speed.",
			pass,
		},
		{
			NetworkSpeed, "network",
			"how fast each host sends to another, and how long a round trip takes, compared with the other hosts and " +
				"with its link",
			"The slowest path limits the speed of a collective.",
			pass,
		},
		{
			NetworkInterface, "network",
			"interfaces without a working network, and addresses that libraries may use by mistake",
			"NCCL and Gloo choose an interface themselves if none is named.",
			pass,
		},
		{
			NoAddress, "network",
			"whether the first host has an address that all others reach",
			"MASTER_ADDR must be such an address.",
			pass,
		},
	}
}

// Network says which hosts reach each other by TCP, and how well.
type Network struct {
	// Address is what MASTER_ADDR would be; "" if no address is reached by all hosts.
	Address string `json:"address,omitempty"`
	Reason  string `json:"reason,omitempty"`  // for Address
	Summary string `json:"summary,omitempty"` // how many paths work, in one line
	// Transfers summarizes the measured throughput; "" without measurements.
	Transfers string `json:"transfers,omitempty"`
	Paths     []Path `json:"paths,omitempty"` // between all pairs of up to 64 hosts
	// Interfaces lists the addresses of all hosts.
	Interfaces []Address `json:"interfaces,omitempty"`
	// Error is why there is no address, or why nothing was measured.
	Error string `json:"error,omitempty"`
	// Grid draws the round trips in milliseconds, dialing hosts on the left; "" for more than 16 hosts.
	Grid string `json:"-"`
}

// Path is the way from one host to an address of another. Values that were not measured are 0.
type Path struct {
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

// Address is an address of a host.
type Address struct {
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
