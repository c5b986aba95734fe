package wire

import "time"

// Usage asks what a node's ranks use, because somebody looks at the job: Used answers it, by
// Call.
type Usage struct {
	Call int
	// Stacks asks for what each rank does as well, which takes a second.
	Stacks bool
	// RAS asks for what NCCL's RAS port says instead, which takes up to 6 seconds: all of it, where All is set, else
	// what is about the node's own ranks.
	RAS, All bool
}

// Used answers Usage.
type Used struct {
	Call  int
	At    time.Time
	Ranks []RankUsage
	// RAS is what NCCL's RAS port answered at RASAddr, as Hung's; RASError is why there is none.
	RAS      []byte
	RASAddr  string
	RASError string
}

// RankUsage is what one rank uses, with all processes of its session.
type RankUsage struct {
	// HungRank is what it does; without Usage.Stacks only Rank, PID, Standing and Last are set.
	HungRank
	CPUTime time.Duration // -1: not known
	Memory  int64         // resident, in bytes; what processes share counts for each of them; -1: not known
	Printed int64         // bytes of output so far; -1: it does not pass through the agent
}

func (*Usage) Type() Type { return TypeUsage }

func (m *Usage) fields(c *coder) {
	number(c, 1, &m.Call)
	c.flag(2, &m.Stacks)
	c.flag(3, &m.RAS)
	c.flag(4, &m.All)
}

func (*Used) Type() Type { return TypeUsed }

func (m *Used) fields(c *coder) {
	number(c, 1, &m.Call)
	c.moment(2, &m.At)
	parts(c, 3, &m.Ranks)
	c.blob(4, &m.RAS)
	text(c, 5, &m.RASAddr)
	text(c, 6, &m.RASError)
}

func (r *RankUsage) fields(c *coder) {
	c.part(1, &r.HungRank)
	number(c, 2, &r.CPUTime)
	number(c, 3, &r.Memory)
	number(c, 4, &r.Printed)
}
