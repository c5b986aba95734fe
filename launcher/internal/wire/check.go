package wire

import "time"

// Check requests what a job would find on a node beside Facts. It follows Hello; Checked answers it.
type Check struct {
	// Dir is a directory to look for; "" is no directory.
	Dir string
	// Program requests to read the file of Hello's first program.
	Program bool
	// Patience is how long one file system may take to answer.
	Patience time.Duration
	// Quick requests devices, limits and disk space alone, and not everything that package doctor judges. Limit is how
	// long all but file systems may take.
	Quick bool
	Limit time.Duration
	// Environ completes the node's own environment, and Python is the interpreter to use if the user named one.
	Environ []string
	Python  string
}

// Checked answers Check.
type Checked struct {
	// Host is a doctor.Host as JSON, of at most HostLimit bytes.
	Host []byte
}

// HostLimit bounds Checked.Host: that of a large node has some ten thousand bytes.
const HostLimit = 4 << 20
