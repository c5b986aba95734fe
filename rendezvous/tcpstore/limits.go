package tcpstore

import (
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound what a server takes from its peers. A field that is zero or negative means its default. A peer that
// exceeds a limit is disconnected, which is logged.
type Limits struct {
	// Key and Value bound a key and a value of one request, in bytes; APPEND may make a value longer. 64 KiB and 64 MiB.
	Key, Value int
	// Keys bounds the keys of one request. 131,072, as in PyTorch's server.
	Keys int
	// Memory bounds the bytes of keys, values, queues, incomplete requests and unread replies together. 4 GiB.
	Memory int64
	// Connections bounds the open connections. Three quarters of the process's descriptors (RLIMIT_NOFILE), at most
	// 262,144, since the process needs others.
	Connections int
	// Greeting is how long a peer may take to show that it is a client. 30 s.
	Greeting time.Duration
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.Key, 64<<10)
	orDefault(&l.Value, 64<<20)
	orDefault(&l.Keys, 128<<10)
	orDefault(&l.Memory, 4<<30)
	orDefault(&l.Greeting, 30*time.Second)
	if l.Connections <= 0 {
		l.Connections = connectionsFor(descriptors())
	}
	return l
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// connectionsFor returns how many connections a process with that number of descriptors may take; descriptorsFor is its
// inverse.
func connectionsFor(descriptors uint64) int { return int(min(descriptors/4*3, 256<<10)) }

func descriptorsFor(connections int) int { return (connections + 2) / 3 * 4 }

// descriptors returns the limit on this process's descriptors.
func descriptors() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // Linux's default
	}
	return limit.Cur
}
