package draw

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// Matrix formats the path classes between GPUs and NICs like nvidia-smi topo -m, with CPU and NUMA
// affinity and a legend. If the columns do not fit, they continue in further blocks that have rows for
// GPUs only. The result for a machine without GPUs is "".
func Matrix(m placement.Machine, style Style) string {
	m = cleaned(m)
	if len(m.GPUs) == 0 {
		return ""
	}
	t := newTable(m)
	var b strings.Builder
	used := t.write(&b, style.width())
	writeLegend(&b, used, style.width())
	t.writeNames(&b, style.width())
	t.writePeers(&b, style.width())
	return style.render(b.String())
}

type table struct {
	machine    placement.Machine
	gpus, nics []device
}

func newTable(m placement.Machine) table {
	t := table{machine: m}
	for i := range m.GPUs {
		t.gpus = append(t.gpus, device{name: fmt.Sprint("GPU", m.GPUs[i].Index), bus: busOf(&m.GPUs[i]), gpu: &m.GPUs[i]})
	}
	for _, n := range fabricNICs(m.Topology) {
		t.nics = append(t.nics, device{name: fmt.Sprint("NIC", len(t.nics)), bus: n.Bus, nic: n})
	}
	return t
}

// fabricNICs returns the NICs that a job can use between nodes: RDMA devices, or other network cards
// if there are no RDMA devices.
func fabricNICs(t *placement.Topology) []*placement.NIC {
	var rdma, plain []*placement.NIC
	for i := range t.NICs {
		switch n := &t.NICs[i]; {
		case n.Bus == nil || n.Kind == placement.Virtual:
		case n.Kind == placement.Ethernet:
			plain = append(plain, n)
		default:
			rdma = append(rdma, n)
		}
	}
	if rdma != nil {
		return rdma
	}
	return plain
}

type column struct {
	title string
	cells []string
	width int
}

// write writes the matrix and returns its path classes.
func (t table) write(b *strings.Builder, width int) []string {
	rows := append(slices.Clone(t.gpus), t.nics...)
	all := t.columns(rows)
	if total(all) > width {
		rows = t.gpus
		all = t.columns(rows)
	}
	used := classes(all[1 : 1+len(t.gpus)+len(t.nics)])
	lead := all[0]
	for rest := all[1:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && lead.width+2+total(rest[:n+1]) <= width {
			n++
		}
		if n == len(rest)-1 && n > 1 {
			n-- // keep the two affinities together
		}
		if len(rest) < len(all)-1 { // not the first block
			b.WriteByte('\n')
		}
		writeBlock(b, append([]column{lead}, rest[:n]...), len(rows), width)
		rest = rest[n:]
	}
	return used
}

// columns returns the columns for some rows: names, devices, affinities.
func (t table) columns(rows []device) []column {
	lead := column{cells: make([]string, len(rows))}
	for i, r := range rows {
		lead.cells[i] = r.name
	}
	all := []column{lead}
	for _, d := range append(slices.Clone(t.gpus), t.nics...) {
		c := column{title: d.name, cells: make([]string, len(rows))}
		for i, r := range rows {
			c.cells[i] = between(r, d).String()
		}
		all = append(all, c)
	}
	cpus, node := column{title: "CPU Affinity"}, column{title: "NUMA Affinity"}
	for _, r := range rows {
		near, id := "", ""
		if r.gpu != nil {
			near, id = t.affinity(r.bus)
		}
		cpus.cells, node.cells = append(cpus.cells, near), append(node.cells, id)
	}
	all = append(all, cpus, node)
	for i := range all {
		c := &all[i]
		c.width = columns(c.title)
		for _, cell := range c.cells {
			c.width = max(c.width, columns(cell))
		}
	}
	return all
}

// affinity returns the CPUs and the NUMA node near a device, or "N/A" if unknown.
func (t table) affinity(bus *placement.Bus) (cpus, node string) {
	cpus, node = listOf(bus.Near), "N/A"
	if bus.Node >= 0 {
		node = fmt.Sprint(bus.Node)
		if n := t.machine.Topology.Node(bus.Node); n != nil && cpus == "" {
			cpus = listOf(n.CPUs)
		}
	}
	if cpus == "" {
		cpus = "N/A"
	}
	return cpus, node
}

