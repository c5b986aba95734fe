package spec

import (
	"syscall"
	"time"
)

// Exit is how a rank's process ended, as its node saw it.
type Exit struct {
	Rank   int
	PID    int
	Code   int            // exit code, when Signal is 0
	Signal syscall.Signal // the signal that ended it
	Core   bool           // it left a core dump
	At     time.Time
	// RaisedAt is when the rank itself recorded the error that ended it (the time
	// of PyTorch's error file); zero when it recorded none.
	RaisedAt time.Time
	// SignalledAt is when its node had first asked ranks to end, by the same clock as At, which
	// others' differ from; zero when it had not.
	SignalledAt time.Time
	// ErrorFile is the content of the error file that the rank wrote.
	ErrorFile []byte
	// OOM says why the kernel killed it, when it did for lack of memory.
	OOM string
	// Timer is the scope of PyTorch's timer whose expiry had its node end it; "": none.
	Timer string
	// Last are its last lines where they went to a file and not to the console.
	LastLines []string
	// Hint is something to try that only its node can know.
	Hint string
	// MPI is how far it had come in MPI, nil: it had not begun.
	MPI *RankMPI
}

// RankMPI is how far a rank had come in MPI: by which protocol it began, such as
// "PMI-1" or "PMIx 4.2.2", and whether it had finalized.
type RankMPI struct {
	Protocol  string `json:"protocol"`
	Finalized bool   `json:"finalized"`
}

// Activity is what one rank does: its process, or the program that it does nothing but wait for.
type Activity struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"standing"`
	CPU   int    `json:"cpu_percent"` // of one CPU; -1: not known
	// Wait is the kernel's function in which its main thread sleeps.
	Wait string   `json:"wait_channel,omitempty"`
	Keys []string `json:"keys,omitempty"` // what it waits for in the store
	// MPI is whom it waits for in MPI; nil: it does not, as far as its node knows.
	MPI      *MPIWait `json:"mpi_wait,omitempty"`
	Stack    []string `json:"stack,omitempty"` // the innermost frames of its main thread first
	LastLine string   `json:"last,omitempty"`  // its last line
}

// MPIWait is that a rank waits in MPI, as its node's servers see it.
type MPIWait struct {
	// For are the ranks of the job that it waits for; none: such as are on other nodes. Init says
	// that they have not called MPI_Init.
	For  []int `json:"for,omitempty"`
	Init bool  `json:"init,omitempty"`
	// Spawns says that it waits for ranks which it spawns.
	Spawns bool `json:"spawns,omitempty"`
}

// Absence is what a rank does that does not wait in the store.
type Absence struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"standing"`              // "sleeping", "ended with exit code 0"
	CPU   int    `json:"cpu_percent,omitempty"` // of one CPU that its processes use; -1: not known
}

// MPIAbort is what a rank gave to MPI_Abort.
type MPIAbort struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
	// Why says of a rank that did not call it by which rule of its own it failed.
	Why string `json:"why,omitempty"`
}

// MPIStuck is that ranks wait in MPI for one that can never come, since it has ended.
type MPIStuck struct {
	Waiting     []int `json:"waiting"`
	Missing     int   `json:"missing"`
	Initialized bool  `json:"-"` // Missing had called MPI_Init
	// Why says where Missing has not ended why they wait in vain.
	Why string `json:"why,omitempty"`
}

// StoreWait is what one rank waits for in the store, or a process that is none.
type StoreWait struct {
	Rank int      `json:"rank"` // -1: none that its node knows
	Keys []string `json:"keys"` // some of them
	More int      `json:"more,omitempty"`
	// Peer is the address of another host than the store's from which it waits; "": it is on that one. PID is
	// the process, 0 where it did not say. By these the head finds its rank.
	Peer string `json:"-"`
	PID  int    `json:"-"`
}
