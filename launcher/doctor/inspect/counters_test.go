package inspect_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counts sets counters of all ports as a healthy machine has them, then some of one port.
func (s *scene) counts(uptimeDays int, some map[string]int) {
	s.Put("proc/uptime", fmt.Sprint(uptimeDays*24*60*60, ".47 0.00"))
	for n := range 12 {
		device := fmt.Sprint("mlx5_", n)
		if s.Resolve("sys/class/infiniband/"+device) == "" {
			continue
		}
		for name, value := range map[string]int{
			"counters/symbol_error": 12, "counters/link_downed": 2, "counters/link_error_recovery": 0,
			"counters/port_rcv_errors":    3,
			"counters/port_xmit_discards": 900, "counters/port_rcv_packets": 1_000_000_000,
			"counters/local_link_integrity_errors":     0,
			"counters/excessive_buffer_overrun_errors": 0, "hw_counters/packet_seq_err": 40,
			"hw_counters/np_cnp_sent": 80_000_000, "hw_counters/roce_adp_retrans": 0,
		} {
			s.Put(s.port(device)+"/"+name, value)
		}
	}
	for name, value := range some {
		s.Put(s.port("mlx5_3")+"/"+name, value)
	}
}

// What RDMA ports have counted is reported where it is more than a healthy port counts, and
// what grows now is worse.
func TestRDMACounters(t *testing.T) {
	for _, test := range []struct {
		what        string
		days        int
		before, now map[string]int
		want        []string
	}{
		{"healthy", 3, nil, nil, nil},
		{"healthy for long", 400, map[string]int{
			"counters/symbol_error": 900, "counters/link_downed": 6,
			"counters/port_xmit_discards": 9000,
		}, nil, nil},
		{"congested long ago", 400, map[string]int{"hw_counters/np_cnp_sent": 1 << 40}, nil, nil},
		{
			"a link that flaps", 2,
			map[string]int{"counters/link_downed": 31},
			nil,
			[]string{"warning rdma-errors: 1 RDMA port counts link errors: mlx5_3:1 (link_downed 31)"},
		},
		{
			"a link that flapped in a year", 365,
			map[string]int{"counters/link_downed": 31},
			nil,
			[]string{"note rdma-errors: 1 RDMA port counts link errors: mlx5_3:1 (link_downed 31)"},
		},
		{"a bad cable", 1, map[string]int{"counters/symbol_error": 65535, "counters/port_rcv_errors": 4000}, nil, []string{
			"warning rdma-errors: 1 RDMA port counts link errors: mlx5_3:1 (symbol_error 65535, port_rcv_errors 4000)",
		}},
		{"a cable that is bad now", 400, nil, map[string]int{"counters/symbol_error": 40}, []string{
			"warning rdma-errors: 1 RDMA port counts link errors: mlx5_3:1 (symbol_error 40); within 0.5 s grew symbol_error " +
				"of mlx5_3:1 by 28",
		}},
		{"a link that went down meanwhile", 400, nil, map[string]int{"counters/link_downed": 3}, []string{
			"warning rdma-errors: 1 RDMA port counts link errors: mlx5_3:1 (link_downed 3); within 0.5 s grew link_downed of " +
				"mlx5_3:1 by 1",
		}},
		{"discards", 1, map[string]int{"counters/port_xmit_discards": 70_000}, nil, []string{
			"warning rdma-loss: 1 RDMA port counts packets that were lost, sent again or slowed down: mlx5_3:1 " +
				"(port_xmit_discards 70000)",
		}},
		{
			"few of the packets", 1,
			map[string]int{"counters/port_xmit_discards": 70_000, "counters/port_rcv_packets": 1 << 50},
			nil, nil,
		},
		{"sent again now", 1, nil, map[string]int{"hw_counters/packet_seq_err": 1040}, []string{
			"warning rdma-loss: 1 RDMA port counts packets that were lost, sent again or slowed down: mlx5_3:1 " +
				"(packet_seq_err 1040); within 0.5 s grew packet_seq_err of mlx5_3:1 by 1000",
		}},
		{"slow down", 1, nil, map[string]int{"hw_counters/np_cnp_sent": 80_100_000}, []string{
			"note rdma-loss: 1 RDMA port counts packets that were lost, sent again or slowed down: mlx5_3:1 (np_cnp_sent " +
				"80100000); within 0.5 s grew np_cnp_sent of mlx5_3:1 by 100000",
		}},
		{"cleared meanwhile", 1, nil, map[string]int{"counters/symbol_error": 0}, nil},
	} {
		t.Run(test.what, func(t *testing.T) {
			s := example(t, "dgx-h100", 1)
			s.counts(test.days, test.before)
			s.during = func() { s.changes("mlx5_3", test.now) }
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				for _, f := range judged(t, s) {
					if f.Check == "rdma-errors" || f.Check == "rdma-loss" {
						lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.Check, f.Text))
						assert.Equal(t, "cd /sys/class/infiniband/mlx5_3/ports/1 && grep . counters/* hw_counters/*", f.Fix)
					}
				}
				assert.Equal(t, test.want, lines)
			})
		})
	}
}

// Who has no adapters waits for nothing.
func TestNoCountersNoWait(t *testing.T) {
	s := example(t, "dgx-h100", 1)
	took := func() (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			s.inspected(t)
			d = time.Since(begin)
		})
		return d
	}
	require.Zero(t, took())
	s.counts(1, nil)
	require.Equal(t, 500*time.Millisecond, took())
}
