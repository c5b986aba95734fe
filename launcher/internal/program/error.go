package program

import (
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"gorun/internal/shellwords"
)

// Exit codes for a program that cannot start, as shells use them.
const (
	codeRefused = 126 // it exists and cannot be executed
	codeMissing = 127 // it, or a file that it needs, does not exist
)

// Error is the reason why a program cannot be started.
type Error struct {
	// Code is the exit code: 126 or 127.
	Code int
	// Program is the name from the command line, and Reason its problem.
	Program, Reason string
	// Hint is a suggestion, or "". Names in it are quoted for a shell.
	Hint string
}

// Error returns one line without control bytes: the program, then the reason.
func (e *Error) Error() string { return visible(e.Program) + ": " + e.Reason }

func refused(program, reason string) *Error {
	return &Error{Code: codeRefused, Program: program, Reason: reason}
}

func missing(program, reason string) *Error {
	return &Error{Code: codeMissing, Program: program, Reason: reason}
}

func (e *Error) hint(hint string) *Error {
	e.Hint = hint
	return e
}

// about turns an error of a file into an error of the program that needs the file.
func (e *Error) about(program, need string) *Error {
	return &Error{Code: e.Code, Program: program, Reason: need + " " + visible(e.Program) + ": " + e.Reason, Hint: e.Hint}
}

// visible returns a name for a message: quoted and escaped if it is empty or has unprintable characters.
func visible(name string) string {
	for _, r := range name {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// word returns a name as one word for a shell, for a hint.
func word(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return shellwords.Quote(visible(name))
}

// codeOf returns the exit code for an error of execve.
func codeOf(err error) int {
	if err == syscall.ENOENT {
		return codeMissing
	}
	return codeRefused
}
