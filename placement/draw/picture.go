package draw

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// Picture draws a machine for a terminal. Packages are boxes that contain NUMA nodes with their
// memory, distances, L3 caches, cores, GPUs and NICs. Equal items share one line. A strip below each
// row of cores has one character per core. With placements, the character identifies the core's
// rank.
//
// No line is wider than the width of the style.
func Picture(m placement.Machine, placed []Placement, style Style) string {
	p := &picture{machine: cleaned(m), placed: placed, width: style.width(), used: map[rune]bool{}}
	p.topo = p.machine.Topology
	p.head()
	p.packages()
	p.memoryOnly()
	p.unattached()
	p.virtual()
	p.legend()
	for _, note := range p.machine.Notes {
		p.line("note: " + note)
	}
	return style.render(p.String())
}

type picture struct {
	strings.Builder
	machine placement.Machine
	topo    *placement.Topology
	placed  []Placement
	width   int
	used    map[rune]bool // marks in strips
}

// line writes a line and wraps it if it is too long.
func (p *picture) line(text string) { writeLine(&p.Builder, text, p.width, 2) }

// head summarizes the machine and the part of it that this process may use.
func (p *picture) head() {
	p.line(joined(" · ", p.processors(), p.memory(), countedGPUs(p.machine.GPUs), p.nics()))
	p.line(p.allowance())
	if p.topo.Offline.Len() > 0 {
		p.line("offline: " + numbered("CPU", numbersOf(p.topo.Offline)))
	}
	if p.topo.Isolated.Len() > 0 {
		p.line("isolated: " + numbered("CPU", numbersOf(p.topo.Isolated)))
	}
	if p.topo.Virtual {
		p.line("a virtual machine: it does not show which GPUs and NICs are near each other")
	}
}

func (p *picture) processors() string {
	packages, cores := map[int]bool{}, 0
	for _, part := range parts(p.topo) {
		packages[part.pkg] = true
		cores += len(part.cores)
	}
	if len(p.topo.CPUs) == 0 {
		return "CPUs not known"
	}
	text := counted(len(packages), "package") + " · "
	if cores != len(p.topo.CPUs) {
		text += counted(cores, "core") + " · "
	}
	return text + counted(len(p.topo.CPUs), "CPU")
}

func (p *picture) memory() string {
	var sum int64
	for _, n := range p.topo.Nodes {
		sum += n.Memory
	}
	nodes := ""
	if len(p.topo.Nodes) > 1 {
		nodes = " in " + counted(len(p.topo.Nodes), "NUMA node")
	}
	if sum == 0 {
		return strings.TrimPrefix(nodes, " in ")
	}
	return bytes(sum) + nodes
}

// countedGPUs groups GPUs by name: "8 × NVIDIA H100 80GB HBM3".
func countedGPUs(gpus []placement.GPU) string {
	var texts []string
	for _, same := range grouped(gpus, nameOf) {
		texts = append(texts, fmt.Sprintf("%d × %s", len(same), nameOf(same[0])))
	}
	return strings.Join(texts, " · ")
}

