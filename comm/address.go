package comm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gorun/comm/internal/cpu"
	"gorun/env"
	"gorun/rendezvous/tcpstore"
)

// addressServer sends rank 0's store address to the other ranks of the host. It is used if the launcher sets no
// address, as mpirun and srun on one host do. All ranks are children of one launcher process, so they can compute a
// name that no other job has. The name belongs to an abstract socket, which leaves no file.
//
// Other users can compute the name too, and listen there first. Both ends therefore check the peer's user ID with the
// kernel. If another user has the name, rank 0 appends random characters to it. The other ranks find the longer name in
// /proc/net/unix.
type addressServer struct {
	listener net.Listener // of a Unix socket
	done     sync.WaitGroup
}

const (
	// longestAddress is the maximum size of an answer in bytes.
	longestAddress = 255
	// longestPause is the maximum interval between two attempts to reach rank 0.
	longestPause = 100 * time.Millisecond
)

// neighboursStore returns the store address of a job on one host whose launcher sets none. Rank 0 starts the store.
func (m *meeting) neighboursStore(ctx context.Context, place string) (string, error) {
	if local := m.self.LocalWorldSize; local != 0 && local != m.self.WorldSize {
		return "", fmt.Errorf("the launcher says nothing about where the %d ranks of several hosts can meet: "+
			"give all of them MASTER_ADDR, rank 0's host, and MASTER_PORT, a free port there", m.self.WorldSize)
	}
	name, err := siblingName(os.Geteuid(), place)
	if err != nil {
		return "", fmt.Errorf("ranks without MASTER_ADDR meet by their common parent: %w", err)
	}
	if m.self.Rank != 0 {
		address, err := askAddress(ctx, name)
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
	m.addresses, err = serveAddress(name, address)
	return address, err
}

// unfound adds the reason and a fix to the error of a rank that cannot reach rank 0.
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

// siblingName returns a socket name that only the ranks of one user and one launcher process share. The name includes
// the launcher's start time, because PIDs are reused.
func siblingName(uid int, place string) (string, error) {
	launcher, start, err := launcherOf(env.Inherited(), os.Getppid())
	if err != nil {
		return "", err
	}
	// The user chooses part of place, which can have any length.
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %d %s %s", uid, launcher, start, place))
	return fmt.Sprintf("@gorun-comm-%x", digest[:16]), nil
}

// launcherOf returns the PID and start time of the process that started this rank. It skips ancestors that run as this
// rank themselves, such as a wrapper script (`mpirun sh -c './prog; true'`).
func launcherOf(environ []string, parent int) (pid int, start string, err error) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
		if err != nil {
			return 0, "", err
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // skip PID and command
		// fields 4 and 22 of proc(5), counted from field 3
		const itsParent, startTime = 1, 19
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

// ofRanks lists the prefixes of the variables that identify a rank and its job.
var ofRanks = []string{"RANK=", "WORLD_SIZE=", "OMPI_", "PMIX_", "PMI_", "MPI_", "MV2_", "SLURM_"}

// sameRank reports whether the process has every rank variable of environ, with the same value. A launcher that is
// itself a rank of another job has different values.
func sameRank(environ []string, pid int) bool {
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false // Slurm's processes belong to another user
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

func serveAddress(name, address string) (*addressServer, error) {
	listener, err := listenAs(name)
	if err != nil {
		return nil, err
	}
	s := &addressServer{listener: listener}
	s.done.Go(func() { s.answer(address) })
	return s, nil
}

// listenAs listens on the socket with this name, or on a longer name if another user has taken it.
func listenAs(name string) (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if !errors.Is(err, unix.EADDRINUSE) {
		return listener, err
	}
	if conn, failed := dialSibling(name); failed == nil {
		return nil, errors.Join(fmt.Errorf("another rank 0 of the same launcher is there: %w", err), conn.Close())
	}
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name + "-" + rand.Text()})
}

func (s *addressServer) answer(address string) {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as for lack of descriptors
			time.Sleep(longestPause)
			continue
		}
		if cpu.SameUser(conn.(*net.UnixConn)) == nil {
			conn.SetDeadline(time.Now().Add(asking))
			io.WriteString(conn, address)
		}
		conn.Close()
	}
}

func (s *addressServer) close() {
	s.listener.Close()
	s.done.Wait()
}

// dialSibling connects to a socket if its listener has the same user. It never blocks: a full backlog returns EAGAIN.
func dialSibling(name string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return nil, err
	}
	if err := cpu.SameUser(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// askAddress queries rank 0 until it answers or ctx ends.
func askAddress(ctx context.Context, name string) (string, error) {
	var taken error // the reason why the name cannot be used
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		address, err := addressAt(name)
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			taken = err
		}
		if err != nil && (taken != nil || pause == longestPause) {
			address, err = addressBehind(name)
		}
		if err == nil {
			return address, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if taken != nil {
				return "", fmt.Errorf("%w, and %w", context.Cause(ctx), taken)
			}
			return "", context.Cause(ctx)
		}
	}
}

// addressBehind queries the longer names that rank 0 uses if another user has taken the short one.
func addressBehind(name string) (address string, err error) {
	err = unix.ECONNREFUSED
	for _, longer := range listening(name + "-") {
		if address, err = addressAt(longer); err == nil {
			return address, nil
		}
	}
	return "", err
}

// listening returns the names of this host's listening abstract sockets that start with prefix.
func listening(prefix string) (names []string) {
	table, err := os.Open("/proc/self/net/unix")
	if err != nil {
		return nil
	}
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const flags, path, accepting = 3, 7, "00010000" // __SO_ACCEPTCON
		if len(fields) > path && fields[flags] == accepting && strings.HasPrefix(fields[path], prefix) {
			names = append(names, fields[path])
		}
	}
	return names
}

func addressAt(name string) (string, error) {
	conn, err := dialSibling(name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(asking))
	answer, err := io.ReadAll(io.LimitReader(conn, longestAddress+1))
	if err != nil {
		return "", err
	}
	return addressIn(answer)
}

// addressIn parses rank 0's answer, which must be a port on the loopback interface.
func addressIn(answer []byte) (string, error) {
	address, err := netip.ParseAddrPort(string(answer))
	if len(answer) > longestAddress || err != nil || !address.Addr().IsLoopback() || address.Port() == 0 {
		return "", fmt.Errorf("rank 0 answers %.50q, which is no port of this host", answer)
	}
	return address.String(), nil
}
