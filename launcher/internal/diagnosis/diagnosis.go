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
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
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

// clean makes a line of a rank's fit for a terminal: escape sequences and control
// bytes are dropped, tabs and unusual spaces become spaces, what is no UTF-8 becomes
// U+FFFD, and a very long line ends early. What PyTorch puts before each line of an
// exception, "[rank0]: ", goes too: the launcher says which rank it is.
func clean(line string) string {
	var b strings.Builder
	for len(line) > 0 && b.Len() < lineLimit {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == 0x1b || r == 0x9b:
			size = escapeLength(line, size)
		case r == '\t':
			b.WriteString("    ")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case unicode.IsSpace(r) && r != '\n' && r != '\r':
			b.WriteByte(' ')
		}
		line = line[size:]
	}
	return withoutRank(strings.TrimRight(b.String(), " "))
}

// escapeLength is the length of the escape sequence that a line begins with (ECMA-48):
// ESC [ parameters letter, ESC ] text up to BEL or ESC \, or ESC, signs such as ( and one character.
func escapeLength(line string, size int) int {
	rest := line[size:]
	switch {
	case size > 1: // the eight-bit form of ESC [
		return size + controlLength(rest)
	case strings.HasPrefix(rest, "["):
		return size + 1 + controlLength(rest[1:])
	case strings.HasPrefix(rest, "]"):
		end := strings.IndexAny(rest, "\a\x1b")
		if end < 0 {
			return len(line)
		}
		if strings.HasPrefix(rest[end:], "\x1b\\") {
			end++
		}
		return size + end + 1
	}
	intermediate := len(rest) - len(strings.TrimLeft(rest, " !\"#$%&'()*+,-./"))
	_, final := utf8.DecodeRuneInString(rest[intermediate:])
	return size + intermediate + final
}

// controlLength is the length of parameters and final byte after ESC [.
func controlLength(rest string) int {
	for i := range len(rest) {
		if rest[i] < 0x20 || rest[i] > 0x3f {
			return i + 1
		}
	}
	return len(rest)
}

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
