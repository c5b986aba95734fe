// Package diagnosis finds out why a rank died, from the last lines of its standard error and from the error file that
// PyTorch's @record writes. It is pure.
//
// All results are fit for a terminal: they have none of a rank's control bytes and escape sequences, which could move
// the cursor or forge a message of the launcher. Functions report when they find nothing; a wrong guess costs more
// than none.
package diagnosis

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/doctor/signature"
)

// lineLimit bounds the bytes of a line that are kept.
const lineLimit = 500

// SignalName returns the name of a signal and, if it says something about the program, its usual meaning: "SIGSEGV",
// "invalid memory access".
func SignalName(s syscall.Signal) (name, meaning string) {
	if name = unix.SignalName(s); name == "" {
		name = "signal " + strconv.Itoa(int(s))
	}
	switch s {
	case syscall.SIGILL:
		meaning = "illegal instruction, perhaps built for another CPU"
	case syscall.SIGTRAP:
		meaning = "breakpoint"
	case syscall.SIGABRT:
		meaning = "it called abort"
	case syscall.SIGBUS:
		meaning = "bus error: /dev/shm is full, or a mapped file was truncated"
	case syscall.SIGFPE:
		meaning = "arithmetic error such as a division by zero"
	case syscall.SIGSEGV:
		meaning = "invalid memory access"
	case syscall.SIGPIPE:
		meaning = "wrote to a closed pipe"
	case syscall.SIGXCPU:
		meaning = "CPU time limit"
	case syscall.SIGXFSZ:
		meaning = "file size limit"
	case syscall.SIGSYS:
		meaning = "forbidden system call"
	}
	return name, meaning
}

// clean makes a line of a rank fit for a terminal, and drops the "[rank0]: " that PyTorch puts before each line of an
// exception: the launcher names the rank itself.
func clean(line string) string { return withoutRank(signature.Plain(line, lineLimit)) }

// withoutRank drops "[rank0]: ", also if its trailing blank was trimmed.
func withoutRank(line string) string {
	number, ok := strings.CutPrefix(line, "[rank")
	if !ok {
		return line
	}
	digits, rest, ok := strings.Cut(number, "]:")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return line
	}
	return strings.TrimPrefix(rest, " ")
}

func cleanAll(lines []string) []string {
	cleaned := make([]string, len(lines))
	for i, line := range lines {
		cleaned[i] = clean(line)
	}
	return cleaned
}
