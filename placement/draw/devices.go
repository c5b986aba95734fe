package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// device is a GPU or a NIC with its position in the PCI tree.
type device struct {
	name  string         // "GPU 0", "mlx5_0"
	about string         // description
	bus   *placement.Bus // never nil
	nic   *placement.NIC
	gpu   *placement.GPU
}

// devices returns all GPUs and NICs with a known position, in PCI address order.
func devices(m placement.Machine) []device {
	var all []device
	for i := range m.GPUs {
		g := &m.GPUs[i]
		all = append(all, device{name: fmt.Sprint("GPU ", g.Index), about: aboutGPU(m, g), bus: busOf(g), gpu: g})
	}
	for i := range m.Topology.NICs {
		if n := &m.Topology.NICs[i]; n.Bus != nil {
			all = append(all, device{name: n.Name, about: aboutNIC(n), bus: n.Bus, nic: n})
		}
	}
	slices.SortStableFunc(all, func(a, b device) int {
		return slices.Compare(append(a.place(), a.bus.Address), append(b.place(), b.bus.Address))
	})
	return all
}

// busOf returns the known part of a GPU's position.
func busOf(g *placement.GPU) *placement.Bus {
	if g.Bus != nil {
		return g.Bus
	}
	return &placement.Bus{Address: g.PCI, Node: -1}
}

// place returns the path from the host bridge to the device.
func (d device) place() []string {
	if d.bus.Root == "" {
		return nil
	}
	return append([]string{d.bus.Root}, d.bus.Bridges...)
}

func aboutGPU(m placement.Machine, g *placement.GPU) string {
	name := cmp.Or(strings.TrimPrefix(g.Name, vendorName(g.Vendor)+" "), vendorName(g.Vendor)+" GPU") // without the vendor
	parts := ""
	if len(g.MIG) > 0 {
		parts = counted(len(g.MIG), "MIG part")
	}
	used := ""
	if g.Used {
		used = "in use"
	}
	memory := bytes(g.Memory)
	if namesMemory(name) {
		memory = ""
	}
	return joined(" · ", name, memory, linksOf(m, g), pcieOf(g.Bus), parts, used)
}

func pcieOf(bus *placement.Bus) string {
	if bus == nil || bus.Link == nil || bus.Link.Generation() == 0 {
		return ""
	}
	return bus.Link.String()
}

// narrow describes a NIC's PCIe link if it is slower than the port or does not use all its lanes.
// Other links are omitted.
func narrow(n *placement.NIC) string {
	if pcieOf(n.Bus) == "" || n.Bus.Link.Lanes() == n.Bus.Link.Width && n.Gbps <= n.Bus.Link.Gbps() {
		return ""
	}
	return pcieOf(n.Bus)
}

// namesMemory reports whether the name of a GPU includes its memory size: "H100 80GB HBM3" does,
// "GB200" does not.
func namesMemory(name string) bool {
	before, _, found := strings.Cut(name, "GB")
	return found && before != "" && before[len(before)-1] >= '0' && before[len(before)-1] <= '9'
}

func nameOf(g placement.GPU) string { return cmp.Or(g.Name, vendorName(g.Vendor)+" GPU") }

func vendorName(v placement.Vendor) string {
	switch v {
	case placement.NVIDIA:
		return "NVIDIA"
	case placement.AMD:
		return "AMD"
	case placement.Intel:
		return "Intel"
	}
	return string(v)
}

// linksOf lists the direct links of a GPU to other GPUs: "NV18 to GPU 1-3", "NV18 to all".
func linksOf(m placement.Machine, g *placement.GPU) string {
	index := map[string]int{} // by PCI address
	for _, other := range m.GPUs {
		index[other.PCI] = other.Index
	}
	links := slices.DeleteFunc(slices.Clone(g.Links), func(l placement.Link) bool { _, ok := index[l.Peer]; return !ok })
	var texts []string
	for _, same := range grouped(links, func(l placement.Link) string { return linkPath(l).String() }) {
		peers := make([]int, len(same))
		for i, l := range same {
			peers[i] = index[l.Peer]
		}
		to := "GPU " + list(peers)
		if len(peers) > 1 && len(peers) == len(m.GPUs)-1 {
			to = "all"
		}
		texts = append(texts, linkPath(same[0]).String()+" to "+to)
	}
	return strings.Join(texts, ", ")
}

// linkPath returns the path class of a link.
func linkPath(l placement.Link) placement.Path {
	return placement.Path{Class: placement.PathLink, Links: l.Count, Kind: l.Kind}
}

func between(a, b device) placement.Path {
	if a.gpu != nil && b.gpu != nil {
		return placement.PathBetweenGPUs(*a.gpu, *b.gpu)
	}
	return placement.PathBetween(a.bus, b.bus)
}

func aboutNIC(n *placement.NIC) string {
	kind := map[placement.NICKind]string{
		placement.Ethernet: "Ethernet", placement.InfiniBand: "InfiniBand", placement.RoCE: "RoCE", placement.EFA: "EFA",
		placement.Virtual: "virtual",
	}[n.Kind]
	if kind == "" {
		kind = string(n.Kind)
	}
	if n.Gbps > 0 {
		kind += fmt.Sprintf(" %g Gb/s", n.Gbps)
	}
	port := ""
	if n.Port > 1 {
		port = fmt.Sprint("port ", n.Port)
	}
	own := ""
	if n.Interface != "" && n.Interface != n.Name {
		own = n.Interface
	}
	state := ""
	if !n.Up {
		if state = n.State; state == "" {
			state = "down"
		}
	}
	return joined(" · ", kind, port, own, narrow(n), state)
}

