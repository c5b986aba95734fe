package doctor

import (
	"fmt"
	"math"
)

// maxClockOffset is in seconds: make, caches and logs compare times.
const maxClockOffset = 1.0

func clockChecks() []Check {
	return []Check{{
		"clock", "clock",
		"whether the hosts' clocks agree to a second",
		"You compare logs and file times between hosts, and MUNGE, Kerberos and TLS credentials expire by the clock.",
		each(func(h *Host, r report) {
			if h.Clock == nil || math.Abs(h.Clock.Ahead)-h.Clock.Uncertainty < maxClockOffset {
				return
			}
			way := "ahead of"
			if h.Clock.Ahead < 0 {
				way = "behind"
			}
			r.warn(fmt.Sprintf("its clock is %.1f s %s this host's", math.Abs(h.Clock.Ahead), way),
				fmt.Sprintf("its agent's answers, to within %.0f ms", math.Ceil(1000*h.Clock.Uncertainty)),
				"timedatectl status; sudo timedatectl set-ntp true")
		}),
	}}
}
