package job

import (
	"gorun/env/plan"
	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// Parts of specs and plans that other packages define, for users who cannot or need not import these.
type (
	Count     = placement.PerNode
	CountKind = placement.PerNodeKind

	Export = plan.Export
	Store  = plan.Store
	Study  = plan.Study
	Tune   = plan.Tune

	AppRun    = spec.App
	Logs      = spec.Logs
	NodeFacts = spec.Facts
	Opened    = spec.Opened
	Process   = spec.Process
	Program   = spec.Program
	Seconds   = spec.Seconds
	Start     = spec.Start
	Streams   = spec.Streams
	Task      = spec.Task
)

// Values of Count.Kind.
const (
	CountUnset  = placement.PerNodeUnset
	CountFixed  = placement.PerNodeFixed
	CountAuto   = placement.PerNodeAuto
	CountGPU    = placement.PerNodeGPU
	CountCPU    = placement.PerNodeCPU
	CountCore   = placement.PerNodeCore
	CountDevice = placement.PerNodeDevice
)

// Values of Start.
const (
	StartAuto   = spec.StartAuto
	StartExec   = spec.StartExec
	StartPython = spec.StartPython
	StartModule = spec.StartModule
)

// Streams of one stream.
const (
	Stdout = spec.Stdout
	Stderr = spec.Stderr
)

// Values of Tune.
const (
	TuneAuto     = plan.TuneAuto
	TuneOff      = plan.TuneOff
	TuneTextbook = plan.TuneTextbook
)
