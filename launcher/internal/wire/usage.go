package wire

import (
	"time"

	"gorun/launcher/internal/spec"
)

// Usage requests what a node's ranks use, for gorun ps, top and stacks. Used answers it, by Call.
type Usage struct {
	Call int
	// Stacks requests what each rank does, too, which takes a second.
	Stacks bool
	// Signs requests what changes with progress, too; GPUs what NVIDIA's driver says of the GPUs.
	Signs, GPUs bool
	// Evidence requests what the host knows of failures, in about that many bytes; 0 does not. Dumps has ranks write what
	// PyTorch's flight recorder knows before, which takes a second or two.
	Evidence int
	Dumps    bool
	// RAS requests the answer of NCCL's RAS port instead, which takes up to 6 seconds: of all ranks if All is set, else
	// of the node's own.
	RAS, All bool
}

// Used answers Usage.
type Used struct {
	Call  int
	At    time.Time
	Ranks []RankUsage
	// RAS is the answer of NCCL's RAS port at RASAddr, as in Hung; RASError is why it is missing.
	RAS      []byte
	RASAddr  string
	RASError string
	// Progress changes with what ranks print and with the store. Network counts the bytes of all network interfaces.
	Progress, Network int64
	GPUs              []GPUUse
	Evidence          []File
}

// File is a text about a host, or why it is missing.
type File struct {
	Name, Error string
	Text        []byte
}

// DumpName begins the name of a File of PyTorch's flight recorder, as PyTorch's own; the rank's number follows.
const DumpName = "nccl_trace_rank_"

// GPUUse is what a GPU does; nil is not known.
type GPUUse struct {
	PCI         string
	Busy        *int   // percent
	Memory      *int64 // bytes in use
	Power       *int   // milliwatts
	Temperature *int   // degrees Celsius
	// Slowed says that heat or a lack of power lowers the clocks.
	Slowed bool
}

// RankUsage is what one rank uses, with all processes of its session.
type RankUsage struct {
	// Activity has only Rank, PID, State and LastLine without Usage.Stacks, and with Usage.Signs its waits.
	spec.Activity
	CPUTime time.Duration // -1: not known
	Memory  int64         // resident bytes, of which shared ones count for each process; -1: not known
	Printed int64         // bytes of output so far; -1: it does not pass through the agent
	IO      int64         // bytes read and written; -1: not known
	TCP     int64         // bytes of its open connections, with Usage.Signs; 0: not known
	// MainCPU is the CPU time of its main thread with Usage.Signs, Runs how often that waited, and Received how
	// often with data; 0: not known.
	MainCPU        time.Duration
	Runs, Received int64
}
