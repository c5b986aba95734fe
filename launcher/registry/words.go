package registry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"
)

// The questions.
const (
	JobRequest    = "job"    // answered by one Job, without ranks
	RanksRequest  = "ranks"  // by one Job with them, and what they use
	StopRequest   = "stop"   // by one Word, and the end of the connection when the job has ended
	StacksRequest = "stacks" // by one Word
	LogsRequest   = "logs"   // by any number of Logs
	NCCLRequest   = "nccl"   // by one NCCL
)

// Request is what a job is asked, as a line of JSON.
type Request struct {
	Kind string `json:"ask"`
	// Rank is the one that stacks or logs are asked of; nil: all.
	Rank *int `json:"rank,omitempty"`
	// Follow goes on with logs until the job has ended.
	Follow bool `json:"follow,omitempty"`
	// Tail is how many of its last lines each stream shows; nil: as many as are remembered, or 60 of
	// a log file.
	Tail *int `json:"tail,omitempty"`
	// Signal is the one that stop ends the job by, 0: SIGTERM; Grace what it gets instead of
	// its own.
	Signal syscall.Signal `json:"signal,omitempty"`
	Grace  *time.Duration `json:"grace_ns,omitempty"`
}

// Job is what a job says of itself. Texts are the job's: they may hold control bytes.
type Job struct {
	ID      string    `json:"job"`
	State   string    `json:"state"` // running, ending, restarting, suspended
	Program string    `json:"program"`
	Args    []string  `json:"args,omitempty"`
	PID     int       `json:"pid"` // of the launcher
	Began   time.Time `json:"began"`
	Attempt int       `json:"attempt,omitempty"` // counts restarts
	// NumRanks is how many it has, Running how many of them run.
	NumRanks int      `json:"ranks"`
	Running  int      `json:"running"`
	Hosts    []string `json:"hosts"`
	// At is when this was so.
	At    time.Time `json:"at"`
	Ranks []Rank    `json:"rank_list,omitempty"`
	// Silent are hosts that did not say in time what their ranks use.
	Silent []string `json:"silent_hosts,omitempty"`
}

// Rank is what is known of a rank.
type Rank struct {
	Rank  int    `json:"rank"`
	Host  string `json:"host"`
	Here  bool   `json:"here,omitempty"` // the host is the one that is asked
	PID   int    `json:"pid,omitempty"`
	State string `json:"state"` // "running", "sleeping", "exit 3", "SIGKILL", ...
	// Code is the exit code of one that has ended, Signal the name of the signal that ended it.
	Code   *int   `json:"exit_code,omitempty"`
	Signal string `json:"signal,omitempty"`
	// CPU is the time that its processes have used, Memory what of them is in memory, in
	// bytes, Output how many bytes it has printed; nil: not known. At is when that was so, by
	// the clock of its host.
	CPU    *time.Duration `json:"cpu_ns,omitempty"`
	Memory *int64         `json:"memory,omitempty"`
	Output *int64         `json:"output,omitempty"`
	At     time.Time      `json:"at,omitzero"`
	// GPUs are the PCI addresses of those that are its own.
	GPUs []string `json:"gpus,omitempty"`
	Last string   `json:"last,omitempty"` // the last line that it printed
}

// Reply is an answer in words.
type Reply struct {
	Lines []string `json:"lines,omitempty"`
	Error string   `json:"error,omitempty"` // why there is none
	// Whole says that the process which answers exists for the job alone and ends with it.
	Whole bool `json:"whole,omitempty"`
}

// NCCL is what NCCL itself says of a job, by the port that it has for that (RAS). Texts may hold control bytes.
type NCCL struct {
	ID string `json:"job"`
	// Addr is where the ranks' NCCL listens, on each host; "": nowhere.
	Addr string `json:"addr,omitempty"`
	// Lines say it for people: the version, and what is remarkable.
	Lines []string `json:"lines,omitempty"`
	// Error is why there is nothing.
	Error string `json:"error,omitempty"`
	// Silent are hosts whose agent said nothing in time.
	Silent []string `json:"silent_hosts,omitempty"`
	// Status is all that was said: the version, and of each communicator its ranks and what they have begun.
	Status json.RawMessage `json:"status,omitempty"`
}

// Logs are lines that ranks printed.
type Logs struct {
	Lines []Line `json:"lines,omitempty"`
	// Over says that there is nothing more, Dropped that whoever follows reads too slowly
	// and gets nothing more.
	Over    bool `json:"over,omitempty"`
	Dropped bool `json:"dropped,omitempty"`
	// Error is why there is nothing to be told of.
	Error string `json:"error,omitempty"`
}

// Line is a line that a rank printed, without control bytes, or a word about what it
// prints.
type Line struct {
	Rank   int    `json:"rank"`
	Stream int    `json:"stream,omitempty"` // 1 or 2; 0: none, Text is gorun's own
	Text   string `json:"text"`
}

// maxAnswer bounds an answer's part in bytes: a thousand ranks say 300 KB.
const maxAnswer = 64 << 20

// readQuestion reads a line that is not too long.
func readQuestion(r io.Reader) (q Request, err error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxRequest)).ReadBytes('\n')
	if err != nil {
		return q, fmt.Errorf("read a question of at most %d bytes: %w", maxRequest, err)
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return q, fmt.Errorf("read a question: %w", err)
	}
	return q, nil
}

// writePart writes a line of JSON.
func writePart(w io.Writer, part any) error {
	text, err := json.Marshal(part)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}
