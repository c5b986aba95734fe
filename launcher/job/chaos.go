package job

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/hosts"
)

// FaultKinds are the faults of --chaos. Those that end in "-rank" are done to a rank, the others to a host with ranks.
var FaultKinds = []string{"kill-agent", "stop-agent", "cut-link", "kill-node", "kill-rank", "stop-rank"}

// Fault is a fault to inject.
type Fault struct {
	Text   string // as the user typed it
	Kind   string // one of FaultKinds
	Target string // a host, or a rank's number; "": a random one
	// At is when, from the moment at which all ranks ran first: give or take Jitter or, if Random, the mean of a time
	// without memory.
	At, Jitter time.Duration
	Random     bool
}

// OnRank reports whether the fault is done to a rank.
func (f Fault) OnRank() bool { return strings.HasSuffix(f.Kind, "-rank") }

// ParseChaos parses FAULT[:TARGET]@TIME,... with a TIME such as 30s, 60s±5s, 60s+-5s or ~10s.
func ParseChaos(text string) (list []Fault, err error) {
	for i, entry := range strings.Split(text, ",") {
		f, err := parseFault(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("fault %d, %q: %w", i+1, entry, err)
		}
		list = append(list, f)
	}
	return list, nil
}

func parseFault(text string) (f Fault, err error) {
	f.Text = text
	what, when, found := strings.Cut(text, "@")
	if !found {
		return f, errors.New("no time; write FAULT[:TARGET]@TIME, such as kill-rank:3@30s")
	}
	var hasTarget bool
	f.Kind, f.Target, hasTarget = strings.Cut(what, ":")
	if !slices.Contains(FaultKinds, f.Kind) {
		return f, fmt.Errorf("unknown fault %q; there are %s", f.Kind, strings.Join(FaultKinds, ", "))
	}
	if rank, err := strconv.Atoi(f.Target); hasTarget && (f.Target == "" || f.OnRank() && (err != nil || rank < 0)) {
		return f, fmt.Errorf("no target %q; write a host, for %s a rank's number, or no colon for a random one", f.Target,
			"kill-rank and stop-rank")
	}
	when, f.Random = strings.CutPrefix(when, "~")
	at, jitter, hasJitter := strings.Cut(strings.Replace(when, "+-", "±", 1), "±")
	f.At, err = time.ParseDuration(at)
	if err == nil && hasJitter {
		f.Jitter, err = time.ParseDuration(jitter)
	}
	if err != nil || f.At < 0 || f.Jitter < 0 || f.Random && hasJitter {
		return f, fmt.Errorf("no time %q; write 30s, 60s±5s (or 60s+-5s), or ~10s for a random one with that mean", when)
	}
	return f, nil
}

// Moment draws when the fault happens. random returns a number in [0, 1).
func (f Fault) Moment(random func() float64) time.Duration {
	draw := random()
	if f.Random {
		return time.Duration(-math.Log(1-draw) * float64(f.At))
	}
	return max(0, f.At+time.Duration((2*draw-1)*float64(f.Jitter)))
}

// chaosError reports what is wrong with --chaos on any nodes.
func (s *Spec) chaosError() error {
	if s.ChaosSeed != 0 && s.Chaos == nil {
		return errors.New("--chaos-seed has no effect without --chaos")
	}
	for _, f := range s.Chaos {
		known := slices.ContainsFunc(s.Hosts, func(h hosts.Host) bool { return f.Target == "" || h.Name == f.Target })
		if f.OnRank() || known {
			continue
		}
		if s.Join != nil || len(s.Hosts) == 0 {
			return fmt.Errorf("--chaos %s: only hosts that gorun reaches itself can have it: add -H or --hostfile", f.Text)
		}
		return fmt.Errorf("--chaos %s: no host %s in %s", f.Text, f.Target, cmp.Or(s.HostsFrom, "the job"))
	}
	return nil
}

// Chaos describes the faults that were injected.
type Chaos struct {
	Seed   int         `json:"seed"`   // --chaos-seed that repeats times and targets
	Faults []Injection `json:"faults"` // in the order of their times
}

// Injection is one fault.
type Injection struct {
	Fault  string  `json:"fault"`             // as typed
	Target string  `json:"target,omitempty"`  // host or rank that it was done to; absent if it was not injected
	At     Seconds `json:"at_seconds"`        // time, from the moment at which all ranks ran first
	Why    string  `json:"skipped,omitempty"` // why it was not injected; absent if it was
	// Recovery is the time from the fault until all ranks of the next attempt ran; absent if they never did.
	Recovery Seconds `json:"recovery_seconds,omitempty"`
}

// String describes the fault and its end.
func (i Injection) String() string {
	switch {
	case i.Why != "":
		return fmt.Sprintf("%s: not injected: %s", i.Fault, i.Why)
	case i.Recovery == 0:
		return fmt.Sprintf("%s: %s; no later attempt ran", i.Fault, i.Target)
	}
	return fmt.Sprintf("%s: %s; ranks ran again after %s", i.Fault, i.Target, round(i.Recovery))
}

// reportFaults is how many faults a report lists. The JSON has all.
const reportFaults = 8

func (b *reportBuilder) chaos(c *Chaos) {
	if c == nil {
		return
	}
	b.headline(fmt.Sprintf("%s (--chaos-seed %d)", plural(len(c.Faults), "fault"), c.Seed))
	for i, f := range c.Faults {
		if i == reportFaults {
			b.row("", fmt.Sprintf("and %d more: --report FILE has all", len(c.Faults)-i))
			break
		}
		b.row(round(f.At), f.String())
	}
}