// branch is a node of the PCI tree: a host bridge, a bridge, or a device.
type branch struct {
	name   string
	device *device // leaves only
	below  []*branch
}

// tree builds the PCI tree of some devices. It omits bridges with a single child, so devices with the
// same parent are near each other.
func tree(all []device) []*branch {
	top := &branch{}
	for i := range all {
		at := top
		for _, name := range all[i].place() {
			at = at.child(name)
		}
		at.below = append(at.below, &branch{name: all[i].name, device: &all[i]})
	}
	for _, b := range top.below {
		for j := range b.below {
			b.below[j] = b.below[j].shortened()
		}
		b.merge()
	}
	return top.below
}

// manyNICs is the number of equal NICs below one bridge that share a line, because there can be dozens
// of virtual functions.
const manyNICs = 4

// merge combines many neighboring NICs of the same model into one leaf.
func (b *branch) merge() {
	var below []*branch
	for i := 0; i < len(b.below); {
		n := 1
		for i+n < len(b.below) && sameNIC(b.below[i].device, b.below[i+n].device) {
			n++
		}
		if n >= manyNICs {
			below = append(below, group(b.below[i:i+n]))
		} else {
			below = append(below, b.below[i:i+n]...)
		}
		i += n
	}
	b.below = below
	for _, c := range b.below {
		c.merge()
	}
}

// sameNIC reports whether two devices are NICs that differ only in their names.
func sameNIC(a, b *device) bool {
	return a != nil && b != nil && a.nic != nil && b.nic != nil && withoutName(a.nic) == withoutName(b.nic)
}

// withoutName returns the description of a NIC without the name of its interface.
func withoutName(n *placement.NIC) string {
	nameless := *n
	nameless.Interface = ""
	return aboutNIC(&nameless)
}

func group(leaves []*branch) *branch {
	names := make([]string, len(leaves))
	for i, l := range leaves {
		names[i] = l.device.name
	}
	const most = 8 // names to list
	if len(names) > most {
		names = []string{names[0], "…", names[len(names)-1]}
	}
	first := leaves[0].device
	bus := *first.bus
	bus.Address += "…"
	d := &device{name: fmt.Sprint(len(leaves), " NICs"), about: withoutName(first.nic) + " · " +
		strings.Join(names, " "), bus: &bus, nic: first.nic}
	return &branch{name: d.name, device: d}
}

func (b *branch) child(name string) *branch {
	for _, c := range b.below {
		if c.device == nil && c.name == name {
			return c
		}
	}
	c := &branch{name: name}
	b.below = append(b.below, c)
	return c
}

// shortened skips bridges with a single child.
func (b *branch) shortened() *branch {
	for i := range b.below {
		b.below[i] = b.below[i].shortened()
	}
	if b.device == nil && len(b.below) == 1 {
		return b.below[0]
	}
	return b
}

// row is a line of a drawn tree: the strokes, then the device.
type row struct {
	strokes string
	device  *device
}

// rows draws a tree. The first child of a branch shares its line.
//
//	pci0000:15 ┬ GPU 0
//	           └ 17:00.0 ┬ mlx5_0
//	                      └ mlx5_1
func (b *branch) rows() []row {
	if b.device != nil {
		return []row{{device: b.device}}
	}
	var all []row
	name := strings.TrimPrefix(b.name, "0000:") // omit the usual PCI domain
	blank := strings.Repeat(" ", columns(name)+1)
	for i, c := range b.below {
		last := i == len(b.below)-1
		for j, r := range c.rows() {
			lead := blank
			if i == 0 && j == 0 {
				lead = name + " "
			}
			r.strokes = lead + stroke(i == 0, last, j == 0) + r.strokes
			all = append(all, r)
		}
	}
	return all
}

// stroke connects a line to its neighbors.
func stroke(first, last, head bool) string {
	switch {
	case !head && last:
		return "  "
	case !head:
		return "│ "
	case first && last:
		return "─ "
	case first:
		return "┬ "
	case last:
		return "└ "
	}
	return "├ "
}

// stretched extends the strokes before a device to width columns.
func stretched(strokes string, width int) string {
	missing := width - columns(strokes)
	line, ok := strings.CutSuffix(strokes, " ")
	if !ok || missing <= 0 {
		return pad(strokes, width)
	}
	return line + strings.Repeat("─", missing) + " "
}

// drawTree writes devices as trees with one device per line. Names and addresses are in columns.
func drawTree(all []device, width int) []string {
	var rows []row
	for _, b := range tree(all) {
		rows = append(rows, b.rows()...)
	}
	strokes, name, address := 0, 0, 0
	for _, r := range rows {
		strokes, name, address = max(strokes, columns(r.strokes)), max(name, columns(r.device.name)),
			max(address, columns(r.device.bus.Address))
	}
	strokes, name, address = min(strokes, width/2), min(name, 16), min(address, 16)
	var lines []string
	for _, r := range rows {
		lead := stretched(clip(r.strokes, strokes), strokes) + pad(clip(r.device.name, name), name) + "  " +
			pad(clip(r.device.bus.Address, address), address) + "  "
		for i, piece := range wrap(r.device.about, max(12, width-columns(lead)), 0) {
			if i > 0 {
				lead = strings.Repeat(" ", columns(lead))
			}
			lines = append(lines, clip(lead+piece, width))
		}
	}
	return lines
}
