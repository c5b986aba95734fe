package process

import (
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/env"
)

// MarkerVar names the environment variable in which every process of a job
// carries the job's [Marker].
const MarkerVar = env.VarJob

// Marker is the value of [MarkerVar]: the ids of all jobs that a process
// belongs to, the outermost first, parted by colons. A rank that starts a job
// of its own hands its marker down to it, so the end of the outer job takes the
// inner one along and not the other way round.
type Marker string

// NewJobID returns a job's name for the life of a host: 128 random bits in hex.
// Nobody can guess it, so what carries it got it from the job.
func NewJobID() (string, error) {
	var id [16]byte
	if _, err := unix.Getrandom(id[:], 0); err != nil {
		return "", fmt.Errorf("make a job id: getrandom: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// With returns the marker of a job that is started by a process with marker m.
func (m Marker) With(id string) Marker {
	if m == "" {
		return Marker(id)
	}
	return m + ":" + Marker(id)
}

// Has reports whether a process with marker m belongs to job id.
func (m Marker) Has(id string) bool {
	if id == "" {
		return false
	}
	for one := range strings.SplitSeq(string(m), ":") {
		if one == id {
			return true
		}
	}
	return false
}
