package output

import "slices"

// The streams of a rank, by the numbers of their descriptors.
const (
	Stdout = 1
	Stderr = 2
)

// streamIndex returns the place of a stream in a table of two.
func streamIndex(stream int) int {
	if stream == Stdout {
		return 0
	}
	return 1
}

// streamName names a stream as users know it.
func streamName(stream int) string {
	if stream == Stdout {
		return "stdout"
	}
	return "stderr"
}

// Streams is a set of streams, with torchrun's numbers: 1 is stdout, 2 is stderr, 3 is both.
type Streams uint8

// Has tells whether the set holds the stream.
func (s Streams) Has(stream int) bool {
	return (stream == Stdout || stream == Stderr) && s&Streams(stream) != 0
}

// StreamMap says which streams of which local ranks, by local rank; ranks beyond its end have none.
type StreamMap []Streams

// Of returns the streams of a local rank.
func (m StreamMap) Of(localRank int) Streams {
	if localRank < len(m) {
		return m[localRank]
	}
	return 0
}

// Empty tells whether the map names no stream of any local rank.
func (m StreamMap) Empty() bool {
	return !slices.ContainsFunc(m, func(s Streams) bool { return s != 0 })
}
