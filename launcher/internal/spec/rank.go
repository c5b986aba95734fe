package spec

import (
	"syscall"
	"time"
)

// Exit describes how a rank's process ended, as observed by its node.
type Exit struct {
	Rank   int
	PID    int
	Code   int            // exit code, when Signal is 0
	Signal syscall.Signal // the signal that ended it
	Core   bool           // it dumped core
	At     time.Time
	// RaisedAt is when the rank recorded the error that ended it (the time in PyTorch's error file); zero if it recorded
	// none.
	RaisedAt time.Time
	// SignalledAt is when its node first signalled ranks to stop, by the clock of At; zero if it has not.
	SignalledAt time.Time
	// OthersBehind reports that it failed while ranks of its node ran that were still starting: they may fail alike.
	OthersBehind bool
	// ErrorFile is the content of the error file that the rank wrote.
	ErrorFile []byte
	// OOM describes why the kernel killed it for lack of memory; "" if it did not.
	OOM string
	// Timer is the scope of the expired timer of PyTorch for which its node ended it; "": none.
	Timer string
	// LastLines are those of a stream that went to a file and not to the console.
	LastLines []string
	// Hint is something to try that only its node can know.
	Hint string
	// MPI is how far it had come in MPI; nil: it had not begun.
	MPI *RankMPI
}

// RankMPI is how far a rank has come in MPI, by a protocol such as "PMI-1" or "PMIx 4.2.2".
type RankMPI struct {
	Protocol  string `json:"protocol"`  // "PMI-1", "PMI-2", or PMIx with its version
	Finalized bool   `json:"finalized"` // whether the rank has called MPI_Finalize
}

// Activity is what one rank does: its process, or the program for which that only waits.
type Activity struct {
	Rank  int    `json:"rank"`          // rank that is described
	PID   int    `json:"pid,omitempty"` // of the rank's first process; absent if it has ended
	State string `json:"state"`         // of its process: "sleeping"
	CPU   int    `json:"cpu_percent"`   // of one CPU; -1: not known
	// Wait is the kernel function in which its main thread sleeps.
	Wait  string   `json:"wait_channel,omitempty"`
	Keys  []string `json:"store_keys,omitempty"` // that it waits for in the store
	MPI   *MPIWait `json:"mpi_wait,omitempty"`   // nil: its node knows of no wait in MPI
	Stack []string `json:"stack,omitempty"`      // of its main thread, the innermost frame first
	// Obstacle says what to do to see the frames of the program, where that is known.
	Obstacle string `json:"stack_obstacle,omitempty"`
	LastLine string `json:"last_line,omitempty"` // last line that it printed
}

// Computes reports whether the rank uses so much of a CPU that it counts as running.
func (a *Activity) Computes() bool { return a.CPU >= 20 }

// ReadsInput is the state of a rank that waits for standard input.
const ReadsInput = "reading standard input"

// MPIWait is a rank's wait in MPI, as the servers of its node see it.
type MPIWait struct {
	// For are the ranks of the job that it waits for; empty: they are on other nodes. Init reports that these have not
	// called MPI_Init.
	For  []int `json:"for_ranks,omitempty"`
	Init bool  `json:"in_init,omitempty"`
	// Spawns reports that it waits for ranks that it spawns.
	Spawns bool `json:"spawning,omitempty"`
}

// Absence is what a rank does that does not wait in the store.
type Absence struct {
	Rank  int    `json:"rank"`                  // rank that others wait for
	PID   int    `json:"pid,omitempty"`         // of the rank; absent if it has ended
	State string `json:"state"`                 // "sleeping", "ended with exit code 0"
	CPU   int    `json:"cpu_percent,omitempty"` // of one CPU, for all of its processes; -1: not known
}

// MPIAbort is a call of MPI_Abort.
type MPIAbort struct {
	Code    int    `json:"exit_code"`         // code that the rank passed to MPI_Abort
	Message string `json:"message,omitempty"` // text that the library sent along
	// Why is the reason for the failure of a rank that did not call it.
	Why string `json:"reason,omitempty"`
}

// MPIStuck is a wait in MPI for a rank that has ended.
type MPIStuck struct {
	Waiting     []int `json:"waiting_ranks"` // ranks that wait
	Missing     int   `json:"missing_rank"`  // rank that they wait for
	Initialized bool  `json:"-"`             // Missing had called MPI_Init
	// Why is the reason for the wait if Missing has not ended.
	Why string `json:"reason,omitempty"`
}

// StoreWait is a process's wait in the store.
type StoreWait struct {
	Rank int      `json:"rank"`                // -1: none that its node knows
	Keys []string `json:"store_keys"`          // some of them
	More int      `json:"more_keys,omitempty"` // number of keys that are not listed
	// Peer is the address of a process on another host than the store's, "" for one on that host. PID is its process, 0
	// if it is not known. The head finds its rank by these.
	Peer string `json:"-"`
	PID  int    `json:"-"`
}
