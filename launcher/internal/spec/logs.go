package spec

// Logs is what goes to files and where.
type Logs struct {
	Dir             string    `json:"dir"`                // of this attempt
	Base            string    `json:"base"`               // of the job; the null device means no files at all
	Names           []string  `json:"names,omitempty"`    // patterns of the user's own for stdout and stderr
	Redirect        []Streams `json:"redirect,omitempty"` // by local rank, as many as a node has at most
	Tee             []Streams `json:"tee,omitempty"`
	DuplicateStdout []string  `json:"duplicate_stdout,omitempty"`
	DuplicateStderr []string  `json:"duplicate_stderr,omitempty"`
}

// NullDevice as a log directory means no files at all.
const NullDevice = "/dev/null"

// Files reports whether there are log files.
func (l *Logs) Files() bool { return l.Base != NullDevice }

// Named reports whether the files have names of the user's own; else their layout below Base is torchrun's.
func (l *Logs) Named() bool { return len(l.Names) > 0 }
