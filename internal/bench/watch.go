package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is what a process holds, in KiB, from /proc/PID/status.
type Memory struct {
	Now  int // VmRSS
	Peak int // VmHWM
}

// MemoryOf reads it; a process that has ended has none.
func MemoryOf(pid int) (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var memory Memory
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			memory.Now, err = strconv.Atoi(fields[1])
		case "VmHWM:":
			memory.Peak, err = strconv.Atoi(fields[1])
		}
		if err != nil {
			return Memory{}, err
		}
	}
	if memory.Now == 0 {
		return Memory{}, fmt.Errorf("process %d has ended", pid)
	}
	return memory, nil
}

// Standing is a launcher whose ranks all stand still.
type Standing struct {
	command *exec.Cmd
	output  io.ReadCloser
}

// Stand starts argv, a launcher of that many copies of the program stand, and returns when all have said that they are there.
func Stand(argv []string, ranks int, limit time.Duration) (*Standing, error) {
	command := exec.Command(argv[0], argv[1:]...)
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &Standing{command, output}
	// A launcher that never gets all its ranks up must not hold the others up: its end closes the pipe.
	expired := time.AfterFunc(limit, func() { _ = command.Process.Kill() })
	defer expired.Stop()
	lines := bufio.NewScanner(output)
	for here := 0; here < ranks; here++ {
		if !lines.Scan() {
			s.End()
			return nil, fmt.Errorf("%s: only %d of %d ranks came up", argv[0], here, ranks)
		}
	}
	return s, nil
}

// Memory returns what the launcher itself holds, and the sum of its helper processes: its descendants that are not ranks.
func (s *Standing) Memory(rank string) (launcher, helpers Memory, err error) {
	if launcher, err = MemoryOf(s.command.Process.Pid); err != nil {
		return
	}
	for _, pid := range Descendants(s.command.Process.Pid) {
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		memory, err := MemoryOf(pid)
		if err == nil && program != rank {
			helpers.Now += memory.Now
			helpers.Peak += memory.Peak
		}
	}
	return launcher, helpers, nil
}

// CPU returns the CPU time that the launcher itself and its helpers, all of its descendants, have taken so far. Of those of a job
// on other hosts none is a rank.
func (s *Standing) CPU() (time.Duration, error) {
	all, err := cpuTime(s.command.Process.Pid)
	for _, pid := range Descendants(s.command.Process.Pid) {
		helper, _ := cpuTime(pid) // it may have ended
		all += helper
	}
	return all, err
}

// cpuTime reads a process's clock, whose number clock_getcpuclockid(3) makes of its id.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &now)
	return time.Duration(now.Nano()), err
}

// End asks the launcher to end its job, and makes it after a while.
func (s *Standing) End() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(15*time.Second, func() { _ = s.command.Process.Kill() })
	defer forced.Stop()
	_, _ = io.Copy(io.Discard, s.output)
	_ = s.command.Wait()
}

// Descendants returns all processes below pid.
func Descendants(pid int) []int {
	children := families()
	var all []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

// Children returns the processes whose parent is pid.
func Children(pid int) []int { return families()[pid] }

// families returns every process's children.
func families() map[int][]int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, parent, ok := family(path)
		if ok {
			children[parent] = append(children[parent], child)
		}
	}
	return children
}

// family reads a process's own and its parent's id from /proc/PID/stat: "pid (name) state parent …", where name may hold anything.
func family(stat string) (pid, parent int, ok bool) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0, 0, false
	}
	pid, err = strconv.Atoi(filepath.Base(filepath.Dir(stat)))
	after := strings.LastIndexByte(string(text), ')')
	if err != nil || after < 0 {
		return 0, 0, false
	}
	fields := strings.Fields(string(text[after+1:]))
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return pid, parent, err == nil
}

// Growth runs argv with its output thrown away and returns how long that took and by how many KiB the launcher's memory grew
// between its first moments and its peak.
func Growth(argv, environ []string) (time.Duration, int, error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = environ
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, 0, err
	}
	defer null.Close()
	command.Stdout, command.Stderr = null, null

	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	first, last := Memory{}, Memory{}
	for {
		select {
		case err := <-ended:
			return time.Since(begin), last.Peak - first.Now, err
		case <-time.After(5 * time.Millisecond):
		}
		if memory, err := MemoryOf(command.Process.Pid); err == nil {
			if first.Now == 0 {
				first = memory
			}
			last = memory
		}
	}
}
