package draw

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gorun/placement"
)

// Placement is the placement of one rank on the machine.
type Placement struct {
	Rank int
	// CPUs are the CPUs that the rank is bound to. An empty set means all CPUs of the job.
	CPUs placement.CPUSet
	// Memories are the NUMA nodes that the rank prefers for memory. An empty set means any.
	Memories placement.CPUSet
	GPUs     []placement.GPU
	// Why is a short reason for the placement.
	Why string
}

// Placements writes the placement of each rank on a line, with a core map in the format of Open MPI's
// --report-bindings:
//
//	rank 3  numa 1 cores 4-5 GPU 3 (NV18) mlx5_3 (PIX)  [../../../..][BB/BB/../..]
//
// The class of a GPU is the worst path to another rank's GPU. The NIC is the nearest one to the GPU.
// Each character of a core map is a hardware thread. B marks the threads that the rank is bound to, /
// separates cores, and brackets enclose packages. There are no maps if one does not fit. Consecutive equal
// ranks share one line.
func Placements(m placement.Machine, placed []Placement, style Style) string {
	m = cleaned(m)
	w := &placementList{machine: m, topo: m.Topology, style: style, parts: parts(m.Topology)}
	held := map[string]bool{}
	for _, s := range placed {
		cleanValue(reflect.ValueOf(&s.GPUs).Elem())
		w.placed = append(w.placed, s)
		for _, g := range s.GPUs {
			if !held[g.PCI] {
				held[g.PCI], w.held = true, append(w.held, g)
			}
		}
	}
	w.pair()
	w.lines(w.rows())
	return style.render(w.String())
}

type placementList struct {
	strings.Builder
	machine placement.Machine
	topo    *placement.Topology
	style   Style
	parts   []part
	placed  []Placement
	nearest map[string]nearNIC // by PCI address of a GPU
	held    []placement.GPU    // the GPUs of all ranks, without duplicates
	starts  map[coreRun]int    // first ranks that can be combined
}

// nearNIC is the NIC assigned to a GPU. GPUs share NICs only if there are too few.
type nearNIC struct {
	name string
	path placement.Path
}

// pair assigns the nearest NIC to each GPU, and prefers the NIC with the fewest GPUs. It ignores NICs
// that are down or slower than half of the best rate.
func (w *placementList) pair() {
	w.nearest = map[string]nearNIC{}
	nics := usableNICs(w.topo)
	taken := make([]int, len(nics))
	for i := range w.held {
		d := device{bus: busOf(&w.held[i])}
		best := -1
		for j := range nics {
			if best < 0 || compareNICs(d, nics[j], nics[best], taken[j]-taken[best]) < 0 {
				best = j
			}
		}
		if _, done := w.nearest[d.bus.Address]; best >= 0 && !done {
			taken[best]++
			w.nearest[d.bus.Address] = nearNIC{nics[best].Name, placement.PathBetween(d.bus, nics[best].Bus)}
		}
	}
}

// usableNICs returns the NICs that GPU traffic can use.
func usableNICs(t *placement.Topology) []*placement.NIC {
	all := slices.DeleteFunc(fabricNICs(t), func(n *placement.NIC) bool { return !n.Up })
	best := 0.0
	for _, n := range all {
		best = max(best, n.Gbps)
	}
	return slices.DeleteFunc(all, func(n *placement.NIC) bool { return n.Gbps < best/2 })
}

// compareNICs orders two NICs for a device by path, by rate, and by the number of GPUs assigned.
func compareNICs(d device, a, b *placement.NIC, taken int) int {
	return cmp.Or(placement.PathBetween(d.bus, a.Bus).Compare(placement.PathBetween(d.bus, b.Bus)),
		cmp.Compare(b.Gbps, a.Gbps), taken)
}

