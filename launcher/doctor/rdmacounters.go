package doctor

import (
	"fmt"
	"strings"

	"gorun/internal/shellwords"
)

// RDMACounters are those of a port that are looked at, by their folders below it in
// /sys/class/infiniband/*/ports/*. Left out are those that a healthy network counts, too:
// waiting (port_xmit_wait), packets in another order than they were sent in, which is how
// adaptive routing works (out_of_sequence), management's (VL15_dropped).
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

// counterRule says from which count on a counter is worth a word.
type counterRule struct {
	name string
	// enough are worth a note, aDay of them on every day since the boot a warning; 0: what was
	// counted says nothing.
	enough, aDay float64
	share        float64 // of the packets received that it has to be, too
	now          float64 // more in a second are worth a warning whatever was counted before; 0: none are
	note         bool    // it is never more than a note
}

// Ten are what ibqueryerrors takes for many by default. Of bad symbols InfiniBand allows
// one in 10^12 bits, which is thousands a day without error correction; and in networks that
// jobs fill, thousands of discarded packets are nothing.
var (
	linkRules = []counterRule{
		{name: "link_downed", enough: 10, aDay: 10, now: 1},
		{name: "symbol_error", enough: 1000, aDay: 10000, now: 10},
		{name: "link_error_recovery", enough: 10, aDay: 10, now: 1},
		{name: "port_rcv_errors", enough: 100, aDay: 1000, now: 10},
		{name: "local_link_integrity_errors", enough: 10, aDay: 10, now: 1},
		{name: "excessive_buffer_overrun_errors", enough: 10, aDay: 10, now: 1},
		{name: "rx_icrc_encapsulated", enough: 10, aDay: 10, now: 1},
	}
	lossRules = []counterRule{
		{name: "port_xmit_discards", enough: 10_000, aDay: 10_000, share: 1e-5, now: 100},
		{name: "packet_seq_err", enough: 10_000, aDay: 10_000, share: 1e-5, now: 100},
		{name: "roce_adp_retrans", enough: 10_000, aDay: 10_000, share: 1e-5, now: 100},
		{name: "local_ack_timeout_err", enough: 10_000, aDay: 10_000, share: 1e-5, now: 100},
		{name: "np_cnp_sent", now: 1000, note: true},
		{name: "rp_cnp_handled", now: 1000, note: true},
	}
)

func rdmaCounterChecks() []Check {
	return []Check{
		{
			"rdma-errors", "rdma",
			"errors that RDMA ports count: bad symbols and packets, links that go down and come back",
			"A bad cable or transceiver: the link corrects and sends again, and a job is slow, or ends when it goes " +
				"down. Some errors after a boot are normal; those that grow now are not.",
			each(func(h *Host) []Finding { return portsCount(h, linkRules, "link errors") }),
		},
		{
			"rdma-loss", "rdma",
			"packets that RDMA ports discard or send again, and RoCE ports that are told to slow down",
			"InfiniBand and RoCE lose nothing where flow control (PFC, ECN) is set alike on adapters and switches; " +
				"every loss costs milliseconds.",
			each(func(h *Host) []Finding {
				return portsCount(h, lossRules, "packets that were lost, sent again or slowed down")
			}),
		},
	}
}

// verdict is how bad a count is, "" for nothing.
func (r counterRule) verdict(p Port, days float64) Severity {
	n, more := float64(p.Counters[r.name]), float64(p.Growing[r.name])
	many := r.enough > 0 && n >= r.enough && n >= r.share*float64(p.Counters["port_rcv_packets"])
	grows := more > 0 && p.Watched > 0 && r.now > 0 && more >= r.now*max(1, p.Watched)
	daily := many && days > 0 && n >= r.aDay*max(1, days)
	switch {
	case !many && !grows:
		return ""
	case (grows || daily) && !r.note:
		return Warning
	}
	return Note
}

// portsCount tells of a host's ports by rules: those that are worth a warning, then the others.
func portsCount(h *Host, rules []counterRule, what string) (all []Finding) {
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
		all = append(all, finding(severity, text,
			"/sys/class/infiniband/*/ports/*/counters and hw_counters, since the adapters were reset",
			fmt.Sprintf("cd /sys/class/infiniband/%s/ports/%d && grep . counters/* hw_counters/*",
				shellwords.Quote(first.Device), first.Port))...)
	}
	return all
}
