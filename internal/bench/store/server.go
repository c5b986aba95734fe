package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/bench"
)

// server is one store that runs.
type server struct {
	name    string
	addr    netip.AddrPort
	opening float64 // seconds that it took to open
	command *exec.Cmd
	output  io.ReadCloser
	said    chan struct{} // closed at the end of its output
}

// pair is gorun's store and PyTorch's.
type pair [2]*server

const torchScript = "internal/bench/store/torchstore.py"

func startPair(p *bench.Programs, names string) (pair, error) {
	if p.Python == "" {
		return pair{}, errors.New("no .venv/bin/python: .ci/setup makes it")
	}
	ours, err := startServer("gorun", names, p.Gorun, "store", "--listen", "127.0.0.1:0")
	if err != nil {
		return pair{}, err
	}
	theirs, err := startServer("libuv", names, p.Python, torchScript)
	if err != nil {
		ours.end()
		return pair{}, err
	}
	return pair{ours, theirs}, nil
}

// startServer starts a server that prints its address as its first line, and waits for that. Behind the address may stand how many
// seconds the opening took; else all since the start counts.
func startServer(name, names string, argv ...string) (*server, error) {
	command := under(names, argv)
	command.Stderr = os.Stderr
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the store of %s: %w", name, err)
	}
	s := &server{name: name, command: command, output: output, said: make(chan struct{})}
	lines := bufio.NewScanner(output)
	lines.Scan()
	address, opening, _ := strings.Cut(lines.Text(), " ")
	go func() {
		_, _ = io.Copy(io.Discard, output)
		close(s.said)
	}()
	if s.addr, err = netip.ParseAddrPort(address); err != nil {
		s.end()
		return nil, fmt.Errorf("the store of %s (%v) should say its address first: it said %q", name, argv, lines.Text())
	}
	if s.opening, err = strconv.ParseFloat(opening, 64); err != nil {
		s.opening = time.Since(begin).Seconds()
	}
	return s, nil
}

// spec names the server to storeload.
func (s *server) spec() string { return fmt.Sprintf("%v:%d", s.addr, s.pid()) }

func (s *server) pid() int { return s.command.Process.Pid }

// memory is what the process holds now, in KiB.
func (s *server) memory() (int, error) {
	memory, err := bench.MemoryOf(s.pid())
	return memory.Now, err
}

// end asks the server to end, and makes it after a while.
func (s *server) end() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(10*time.Second, func() { _ = s.command.Process.Kill() })
	defer forced.Stop()
	<-s.said
	_ = s.command.Wait()
}

func (p pair) end() {
	for _, s := range p {
		s.end()
	}
}

// settle waits until neither server has anything to do: closing the connections of one measurement must not be part of the next.
func (p pair) settle() error {
	const pause, idle, most = 20 * time.Millisecond, 500 * time.Microsecond, 500
	for range most {
		before, err := p.cpu()
		if err != nil {
			return err
		}
		time.Sleep(pause)
		after, err := p.cpu()
		if err != nil || after-before < idle {
			return err
		}
	}
	return fmt.Errorf("the servers do not come to rest within %v", most*pause)
}

// cpu is the CPU time that both have taken.
func (p pair) cpu() (sum time.Duration, err error) {
	for _, s := range p {
		var spent unix.Timespec
		if err := unix.ClockGettime(cpuClock(s.pid()), &spent); err != nil {
			return 0, fmt.Errorf("read the CPU time of the store of %s (process %d): %w", s.name, s.pid(), err)
		}
		sum += time.Duration(spent.Nano())
	}
	return sum, nil
}

// cpuClock is the clock of a process's utime and stime in nanoseconds, as clock_getcpuclockid(3) has it.
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }
