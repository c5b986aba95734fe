package draw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// Assumption is the bandwidth that a prediction assumes for a class of paths.
type Assumption struct {
	Class string  `json:"class"`                // class of paths, such as "NV18" or "PIX"
	GBps  float64 `json:"gigabytes_per_second"` // 10^9 bytes per second in each direction
	Why   string  `json:"reason"`               // where the bandwidth comes from
	Here  bool    `json:"here,omitempty"`       // the slowest class between this machine's GPUs
}

// Impact predicts the time of an all-reduce over paths of each class. In a ring each GPU sends
// 2·(n-1)/n · S bytes (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009).
type Impact struct {
	Bytes       int64        `json:"bytes"`                // per GPU
	GPUs        int          `json:"gpu_count"`            // length of the ring
	Class       string       `json:"class"`                // of the slowest path of a ring in the order of the GPUs
	GBps        float64      `json:"gigabytes_per_second"` // bandwidth of that path
	Seconds     float64      `json:"seconds"`              // time of the all-reduce over it
	Assumptions []Assumption `json:"assumptions"`          // bandwidth of each class of paths
}

// Bandwidths in GB/s in each direction, rounded. NCCL assumes them for one NVLink and for the link
// between two processors (src/graph/topo.h, topo.cc). RCCL assumes perXGMI for the MI300 family.
const (
	perNVLink          = 20.0 // Volta to Hopper
	perNVLinkBlackwell = 40.0
	perXGMI            = 48.0
	betweenSockets     = 10.0
)

// pcieGBps follows NCCL: 12 GB/s for 16 lanes of PCIe 3.0, doubled for each later generation.
func pcieGBps(l placement.PCIeLink) float64 {
	return 12.0 / 16 / 4 * float64(int(1)<<(l.Generation()-1)) * float64(l.Lanes())
}

// slowestLink returns the slowest known PCIe link of a GPU, because a ring through all GPUs includes it. It
// also returns the source of that value.
func slowestLink(gpus []placement.GPU) (link placement.PCIeLink, source string) {
	link, source = placement.PCIeLink{GTps: 16, Width: 16}, ", a guess"
	for _, g := range gpus {
		if pcieOf(g.Bus) != "" && (source == ", a guess" || pcieGBps(*g.Bus.Link) < pcieGBps(link)) {
			link, source = *g.Bus.Link, ", as the GPUs report"
		}
	}
	return link, source
}

// assumptions returns all path classes with their assumed bandwidths: the links of these GPUs, then
// PCIe.
func assumptions(gpus []placement.GPU) (all []Assumption) {
	for _, g := range gpus {
		for _, l := range g.Links {
			class, each := linkPath(l).String(), perLink(l.Kind, gpus)
			if !slices.ContainsFunc(all, func(a Assumption) bool { return a.Class == class }) {
				all = append(all, Assumption{
					Class: class, GBps: float64(l.Count) * each, Why: fmt.Sprintf("%d × %g GB/s", l.Count, each),
				})
			}
		}
	}
	link, source := slowestLink(gpus)
	direct, why := pcieGBps(link), link.String()+" less a sixth, through a CPU"
	through := direct * 5 / 6
	sockets := Assumption{Class: "SYS", GBps: betweenSockets, Why: "a link between CPU sockets"}
	if through < sockets.GBps {
		sockets.GBps, sockets.Why = through, "as NODE, slower than a link between CPU sockets"
	}
	return append(all,
		Assumption{Class: "PIX", GBps: direct, Why: link.String() + source},
		Assumption{Class: "PXB", GBps: direct, Why: link.String() + source},
		Assumption{Class: "PHB", GBps: through, Why: why},
		Assumption{Class: "NODE", GBps: through, Why: why},
		sockets)
}

// perLink returns the bandwidth of one link. The names of the GPUs identify the NVLink generation.
func perLink(kind string, gpus []placement.GPU) float64 {
	if kind == "xgmi" {
		return perXGMI
	}
	for _, g := range gpus {
		for _, name := range []string{"B100", "B200", "B300"} {
			if strings.Contains(g.Name, name) {
				return perNVLinkBlackwell
			}
		}
	}
	return perNVLink
}

// Predict returns the predicted time of an all-reduce of size bytes over the machine's GPUs. It fails
// if the machine has fewer than two GPUs or no topology.
func Predict(m placement.Machine, size int64) (*Impact, error) {
	if n := len(m.GPUs); n < 2 {
		return nil, fmt.Errorf("an all-reduce needs two GPUs, this machine has %d; try `gorun topo --example NAME --impact`",
			n)
	}
	if m.Topology == nil {
		return nil, fmt.Errorf("the links between the %d GPUs of this machine are unknown", len(m.GPUs))
	}
	p := &Impact{Bytes: size, GPUs: len(m.GPUs), Assumptions: assumptions(m.GPUs)}
	slowest := -1
	for i, g := range m.GPUs {
		class := placement.PathBetweenGPUs(g, m.GPUs[(i+1)%len(m.GPUs)]).String()
		at := slices.IndexFunc(p.Assumptions, func(a Assumption) bool { return a.Class == class })
		if at >= 0 && (slowest < 0 || p.Assumptions[at].GBps <= p.Assumptions[slowest].GBps) {
			slowest = at
		}
	}
	if slowest < 0 {
		return nil, fmt.Errorf("the %d GPUs of this machine are parts of one", len(m.GPUs))
	}
	here := &p.Assumptions[slowest]
	here.Here, p.Class, p.GBps, p.Seconds = true, here.Class, here.GBps, p.seconds(here.GBps)
	return p, nil
}

func (p *Impact) seconds(gbps float64) float64 {
	return 2 * float64(p.GPUs-1) / float64(p.GPUs) * float64(p.Bytes) / (gbps * 1e9)
}

// Text formats a prediction for a terminal.
func (p *Impact) Text(style Style) string {
	var b strings.Builder
	line := func(indent int, text string) { writeLine(&b, text, style.width(), indent) }
	line(2, fmt.Sprintf("all-reduce of %s over %d GPUs: %s, predicted", decimal(p.Bytes), p.GPUs, duration(p.Seconds)))
	line(2, fmt.Sprintf("  t = 2·(n-1)/n · S/B = 2·%d/%d · %s / %.4g GB/s", p.GPUs-1, p.GPUs, decimal(p.Bytes),
		p.GBps))
	line(2, "Assumed, not measured (each way, 10^9 bytes a second):")
	for _, a := range p.Assumptions {
		mark := ""
		if a.Here {
			mark = "  <- slowest here"
		}
		line(24, fmt.Sprintf("  %-6s %6.4g GB/s  %10s  %s%s", clean(a.Class), a.GBps, duration(p.seconds(a.GBps)), a.Why,
			mark))
	}
	return style.render(b.String())
}

// decimal uses powers of ten, as bandwidths do.
func decimal(n int64) string {
	value, unit := scaled(float64(n), 1000, "B", "kB", "MB", "GB", "TB")
	return strconv.FormatFloat(value, 'g', 4, 64) + " " + unit
}

// duration formats seconds with four significant digits.
func duration(seconds float64) string {
	unit := "s"
	for _, smaller := range []string{"ms", "us"} {
		if seconds < 1 {
			seconds, unit = seconds*1000, smaller
		}
	}
	return strconv.FormatFloat(seconds, 'g', 4, 64) + " " + unit
}
