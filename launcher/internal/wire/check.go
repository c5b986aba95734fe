package wire

import "time"

// Check asks a node for what a job would find there beside Facts. It comes after Hello
// and is answered by Checked, beside everything else.
type Check struct {
	// Dir is looked for; "" is none.
	Dir string
	// Programs has the files of Hello's programs read, the first Most bytes of each.
	Programs bool
	Most     int64
	// Patience is how long one file system may take to answer.
	Patience time.Duration
	// Inspect asks for Checked's Host, too: what package doctor judges.
	Inspect bool
	// Environ completes the node's own environment for that, and Python is the interpreter
	// that scripts get where somebody named one.
	Environ []string
	Python  string
}

// Checked answers Check.
type Checked struct {
	Version      string // gorun's
	Executable   string // its file
	Kernel       string // "6.8.0-45-generic"
	Architecture string // "x86_64"
	Dir          string // what is wrong with Check's directory; "": nothing
	Rooms        []Room
	Limits       []Limit
	Files        []Sum // by program
	InfiniBand   bool  // there are such adapters
	// Host is a doctor.Host as JSON, of at most HostLimit bytes; nil unless it was asked for.
	Host []byte
}

// HostLimit bounds Checked's Host: that of a large node has some ten thousand bytes.
const HostLimit = 4 << 20

// Room is the free space of a directory that a job needs.
type Room struct {
	Purpose string // "cache", "temporary files"
	Path    string
	Free    int64 // bytes, for this user
	Total   int64
	Error   string
}

// Limit is a limit of what ranks may take, -1: none.
type Limit struct {
	Name string // as ulimit and limits.conf call it: "memlock"
	Soft int64
	Hard int64
}

// Sum tells whether two files are the same.
type Sum struct {
	Path   string
	Size   int64
	SHA256 string // of its first bytes, hexadecimal
	Error  string
}