func (p *picture) nics() string {
	n := 0
	for _, nic := range p.topo.NICs {
		if nic.Kind != placement.Virtual {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return counted(n, "NIC")
}

func (p *picture) allowance() string {
	cpus := "all CPUs"
	switch n := p.usable(); {
	case len(p.topo.CPUs) == 0 && p.machine.CPUs.Len() == 0:
		cpus = ""
	case len(p.topo.CPUs) == 0:
		cpus = numbered("CPU", numbersOf(p.machine.CPUs))
	case n < len(p.topo.CPUs):
		cpus = fmt.Sprintf("%d of %d CPUs (%s)", n, len(p.topo.CPUs), listOf(p.machine.CPUs))
	}
	quota, limit, nodes := "", "", ""
	if q := p.machine.Quota; q > 0 {
		quota = fmt.Sprintf("CPU time of %.4g CPUs (cgroup quota)", q)
	}
	if p.machine.MemoryLimit > 0 {
		limit = bytes(p.machine.MemoryLimit) + " of memory (cgroup limit)"
	}
	if p.topo.Memories.Len() > 0 && p.topo.Memories.Len() < len(p.topo.Nodes) {
		nodes = "memory of numa " + listOf(p.topo.Memories)
	}
	text := joined(", ", cpus, quota, limit, nodes)
	if text == "" {
		return "the CPUs and memory that you may use are unknown"
	}
	return "you may use " + text
}

// packages draws a box for each package. A package with several NUMA nodes contains a box for each.
func (p *picture) packages() {
	for _, nodes := range byPackage(parts(p.topo)) {
		title, inner := packageTitle(nodes[0].pkg), p.width-4
		var lines []string
		if len(nodes) == 1 {
			title = joined(" · ", title, p.nodeTitle(nodes[0].node))
			lines = p.node(nodes[0], inner)
		} else {
			for _, one := range nodes {
				lines = append(lines, box(p.nodeTitle(one.node), p.node(one, inner-4), inner)...)
			}
		}
		for _, l := range box(title, lines, p.width) {
			p.WriteString(l + "\n")
		}
	}
}

func packageTitle(id int) string {
	if id < 0 {
		return "this machine"
	}
	return fmt.Sprint("package ", id)
}

func (p *picture) nodeTitle(id int) string {
	n := p.topo.Node(id)
	if n == nil {
		return ""
	}
	memory := bytes(n.Memory)
	if memory == "" && n.CPUs.Len() > 0 && len(p.topo.Nodes) > 1 {
		memory = "no memory"
	}
	if memory != "" && p.topo.Memories.Len() > 0 && !p.topo.Memories.Has(id) {
		memory += ", not allowed for you"
	}
	return joined(" · ", fmt.Sprint("numa ", id), memory)
}

func box(title string, lines []string, width int) []string {
	if title != "" {
		title = " " + clip(title, width-8) + " "
	}
	all := []string{"╭─" + title + strings.Repeat("─", width-3-columns(title)) + "╮"}
	for _, l := range lines {
		all = append(all, "│ "+pad(l, width-4)+" │")
	}
	return append(all, "╰"+strings.Repeat("─", width-2)+"╯")
}

// node returns the lines of a NUMA node, or of the part of a node in one package.
func (p *picture) node(one part, width int) []string {
	var lines []string
	if d := p.distances(one.node); d != "" {
		lines = append(lines, wrap(d, width, 2)...)
	}
	kinds := kindsOf(p.topo)
	for _, r := range runs(one.cores) {
		lead := r.title()
		if lead != "" {
			lead += "  "
		}
		if r.caches > 1 {
			lead += fmt.Sprintf("%d × %s  ", r.caches, counted(len(r.cores)/r.caches, "core"))
		}
		for _, cores := range sameMake(r.cores) {
			lines = append(lines, wrap(lead+describe(cores, kinds), width, 8)...)
		}
		for _, l := range wrap(p.strip(r), width-8, 0) {
			lines = append(lines, strings.Repeat(" ", 8)+l)
		}
	}
	return append(lines, p.devicesOf(one, width)...)
}

func (p *picture) devicesOf(one part, width int) []string {
	if !p.owns(one) {
		return nil
	}
	return drawTree(p.devicesAt(one.node), width)
}

// owns reports whether a part shows the devices of its node. If a node spans several packages, the
// first one shows them.
func (p *picture) owns(one part) bool {
	return !slices.ContainsFunc(parts(p.topo), func(other part) bool {
		return other.node == one.node && other.pkg < one.pkg
	})
}

func (p *picture) devicesAt(node int) []device {
	return slices.DeleteFunc(devices(p.machine), func(d device) bool { return d.bus.Node != node })
}

// distances groups the distances of a node: "distance 12 to numa 0-2, 32 to numa 4-7".
func (p *picture) distances(id int) string {
	n := p.topo.Node(id)
	if n == nil || len(n.Distances) != len(p.topo.Nodes) {
		return ""
	}
	var others []int // indexes of the other nodes
	for i, other := range p.topo.Nodes {
		if other.ID != id {
			others = append(others, i)
		}
	}
	distance := func(i int) int { return n.Distances[i] }
	slices.SortStableFunc(others, func(a, b int) int { return distance(a) - distance(b) })
	var texts []string
	for _, far := range grouped(others, distance) {
		ids := make([]int, len(far))
		for i, at := range far {
			ids[i] = p.topo.Nodes[at].ID
		}
		texts = append(texts, fmt.Sprintf("%d to numa %s", distance(far[0]), list(ids)))
	}
	if texts == nil {
		return ""
	}
	return "distance " + strings.Join(texts, ", ")
}

// memoryOnly lists nodes without CPUs and groups equal ones.
func (p *picture) memoryOnly() {
	bare := slices.DeleteFunc(slices.Clone(p.topo.Nodes), func(n placement.NUMANode) bool { return hasCPUs(p.topo, n.ID) })
	for _, nodes := range grouped(bare, func(n placement.NUMANode) int64 { return n.Memory }) {
		amount := bytes(nodes[0].Memory)
		if len(nodes) > 1 && amount != "" {
			amount = fmt.Sprintf("%d × %s", len(nodes), amount)
		}
		var ids []int
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		p.line(joined(" · ", "numa "+list(ids), amount, "memory without CPUs"+p.ownersOf(ids)))
		for _, id := range ids {
			p.devices(p.devicesAt(id))
		}
	}
}

// hasCPUs reports whether a NUMA node has CPUs.
func hasCPUs(t *placement.Topology, node int) bool {
	return slices.ContainsFunc(t.CPUs, func(c placement.CPU) bool { return c.Node == node })
}

func (p *picture) devices(all []device) {
	for _, l := range drawTree(all, p.width-2) {
		p.WriteString("  " + l + "\n")
	}
}

// ownersOf returns the names of the GPUs that own the memory of some nodes.
func (p *picture) ownersOf(nodes []int) string {
	var gpus []int
	for _, g := range p.machine.GPUs {
		if g.MemoryNode > 0 && slices.Contains(nodes, g.MemoryNode) {
			gpus = append(gpus, g.Index)
		}
	}
	if gpus == nil {
		return ""
	}
	return ", GPU " + list(gpus) + "'s own"
}

// unattached lists devices whose NUMA node is unknown.
func (p *picture) unattached() {
	all := slices.DeleteFunc(devices(p.machine), func(d device) bool { return p.hasNode(d.bus.Node) })
	if len(all) == 0 {
		return
	}
	p.line("at an unknown NUMA node:")
	p.devices(all)
}

// hasNode reports whether the devices of a node are drawn with it.
func (p *picture) hasNode(id int) bool {
	return p.topo.Node(id) != nil || hasCPUs(p.topo, id)
}

// virtual lists interfaces without their own hardware.
func (p *picture) virtual() {
	var names []string
	for i := range p.topo.NICs {
		if n := &p.topo.NICs[i]; n.Bus == nil {
			names = append(names, n.Name)
		}
	}
	if names != nil {
		p.line("without a PCI device: " + strings.Join(names, ", "))
	}
}

// legend explains the marks in use.
func (p *picture) legend() {
	var texts []string
	for _, row := range legend {
		if p.used[row.mark] {
			texts = append(texts, fmt.Sprintf("%c %s", row.mark, row.text))
		}
	}
	if slices.ContainsFunc([]rune(digits), func(r rune) bool { return p.used[r] }) {
		texts = append(texts, "0-9 the rank on it (its last digit)")
	}
	if texts != nil {
		p.line(strings.Join(texts, " · "))
	}
}
