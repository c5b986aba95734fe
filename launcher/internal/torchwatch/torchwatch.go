// Package torchwatch detects PyTorch processes of a job that wait for a store other than gorun's.
//
// If a script sets MASTER_PORT itself where the launcher cannot read it (in an imported module, in a wrapper), every
// rank becomes a client of a port without a listener: the launcher's variables say that another process serves the
// store. PyTorch logs nothing and gives up after half an hour. The launcher only sees that its store has no clients;
// [Check] finds the reason, so that it can suggest --store=rank0.
//
// # Observations from outside the process
//
// Observed with PyTorch 2.15 (its socket code is unchanged since 1.12) on Linux 6.18:
//
//   - A connection to a port of this host without a listener is refused within the system call: it is in SYN_SENT for
//     microseconds, every 0.3 s at first and every 10 s later. /proc/net/tcp practically never shows it.
//   - But PyTorch closes the socket of a refused attempt only on the next one. While it sleeps, which is nearly always,
//     the process holds a TCP socket without a connection: its inode is in /proc/PID/fd but not in the tables of
//     /proc/PID/net. The extended attribute system.sockprotoname, which is as accessible as the link, identifies it as
//     TCP. No other socket of PyTorch is in this state for long. The kernel does not keep its port.
//   - A connection to a host that does not answer stays in SYN_SENT for minutes.
//   - A process that hosts a store has a thread pt_tcpstore_uv (or pt_tcpstore, for the older server). Other listening
//     sockets, of a model server or a profiler, mean nothing. A store host is usually fine, too: a script with its own
//     tcp:// address works. So it counts only if several processes of the job use PyTorch and none of the others is
//     connected to it.
//
// Two observations, half a second apart, must agree.
package torchwatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// State is how a process uses a store other than gorun's.
type State uint8

const (
	// Refused means that it keeps connecting to a port without a listener.
	Refused State = iota
	// Connecting means that it waits for a host that does not answer.
	Connecting
	// Hosting means that it serves a store without clients.
	Hosting
)

// Finding is a PyTorch process that uses another store.
type Finding struct {
	PID   int
	State State
	// Port is the TCP port, 0 with Refused.
	Port uint16
}

// Notice returns the line for the user.
func (f Finding) Notice() string {
	return "no rank has come to gorun's store yet, and " + f.String() +
		"; if the program sets MASTER_PORT itself, add `--store=rank0`"
}

// String describes what was observed.
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

// pause is the time between the two observations.
const pause = 500 * time.Millisecond

// Check inspects the ranks with these process IDs and all processes of the sessions that they lead. ours are the TCP
// ports that gorun listens on. It takes half a second, and skips processes that it may not inspect or that end
// meanwhile.
func Check(pids []int, ours []uint16) (Finding, bool) {
	first := observe(pids, ours)
	if len(first) == 0 {
		return Finding{}, false
	}
	time.Sleep(pause)
	for _, f := range observe(pids, ours) {
		if slices.Contains(first, f) {
			return f, true
		}
	}
	return Finding{}, false
}

// observe returns the present findings, the most telling first.
func observe(pids []int, ours []uint16) []Finding {
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

// process is a process that has loaded PyTorch.
type process struct {
	pid     int
	sockets []socket
}

// findings classifies the sockets of p. The table must have been read after the sockets: one that was closed in
// between is recognized by its descriptor, a new one would not be.
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

// isServing reports whether another process is connected to the port that p listens on. A client on this host has its
// own socket in the table; of a remote client there is only p's end. p is a client of its own store, too, with both
// ends.
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
