package comm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

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
			return "", fmt.Errorf("rank 0 of this host is not found (without MASTER_ADDR, all ranks must be children of one launcher process): %w", err)
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

// familyName is the same for all children of this process's parent, and for no others: parents are told apart by when they started, too.
func familyName(name string) (string, error) {
	parent := os.Getppid()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the command in front may hold anything
	const startTime = 19                                                      // the 22nd field of proc(5), counted from the 3rd
	if len(fields) <= startTime {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", parent, len(fields))
	}
	return fmt.Sprintf("@gorun-comm-%d-%d-%s-%s", os.Geteuid(), parent, fields[startTime], name), nil
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
