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
	c.flag(9, &m.Measure)
}

func (t *ProbeTarget) fields(c *coder) {
	number(c, 1, &t.Node)
	c.address(2, &t.Addr)
	number(c, 3, &t.Port)
	c.flag(4, &t.Knock)
}

func (*Reached) Type() Type { return TypeReached }

func (m *Reached) fields(c *coder) {
	parts(c, 1, &m.Candidates)
	number(c, 2, &m.Port)
	c.texts(3, &m.Notes)
	text(c, 4, &m.Error)
	parts(c, 5, &m.Answers)
	parts(c, 6, &m.Measured)
	number(c, 7, &m.Free)
}

func (p *ProbeCandidate) fields(c *coder) {
	c.address(1, &p.Addr)
	number(c, 2, &p.Bits)
	text(c, 3, &p.Interface)
	text(c, 4, &p.Kind)
	number(c, 5, &p.Mbps)
	c.flag(6, &p.Named)
	c.flag(7, &p.Passing)
	number(c, 8, &p.MTU)
	c.flag(9, &p.Device)
}

func (a *ProbeAnswer) fields(c *coder) {
	number(c, 1, &a.Target)
	number(c, 2, &a.RTT)
	c.address(3, &a.Local)
	text(c, 4, &a.Interface)
	text(c, 5, &a.Problem)
}

func (m *ProbeMeasured) fields(c *coder) {
	number(c, 1, &m.Target)
	number(c, 2, &m.RTT)
	number(c, 3, &m.Segments)
	number(c, 4, &m.Resent)
	number(c, 5, &m.Bytes)
	number(c, 6, &m.Time)
	number(c, 7, &m.FlowSegments)
	number(c, 8, &m.FlowResent)
	number(c, 9, &m.Packet)
	number(c, 10, &m.Passes)
	number(c, 11, &m.Vanishes)
	text(c, 12, &m.Problem)
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
