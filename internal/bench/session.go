package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// socketVariable names the socket from which ranks get tasks.
const socketVariable = "COMMBENCH_SOCKET"

// rankTimeout bounds how long ranks take to connect, and to do one task.
const rankTimeout = 90 * time.Second

// session is a job of a peer. Its ranks wait for tasks.
type session struct {
	name     string
	commands []*exec.Cmd
	ended    chan struct{} // closed when all commands have ended
	ranks    []net.Conn
}

// startSession runs commands that start ranks, and returns when all ranks have connected.
func startSession(dir, name string, ranks int, commands ...*exec.Cmd) (*session, error) {
	dir, err := os.MkdirTemp(dir, "ranks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	s := &session{name: name, ended: make(chan struct{}), ranks: make([]net.Conn, ranks)}
	if err = s.launch(commands, path, output, listener); err == nil {
		err = s.accept(listener)
	}
	if err != nil {
		s.close()
		text, _ := os.ReadFile(output.Name())
		return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	return s, nil
}

// launch starts the commands. It closes the listener when one ends, since its ranks can no longer connect.
func (s *session) launch(commands []*exec.Cmd, path string, output *os.File, listener net.Listener) error {
	var running sync.WaitGroup
	defer func() {
		go func() {
			running.Wait()
			close(s.ended)
		}()
	}()
	for _, command := range commands {
		command.Env = slices.Concat(os.Environ(), []string{socketVariable + "=" + path}, command.Env)
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		command.Stdout, command.Stderr = output, output
		if err := command.Start(); err != nil {
			return err
		}
		s.commands = append(s.commands, command)
		running.Go(func() {
			_ = command.Wait()
			listener.Close()
		})
	}
	return nil
}

// accept waits for the ranks' connections.
func (s *session) accept(listener *net.UnixListener) error {
	_ = listener.SetDeadline(time.Now().Add(rankTimeout))
	for connected := range s.ranks {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("only %d of %d ranks came: %w", connected, len(s.ranks), err)
		}
		_ = conn.SetDeadline(time.Now().Add(rankTimeout))
		var hello string
		var rank, pid, at int
		_, err = fmt.Fscanln(conn, &hello, &rank, &pid, &at)
		if err == nil && (rank < 0 || rank >= len(s.ranks) || s.ranks[rank] != nil) {
			err = errors.New("that rank is taken, or out of range")
		}
		if err != nil {
			conn.Close()
			return fmt.Errorf("a rank said hello as rank %d: %w", rank, err)
		}
		s.ranks[rank] = conn
	}
	return nil
}

// task is a batch of calls.
type task struct {
	operation   string
	bytes       int
	warm, calls int
	shared      int // 1: the memory is the ranks' shared memory
}

// timing is the duration of a task.
type timing struct {
	total, writing time.Duration
	allocations    int
}

// run has all ranks do the task, checks their results, and returns the time of the slowest.
func (s *session) run(t task) (slowest timing, err error) {
	for _, c := range s.ranks {
		_ = c.SetDeadline(time.Now().Add(rankTimeout))
		if _, err := fmt.Fprintln(c, t.operation, t.bytes, t.warm, t.calls, t.shared); err != nil {
			return timing{}, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for rank, c := range s.ranks {
		var one timing
		var first float64
		if _, err := fmt.Fscanln(c, &one.total, &one.writing, &one.allocations, &first); err != nil {
			return timing{}, fmt.Errorf("%s: rank %d gave up %s of %d bytes: %w", s.name, rank, t.operation, t.bytes, err)
		}
		if want, checked := t.expect(rank, len(s.ranks)); checked && first != want {
			return timing{}, fmt.Errorf("%s: rank %d of %d has %g where %s of %d bytes gives %g",
				s.name, rank, len(s.ranks), first, t.operation, t.bytes, want)
		}
		slowest.total, slowest.writing = max(slowest.total, one.total), max(slowest.writing, one.writing)
		slowest.allocations = max(slowest.allocations, one.allocations)
	}
	return slowest, nil
}

// expect returns the expected first element of a rank's result, if the ranks' writes determine it.
func (t task) expect(rank, ranks int) (want float64, checked bool) {
	value := (t.calls - 1) & 1023 // value that rank 0 writes before the last call
	switch t.operation {
	case "allreduce", "reduce", "reducescatter":
		return float64(ranks*value + ranks*(ranks-1)/2), rank == 0 || t.operation == "allreduce"
	case "broadcast", "allgather", "alltoall":
		return float64(value), rank == 0 || t.operation != "alltoall"
	case "pingpong":
		return float64(value + ranks - 1 - rank), rank == 0 || rank == ranks-1
	case "sendrecv":
		return float64(value + (rank+ranks-1)%ranks), true
	}
	return 0, false
}

// calibrate finds how many calls take about the given time. It also warms up caches and connections.
func (s *session) calibrate(t task, length time.Duration) (calls int, err error) {
	const most = 100_000
	calls = 1
	for range 6 {
		t.calls, t.warm = calls, 1
		a, err := s.run(t)
		if err != nil {
			return 0, fmt.Errorf("%d ranks: %w", len(s.ranks), err)
		}
		fit := int(float64(calls) * float64(length) / float64(max(a.total, 1)))
		if a.total >= length/2 || calls == most {
			return max(min(fit, most), 1), nil
		}
		calls = max(min(fit, 16*calls, most), calls)
	}
	return calls, nil
}

// close ends the job by closing its ranks' connections. It kills commands that do not end.
func (s *session) close() {
	for _, c := range s.ranks {
		if c != nil {
			c.Close()
		}
	}
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		for _, command := range s.commands {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
		<-s.ended
	}
}
