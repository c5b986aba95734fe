package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// evidence returns what this host knows of failures, without asking anybody who may be slow, in about limit bytes.
func (j *job) evidence(limit int) []wire.File {
	kernel := wire.File{Name: "kernel-log.txt"}
	var err error
	if kernel.Text, err = process.KernelLog(j.agent.since); err != nil {
		kernel.Error = err.Error() + "; `sudo dmesg` shows it"
	}
	if over := len(kernel.Text) - limit/2; over > 0 {
		kernel.Text = kernel.Text[over+bytes.IndexByte(kernel.Text[over:], '\n')+1:]
	}
	network := wire.File{Name: "network-errors.txt"}
	if before := j.counters.Load(); before != nil {
		network.Text = changes(*before, errorCounters())
	} else {
		network.Error = "the job ended before its host's counters were read"
	}
	pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern") // empty where /proc is not the kernel's
	cores := wire.File{Name: "core-files.txt", Text: j.coreFiles(strings.TrimSpace(string(pattern)))}
	return append([]wire.File{kernel, network, cores}, j.readDumps(int64(limit/2))...)
}

// errorCounters returns the counters of errors and losses of this host's network interfaces and RDMA ports.
func errorCounters() map[string]int64 {
	found := map[string]int64{}
	text, _ := os.ReadFile("/proc/net/dev")
	var names []string
	for line := range strings.Lines(string(text)) {
		if _, columns, ok := strings.Cut(line, "|"); ok { // receive|transmit, then bytes packets errs … | bytes …
			received, sent, _ := strings.Cut(columns, "|")
			names = nil // the first line has others
			for _, name := range strings.Fields(received) {
				names = append(names, "received "+name)
			}
			for _, name := range strings.Fields(sent) {
				names = append(names, "sent "+name)
			}
			continue
		}
		name, values, _ := strings.Cut(line, ":")
		for i, value := range strings.Fields(values) {
			if i < len(names) {
				found[strings.TrimSpace(name)+" "+names[i]], _ = strconv.ParseInt(value, 10, 64)
			}
		}
	}
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/*/*counters/*") // the pattern is good
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			found[file], _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		}
	}
	for name := range found {
		for _, traffic := range []string{"bytes", "packets", "multicast", "compressed", "_data", "requests", "lifespan"} {
			if strings.Contains(name, traffic) {
				delete(found, name)
			}
		}
	}
	return found
}

// changes lists the counters that changed.
func changes(before, now map[string]int64) []byte {
	var lines []string
	for name, value := range now {
		if value != before[name] {
			lines = append(lines, fmt.Sprintf("%s: %d, %d before the job\n", name, value, before[name]))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// coreFiles says where the cores of failed ranks are, given kernel.core_pattern.
func (j *job) coreFiles(pattern string) []byte {
	text := fmt.Appendf(nil, "kernel.core_pattern is %s\n", pattern)
	for _, row := range j.rows() {
		r := j.rank(row.Rank)
		if r == nil {
			continue
		}
		if e := r.end.Load(); e != nil && e.Core {
			text = fmt.Appendf(text, "rank %d, pid %d: %s\n", row.Rank, e.PID, coreFile(pattern, r.dir, e.PID, j.began()))
		}
	}
	return text
}

// coreFile finds the core that a process with a working directory dumped since a time.
func coreFile(pattern, dir string, pid int, since time.Time) string {
	if handler, is := strings.CutPrefix(pattern, "|"); is {
		if strings.Contains(handler, "systemd-coredump") {
			return fmt.Sprintf("`coredumpctl info %d` shows its core", pid)
		}
		return "its core went to the program of the pattern"
	}
	number := strconv.Itoa(pid)
	glob, rest := "", pattern+"%"
	for {
		text, after, _ := strings.Cut(rest, "%")
		if glob += text; after == "" {
			break
		}
		switch after[0] {
		case 'p':
			glob += number
		case '%':
			glob += "%"
		default: // such as the time
			glob += "*"
		}
		rest = after[1:]
	}
	literal := strings.NewReplacer(`\`, `\\`, "[", `\[`).Replace(dir)
	files, _ := filepath.Glob(pathFrom(literal, glob) + "*") // kernel.core_uses_pid adds the pid
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(since) {
			path, _ := filepath.Abs(file) // the working directory may be gone
			return fmt.Sprintf("%s (%d bytes)", path, info.Size())
		}
	}
	return "no core found at " + pathFrom(dir, glob)
}

// began returns when the attempt began, to the second, as file systems may keep no more of a time.
func (j *job) began() time.Time {
	return time.Now().Add(-(process.Now() - j.since).Duration()).Truncate(time.Second)
}
