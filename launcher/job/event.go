package job

import (
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

// Event is something that happened to a running job. Times are by the wall clock of the node on which it happened.
type Event interface{ event() }

// Running: a node has started all of its ranks.
type Running struct {
	Node int
	PIDs map[int]int // by rank
	At   time.Time
}

// StartFailed: a node could not start one of its ranks; those that it had started before are running.
type StartFailed struct {
	Node int
	Rank int // -1: no particular rank
	Code int // exit code of the job: 125, 126 or 127
	Text string
	Hint string
	At   time.Time
}

// Growth: a node has answered for ranks that the running job was to get; those without a PID could not be started.
type Growth struct {
	Node  int
	Ranks []int
	PIDs  map[int]int // by rank
	At    time.Time
}

// Exited: a rank's process has ended.
type Exited struct {
	spec.Exit
	// PeerLost reports that its last lines complain about a lost peer: it may be the victim of one that is still
	// ending.
	PeerLost bool
}

// CleanedUp: no process of the job is left on a node.
type CleanedUp struct {
	Node    int
	Orphans []string // processes that survived SIGKILL, described
}

// Signalled: the launcher received a signal, or a request with the same effect.
type Signalled struct {
	Signal syscall.Signal
	// Grace replaces the job's own; nil keeps that.
	Grace *time.Duration
	At    time.Time
}

// Expired: a timer set by an Arm order has expired.
type Expired struct {
	Timer Timer
	At    time.Time
}

// OutputLost: a write to the launcher's own standard output (1) or error (2) failed.
type OutputLost struct {
	Stream     int
	ReaderGone bool // EPIPE
	Text       string
	At         time.Time
}

// Hung: the job has made no progress for --hang-timeout.
type Hung struct{ At time.Time }

// Cancelled: the context of Run was cancelled.
type Cancelled struct{ At time.Time }

// NodeLost: the connection to a node's agent is lost.
type NodeLost struct {
	Node int
	Text string
	At   time.Time
}

// MPIAborted: a rank has ended MPI for all (MPI_Abort, or an error that its library does not survive).
type MPIAborted struct {
	Rank int
	spec.MPIAbort
	At time.Time
}

// MPIStuck: ranks wait in MPI for one that has ended.
type MPIStuck struct {
	spec.MPIStuck
	At time.Time
}

func (Running) event()     {}
func (StartFailed) event() {}
func (Growth) event()      {}
func (Exited) event()      {}
func (CleanedUp) event()   {}
func (Signalled) event()   {}
func (Expired) event()     {}
func (OutputLost) event()  {}
func (Hung) event()        {}
func (Cancelled) event()   {}
func (NodeLost) event()    {}
func (MPIAborted) event()  {}
func (MPIStuck) event()    {}

// Timer names a timer of the supervisor.
type Timer uint8

const (
	// TimerDeadline is --timeout.
	TimerDeadline Timer = iota + 1
	// TimerGrace ends the time in which ranks may stop gracefully.
	TimerGrace
	// TimerKill ends the time between a late SIGTERM and SIGKILL.
	TimerKill
	// TimerEarly ends the time in which all ranks should succeed after the first did.
	TimerEarly
	// TimerNote ends the time in which ranks may stop without a note.
	TimerNote
	// TimerFailure ends the time in which other ranks may end by themselves after a failure.
	TimerFailure
	// TimerEngine ends the time in which ranks should get what a resource manager sent.
	TimerEngine
)

// String returns the timer's name in transcripts.
func (t Timer) String() string {
	return [...]string{"?", "deadline", "grace", "kill", "early", "note", "failure", "engine"}[min(t, TimerEngine)]
}

// Order is something to do about an Event.
type Order interface{ order() }

// Signal sends a signal to the ranks that run.
type Signal struct{ spec.Signal }

// Kill sends SIGKILL to every process of the job on every node.
type Kill struct{}

// Cleanup has a node, whose ranks have all ended, end their orphans (SIGTERM, Grace, SIGKILL) and answer CleanedUp.
type Cleanup struct {
	Node  int
	Grace time.Duration
}

// Arm sets a timer, again if it is set.
type Arm struct {
	Timer Timer
	After time.Duration
}

// Note is a line for the user.
type Note struct{ Text string }

// Suspend stops the ranks and then the launcher itself, as Ctrl-Z does to a program; Resume continues the ranks.
type (
	Suspend struct{}
	Resume  struct{}
)

func (Signal) order()  {}
func (Kill) order()    {}
func (Cleanup) order() {}
func (Arm) order()     {}
func (Note) order()    {}
func (Suspend) order() {}
func (Resume) order()  {}
