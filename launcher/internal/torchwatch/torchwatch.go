// Package torchwatch looks, once and from outside, whether PyTorch processes of a
// job wait for a store that is not gorun's.
//
// A script that sets MASTER_PORT itself, where the launcher could not read it (in an
// imported module, in a wrapper), makes every rank a client of a port at which nobody
// listens: the launcher's variables say that somebody else serves the store. PyTorch
// is silent about it and gives up after half an hour. The launcher sees only that
// nobody comes to its store; [Check] finds the reason, so that it can suggest
// --store=rank0.
//
// # What can be seen
//
// Observed with PyTorch 2.15 (its socket code is as old as 1.12) on Linux 6.18:
//
//   - A connection to a port of this host where nobody listens is refused within the
//     system call: it is in SYN_SENT for microseconds, every 0.3 s at first and every
//     10 s later. /proc/net/tcp practically never shows it.
//   - But PyTorch closes the socket of a refused attempt only when it makes the next
//     one. While it sleeps, which is nearly always, the process holds a TCP socket
//     that is in no connection at all: its inode is in /proc/PID/fd and in none of
//     the tables of /proc/PID/net. That it is a TCP socket tells the extended
//     attribute system.sockprotoname, which needs no more rights than reading the
//     link. No other socket of PyTorch is like that for long. Its port is forgotten
//     by the kernel.
//   - A connection to a host that does not answer stays in SYN_SENT for minutes.
//   - A process that hosts a store has a thread pt_tcpstore_uv (or pt_tcpstore, for
//     the older server). Other listening sockets, of a model server or a profiler, say
//     nothing. Most hosts are no problem either: a script with its own tcp:// address
//     works. So a host counts only while no other process is connected to it though
//     the job has several with PyTorch in them.
//
// Two looks must agree, half a second apart.
package torchwatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// State is what a process does about a store that is not gorun's.
type State uint8

const (
	// Refused: it tries again and again to reach a port where nobody listens.
	Refused State = iota
	// Connecting: it waits for a host that does not answer.
	Connecting
	// Hosting: it serves a store that nobody has come to.
	Hosting
)

// Finding is a PyTorch process that looks for another store.
type Finding struct {
	PID   int
	State State
	// Port is the TCP port; 0 with Refused, of which the kernel keeps no trace.
	Port uint16
}

// Hint is the line for the user.
func (f Finding) Hint() string {
	return "no rank has come to gorun's store yet, and " + f.String() +
		"; if the program sets MASTER_PORT itself, --store=rank0 leaves the store to its rank 0"
}

// String says what was seen.
func (f Finding) String() string {
	switch f.State {
	case Connecting:
		return fmt.Sprintf("process %d gets no answer from port %d of another store", f.PID, f.Port)
	case Hosting:
		return fmt.Sprintf("process %d hosts a store of its own at port %d, which nobody has come to", f.PID, f.Port)
	default:
		return fmt.Sprintf("process %d keeps trying to reach a store where nobody listens", f.PID)
	}
}

// pause is the time between the two looks.
const pause = 500 * time.Millisecond

// Check looks at the ranks with these process ids and at all processes of the sessions
// that they lead. ours are TCP ports that gorun itself listens at. It takes a good half
// second; processes that it may not look at, or that end meanwhile, are passed over.
func Check(pids []int, ours []uint16) (Finding, bool) {
	first := look(pids, ours)
	if len(first) == 0 {
		return Finding{}, false
	}
	time.Sleep(pause)
	for _, f := range look(pids, ours) {
		if slices.Contains(first, f) {
			return f, true
		}
	}
	return Finding{}, false
}

// look returns what is to be seen now, the most telling first.
func look(pids []int, ours []uint16) []Finding {
	var torch []process
	for _, pid := range inSessions(pids) {
		if mapsTorch(pid) {
			torch = append(torch, process{pid: pid, sockets: socketsOf(pid)})
		}
	}
	tables := tableCache{}
	var found []Finding
	for _, p := range torch {
		found = append(found, p.findings(tables.of(p.pid), ours, len(torch) > 1)...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.State, b.State) })
	return found
}

// process is a process with PyTorch in it.
type process struct {
	pid     int
	sockets []socket
}

// findings judges the sockets of p. The table must have been read after them: a socket
// that was closed in between is told by its descriptor, a new one could not be.
func (p process) findings(connections table, ours []uint16, several bool) []Finding {
	var found []Finding
	hosts := several && hostsStore(p.pid)
	for _, s := range p.sockets {
		c, listed := connections[s.inode]
		switch {
		case !listed:
			if p.isUnconnectedTCP(s) {
				found = append(found, Finding{PID: p.pid, State: Refused})
			}
		case c.State == unix.BPF_TCP_SYN_SENT && !slices.Contains(ours, c.Remote.Port()):
			found = append(found, Finding{p.pid, Connecting, c.Remote.Port()})
		case c.State == unix.BPF_TCP_LISTEN && hosts && !slices.Contains(ours, c.Local.Port()) &&
			!p.isServing(c.Local.Port(), connections):
			found = append(found, Finding{p.pid, Hosting, c.Local.Port()})
		}
	}
	return found
}

// isServing reports whether another process is connected to the port that p listens
// at: one of this host has a socket of its own in the table, of one elsewhere only p's
// end is there. A host is a client of its own store, too, with both ends.
func (p process) isServing(port uint16, connections table) bool {
	surplus := 0
	for inode, c := range connections {
		if c.State != unix.BPF_TCP_ESTABLISHED {
			continue
		}
		own := slices.ContainsFunc(p.sockets, func(s socket) bool { return s.inode == inode })
		switch {
		case c.Remote.Port() == port && !own:
			return true
		case c.Remote.Port() == port:
			surplus--
		case c.Local.Port() == port && own:
			surplus++
		}
	}
	return surplus > 0
}
