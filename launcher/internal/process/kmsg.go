package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelLog reads the records of out-of-memory kills that the kernel has logged since it was opened.
type kernelLog struct {
	fd   int
	read func(fd int, p []byte) (int, error) // reads one record, non-blocking
}

// oomVictim is a process killed by the out-of-memory killer.
type oomVictim struct {
	PID    int
	Global bool   // the host's memory was exhausted, not a cgroup's
	Group  string // its memory cgroup, from the root of the hierarchy; "": not in the record
}

// kernelRecord exceeds the size of a record of /dev/kmsg in bytes (PRINTKRB_RECORD_MAX). kernelRecords bounds the
// records of one read, in case the kernel logs as fast as we read.
const (
	kernelRecord  = 8 << 10
	kernelRecords = 20_000
)

// initialPIDs is the inode of the first PID namespace (PROC_PID_INIT_INO).
const initialPIDs = "pid:[4026531836]"

// newKernelLog opens the log at its end. Most users may not read it (sysctl kernel.dmesg_restrict), and its pids are
// those of the initial PID namespace.
func newKernelLog() (*kernelLog, error) {
	if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != initialPIDs {
		return nil, errors.New("the kernel's log has the pids of another namespace")
	}
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/kmsg", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("seek in /dev/kmsg", err)
	}
	return &kernelLog{fd: fd, read: unix.Read}, nil
}

// victims returns the victims logged since the last call. It does not block.
func (l *kernelLog) victims() (list []oomVictim) {
	var record [kernelRecord]byte
	for range kernelRecords {
		n, err := l.read(l.fd, record[:])
		switch {
		// EPIPE: records were overwritten; the oldest remaining one is next
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0: // usually EAGAIN
			return list
		}
		if v, ok := parseKernelRecord(record[:n]); ok {
			list = append(list, v)
		}
	}
	return list
}

// parseKernelRecord parses "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg) of the
// kernel's own records (facility 0).
func parseKernelRecord(record []byte) (oomVictim, bool) {
	head, text, _ := bytes.Cut(record, []byte{';'})
	priority, _, _ := strings.Cut(string(head), ",")
	if number, err := strconv.Atoi(priority); err != nil || number >= 8 {
		return oomVictim{}, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if list, ok := strings.CutPrefix(line, "oom-kill:"); ok {
		return parseOOMLine(list)
	}
	return parseKilledLine(line)
}

// parseOOMLine parses "constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=NAME,pid=1,uid=0" (since Linux
// 5.0). NAME is arbitrary and a directory may contain commas, so only the last occurrence of a key counts.
func parseOOMLine(list string) (v oomVictim, ok bool) {
	head, tail := cutLast(list, ",pid=")
	number, _, _ := strings.Cut(tail, ",")
	var err error
	if v.PID, err = strconv.Atoi(number); err != nil {
		return v, false
	}
	v.Global = !strings.HasPrefix(list, "constraint=CONSTRAINT_MEMCG,")
	if _, group, found := strings.Cut(head, ",task_memcg="); found {
		v.Group, _ = cutLast(group, ",task=")
	}
	return v, true
}

// parseKilledLine parses "Out of memory: Killed process 1 (NAME) …", or the same with "Memory cgroup out of memory",
// which is logged after the signal and may be missed.
func parseKilledLine(line string) (v oomVictim, ok bool) {
	kind, rest, found := strings.Cut(line, "Killed process ")
	kind = strings.TrimSuffix(kind, ": ")
	v.Global = strings.HasPrefix(kind, "Out of memory")
	if !found || !v.Global && kind != "" && !strings.HasPrefix(kind, "Memory cgroup out of memory") {
		return v, false
	}
	number, _, _ := strings.Cut(rest, " ")
	pid, err := strconv.Atoi(strings.TrimSuffix(number, ","))
	v.PID = pid
	return v, err == nil
}

func cutLast(s, separator string) (before, after string) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+len(separator):]
}

// maxKernelLog bounds what KernelLog reads in bytes.
const maxKernelLog = 256 << 10

// KernelLog returns what the kernel has logged since a time, the last lines if there are many. Most users may not read
// it (sysctl kernel.dmesg_restrict). One call reads all of it, where /dev/kmsg takes one for each record.
func KernelLog(since Ticks) ([]byte, error) {
	text := make([]byte, maxKernelLog)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return nil, os.NewSyscallError("klogctl", err)
	}
	return kernelLines(text[:n], since), nil
}

// kernelLines returns the lines since a time, as dmesg shows them: of "<6>[   22.432247] text" all but the priority.
func kernelLines(text []byte, since Ticks) (lines []byte) {
	for line := range bytes.Lines(text) {
		_, line, _ = bytes.Cut(line, []byte(">"))
		at, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("[")), []byte("]"))
		seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
		if err == nil && seconds >= since.Duration().Seconds() {
			lines = append(lines, line...)
		}
	}
	return lines
}
