package wire

import "net/netip"

func (*Probe) Type() Type { return TypeProbe }

func (m *Probe) fields(c *coder) {
	c.blob(1, &m.Key)
	number(c, 2, &m.Node)
	c.flag(3, &m.Listen)
	number(c, 4, &m.Port)
	c.texts(5, &m.Names)
	parts(c, 6, &m.Targets)
	number(c, 7, &m.Timeout)
	number(c, 8, &m.Patience)
}

func (t *ProbeTarget) fields(c *coder) {
	number(c, 1, &t.Node)
	c.address(2, &t.Addr)
	number(c, 3, &t.Port)
}

func (*Reached) Type() Type { return TypeReached }

func (m *Reached) fields(c *coder) {
	parts(c, 1, &m.Candidates)
	number(c, 2, &m.Port)
	c.texts(3, &m.Notes)
	text(c, 4, &m.Error)
	parts(c, 5, &m.Answers)
}

func (p *ProbeCandidate) fields(c *coder) {
	c.address(1, &p.Addr)
	number(c, 2, &p.Bits)
	text(c, 3, &p.Interface)
	text(c, 4, &p.Kind)
	number(c, 5, &p.Mbps)
	c.flag(6, &p.Named)
	c.flag(7, &p.Passing)
}

func (a *ProbeAnswer) fields(c *coder) {
	number(c, 1, &a.Target)
	number(c, 2, &a.RTT)
	c.address(3, &a.Local)
	text(c, 4, &a.Interface)
	text(c, 5, &a.Problem)
}

// address is written as netip does: "10.0.0.1", "fe80::1%eth0".
func (c *coder) address(num int, p *netip.Addr) {
	switch {
	case c.is(num, sized):
		*p, c.err = netip.ParseAddr(string(c.bytes))
	case !c.reading && p.IsValid():
		writeText(c, num, p.String())
	}
}
