package doctor

import (
	"fmt"
	"strings"

	"gorun/internal/shellwords"
)

// RDMACounters are the counters of a port that are checked, by their directory below /sys/class/infiniband/*/ports/*.
// Counters that also grow in a healthy network are left out: waiting (port_xmit_wait), reordering by adaptive routing
// (out_of_sequence), management traffic (VL15_dropped).
var RDMACounters = map[string][]string{
	"counters": {
		"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "local_link_integrity_errors",
		"excessive_buffer_overrun_errors",
		"port_xmit_discards", "port_rcv_packets",
	},
	"hw_counters": {
		"packet_seq_err", "roce_adp_retrans", "local_ack_timeout_err", "rx_icrc_encapsulated", "np_cnp_sent",
		"rp_cnp_handled",
	},
}

// counterRule says which values of a counter are reported.
type counterRule struct {
	name string
	// enough is the total that is worth a note, perDay the total per day since boot that is worth a warning. If enough is
	// 0, the total does not matter.
	enough, perDay float64
	share          float64 // minimum share of the received packets
	perSecond      float64 // growth that is worth a warning whatever the total; 0: growth does not matter
	noteOnly       bool
}

// Ten is the default threshold of ibqueryerrors. InfiniBand allows one bad symbol in 10^12 bits, which is thousands a
// day without error correction; in a busy network, thousands of discarded packets are normal.
var (
	linkRules = []counterRule{
		{name: "link_downed", enough: 10, perDay: 10, perSecond: 1},
		{name: "symbol_error", enough: 1000, perDay: 10000, perSecond: 10},
		{name: "link_error_recovery", enough: 10, perDay: 10, perSecond: 1},
		{name: "port_rcv_errors", enough: 100, perDay: 1000, perSecond: 10},
		{name: "local_link_integrity_errors", enough: 10, perDay: 10, perSecond: 1},
		{name: "excessive_buffer_overrun_errors", enough: 10, perDay: 10, perSecond: 1},
		{name: "rx_icrc_encapsulated", enough: 10, perDay: 10, perSecond: 1},
	}
	lossRules = []counterRule{
		{name: "port_xmit_discards", enough: 10_000, perDay: 10_000, share: 1e-5, perSecond: 100},
		{name: "packet_seq_err", enough: 10_000, perDay: 10_000, share: 1e-5, perSecond: 100},
		{name: "roce_adp_retrans", enough: 10_000, perDay: 10_000, share: 1e-5, perSecond: 100},
		{name: "local_ack_timeout_err", enough: 10_000, perDay: 10_000, share: 1e-5, perSecond: 100},
		{name: "np_cnp_sent", perSecond: 1000, noteOnly: true},
		{name: "rp_cnp_handled", perSecond: 1000, noteOnly: true},
	}
)

func rdmaCounterChecks() []Check {
	return []Check{
		{
			"rdma-errors", "rdma",
			"errors that RDMA ports count: bad symbols and packets, links that go down and come back",
			"The usual cause is a bad cable or transceiver: the link resends, and a job is slow, or ends if the link " +
				"goes down. Some errors after a boot are normal; growing counters are not.",
			each(func(h *Host, r report) { r.counters(h, linkRules, "link errors") }),
		},
		{
			"rdma-loss", "rdma",
			"packets that RDMA ports discard or resend, and RoCE ports that receive requests to slow down",
			"InfiniBand and RoCE lose no packets if adapters and switches use the same flow control (PFC, ECN); " +
				"every loss costs milliseconds.",
			each(func(h *Host, r report) {
				r.counters(h, lossRules, "packets that were lost, sent again or slowed down")
			}),
		},
	}
}

// verdict returns the severity of a count, or "".
func (r counterRule) verdict(p Port, days float64) Severity {
	n, growth := float64(p.Counters[r.name]), float64(p.Growing[r.name])
	many := r.enough > 0 && n >= r.enough && n >= r.share*float64(p.Counters["port_rcv_packets"])
	grows := growth > 0 && p.Watched > 0 && r.perSecond > 0 && growth >= r.perSecond*max(1, p.Watched)
	daily := many && days > 0 && n >= r.perDay*max(1, days)
	switch {
	case !many && !grows:
		return ""
	case (grows || daily) && !r.noteOnly:
		return Warning
	}
	return Note
}

// counters reports a host's ports by rules: warnings first, then notes.
func (r report) counters(h *Host, rules []counterRule, what string) {
	const day = 24 * 60 * 60
	for _, severity := range []Severity{Warning, Note} {
		var words, now []string
		var first *Port
		watched := 0.0
		for _, p := range realPorts(h) {
			var counts []string
			for _, r := range rules {
				if !p.Active() || r.verdict(p, h.Uptime/day) != severity {
					continue
				}
				counts = append(counts, fmt.Sprintf("%s %d", r.name, p.Counters[r.name]))
				if more := p.Growing[r.name]; more > 0 {
					now, watched = append(now, fmt.Sprintf("%s of %s by %d", r.name, p.name(), more)), p.Watched
				}
			}
			if counts == nil {
				continue
			}
			if first == nil {
				first = &p
			}
			words = append(words, p.name()+" ("+strings.Join(counts, ", ")+")")
		}
		if words == nil {
			continue
		}
		text := plural(len(words), "RDMA port counts ", "RDMA ports count ") + what + ": " + listed(words)
		if now != nil {
			text += fmt.Sprintf("; within %.1f s grew %s", watched, listed(now))
		}
		r.add(severity, text,
			"/sys/class/infiniband/*/ports/*/counters and hw_counters, since the adapters were reset",
			fmt.Sprintf("cd /sys/class/infiniband/%s/ports/%d && grep . counters/* hw_counters/*",
				shellwords.Quote(first.Device), first.Port))
	}
}
