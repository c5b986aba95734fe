package wire

import "time"

// Check asks a node for what a job would find there beside Facts. It comes after Hello
// and is answered by Checked, beside everything else.
type Check struct {
	// Dir is looked for; "" is none.
	Dir string
	// Program has the file of Hello's first program read.
	Program bool
	// Patience is how long one file system may take to answer.
	Patience time.Duration
	// Inspect asks for all that package doctor judges; else it is what costs little.
	Inspect bool
	// Environ completes the node's own environment for that, and Python is the interpreter
	// that scripts get where somebody named one.
	Environ []string
	Python  string
}

// Checked answers Check.
type Checked struct {
	// Host is a doctor.Host as JSON, of at most HostLimit bytes.
	Host []byte
}

// HostLimit bounds Checked's Host: that of a large node has some ten thousand bytes.
const HostLimit = 4 << 20
