package cpu

import (
	"time"

	"gorun/comm/internal/backend"
)

// Config describes a rank and the group that it joins.
type Config struct {
	Rank, Ranks int
	// Job contains each rank's number in the job, for errors. It is nil if the numbers are the same.
	Job      []int
	Exchange backend.Exchange
	// Timeout limits each wait for another rank in a call. 0 means no limit.
	Timeout time.Duration
	// FirstCall is the sequence number that the group starts from. Tests set it close to the overflow.
	FirstCall uint64

	// Note is sent to all ranks in Join: see [Backend.Notes].
	Note string

	// Key authenticates ranks on different hosts to each other. It has at least KeySize bytes. It can be nil if all
	// ranks are on one host.
	Key []byte
	// Near is an address that all hosts can reach, "host:port": the store's. Connections prefer the network interfaces
	// that lead to it.
	Near string
	// Host is for tests. Ranks with different names count as ranks on different hosts, which the loopback device
	// connects.
	Host string
}
