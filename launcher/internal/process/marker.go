package process

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/env"
)

// MarkerVar is the environment variable that holds the [Marker] in every process of a job.
const MarkerVar = env.VarJob

// Marker is the value of [MarkerVar]: the ids of all jobs that a process belongs to, outermost first, separated by
// colons. A rank that starts a job passes its marker on, so the end of the outer job ends the inner one, and not the
// other way round.
type Marker string

// NewJobID returns a job's id: 128 random bits in hex. It cannot be guessed, so a process that has it got it from the
// job.
func NewJobID() (string, error) {
	var id [16]byte
	if _, err := unix.Getrandom(id[:], 0); err != nil {
		return "", fmt.Errorf("make a job id: getrandom: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// With returns the marker of a job started by a process with marker m.
func (m Marker) With(id string) Marker {
	if m == "" {
		return Marker(id)
	}
	return m + ":" + Marker(id)
}

// Has reports whether a process with marker m belongs to job id.
func (m Marker) Has(id string) bool {
	return id != "" && slices.Contains(strings.Split(string(m), ":"), id)
}
