// Package remote is what every way to another host has in common: a command runs
// there, by the user's login shell, and its standard streams are here.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"gorun/internal/printable"
)

// Host is a connection to one host. Its methods may be called on several
// goroutines, as far as the way there allows several commands at once (each
// implementation does).
type Host interface {
	// Start runs a command line by the login shell of the user there, which need
	// not be POSIX's: the line must mean the same to sh, fish and csh. An error is an
	// *Error where a step is known.
	Start(ctx context.Context, line string) (Process, error)
	// Name is the host as the user called it.
	Name() string
	// Close ends what still runs there by closing its streams, and the connection.
	Close() error
}

// Target is a host as the user named it.
type Target struct {
	Name string // a name, an alias of ssh's configuration, or an address
	User string // "" if the user named nobody
	Port int    // 0 if the user named none
}

// Process is a command on another host.
type Process interface {
	io.Reader // its standard output
	io.Writer // its standard input
	// CloseWrite ends its standard input.
	CloseWrite() error
	// Stderr is the end of what it has written to standard error so far, at most a
	// few kilobytes of it.
	Stderr() string
	// Wait waits for its end and says how it ended: nil for exit code 0, an
	// *ExitError for another. Standard output has to be read to its end before.
	Wait() error
	// Close ends it: streams are closed, and nobody waits.
	Close() error
}

// ExitError is the end of a command with another exit code than 0.
type ExitError struct {
	Code   int
	Signal string // the signal's name without SIG, where one ended it
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "ended by SIG" + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// IsEnd reports whether an error says that the other end of a connection closed it, or is gone.
func IsEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// Step is how far reaching a host had come.
type Step uint8

// The steps, in their order.
const (
	StepConfig  Step = iota // reading the user's configuration
	StepResolve             // the host's name
	StepConnect             // TCP, or the jump host or proxy command
	StepKeys                // the exchange of keys
	StepHostKey             // whose host it is
	StepAuth                // who we are
	StepCopy                // gorun's copy, or the user's files
	StepStart               // the agent's process
	StepVersion             // what it speaks
)

var stepNames = [...]string{
	"configuration", "resolve", "connect", "key exchange", "host key", "authentication",
	"copy", "start", "version",
}

// String is the step's name, as messages show it.
func (s Step) String() string { return stepNames[s] }

// Error is a host that could not be reached: where it stopped, and after how long.
type Error struct {
	Host  string
	Step  Step
	After time.Duration
	// Text says what happened in words for the user; it has no control bytes.
	Text string
	// Hint is something to try, a command that works; "" for none.
	Hint string
	Err  error // the cause, nil for none
	// Target is what Text calls the host, "root@10.0.0.1:22": texts of several hosts may
	// differ in that alone.
	Target string
}

// Failed is an error of a step that began then, without the control bytes of the host's name and the text.
func Failed(host string, step Step, began time.Time, text string, err error) *Error {
	return &Error{
		Host: printable.Text(host), Step: step, After: time.Since(began), Text: printable.Text(text), Err: err,
	}
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s (after %s)", e.Host, e.Step, e.Text, e.After.Round(time.Millisecond))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
