// Package remote defines a connection to another host: a command runs there by the user's login shell, with its
// standard streams here.
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

// Host is a connection to one host. Its methods may be called concurrently.
type Host interface {
	// Start runs a command line by the user's login shell, which need not be POSIX's: the line must mean the same to sh,
	// fish and csh. An error is an *Error if its step is known.
	Start(ctx context.Context, line string) (Process, error)
	// Name is the host's name as the user gave it.
	Name() string
	// Close closes the streams of all commands, and the connection.
	Close() error
}

// Target identifies a host as the user gave it.
type Target struct {
	Name string // a name, an alias of ssh's configuration, or an address
	User string // "" if not given
	Port int    // 0 if not given
}

// Process is a command on another host.
type Process interface {
	io.Reader // its standard output
	io.Writer // its standard input
	// CloseWrite closes its standard input.
	CloseWrite() error
	// Stderr returns the last kilobytes that it has written to standard error so far.
	Stderr() string
	// Wait waits for its end: nil is exit code 0, an *ExitError another one. Read standard output to its end before.
	Wait() error
	// Close closes its streams, without waiting for its end.
	Close() error
}

// ExitError reports a command that ended with another exit code than 0.
type ExitError struct {
	Code   int
	Signal string // name of the signal that ended it, without SIG
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "ended by SIG" + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// IsEnd reports whether an error means that the other end has closed the connection, or is gone.
func IsEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// Step is a stage of reaching a host.
type Step uint8

// The steps, in their order.
const (
	StepConfig  Step = iota // reading the user's configuration
	StepResolve             // looking up the host's name
	StepConnect             // TCP, or the jump host or proxy command
	StepKeys                // the key exchange
	StepHostKey             // verifying the host
	StepAuth                // authenticating the user
	StepCopy                // copying gorun, or the user's files
	StepStart               // starting the agent
	StepVersion             // comparing versions
)

var stepNames = [...]string{
	"configuration", "resolve", "connect", "key exchange", "host key", "authentication",
	"copy", "start", "version",
}

// String returns the step's name in messages.
func (s Step) String() string { return stepNames[s] }

// Error reports a host that could not be reached.
type Error struct {
	Host  string
	Step  Step
	After time.Duration
	// Text is the cause in words for the user, without control bytes.
	Text string
	// Hint is a suggestion, such as a command to run; "" for none.
	Hint string
	Err  error // the cause, may be nil
	// Target is the host as Text names it, such as "root@10.0.0.1:22": texts of several hosts may differ only in that.
	Target string
}

// Failed returns the error of a step that began at a time. It removes control bytes from the host's name and the text.
func Failed(host string, step Step, began time.Time, text string, err error) *Error {
	return &Error{
		Host: printable.Text(host), Step: step, After: time.Since(began), Text: printable.Text(text), Err: err,
	}
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s (after %s)", e.Host, e.Step, e.Text, e.After.Round(time.Millisecond))
}

// WithHint sets the hint, without control bytes.
func (e *Error) WithHint(format string, values ...any) *Error {
	e.Hint = printable.Text(fmt.Sprintf(format, values...))
	return e
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
