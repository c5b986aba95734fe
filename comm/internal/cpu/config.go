package cpu

import (
	"time"

	"gorun/comm/internal/backend"
)

// Config says who joins which group.
type Config struct {
	Rank, Ranks int
	// Job is, by rank, its number in the job, for errors; nil where that is the same.
	Job      []int
	Exchange backend.Exchange
	// Timeout is how long a rank may be waited for within a call, 0 for ever.
	Timeout time.Duration
	// Lost, if set, is told in a goroutine of its own when a rank's process ended.
	Lost func(rank int)
	// FirstCall is the sequence number before the first call's: tests begin near its wrap.
	FirstCall uint64

	// Note is told to all ranks when they meet: see [Backend.Notes].
	Note string

	// Key is what ranks of different hosts prove to each other that they have, of at least KeySize bytes; nil where all
	// are on one host.
	Key []byte
	// Near is an address that all hosts reach, "host:port": where the ranks met. Interfaces that lead there are preferred.
	Near string
	// Host makes ranks with different names count as such on different hosts, connected by the loopback device. It is
	// for tests.
	Host string
}
