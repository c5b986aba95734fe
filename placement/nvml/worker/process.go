package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// longest limits the size of the answer, in bytes. The answer of a large node has about 10,000 bytes.
	longest = 4 << 20
	// letGo is the timeout after killing a worker, or after its exit if other processes hold its output
	// open. A worker that hangs in the kernel ends later, or never.
	letGo = time.Second
)

// deadline returns a channel that fires after a timeout.
func deadline(after time.Duration) <-chan error {
	over := make(chan error, 1)
	time.AfterFunc(after, func() { over <- fmt.Errorf("no answer within %v", after) })
	return over
}

// run returns the output of the worker.
func (p Program) run(path string, giveUp <-chan error) ([]byte, error) {
	command := exec.Command(path, Verb, p.Version)
	if path == Itself {
		command.Args[0] = "gorun"
	}
	stdout, stderr := &bounded{most: longest}, &bounded{most: 4 << 10, cuts: true}
	command.Stdout, command.Stderr, command.WaitDelay = stdout, stderr, letGo
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the worker ends with the thread that started it
	defer runtime.UnlockOSThread()
	var worker Child = command
	if p.Child != nil {
		worker = p.Child(command)
	}
	if err := worker.Start(); err != nil {
		return nil, reason(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	select {
	case err := <-ended:
		switch {
		case stdout.full:
			return nil, errTooLong
		case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a leftover process, not the answer
			return nil, ending(err, stderr.text.String())
		}
		return stdout.text.Bytes(), nil
	case why := <-giveUp:
		_ = command.Process.Kill() // it may have ended already
		select {
		case <-ended:
		case <-time.After(2 * letGo):
			why = fmt.Errorf("%w, and process %d cannot be killed", why, command.Process.Pid)
		}
		return nil, why
	}
}

// reason returns an error without the file's name, because the message already has it.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// ending describes the exit of a worker that did not answer. It includes the first line on standard
// error, because that names the signal of a crash.
func ending(err error, stderr string) error {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			return fmt.Errorf("%w: %s", err, line)
		}
	}
	return err
}

// bounded keeps the beginning of its input.
type bounded struct {
	text bytes.Buffer
	most int
	cuts bool // discard the rest, otherwise it is an error
	full bool // the input exceeds the limit
}

// errTooLong ends a worker with endless output, because the worker gets SIGPIPE.
var errTooLong = errors.New("the answer is incomplete")

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.text.Len()
	b.full = b.full || len(p) > room
	if b.full && !b.cuts {
		return 0, errTooLong
	}
	b.text.Write(p[:min(len(p), room)])
	return len(p), nil
}
