package inspect

import (
	"fmt"
	"slices"
	"time"

	"gorun/launcher/doctor"
)

// minWatch is the minimum time over which the growth of counters is meaningful.
const minWatch = 500 * time.Millisecond

// counters reads the counters of a port that doctor checks; nil if none exist.
func (in *inspector) counters(p doctor.Port) (values map[string]int64) {
	for folder, names := range doctor.RDMACounters {
		dir := fmt.Sprintf("sys/class/infiniband/%s/ports/%d/%s", p.Device, p.Port, folder)
		for _, name := range names {
			n, ok := in.number(dir + "/" + name)
			if !ok || n < 0 {
				continue
			}
			if values == nil {
				values = map[string]int64{}
			}
			values[name] = n
		}
	}
	return values
}

// watch reads the counters of ports again and records which have grown.
func (in *inspector) watch(ports []doctor.Port, since time.Time) {
	if !slices.ContainsFunc(ports, func(p doctor.Port) bool { return p.Counters != nil && p.Active() && !p.Virtual }) {
		return
	}
	select {
	case <-time.After(minWatch - time.Since(since)):
	case <-in.ctx.Done():
		return
	}
	for i := range ports {
		p := &ports[i]
		if p.Counters == nil {
			continue
		}
		now := in.counters(*p)
		p.Watched, p.Growing = time.Since(since).Seconds(), map[string]int64{}
		for name, n := range now {
			if more := n - p.Counters[name]; more > 0 {
				p.Growing[name] = more
			}
		}
		p.Counters = now
	}
}
