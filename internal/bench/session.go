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

// doorVariable names the socket at which ranks ask for tasks.
const doorVariable = "COMMBENCH_DOOR"

// patience is how long ranks may take to come, and to do one task.
const patience = 90 * time.Second

// session is a peer's job whose ranks wait for tasks.
type session struct {
	name     string
	commands []*exec.Cmd
	ended    chan struct{} // when all commands have
	ranks    []net.Conn    // which each hears tasks by and answers
}

// startSession runs commands, which start that many ranks, and returns when all have said hello.
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
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	s := &session{name: name, ended: make(chan struct{}), ranks: make([]net.Conn, ranks)}
	if err = s.launch(commands, path, said, listener); err == nil {
		err = s.receive(listener)
	}
	if err != nil {
		s.close()
		text, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	return s, nil
}

// launch starts the commands. The listener closes when one has ended: then a rank will not come.
func (s *session) launch(commands []*exec.Cmd, path string, said *os.File, listener net.Listener) error {
	var running sync.WaitGroup
	defer func() {
		go func() {
			running.Wait()
			close(s.ended)
		}()
	}()
	for _, command := range commands {
		command.Env = slices.Concat(os.Environ(), []string{doorVariable + "=" + path}, command.Env)
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		command.Stdout, command.Stderr = said, said
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

// receive waits for the ranks' hello.
func (s *session) receive(listener *net.UnixListener) error {
	_ = listener.SetDeadline(time.Now().Add(patience))
	for come := range s.ranks {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("only %d of %d ranks came: %w", come, len(s.ranks), err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
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

// task is one batch.
type task struct {
	operation   string
	bytes       int
	warm, calls int
	shared      int // 1: in memory that the ranks share
}

// answer is what the slowest rank took for it.
type answer struct {
	total, writing time.Duration
	allocations    int
}

// run has all ranks do the task, and checks what each has as a result.
func (s *session) run(t task) (slowest answer, err error) {
	for _, c := range s.ranks {
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := fmt.Fprintln(c, t.operation, t.bytes, t.warm, t.calls, t.shared); err != nil {
			return answer{}, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for rank, c := range s.ranks {
		var one answer
		var first float64
		if _, err := fmt.Fscanln(c, &one.total, &one.writing, &one.allocations, &first); err != nil {
			return answer{}, fmt.Errorf("%s: rank %d gave up %s of %d bytes: %w", s.name, rank, t.operation, t.bytes, err)
		}
		if want, checked := t.first(rank, len(s.ranks)); checked && s.name != raw && first != want {
			return answer{}, fmt.Errorf("%s: rank %d of %d has %g where %s of %d bytes gives %g",
				s.name, rank, len(s.ranks), first, t.operation, t.bytes, want)
		}
		slowest.total, slowest.writing = max(slowest.total, one.total), max(slowest.writing, one.writing)
		slowest.allocations = max(slowest.allocations, one.allocations)
	}
	return slowest, nil
}

// first is what a rank's result begins with after the task, where that follows from what the ranks write.
func (t task) first(rank, ranks int) (want float64, checked bool) {
	value := (t.calls - 1) & 1023 // of rank 0
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

// calibrate finds how many calls make a batch of about the given length. It also warms everything up.
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

// close ends the job: its ranks end when the socket does, what does not is killed after a while.
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
