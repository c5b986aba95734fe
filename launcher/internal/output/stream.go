package output

import (
	"fmt"
	"strconv"
	"strings"
)

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

// StreamMap is the value of torchrun's --redirects and --tee: which streams of which local ranks. Its zero value is none.
type StreamMap struct {
	all     Streams
	byLocal map[int]Streams // nil when all local ranks have the same streams
}

// ParseStreams reads the value of --redirects or --tee: one of 0, 1, 2, 3 for all local ranks, or RANK:VALUE pairs with
// commas, where ranks left out have 0 and the last of two values for a rank counts, as in torchrun. Unlike torchrun it
// takes local ranks of several digits. Empty text is 0.
func ParseStreams(s string) (StreamMap, error) {
	if s == "" {
		return StreamMap{}, nil
	}
	if !strings.Contains(s, ":") {
		all, ok := parseStreamSet(s)
		if !ok {
			return StreamMap{}, fmt.Errorf("streams %q: want 0, 1 (stdout), 2 (stderr), 3 (both), or pairs such as 0:3,1:1", s)
		}
		return StreamMap{all: all}, nil
	}
	m := StreamMap{byLocal: make(map[int]Streams)}
	for pair := range strings.SplitSeq(s, ",") {
		local, value, ok := strings.Cut(pair, ":")
		rank, isRank := parseLocalRank(local)
		streams, isSet := parseStreamSet(value)
		if !ok || !isRank || !isSet {
			return StreamMap{}, fmt.Errorf("streams %q: %q is no pair LOCAL_RANK:VALUE with a value of 0, 1 (stdout), 2 (stderr) or 3 (both)", s, pair)
		}
		m.byLocal[rank] = streams
	}
	return m, nil
}

// Of returns the streams of a local rank.
func (m StreamMap) Of(localRank int) Streams {
	if m.byLocal != nil {
		return m.byLocal[localRank]
	}
	return m.all
}

// Empty tells whether the map names no stream of any local rank.
func (m StreamMap) Empty() bool {
	for _, s := range m.byLocal {
		if s != 0 {
			return false
		}
	}
	return m.all == 0
}

// parseStreamSet reads one digit from 0 to 3.
func parseStreamSet(s string) (Streams, bool) {
	if len(s) != 1 || s[0] < '0' || s[0] > '3' {
		return 0, false
	}
	return Streams(s[0] - '0'), true
}

// parseLocalRank reads a rank: digits alone, no sign.
func parseLocalRank(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// StreamMapOf makes a StreamMap of the streams of each local rank.
func StreamMapOf(byLocal map[int]Streams) StreamMap { return StreamMap{byLocal: byLocal} }
