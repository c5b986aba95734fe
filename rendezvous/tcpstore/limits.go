package tcpstore

import (
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what a server takes from its peers. A field that is zero or negative has its default. A peer that goes
// past a limit is disconnected and named in the log.
type Limits struct {
	// Key and Value are the most bytes in a key and in a value of one request; APPEND may make a value longer than
	// that. 64 KiB and 64 MiB.
	Key, Value int
	// Keys is how many keys one request may list. 131,072, as PyTorch's server has it.
	Keys int
	// Memory is how many bytes keys, values, queues, requests that are not whole yet and answers that nobody has read
	// yet may take together. 4 GiB.
	Memory int64
	// Connections is how many there may be at once. Three quarters of the process's descriptors (RLIMIT_NOFILE), at
	// most 65,536: the process has other uses for descriptors.
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

// connectionsFor is how many connections a process with so many descriptors may take, and descriptorsFor the opposite.
func connectionsFor(descriptors uint64) int { return int(min(descriptors/4*3, 64<<10)) }

func descriptorsFor(connections int) int { return (connections + 2) / 3 * 4 }

// descriptors is how many descriptors this process may have.
func descriptors() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what Linux gives when nobody says otherwise
	}
	return limit.Cur
}