// total returns the width of columns with two spaces between them.
func total(all []column) int {
	sum := 2 * (len(all) - 1)
	for _, c := range all {
		sum += c.width
	}
	return sum
}

func writeBlock(b *strings.Builder, all []column, rows, width int) {
	for i := -1; i < rows; i++ {
		line := ""
		for j, c := range all {
			cell := c.title
			if i >= 0 {
				cell = c.cells[i]
			}
			if j > 0 {
				line += "  "
			}
			line += pad(cell, c.width)
		}
		b.WriteString(clip(strings.TrimRight(line, " "), width) + "\n")
	}
}

func classes(all []column) []string {
	var found []string
	for _, c := range all {
		found = append(found, c.cells...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// meanings explains path classes. A # represents a number.
var meanings = []struct{ class, text string }{
	{"X", "the device itself"},
	{"SYS", "through PCIe and between NUMA nodes (UPI, Infinity Fabric)"},
	{"NODE", "through PCIe and between host bridges of one NUMA node"},
	{"PHB", "through PCIe and one host bridge, in most machines the CPU"},
	{"PXB", "through several PCIe bridges, not through a host bridge"},
	{"PIX", "through one PCIe bridge at most"},
	{"NV#", "through # NVLinks"},
	{"XGMI", "through AMD's links between GPUs"},
}

func writeLegend(b *strings.Builder, used []string, width int) {
	b.WriteString("\nLegend:\n")
	for _, row := range meanings {
		prefix, numbered := strings.CutSuffix(row.class, "#")
		if slices.ContainsFunc(used, func(c string) bool {
			return c == row.class || numbered && strings.HasPrefix(c, prefix)
		}) {
			b.WriteString(clip(fmt.Sprintf("  %-4s  %s", row.class, row.text), width) + "\n")
		}
	}
}

// writeNames writes the legend of NICs, several per line.
func (t table) writeNames(b *strings.Builder, width int) {
	if len(t.nics) == 0 {
		return
	}
	names, widest := make([]string, len(t.nics)), 0
	for i, d := range t.nics {
		names[i] = clip(d.name+": "+d.nic.Name, width-4)
		widest = max(widest, columns(names[i]))
	}
	b.WriteString("\nNICs:\n")
	for row := range slices.Chunk(names, max(1, min(4, (width-2)/(widest+2)))) {
		line := " "
		for _, name := range row {
			line += " " + pad(name, widest+1)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// writePeers lists the GPUs with direct access to each other's memory, if known.
func (t table) writePeers(b *strings.Builder, width int) {
	numKnown, reached := 0, 0
	var refused []string
	reasons := map[placement.P2PStatus]bool{}
	for _, d := range t.gpus {
		known := slices.DeleteFunc(slices.Clone(d.gpu.Peers), func(p placement.Peer) bool { return t.indexOf(p.PCI) < 0 })
		for _, same := range grouped(known, func(p placement.Peer) placement.P2PStatus { return p.Access }) {
			numKnown += len(same)
			if same[0].Access == placement.P2POK {
				reached += len(same)
				continue
			}
			indices := make([]int, len(same))
			for i, p := range same {
				indices[i] = t.indexOf(p.PCI)
			}
			reasons[same[0].Access] = true
			refused = append(refused, fmt.Sprintf("  %s does not reach GPU %s: %s", d.name, list(indices), same[0].Access))
		}
	}
	switch {
	case numKnown == 0:
		return
	case reached == numKnown:
		b.WriteString("\nPeer-to-peer: each GPU reaches the memory of all others\n")
		return
	case reached == 0 && len(reasons) == 1:
		for reason := range reasons {
			fmt.Fprintf(b, "\nPeer-to-peer: no GPU reaches another's memory: %s\n", clip(string(reason), width-50))
		}
		return
	}
	b.WriteString("\nPeer-to-peer:\n")
	for _, line := range refused {
		writeLine(b, line, width, 4)
	}
}

// indexOf returns the index of the GPU at a PCI address, or -1.
func (t table) indexOf(pci string) int {
	for _, d := range t.gpus {
		if d.gpu.PCI == pci {
			return d.gpu.Index
		}
	}
	return -1
}
