package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// Assumption is the bandwidth that a prediction takes for a class of paths.
type Assumption struct {
	Class string  `json:"class"`
	GBps  float64 `json:"gb_per_s"` // 10^9 bytes a second, each way
	Why   string  `json:"why"`
	Here  bool    `json:"here,omitempty"` // the ring of this machine has it as its slowest
}

// Impact is a prediction of how long an all-reduce takes.
type Impact struct {
	Bytes int64 `json:"bytes"` // that each GPU has
	GPUs  int   `json:"gpus"`
	// Ring are the GPUs' PCI addresses in the order of the ring.
	Ring []string `json:"ring"`
	// Class and GBps are those of the ring's slowest path.
	Class   string  `json:"class"`
	GBps    float64 `json:"gb_per_s"`
	Seconds float64 `json:"seconds"`
	// Formula, Source and Assumptions say where Seconds come from.
	Formula     string       `json:"formula"`
	Source      string       `json:"source"`
	Assumptions []Assumption `json:"assumptions"`
}

// The formula: what each GPU sends in a ring, by the bandwidth of the slowest path.
const (
	formula = "2·(n-1)/n · S/B"
	source  = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009; B by class, PCIe generation and lanes " +
		"as NCCL assumes it (src/graph/topo.h, topo.cc)"
)

// What NCCL assumes of one NVLink of a generation, and RCCL of one XGMI link, in
// GB/s each way, rounded.
const (
	perNVLink          = 20.0 // Volta to Hopper
	perNVLinkBlackwell = 40.0
	perXGMI            = 48.0 // RCCL, for the MI300 family
	selfGBps           = 5000 // within a GPU, or between parts of one
)

// perLane is what NCCL assumes of a lane of each generation of PCIe, in GB/s each
// way: 12 of sixteen lanes of PCIe 3.0.
var perLane = [...]float64{15.0 / 80, 30.0 / 80, 60.0 / 80, 120.0 / 80, 240.0 / 80, 480.0 / 80}

// betweenSockets is what NCCL assumes of the link between two processors.
const betweenSockets = 10.0

// usual is the PCIe link of a machine that does not tell its own.
var usual = placement.PCIeLink{GTps: 16, Width: 16}

// pcieGBps is what is assumed of a link.
func pcieGBps(l placement.PCIeLink) float64 {
	return perLane[l.Generation()-1] * float64(l.Lanes())
}

// slowestLink is the PCIe link of the GPU whose is the slowest, which a ring through
// all GPUs cannot avoid; told is false where none of them tells its own.
func slowestLink(gpus []placement.GPU) (link placement.PCIeLink, told bool) {
	for _, g := range gpus {
		if g.Bus == nil || g.Bus.Link == nil || g.Bus.Link.Generation() == 0 {
			continue
		}
		if own := *g.Bus.Link; !told || pcieGBps(own) < pcieGBps(link) {
			link, told = own, true
		}
	}
	if !told {
		link = usual
	}
	return link, told
}

// pcieClasses are what is assumed of the classes of PCIe, the best first.
func pcieClasses(gpus []placement.GPU) []Assumption {
	link, told := slowestLink(gpus)
	how := ", as the GPUs tell"
	if !told {
		how = ", a guess"
	}
	direct := pcieGBps(link)
	through := direct * 5 / 6
	sockets, socketsWhy := betweenSockets, "a link between CPU sockets"
	if through < sockets {
		sockets, socketsWhy = through, "as NODE, slower than a link between CPU sockets"
	}
	return []Assumption{
		{Class: "PIX", GBps: direct, Why: link.String() + how},
		{Class: "PXB", GBps: direct, Why: link.String() + how},
		{Class: "PHB", GBps: through, Why: link.String() + " less a sixth, through a CPU"},
		{Class: "NODE", GBps: through, Why: link.String() + " less a sixth, through a CPU"},
		{Class: "SYS", GBps: sockets, Why: socketsWhy},
	}
}

// Predict says how long an all-reduce of size bytes takes over this machine's
// GPUs, in a ring whose slowest path is as good as it can be. It predicts no
// latency, no overlap, and no other algorithm (trees, NVLink SHARP).
//
// It fails where there is no ring: with fewer than two GPUs, and where the
// machine's topology was not read.
func Predict(m placement.Machine, size int64) (*Impact, error) {
	if n := len(m.GPUs); n < 2 {
		return nil, fmt.Errorf("an all-reduce goes over two GPUs at least, this machine has %d; gorun topo --example NAME "+
			"--impact shows one that has them", n)
	}
	if m.Topology == nil {
		return nil, fmt.Errorf("how the %d GPUs of this machine are joined is not known", len(m.GPUs))
	}
	order, worst := bestRing(newTable(m).gpus, func(p placement.Path) float64 { return bandwidth(p, m.GPUs) })
	p := &Impact{
		Bytes: size, GPUs: len(order), Class: worst.String(), GBps: bandwidth(worst, m.GPUs), Formula: formula,
		Source: source,
	}
	for _, d := range order {
		p.Ring = append(p.Ring, d.bus.Address)
	}
	p.Seconds = ringTime(size, p.GPUs, p.GBps)
	p.Assumptions = assumptions(m, p.Class)
	return p, nil
}

// ringTime is the formula, in seconds.
func ringTime(size int64, n int, gbps float64) float64 {
	return 2 * float64(n-1) / float64(n) * float64(size) / (gbps * 1e9)
}

// bandwidth is what is assumed of a path, in GB/s.
func bandwidth(p placement.Path, gpus []placement.GPU) float64 {
	if p.Class == placement.PathLink {
		return float64(p.Links) * perLink(p.Kind, gpus)
	}
	for _, a := range pcieClasses(gpus) {
		if a.Class == p.String() {
			return a.GBps
		}
	}
	return selfGBps
}

