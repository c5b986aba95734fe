package job

import (
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
)

// Event is something that happened to a running job. Times are the wall clock
// of the node on which it happened.
type Event interface{ event() }

// Running: a node has started all of its ranks.
type Running struct {
	Node int
	PIDs map[int]int // by rank
	At   time.Time
}

// StartFailed: a node could not start one of its ranks; those it had started
// before are running.
type StartFailed struct {
	Node int
	Rank int // -1: no particular rank
	Code int // exit code of the job: 125, 126 or 127
	Text string
	Hint string
	At   time.Time
}

// Exited: a rank's process has ended.
type Exited struct {
	spec.Exit
	// PeerLost says that its last words complain about a peer that went away: it may
	// be the victim of one that is still on its way out.
	PeerLost bool

	aborted *MPIAborted
	killed  bool // the launcher had sent SIGKILL to all that were left
}

// CleanedUp: nothing of the job is left on a node.
type CleanedUp struct {
	Node    int
	Orphans []string // processes that survived SIGKILL, described
}

// Signalled: the launcher received a signal, or a wish that stands for one.
type Signalled struct {
	Signal syscall.Signal
	// Grace is what ranks get instead of the job's own; nil: that.
	Grace *time.Duration
	At    time.Time
}

// Expired: a timer that an Arm order set has run out.
type Expired struct {
	Timer Timer
	At    time.Time
}

// OutputLost: a write to the launcher's own standard output (1) or error (2)
// failed.
type OutputLost struct {
	Stream     int
	ReaderGone bool // EPIPE: nobody reads any more
	Text       string
	At         time.Time
}

// Hung: nothing of the job has been seen to go on for --hang-timeout.
type Hung struct{ At time.Time }

// Cancelled: the caller of Run gave the job up.
type Cancelled struct{ At time.Time }

// NodeLost: the connection to a node's agent is gone.
type NodeLost struct {
	Node int
	Text string
	At   time.Time
}

func (Running) event()     {}
func (StartFailed) event() {}
func (Exited) event()      {}
func (CleanedUp) event()   {}
func (Signalled) event()   {}
func (Expired) event()     {}
func (OutputLost) event()  {}
func (Hung) event()        {}
func (Cancelled) event()   {}
func (NodeLost) event()    {}

// Timer names a timer of the supervisor.
type Timer uint8

const (
	// TimerDeadline is --timeout.
	TimerDeadline Timer = iota + 1
	// TimerGrace ends the time that ranks have to end in order.
	TimerGrace
	// TimerKill ends the short time between a late SIGTERM and SIGKILL.
	TimerKill
	// TimerEarly is when a rank that ended well has ended long before the others.
	TimerEarly
	// TimerNote is when it is time to say that ranks take theirs.
	TimerNote
	// TimerPeer is when the peer that a rank complained of should have ended.
	TimerPeer
	// TimerEngine is when ranks should have what a resource manager sent.
	TimerEngine
)

// String returns the timer's name in transcripts.
func (t Timer) String() string {
	return [...]string{"?", "deadline", "grace", "kill", "early", "remark", "peer", "engine"}[min(t, TimerEngine)]
}

// Order is something to do about an Event.
type Order interface{ order() }

// Signal sends a signal to ranks that still run.
type Signal struct {
	Signal syscall.Signal
	// Group sends it to each rank's process group, not to its process alone.
	Group bool
}

// Kill sends SIGKILL to every process of the job on every node.
type Kill struct{}

// Cleanup tells a node, whose ranks have all ended, to end what they left behind
// (SIGTERM, Grace, SIGKILL) and to answer Gone.
type Cleanup struct {
	Node  int
	Grace time.Duration
}

// Arm sets a timer.
type Arm struct {
	Timer Timer
	After time.Duration
}

// Note tells the user something.
type Note struct{ Text string }

// Suspend stops the ranks and then the launcher itself, as Ctrl-Z does to a
// program; Resume lets the ranks go on.
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