func (w *placementList) place(s Placement) string {
	words := []string{w.cpus(s.CPUs)}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		text := fmt.Sprint("GPU ", g.Index)
		if path, ok := w.worst(g); ok {
			text += fmt.Sprintf(" (%s)", path)
		}
		words = append(words, text)
		if n, ok := w.nearest[busOf(g).Address]; ok {
			words = append(words, fmt.Sprintf("%s (%s)", n.name, n.path))
		}
	}
	return strings.Join(words, " ")
}

// cpus describes CPUs by NUMA node and core: "numa 1 cores 24-31". It lists CPU numbers if the set has
// only some threads of a core.
func (w *placementList) cpus(set placement.CPUSet) string {
	if set.Len() == 0 {
		return "not bound"
	}
	if len(w.topo.CPUs) == 0 {
		return numbered("CPU", numbersOf(set))
	}
	var texts []string
	left := set.Len()
	for _, share := range w.shares(set) {
		left -= len(share.cpus)
		text := numbered("CPU", share.cpus)
		if share.whole {
			text = numbered("core", share.cores)
		}
		texts = append(texts, fmt.Sprintf("numa %d %s", share.node, text))
	}
	if left > 0 {
		return numbered("CPU", numbersOf(set)) // includes offline CPUs
	}
	return strings.Join(texts, ", ")
}

// share is the part of a set in one NUMA node.
type share struct {
	node        int
	cores, cpus []int
	whole       bool // the set has all threads of each core
}

// shares returns the parts of a set by NUMA node number.
func (w *placementList) shares(set placement.CPUSet) (all []share) {
	for _, parts := range grouped(w.parts, func(p part) int { return p.node }) {
		own := share{node: parts[0].node, whole: true}
		for _, p := range parts {
			for _, c := range p.cores {
				in := slices.DeleteFunc(slices.Clone(c.cpus), func(cpu int) bool { return !set.Has(cpu) })
				if len(in) > 0 {
					own.cores, own.cpus = append(own.cores, c.id), append(own.cpus, in...)
					own.whole = own.whole && c.id >= 0 && len(in) == len(c.cpus)
				}
			}
		}
		if len(own.cpus) > 0 {
			all = append(all, own)
		}
	}
	slices.SortFunc(all, func(a, b share) int { return a.node - b.node })
	return all
}

// worst returns the worst path from a GPU to the GPU of another rank.
func (w *placementList) worst(g *placement.GPU) (worst placement.Path, found bool) {
	for _, other := range w.held {
		if other.PCI == g.PCI {
			continue
		}
		if path := placement.PathBetweenGPUs(*g, other); !found || path.Compare(worst) > 0 {
			worst, found = path, true
		}
	}
	return worst, found
}

// placementRow is a line for one or several equal ranks.
type placementRow struct {
	ranks []int
	text  string
	cpus  placement.CPUSet
}

func (r placementRow) names() string { return numbered("rank", r.ranks) }

// manyRanks is the minimum number of neighbors with different cores that share a line.
const manyRanks = 32

// rows combines consecutive equal ranks into one row. It also combines many ranks without GPUs if they
// have equal numbers of consecutive cores.
func (w *placementList) rows() []placementRow {
	var rows []placementRow
	w.starts = map[coreRun]int{}
	for i, s := range w.placed {
		if run, ok := w.alone(s); ok && len(w.placed) > manyRanks {
			w.starts[run] = i
		}
	}
	done := make([]bool, len(w.placed))
	for i, s := range w.placed {
		if done[i] {
			continue
		}
		row := placementRow{ranks: []int{s.Rank}, text: w.place(s), cpus: s.CPUs}
		for next := i + 1; next < len(w.placed) && !done[next] && w.place(w.placed[next]) == row.text; next++ {
			row.ranks, done[next] = append(row.ranks, w.placed[next].Rank), true
		}
		if len(row.ranks) == 1 {
			w.chain(i, &row, done)
		}
		rows = append(rows, row)
	}
	return rows
}

// coreRun is a range of whole cores in one NUMA node.
type coreRun struct{ node, first, cores int }

