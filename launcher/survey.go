package launcher

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
)

// surveyNetwork probes all pairs of up to 64 nodes, and those of probe.Partners for more. A node is
// dialed at its chosen address if all nodes reach node 0, else at its most plausible addresses. err
// says why no address was chosen.
func surveyNetwork(probers []prober) (survey probe.Survey, choice probe.Choice, err error) {
	if len(probers) < 2 {
		return survey, choice, nil
	}
	s := newProbeSession(probers, probe.Options{})
	survey.Nodes, survey.Endpoints = s.nodes, make([]probe.Endpoint, len(s.nodes))
	if err := s.listen(0); err != nil {
		return survey, choice, err
	}
	choice, chosen := s.choose(probe.Limits{Timeout: surveyTimeout})
	if unreached := (*probe.UnreachedError)(nil); chosen != nil && !errors.As(chosen, &unreached) {
		return survey, choice, chosen
	}
	v := surveyor{s, &survey}
	v.planWays(choice, chosen == nil)
	for _, look := range []func() error{v.dial, v.knock, v.measure} {
		if err := look(); err != nil {
			return survey, choice, err
		}
	}
	return survey, choice, chosen
}

// A check takes a few seconds, whatever is wrong.
const (
	surveyTimeout = 1500 * time.Millisecond
	knockTimeout  = time.Second
)

// surveyor fills a survey.
type surveyor struct {
	*probeSession
	survey *probe.Survey
}

// mostAsides is the number of nodes up to which their other addresses are tried, too.
const mostAsides = 16

// planWays lists the paths to probe.
func (v *surveyor) planWays(choice probe.Choice, chosen bool) {
	if chosen {
		v.survey.Endpoints = choice.Endpoints
	}
	for from := range v.nodes {
		for _, to := range probe.Partners(len(v.nodes), from) {
			v.planWay(from, to, chosen)
		}
	}
}

// planWay adds the paths from one node to another.
func (v *surveyor) planWay(from, to int, chosen bool) {
	var addrs []netip.Addr
	if chosen {
		addrs = append(addrs, v.survey.Endpoints[to].Addr.WithZone(""))
	} else {
		addrs = probe.Likely(v.nodes[to], v.options)
	}
	add := func(addr netip.Addr, alternate bool) {
		way := &probe.Path{Pair: probe.Pair{From: from, To: to}, Port: v.nodes[to].Port, Addr: addr, Alternate: alternate}
		v.survey.Paths = append(v.survey.Paths, way)
	}
	for _, addr := range addrs {
		add(addr, false)
	}
	if chosen && len(v.nodes) <= mostAsides {
		for _, addr := range probe.Alternates(v.nodes[to].Candidates, addrs) {
			add(addr, true)
		}
	}
}

// from are the ways from a node that take takes.
func (v *surveyor) from(node int, take func(w *probe.Path) bool) (ways []*probe.Path) {
	for _, w := range v.survey.Paths {
		if w.From == node && take(w) {
			ways = append(ways, w)
		}
	}
	return ways
}

func target(w *probe.Path) probe.Target {
	return probe.Target{Node: w.To, Addr: w.Addr, Port: w.Port}
}

// dial has every node dial its partners.
func (v *surveyor) dial() error {
	all := func(*probe.Path) bool { return true }
	return v.request(func(node int) *wire.Probe {
		p := &wire.Probe{Timeout: surveyTimeout}
		for _, w := range v.from(node, all) {
			p.Targets = append(p.Targets, target(w))
		}
		return p
	}, func(node int, r wire.Reached) {
		ways := v.from(node, all)
		for _, a := range answers(r, len(ways)) {
			ways[a.Target].Result = a
		}
	})
}

// knock has nodes try whether anything answers on a host that they do not reach.
func (v *surveyor) knock() error {
	failed := func(w *probe.Path) bool { return !w.Alternate && !w.OK() }
	ports := len(probe.ReferencePorts)
	return v.request(func(node int) *wire.Probe {
		p := &wire.Probe{Timeout: knockTimeout}
		for _, w := range v.from(node, failed) {
			for _, port := range probe.ReferencePorts {
				p.Targets = append(p.Targets, probe.Target{Node: w.To, Addr: w.Addr, Port: port, ConnectOnly: true})
			}
		}
		if p.Targets == nil {
			return nil
		}
		return p
	}, func(node int, r wire.Reached) {
		ways := v.from(node, failed)
		results := answers(r, len(ways)*ports)
		for i, w := range ways {
			w.OtherPorts = probe.ClassifyPorts(slices.DeleteFunc(slices.Clone(results), func(a probe.Result) bool {
				return a.Target/ports != i
			}))
		}
	})
}

// measureLimit is when no further round begins: stalled paths take long.
const measureLimit = 6 * time.Second

// measure has nodes measure working paths, such that no node measures two at once. If large packets
// are lost, it skips the way back, and all others of a node with two such paths: each takes long.
func (v *surveyor) measure() error {
	began := time.Now()
	stuck, known := map[probe.Pair]bool{}, make([]int, len(v.nodes))
	const enough = 2
	for _, round := range probe.Rounds(len(v.nodes)) {
		if time.Since(began) > measureLimit {
			return nil
		}
		now := make([]*probe.Path, len(v.nodes))
		for _, pair := range round {
			if stuck[pair] || known[pair.From] >= enough || known[pair.To] >= enough {
				continue
			}
			for _, w := range v.from(pair.From, func(w *probe.Path) bool { return w.Pair == pair && !w.Alternate && w.OK() }) {
				now[pair.From] = w
			}
		}
		if err := v.measureNow(now); err != nil {
			return err
		}
		for _, w := range now {
			if w != nil && w.Measured != nil && w.Measured.Vanishes > 0 {
				stuck[probe.Pair{From: w.To, To: w.From}] = true
				known[w.From], known[w.To] = known[w.From]+1, known[w.To]+1
			}
		}
	}
	return nil
}

// measureNow has each node measure one path, or none (nil).
func (v *surveyor) measureNow(now []*probe.Path) error {
	return v.request(func(node int) *wire.Probe {
		if now[node] == nil {
			return nil
		}
		return &wire.Probe{Targets: []probe.Target{target(now[node])}, Measure: true}
	}, func(node int, r wire.Reached) {
		if len(r.Measured) > 0 {
			m := r.Measured[0]
			m.Problem = printable.Text(m.Problem)
			now[node].Measured = &m
		}
	})
}
