// Package diagnosis reads why a rank died out of what it left behind: the last lines
// of its standard error, and the error file that PyTorch's @record writes. It is pure:
// text in, a few lines out.
//
// Everything that comes out is fit for a terminal: a rank's control bytes and escape
// sequences, which could move the cursor or fake a message of the launcher's, are gone.
// Functions that find nothing say so; a wrong guess costs a reader more than none.
package diagnosis

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/doctor/signature"
)

// lineLimit is how many bytes of a line are kept.
const lineLimit = 500

// SignalName returns the name of a signal and, where it says something about the
// program, what it usually means: "SIGSEGV", "invalid memory access".
func SignalName(s syscall.Signal) (name, meaning string) {
	if name = unix.SignalName(s); name == "" {
		name = "signal " + strconv.Itoa(int(s))
	}
	return name, meaningOf(s)
}

func meaningOf(s syscall.Signal) string {
	switch s {
	case syscall.SIGILL:
		return "illegal instruction: built for another CPU?"
	case syscall.SIGTRAP:
		return "breakpoint"
	case syscall.SIGABRT:
		return "it aborted itself"
	case syscall.SIGBUS:
		return "memory that cannot be had: a full /dev/shm or a truncated file"
	case syscall.SIGFPE:
		return "arithmetic error such as a division by zero"
	case syscall.SIGSEGV:
		return "invalid memory access"
	case syscall.SIGPIPE:
		return "wrote to a pipe that nobody reads"
	case syscall.SIGXCPU:
		return "CPU time limit"
	case syscall.SIGXFSZ:
		return "file size limit"
	case syscall.SIGSYS:
		return "forbidden system call"
	}
	return ""
}

// clean makes a line of a rank's fit for a terminal, as [signature.Plain] does. What PyTorch puts before each line of
// an exception, "[rank0]: ", goes too: the launcher says which rank it is.
func clean(line string) string { return withoutRank(signature.Plain(line, lineLimit)) }

// withoutRank drops "[rank0]: ", also where blanks at the end were trimmed already.
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