// perLink is the bandwidth of one link between these GPUs.
func perLink(kind string, gpus []placement.GPU) float64 {
	if kind == "xgmi" {
		return perXGMI
	}
	return nvlink(gpus)
}

// nvlink is the bandwidth of one NVLink of these GPUs, told by their names.
func nvlink(gpus []placement.GPU) float64 {
	for _, g := range gpus {
		for _, name := range []string{"B100", "B200", "B300"} {
			if strings.Contains(g.Name, name) {
				return perNVLinkBlackwell
			}
		}
	}
	return perNVLink
}

// assumptions are all classes with what is assumed of them, this machine's links
// before PCIe's.
func assumptions(m placement.Machine, here string) []Assumption {
	var all []Assumption
	for _, g := range m.GPUs {
		for _, l := range g.Links {
			path := linkPath(l)
			if slices.ContainsFunc(all, func(a Assumption) bool { return a.Class == path.String() }) {
				continue
			}
			all = append(all, Assumption{
				Class: path.String(), GBps: bandwidth(path, m.GPUs),
				Why: fmt.Sprintf("%d × %g GB/s", l.Count, perLink(l.Kind, m.GPUs)),
			})
		}
	}
	all = append(all, pcieClasses(m.GPUs)...)
	for i := range all {
		all[i].Here = all[i].Class == here
	}
	return all
}

// maxSearch is the number of GPUs up to which the best ring is searched for; more
// go in the order of their addresses.
const maxSearch = 16

// bestRing orders devices in a ring whose slowest path is the fastest that any
// order has, and says what that path is. More than maxSearch devices stay in their
// order.
func bestRing(all []device, speed func(placement.Path) float64) ([]device, placement.Path) {
	var paths []placement.Path
	for i := range all {
		for j := range i {
			paths = append(paths, between(all[i], all[j]))
		}
	}
	slices.SortFunc(paths, func(a, b placement.Path) int { return cmp.Or(cmp.Compare(speed(b), speed(a)), a.Compare(b)) })
	paths = slices.Compact(paths)
	if len(all) > maxSearch {
		return all, slowest(all, paths)
	}
	for n := range paths {
		if ring := searchRing(all, paths[:n+1]); ring != nil {
			return ring, slowest(ring, paths)
		}
	}
	return all, slowest(all, paths)
}

// slowest is the last of the paths, which are ordered, that a ring has.
func slowest(ring []device, paths []placement.Path) placement.Path {
	worst := 0
	for i := range ring {
		worst = max(worst, slices.Index(paths, between(ring[i], ring[(i+1)%len(ring)])))
	}
	return paths[worst]
}

// maxSteps bounds the search: a ring that it would take longer to find is not
// worth waiting for.
const maxSteps = 100_000

// searchRing finds a ring with paths of some classes only, or nil.
func searchRing(all []device, allowed []placement.Path) []device {
	joins := func(a, b device) bool { return slices.Contains(allowed, between(a, b)) }
	ring, used, steps := []device{all[0]}, make([]bool, len(all)), 0
	used[0] = true
	var extend func() bool
	extend = func() bool {
		if steps++; steps > maxSteps {
			return false
		}
		last := ring[len(ring)-1]
		if len(ring) == len(all) {
			return joins(last, ring[0])
		}
		for i := range all {
			if used[i] || !joins(last, all[i]) {
				continue
			}
			used[i], ring = true, append(ring, all[i])
			if extend() {
				return true
			}
			used[i], ring = false, ring[:len(ring)-1]
		}
		return false
	}
	if extend() {
		return ring
	}
	return nil
}

// Text writes a prediction for people.
func (p *Impact) Text(style Style) string {
	var b strings.Builder
	line := func(indent int, text string) {
		for _, piece := range wrap(text, style.width(), indent) {
			b.WriteString(strings.TrimRight(piece, " ") + "\n")
		}
	}
	n := p.GPUs
	line(2, fmt.Sprintf("all-reduce of %s over %d GPUs: %s, predicted", decimal(p.Bytes), n, duration(p.Seconds)))
	line(2, fmt.Sprintf("  t = %s = 2·%d/%d · %s / %.4g GB/s", p.Formula, n-1, n, decimal(p.Bytes), p.GBps))
	line(2, fmt.Sprintf("  B is the ring's slowest path, %s; S is what each of the n GPUs has", clean(p.Class)))
	line(2, "Assumed, not measured (each way, 10^9 bytes a second):")
	for _, a := range p.Assumptions {
		mark := ""
		if a.Here {
			mark = "  <- slowest here"
		}
		line(24, fmt.Sprintf("  %-6s %6.4g GB/s  %10s  %s%s", clean(a.Class), a.GBps,
			duration(ringTime(p.Bytes, n, a.GBps)), a.Why, mark))
	}
	line(2, "Source: "+p.Source)
	line(2, "Not in it: latency, overlap with computing, several rings at once, trees, NVLink SHARP.")
	return style.render(b.String())
}

// decimal writes a number of bytes in powers of ten, as bandwidths are.
func decimal(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1000, next
	}
	return strconv.FormatFloat(value, 'g', 4, 64) + " " + unit
}

// duration writes seconds with four digits that count.
func duration(seconds float64) string {
	unit := "s"
	for _, smaller := range []string{"ms", "us"} {
		if seconds < 1 {
			seconds, unit = seconds*1000, smaller
		}
	}
	return strconv.FormatFloat(seconds, 'g', 4, 64) + " " + unit
}
