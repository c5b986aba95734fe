package wire

import (
	"time"

	"gorun/launcher/internal/spec"
)

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
	// Activity is what it does; without Usage.Stacks only Rank, PID, Standing and Last are set.
	spec.Activity
	CPUTime time.Duration // -1: not known
	Memory  int64         // resident, in bytes; what processes share counts for each of them; -1: not known
	Printed int64         // bytes of output so far; -1: it does not pass through the agent
}
