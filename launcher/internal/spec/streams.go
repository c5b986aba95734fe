package spec

import "strconv"

// Streams is a set of a rank's output streams, with torchrun's numbers: 1 is standard output, 2 is standard error,
// 3 is both.
type Streams uint8

// Sets of one stream.
const (
	Stdout Streams = 1
	Stderr Streams = 2
)

// MarshalJSON returns torchrun's number. Without it, encoding/json would take a list of sets for bytes.
func (s Streams) MarshalJSON() ([]byte, error) { return strconv.AppendUint(nil, uint64(s), 10), nil }

// Has reports whether a stream, 1 or 2, is in the set.
func (s Streams) Has(stream int) bool {
	return (stream == int(Stdout) || stream == int(Stderr)) && s&Streams(stream) != 0
}
