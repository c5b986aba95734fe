package ras

// Status is what the ranks of a job do, as one of them knows it.
type Status struct {
	Version       string         `json:"version"` // of NCCL
	Communicators []Communicator `json:"communicators,omitempty"`
	// Missing are processes that did not answer in time, Dead those that cannot be reached any more, which NCCL says
	// after a minute. Only the text of older versions names them; in JSON their ranks are not there.
	Missing []Process `json:"missing,omitempty"`
	Dead    []Process `json:"dead,omitempty"`
}

// Communicator is one communicator.
type Communicator struct {
	Hash  string `json:"hash"`
	Size  int    `json:"size"` // ranks, 0 where it is not known
	Ranks []Rank `json:"ranks,omitempty"`
	// Partial says that Ranks are only those of which there is something to say, as in the text of older versions;
	// Tallies count the others.
	Partial bool    `json:"named,omitempty"`
	Tallies []Tally `json:"tallies,omitempty"`
	// Progressing says that ranks came further between two answers; see Compare.
	Progressing bool `json:"moving,omitempty"`
}

// Tally is how many ranks have begun as many collectives.
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
	World  int    `json:"world"`          // of the job, -1 where nobody knows
	Host   string `json:"host,omitempty"` // the address by which NCCL reaches it
	PID    int    `json:"pid,omitempty"`
	Device int    `json:"device,omitempty"` // of CUDA
	// Counts are the collectives that it has begun, by their names.
	Counts map[string]uint64 `json:"counts,omitempty"`
	// State and Error are NCCL's results of making the communicator, and of what went on since; 0 is success.
	State int `json:"state,omitempty"`
	Error int `json:"error,omitempty"`
	// Message is such an error or state in words, where there is no number.
	Message  string `json:"says,omitempty"`
	Finalize bool   `json:"finalize,omitempty"`
	Destroy  bool   `json:"destroy,omitempty"`
	Abort    bool   `json:"abort,omitempty"`
	// Missing says that NCCL knows the rank and has no answer of it, Dead that it has given it up.
	Missing bool `json:"missing,omitempty"`
	Dead    bool `json:"dead,omitempty"`
}

// Limits of what is taken out of an answer.
const (
	mostCommunicators = 4096
	mostRanks         = 1 << 17
	mostText          = 200 // bytes of a name
)

func short(text string) string { return text[:min(len(text), mostText)] }

// results are NCCL's, by number (nccl.h of 2.30).
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
