package registry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"
)

// The kinds of requests, and the parts of their responses.
const (
	JobRequest    = "job"    // one Job, without ranks
	RanksRequest  = "ranks"  // one Job with ranks and their usage
	StopRequest   = "stop"   // one Reply; the connection ends when the job has ended
	StacksRequest = "stacks" // one Reply
	LogsRequest   = "logs"   // any number of Logs
	NCCLRequest   = "nccl"   // one NCCL
	// EvidenceRequest has one File for each, as it is gathered, and an empty one behind the last.
	EvidenceRequest = "evidence"
)

// Request is a request to a job, as a line of JSON.
type Request struct {
	Kind string `json:"ask"`
	// Rank selects the rank for stacks or logs; nil: all.
	Rank *int `json:"rank,omitempty"`
	// Follow goes on with logs until the job has ended.
	Follow bool `json:"follow,omitempty"`
	// Tail is the number of last lines of each stream; nil: all that are remembered, or 60 of a log file.
	Tail *int `json:"tail,omitempty"`
	// Signal is what stop sends, 0: SIGTERM. Grace replaces the job's own grace period.
	Signal syscall.Signal `json:"signal,omitempty"`
	Grace  *time.Duration `json:"grace_ns,omitempty"`
}

// Job describes a job. Its texts may hold control bytes.
type Job struct {
	ID       string    `json:"job"`                 // id
	State    string    `json:"state"`               // running, ending, restarting, suspended
	Program  string    `json:"program"`             // as on the command line
	Args     []string  `json:"arguments,omitempty"` // of the program
	PID      int       `json:"pid"`                 // of the launcher
	Began    time.Time `json:"started_at"`          // when gorun started
	Attempt  int       `json:"attempt,omitempty"`   // counts restarts
	NumRanks int       `json:"world_size"`          // number of ranks
	Running  int       `json:"running_rank_count"`  // number of ranks that run
	Hosts    []string  `json:"hosts"`               // names of the job's nodes, in order
	// Generation counts the changes of the job's nodes.
	Generation int      `json:"generation,omitempty"`
	Lost       []string `json:"lost_hosts,omitempty"`  // hosts that have left the job
	Spares     []string `json:"spare_hosts,omitempty"` // hosts that are ready to replace others
	// At is the time of this snapshot.
	At    time.Time `json:"at"`
	Ranks []Rank    `json:"ranks,omitempty"` // state of each rank; absent if not requested
	// Silent are hosts that did not report their ranks' usage in time.
	Silent []string `json:"silent_hosts,omitempty"`
}

// Rank describes a rank.
type Rank struct {
	Rank  int    `json:"rank"`                // number in the job
	Host  string `json:"host"`                // name of its node
	Here  bool   `json:"here,omitempty"`      // the host is the server's
	PID   int    `json:"pid,omitempty"`       // of the rank's first process; absent if it has not started
	State string `json:"state"`               // "running", "sleeping", "exit 3", "SIGKILL", ...
	Code  *int   `json:"exit_code,omitempty"` // of a rank that has ended
	// Signal is the name of the signal that killed it.
	Signal string    `json:"signal_name,omitempty"`
	CPU    *float64  `json:"cpu_seconds,omitempty"`       // CPU time of its processes in seconds; absent: unknown
	Memory *int64    `json:"memory_bytes,omitempty"`      // their resident memory in bytes; absent: unknown
	Output *int64    `json:"output_bytes,omitempty"`      // bytes that it has printed; absent: unknown
	At     time.Time `json:"at,omitzero"`                 // time of these values by the clock of its host
	GPUs   []string  `json:"gpu_pci_addresses,omitempty"` // of its GPU devices
	Last   string    `json:"last_line,omitempty"`         // the last line of its output
}

// Reply is a response for people.
type Reply struct {
	Lines []string `json:"lines,omitempty"`
	Error string   `json:"error,omitempty"` // why there are no lines
	// Whole says that the server's process exists for the job alone and ends with it.
	Whole bool `json:"whole,omitempty"`
}

// NCCL is the status that NCCL itself reports on its RAS port. Texts may hold control bytes.
type NCCL struct {
	ID string `json:"job"` // ID of the job
	// Addr is the address of the RAS port on each host; "": none.
	Addr string `json:"address,omitempty"`
	// Lines are for people: the version, and problems.
	Lines []string `json:"lines,omitempty"`
	// Error is why there is no status.
	Error string `json:"error,omitempty"`
	// Silent are hosts whose agent did not respond in time.
	Silent []string `json:"silent_hosts,omitempty"`
	// Status is the whole status: the version, and each communicator's ranks and operations.
	Status json.RawMessage `json:"status,omitempty"`
}

// File is a part of the evidence on a job. Its text may hold control bytes.
type File struct {
	Name string `json:"name"` // "node2-kernel-log.txt"
	Text []byte `json:"text,omitempty"`
	// Error is why there is no text.
	Error string `json:"error,omitempty"`
}

// Logs are lines that ranks printed.
type Logs struct {
	Lines []Line `json:"lines,omitempty"`
	// Over marks the last part. Dropped says that the client reads too slowly and gets nothing more.
	Over    bool `json:"over,omitempty"`
	Dropped bool `json:"dropped,omitempty"`
	// Error is why there are no lines.
	Error string `json:"error,omitempty"`
}

// Line is a line that a rank printed, without control bytes, or a note about its output.
type Line struct {
	Rank   int    `json:"rank"`             // which printed it
	Stream int    `json:"stream,omitempty"` // 1 or 2; 0: none, Text is gorun's own
	Text   string `json:"text"`             // of the line
}

// maxPart limits a part of a response in bytes: 1,000 ranks take 300 KB.
const maxPart = 64 << 20

func readRequest(r io.Reader) (q Request, err error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxRequest)).ReadBytes('\n')
	if err != nil {
		return q, fmt.Errorf("read a query of at most %d bytes: %w", maxRequest, err)
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return q, fmt.Errorf("read a query: %w", err)
	}
	return q, nil
}

// writePart writes a part as a line of JSON.
func writePart(w io.Writer, part any) error {
	text, err := json.Marshal(part)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}
