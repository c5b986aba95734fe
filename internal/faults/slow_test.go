package faults

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"gorun/internal/testneeds"
)

const (
	// slowMemory limits the launcher's resident memory, in KiB, for any amount of output.
	slowMemory = 32 << 10
	// slowLine is the size of a line. slowChunk is the number of bytes that the reader takes every slowPause.
	slowLine, slowChunk = 4096, 64 << 10
	slowPause           = time.Millisecond
	slowRanks           = 4
)

// slowFault has a reader that is slower than the ranks, so they must wait for it.
func slowFault() fault {
	megabytes := testneeds.Count(64, 1024)
	lines := megabytes << 20 / slowLine / slowRanks
	return fault{
		name: "slow reader", own: true,
		criterion: fmt.Sprintf("4 ranks write 64 MB (make soak: 1 GB), 64 kB of it are read a millisecond: no line torn, "+
			"lost or with another rank's label; the launcher never has more than %d MiB", slowMemory>>10),
		act: func(s *scene) {
			reader, writer, err := os.Pipe()
			s.require(err == nil, "%v", err)
			defer reader.Close()
			s.launch(work{
				ranks: slowRanks, options: s.launcher.label, stdout: writer,
				program: role("pieces", strconv.Itoa(lines), strconv.Itoa(slowLine), strconv.Itoa(slowLine)),
			})
			peak := s.readSlowly(reader, lines)
			s.require(peak > 0 && peak <= slowMemory, "peak memory %d KiB", peak)
		}, check: ends(0),
	}
}

// readSlowly checks all lines. It returns the launcher's peak memory, in KiB, shortly before their end.
func (s *scene) readSlowly(reader *os.File, lines int) (peak int) {
	var next [slowRanks]int
	total := slowRanks * lines
	words := bufio.NewReaderSize(&pausing{reader, s.launcher.limit}, slowChunk)
	for n := range total {
		text, err := words.ReadString('\n')
		s.require(err == nil, "of %d lines %d came: %v: %s", total, n, err, s.said())
		s.inOrder(text, &next)
		if n == total-slowChunk/slowLine*4 { // the rest exceeds the pipe and our buffers, so the launcher still runs
			peak = memoryPeak(s.command.Process.Pid)
		}
	}
	rest, err := io.ReadAll(words)
	s.require(err == nil && len(rest) == 0, "after the last line came %d bytes: %v", len(rest), err)
	return peak
}

// inOrder requires that a line is the next line of the rank in its label.
func (s *scene) inOrder(text string, next *[slowRanks]int) {
	match := s.launcher.tag.FindStringSubmatch(text[:min(len(text), 100)])
	s.require(match != nil, "line without a label: %.40q", text)
	rank, err := strconv.Atoi(match[1])
	s.require(err == nil && rank < slowRanks, "label %q", match[0])
	s.require(text[len(match[0]):] == line(rank, next[rank], slowLine), "not line %d of rank %d: %.40q, %d bytes",
		next[rank], rank, text, len(text))
	next[rank]++
}

// pausing is a slow reader that fails if it receives no data for too long.
type pausing struct {
	file  *os.File
	limit time.Duration
}

func (p *pausing) Read(b []byte) (int, error) {
	time.Sleep(slowPause) // the fault itself, not a synchronisation
	if err := p.file.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	return p.file.Read(b)
}

// memoryPeak is the peak resident memory of a process, in KiB.
func memoryPeak(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, _ := strconv.Atoi(strings.Fields(rest + " -")[0])
	return kib
}
