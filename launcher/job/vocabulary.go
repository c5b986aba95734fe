package job

import (
	"gorun/env/plan"
	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// Types of other packages that wishes and plans are made of.
type (
	// Count is a wished number of ranks per node.
	Count     = placement.PerNode
	CountKind = placement.PerNodeKind
	// Export is one -x option.
	Export = plan.Export
	// Start is the way in which a program becomes a process.
	Start = spec.Start
	// Program is how a node starts one of the wish's programs.
	Program = spec.Program
	// Task is the place of a process that is one rank, as a resource manager gave it.
	Task = spec.Task
	// Opened is where node 0 serves the store.
	Opened = spec.Opened
	// NodeFacts are what a node says of itself.
	NodeFacts = spec.Facts
	// AppRun is one program of a plan, Process what the node of a rank has to know of it.
	AppRun  = spec.App
	Process = spec.Process
	// Logs is what goes to files and where.
	Logs = spec.Logs
	// Streams is a set of a rank's output streams.
	Streams = spec.Streams
	// Store is where ranks meet.
	Store = plan.Store
	// Tune says which settings of NCCL are added, Study what TuneTextbook goes by.
	Tune  = plan.Tune
	Study = plan.Study
)

// What Count.Kind may be.
const (
	CountUnset  = placement.PerNodeUnset
	CountFixed  = placement.PerNodeFixed
	CountAuto   = placement.PerNodeAuto
	CountGPU    = placement.PerNodeGPU
	CountCPU    = placement.PerNodeCPU
	CountCore   = placement.PerNodeCore
	CountDevice = placement.PerNodeDevice
)

// What Start may be.
const (
	StartAuto   = spec.StartAuto
	StartExec   = spec.StartExec
	StartPython = spec.StartPython
	StartModule = spec.StartModule
)

// The Streams of one stream.
const (
	Stdout = spec.Stdout
	Stderr = spec.Stderr
)

// What Tune may be.
const (
	TuneAuto     = plan.TuneAuto
	TuneOff      = plan.TuneOff
	TuneTextbook = plan.TuneTextbook
)
