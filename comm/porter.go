package comm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorun/env"
	"gorun/rendezvous/tcpstore"
)

// porter tells the ranks of a host where rank 0 serves the store, when a launcher started them that names no address: mpirun and srun on one host. All
// are children of one process of the launcher, and so know a name that no other job has: an abstract socket's, which leaves no file.
type porter struct {
	listener *net.UnixListener
	done     sync.WaitGroup
}

// neighboursStore finds the store of a job on one host whose launcher named none; rank 0 serves it.
func (m *meeting) neighboursStore(ctx context.Context, name string) (string, error) {
	if local := m.self.LocalWorldSize; local != 0 && local != m.self.WorldSize {
		return "", fmt.Errorf("the launcher says nothing about where the %d ranks of several hosts can meet: "+
			"give all of them MASTER_ADDR, rank 0's host, and MASTER_PORT, a free port there", m.self.WorldSize)
	}
	door, err := familyName(name)
	if err != nil {
		return "", fmt.Errorf("ranks without MASTER_ADDR meet by their common parent: %w", err)
	}
	if m.self.Rank != 0 {
		address, err := askPorter(ctx, door)
		if err != nil {
			return "", m.unfound(err)
		}
		return address, nil
	}
	server, err := tcpstore.Listen(tcpstore.Config{})
	if err != nil {
		return "", err
	}
	m.server = server
	address := server.Addr().String()
	m.porter, err = openPorter(door, address)
	return address, err
}

// unfound explains that rank 0 has no door.
func (m *meeting) unfound(err error) error {
	text := "rank 0 did not come"
	if m.name != "" {
		text += fmt.Sprintf(" to the group with the name %q", m.name)
	}
	lack := lacking()
	if lack == "" {
		lack = "MASTER_ADDR and MASTER_PORT are not set"
	}
	return fmt.Errorf("%s: %w; %s, so ranks look for each other as children of one launcher process: "+
		"in a wrapper script start the program by `exec ./prog`, or set both", text, err, lack)
}

// familyName is the same for all ranks that one process started, and for no others. Processes are told apart by when they started, too.
func familyName(name string) (string, error) {
	launcher, start, err := launcherOf(env.Inherited(), os.Getppid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("@gorun-comm-%d-%d-%s-%s", os.Geteuid(), launcher, start, name), nil
}

// launcherOf is the process that started this rank, and when that was started: the nearest of its forebears that was not itself started as this rank,
// as a wrapper script is (`mpirun sh -c './prog; true'`).
func launcherOf(environ []string, parent int) (pid int, start string, err error) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
		if err != nil {
			return 0, "", err
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the command in front may hold anything
		const itsParent, startTime = 1, 19                                        // the 4th and 22nd field of proc(5), counted from the 3rd
		if len(fields) <= startTime {
			return 0, "", fmt.Errorf("/proc/%d/stat has %d fields", parent, len(fields))
		}
		next, err := strconv.Atoi(fields[itsParent])
		if err != nil || next < 1 || !sameRank(environ, parent) {
			return parent, fields[startTime], nil
		}
		parent = next
	}
}

// ofRanks is what the variables begin with by which launchers tell a rank who it is, and whose job.
var ofRanks = []string{"RANK=", "WORLD_SIZE=", "OMPI_", "PMIX_", "PMI_", "MPI_", "MV2_", "SLURM_"}

// sameRank says whether the process was started with every such variable of environ. A launcher that was itself started as a rank, of another job, has
// others.
func sameRank(environ []string, pid int) bool {
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false // another user's, as Slurm's are
	}
	theirs, found := strings.Split(string(block), "\x00"), false
	for _, entry := range environ {
		if !slices.ContainsFunc(ofRanks, func(prefix string) bool { return strings.HasPrefix(entry, prefix) }) {
			continue
		}
		if !slices.Contains(theirs, entry) {
			return false
		}
		found = true
	}
	return found
}

func openPorter(door, address string) (*porter, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: door})
	if err != nil {
		return nil, err
	}
	p := &porter{listener: listener}
	p.done.Go(func() { p.answer(address) })
	return p, nil
}

func (p *porter) answer(address string) {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		conn.SetDeadline(time.Now().Add(asking))
		io.WriteString(conn, address)
		conn.Close()
	}
}

func (p *porter) close() {
	p.listener.Close()
	p.done.Wait()
}

// askPorter asks until rank 0 has opened the door or ctx ends.
func askPorter(ctx context.Context, door string) (string, error) {
	var dialer net.Dialer
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		conn, err := dialer.DialContext(ctx, "unix", door)
		if err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(asking))
			address, err := io.ReadAll(conn)
			return string(address), err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
