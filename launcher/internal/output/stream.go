package output

import (
	"slices"

	"gorun/launcher/internal/spec"
)

// The streams of a rank, by the numbers of their descriptors.
const (
	Stdout = 1
	Stderr = 2
)

// streamIndex returns the index of a stream in an array of two.
func streamIndex(stream int) int {
	if stream == Stdout {
		return 0
	}
	return 1
}

// streamName returns a stream's name for users.
func streamName(stream int) string {
	if stream == Stdout {
		return "stdout"
	}
	return "stderr"
}

// StreamMap is a set of streams by local rank; ranks beyond its end have none.
type StreamMap []spec.Streams

// Of returns the streams of a local rank.
func (m StreamMap) Of(localRank int) spec.Streams {
	if localRank < len(m) {
		return m[localRank]
	}
	return 0
}

// Empty reports whether no local rank has a stream.
func (m StreamMap) Empty() bool {
	return !slices.ContainsFunc(m, func(s spec.Streams) bool { return s != 0 })
}
