package wire

import (
	"encoding/binary"
	"unsafe"

	"gorun/placement"
)

// A Machine is placement's, which knows nothing of frames: these are its types with
// fields.
type (
	machine  placement.Machine
	gpu      placement.GPU
	link     placement.Link
	peer     placement.Peer
	bus      placement.Bus
	pcieLink placement.PCIeLink
	topology placement.Topology
	numaNode placement.NUMANode
	nic      placement.NIC
)

func (m *machine) fields(c *coder) {
	c.cpuSet(1, &m.CPUs)
	c.float(2, &m.Quota)
	number(c, 3, &m.MemoryLimit)
	foreign(c, 4, &m.GPUs, func(g *placement.GPU) fielder { return (*gpu)(g) })
	c.texts(5, &m.Notes)
	c.topology(6, &m.Topology)
}

func (g *gpu) fields(c *coder) {
	number(c, 1, &g.Index)
	text(c, 2, &g.PCI)
	text(c, 3, &g.Vendor)
	text(c, 4, &g.UUID)
	text(c, 5, &g.Name)
	number(c, 6, &g.Memory)
	c.bus(7, &g.Bus)
	foreign(c, 8, &g.Links, func(l *placement.Link) fielder { return (*link)(l) })
	c.flag(9, &g.Used)
	c.texts(10, &g.MIG)
	foreign(c, 11, &g.Peers, func(p *placement.Peer) fielder { return (*peer)(p) })
	number(c, 12, &g.MemoryNode)
}

func (p *peer) fields(c *coder) {
	text(c, 1, &p.PCI)
	text(c, 2, &p.Access)
}

func (l *link) fields(c *coder) {
	text(c, 1, &l.Peer)
	text(c, 2, &l.Kind)
	number(c, 3, &l.Count)
}

func (c *coder) bus(num int, p **placement.Bus) {
	if c.is(num, sized) && c.shared != nil {
		*p, c.err = shared(c, &c.shared.buses, func(b *placement.Bus) fielder { return (*bus)(b) })
		return
	}
	perhaps(c, num, p, func(b *placement.Bus) fielder { return (*bus)(b) })
}

func (c *coder) topology(num int, p **placement.Topology) {
	if c.is(num, sized) && c.shared != nil {
		*p, c.err = shared(c, &c.shared.topologies, func(t *placement.Topology) fielder { return (*topology)(t) })
		return
	}
	perhaps(c, num, p, func(t *placement.Topology) fielder { return (*topology)(t) })
}

func (b *bus) fields(c *coder) {
	text(c, 1, &b.Address)
	text(c, 2, &b.Root)
	c.texts(3, &b.Bridges)
	number(c, 4, &b.Node)
	c.cpuSet(5, &b.Near)
	perhaps(c, 6, &b.Link, func(l *placement.PCIeLink) fielder { return (*pcieLink)(l) })
}

func (l *pcieLink) fields(c *coder) {
	c.float(1, &l.GTps)
	number(c, 2, &l.Width)
	c.float(3, &l.GTpsNow)
	number(c, 4, &l.WidthNow)
}

// fields writes the CPUs by columns: a table of 256 rows is a few kilobytes then.
func (t *topology) fields(c *coder) {
	foreign(c, 1, &t.Nodes, func(n *placement.NUMANode) fielder { return (*numaNode)(n) })
	c.cpuSet(2, &t.Memories)
	c.cpuSet(3, &t.Isolated)
	c.cpuSet(4, &t.Offline)
	foreign(c, 5, &t.NICs, func(n *placement.NIC) fielder { return (*nic)(n) })
	c.flag(6, &t.Virtual)
	c.column(7, t, func(cpu *placement.CPU) *int { return &cpu.ID })
	c.column(8, t, func(cpu *placement.CPU) *int { return &cpu.Package })
	c.column(9, t, func(cpu *placement.CPU) *int { return &cpu.Node })
	c.column(10, t, func(cpu *placement.CPU) *int { return &cpu.Die })
	c.column(11, t, func(cpu *placement.CPU) *int { return &cpu.L3 })
	c.column(12, t, func(cpu *placement.CPU) *int { return &cpu.L2 })
	c.column(13, t, func(cpu *placement.CPU) *int { return &cpu.Core })
	c.column(14, t, func(cpu *placement.CPU) *int { return &cpu.Thread })
	c.column(15, t, func(cpu *placement.CPU) *int { return &cpu.Kind })
}

func (n *numaNode) fields(c *coder) {
	number(c, 1, &n.ID)
	c.cpuSet(2, &n.CPUs)
	number(c, 3, &n.Memory)
	numbers(c, 4, &n.Distances)
}

func (n *nic) fields(c *coder) {
	text(c, 1, &n.Name)
	text(c, 2, &n.Kind)
	text(c, 3, &n.Interface)
	number(c, 4, &n.Port)
	c.flag(5, &n.Up)
	text(c, 6, &n.State)
	c.float(7, &n.Gbps)
	number(c, 8, &n.GID)
	c.bus(9, &n.Bus)
	c.flag(10, &n.GIDIPv6)
}

// cpuSet is a list as the kernel writes it: "0-3,8".
func (c *coder) cpuSet(num int, p *placement.CPUSet) {
	switch {
	case c.is(num, sized):
		if *p, c.err = placement.ParseCPUSet(string(c.bytes)); c.err == nil {
			c.take(p.Size())
		}
	case !c.reading && p.Len() > 0:
		writeText(c, num, p.String())
	}
}

// column is one number of each CPU, packed.
func (c *coder) column(num int, t *topology, of func(*placement.CPU) *int) {
	switch {
	case c.is(num, sized):
		c.readColumn(t, of)
	case !c.reading && len(t.CPUs) > 0:
		var packed []byte
		for i := range t.CPUs {
			packed = binary.AppendVarint(packed, int64(*of(&t.CPUs[i])))
		}
		writeText(c, num, packed)
	}
}

func (c *coder) readColumn(t *topology, of func(*placement.CPU) *int) {
	packed := c.bytes
	for row := 0; len(packed) > 0; row++ {
		n, size := binary.Varint(packed)
		if size <= 0 || row > maxCPUs {
			c.err = errBroken
			return
		}
		if packed = packed[size:]; row == len(t.CPUs) {
			if !c.take(int(unsafe.Sizeof(placement.CPU{}))) {
				return
			}
			t.CPUs = append(t.CPUs, placement.CPU{})
		}
		*of(&t.CPUs[row]) = int(n)
	}
}

// maxCPUs is more than Linux has.
const maxCPUs = 1 << 16
