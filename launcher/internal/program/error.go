package program

import (
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Exit codes for a program that cannot start, as shells use them.
const (
	codeRefused = 126 // it is there and cannot be executed
	codeMissing = 127 // it, or a file that it needs, does not exist
)

// Error says why a program cannot be started.
type Error struct {
	// Code is the exit code for it: 126 or 127.
	Code int
	// Program is the name that was typed, and Reason what is wrong with it.
	Program, Reason string
	// Hint is something to try, or "". A word in it that can be typed is quoted for
	// a shell.
	Hint string
}

// Error is one line without control bytes: the program, then the reason.
func (e *Error) Error() string { return visible(e.Program) + ": " + e.Reason }

func refused(program, reason string) *Error {
	return &Error{Code: codeRefused, Program: program, Reason: reason}
}

func missing(program, reason string) *Error {
	return &Error{Code: codeMissing, Program: program, Reason: reason}
}

// hint adds something to try.
func (e *Error) hint(text string) *Error {
	e.Hint = text
	return e
}

// about makes e speak of the program that was typed, where it had been found out
// of a file that this program needs.
func (e *Error) about(program, need string) *Error {
	return &Error{Code: e.Code, Program: program, Reason: need + " " + visible(e.Program) + ": " + e.Reason, Hint: e.Hint}
}

// visible is a name as a message may show it: as it is, or quoted with escapes
// where it is empty or has anything but visible characters and blanks.
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

// word is a name as a hint may have it typed: visible, and one word for a shell.
func word(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	for _, r := range name {
		if !strings.ContainsRune("+,-./:=@_%^", r) && (r > 0x7e || !isAlphanumeric(byte(r))) {
			return "'" + strings.ReplaceAll(visible(name), "'", `'\''`) + "'"
		}
	}
	return name
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// codeOf is the exit code for an error of execve.
func codeOf(err error) int {
	if err == syscall.ENOENT {
		return codeMissing
	}
	return codeRefused
}
