package ras

// Status is the state of a job's ranks from the view of one rank.
type Status struct {
	Version       string         `json:"version"` // of NCCL
	Communicators []Communicator `json:"communicators,omitempty"`
	// Missing are processes that did not answer in time. Dead are those that NCCL has given up after a minute. Only
	// the text of older versions names them; in JSON their ranks are absent.
	Missing []Process `json:"missing,omitempty"`
	Dead    []Process `json:"dead,omitempty"`
}

// Communicator is one communicator.
type Communicator struct {
	Hash  string `json:"hash"`
	Size  int    `json:"size"` // number of ranks, 0 if unknown
	Ranks []Rank `json:"ranks,omitempty"`
	// Partial says that Ranks has only the notable ranks, as in the text of older versions. Tallies counts the others.
	Partial bool    `json:"named,omitempty"`
	Tallies []Tally `json:"tallies,omitempty"`
	// Progressing says that ranks began collectives between two queries; see Compare.
	Progressing bool `json:"moving,omitempty"`
}

// Tally counts the ranks that have begun the same number of collectives.
type Tally struct {
	Op    string `json:"op"` // "AllReduce"
	Count uint64 `json:"count"`
	Ranks int    `json:"ranks"`
}

// Process is a process of the job.
type Process struct {
	PID  int    `json:"pid"`
	Host string `json:"host"` // its address
	GPUs string `json:"gpus,omitempty"`
}

// Rank is one rank of a communicator.
type Rank struct {
	Rank   int    `json:"rank"`           // of the communicator
	World  int    `json:"world"`          // of the job, -1 if unknown
	Host   string `json:"host,omitempty"` // its address for NCCL
	PID    int    `json:"pid,omitempty"`
	Device int    `json:"device,omitempty"` // of CUDA
	// Counts are the collectives that the rank has begun, by name.
	Counts map[string]uint64 `json:"counts,omitempty"`
	// State is NCCL's result of creating the communicator, Error its asynchronous error; 0 is success.
	State int `json:"state,omitempty"`
	Error int `json:"error,omitempty"`
	// Message is the error or state in words, from versions that give no number.
	Message  string `json:"says,omitempty"`
	Finalize bool   `json:"finalize,omitempty"`
	Destroy  bool   `json:"destroy,omitempty"`
	Abort    bool   `json:"abort,omitempty"`
	// Missing says that the rank did not answer NCCL, Dead that NCCL has given it up.
	Missing bool `json:"missing,omitempty"`
	Dead    bool `json:"dead,omitempty"`
}

// Bounds of a status.
const (
	maxCommunicators = 4096
	maxRanks         = 1 << 17
	maxText          = 200 // bytes of a name
)

func short(text string) string { return text[:min(len(text), maxText)] }

// results are the names of ncclResult_t (nccl.h of 2.30).
var results = []string{
	"success", "unhandled CUDA error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
	"remote process error", "in progress", "timeout",
}

const inProgress = 7

func resultText(n int) string {
	if n >= 0 && n < len(results) {
		return results[n]
	}
	return "an error that is not known"
}