// chain extends the row of rank i with ranks on the next cores. Their numbers of cores are equal, and
// their ranks have the same step.
func (w *placementList) chain(i int, row *placementRow, done []bool) {
	run, ok := w.alone(w.placed[i])
	if !ok {
		return
	}
	all, step := run.cores, 0
	for at := i; ; {
		next, ok := w.starts[coreRun{run.node, run.first + all, run.cores}]
		if !ok || done[next] || next <= at || step != 0 && next-at != step {
			break
		}
		step, at, done[next] = next-at, next, true
		all += run.cores
		row.ranks, row.cpus = append(row.ranks, w.placed[next].Rank), row.cpus.Union(w.placed[next].CPUs)
	}
	if len(row.ranks) > 1 {
		row.text = fmt.Sprintf("numa %d cores %d-%d, %d each", run.node, run.first, run.first+all-1, run.cores)
	}
}

// alone reports whether a rank has a range of whole cores in one NUMA node, without GPUs.
func (w *placementList) alone(s Placement) (run coreRun, ok bool) {
	shares := w.shares(s.CPUs)
	if len(shares) != 1 || !shares[0].whole || len(s.GPUs) > 0 {
		return coreRun{}, false
	}
	ids := shares[0].cores
	return coreRun{shares[0].node, ids[0], len(ids)}, ids[len(ids)-1]-ids[0] == len(ids)-1
}

// lines writes the rows in columns. It leaves out the maps, which say nothing new, unless all fit beside.
func (w *placementList) lines(rows []placementRow) {
	cells := [][]string{{}, {}, {}}
	for _, r := range rows {
		cells[0], cells[1] = append(cells[0], r.names()), append(cells[1], r.text)
	}
	const gap, indent = 2, 4
	lead := widest(cells[0]) + gap
	room := w.style.width() - lead - widest(cells[1]) - gap
	for _, r := range rows {
		cells[2] = append(cells[2], w.coreMap(r.cpus, room))
	}
	fits := widest(cells[2]) <= room
	for i := range rows {
		line := pad(cells[0][i], lead) + cells[1][i]
		if fits {
			line = pad(line, lead+widest(cells[1])+gap) + cells[2][i]
		}
		writeLine(&w.Builder, line, w.style.width(), indent)
	}
}

func widest(texts []string) (width int) {
	for _, text := range texts {
		width = max(width, columns(text))
	}
	return width
}

// coreMap draws a set with one character per hardware thread and brackets around packages. If the map
// is wider than width, it counts consecutive equal cores: [24×../8×BB].
func (w *placementList) coreMap(set placement.CPUSet, width int) string {
	if set.Len() == 0 || len(w.parts) == 0 {
		return ""
	}
	packages := w.packageCores(set)
	if text := bracketed(packages, allCores); columns(text) <= width {
		return text
	}
	return bracketed(packages, countedCores)
}

func bracketed(packages [][]string, write func([]string) string) string {
	texts := make([]string, len(packages))
	for i, cores := range packages {
		texts[i] = "[" + write(cores) + "]"
	}
	return strings.Join(texts, "")
}

func allCores(cores []string) string { return strings.Join(cores, "/") }

// packageCores returns the cores of each package in core map order.
func (w *placementList) packageCores(set placement.CPUSet) [][]string {
	var all [][]string
	for _, parts := range byPackage(w.parts) {
		var texts []string
		for _, p := range parts {
			for _, c := range p.cores {
				text := ""
				for _, cpu := range c.cpus {
					text += map[bool]string{true: "B", false: "."}[set.Has(cpu)]
				}
				texts = append(texts, text)
			}
		}
		all = append(all, texts)
	}
	return all
}

// countedCores counts consecutive equal cores.
func countedCores(cores []string) string {
	var texts []string
	for i := 0; i < len(cores); {
		n := 1
		for i+n < len(cores) && cores[i+n] == cores[i] {
			n++
		}
		text := cores[i]
		if n > 1 {
			text = fmt.Sprintf("%d×%s", n, text)
		}
		texts, i = append(texts, text), i+n
	}
	return strings.Join(texts, "/")
}
