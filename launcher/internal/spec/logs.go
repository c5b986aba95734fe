package spec

// Logs are the log files of a node or a job.
type Logs struct {
	Dir             string    `json:"directory"`                  // of this attempt
	Base            string    `json:"base_directory"`             // of the job; "/dev/null" means no files at all
	Names           []string  `json:"name_patterns,omitempty"`    // the user's patterns for stdout and stderr
	Redirect        []Streams `json:"redirect,omitempty"`         // by local rank, up to the highest of any node
	Tee             []Streams `json:"tee,omitempty"`              // streams that also go to the console, by local rank
	DuplicateStdout []string  `json:"duplicate_stdout,omitempty"` // lines with one of these go to a common file, too
	DuplicateStderr []string  `json:"duplicate_stderr,omitempty"` // as duplicate_stdout, for stderr
}

// NullDevice as a log directory means no files at all.
const NullDevice = "/dev/null"

// Files reports whether there are log files.
func (l *Logs) Files() bool { return l.Base != NullDevice }

// Named reports whether the user named the files; else their layout below Base is torchrun's.
func (l *Logs) Named() bool { return len(l.Names) > 0 }
