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
	// longest bounds the answer, in bytes: that of a large node has some ten thousand.
	longest = 4 << 20
	// letGo is how long a killed worker, or one that left its output to others, is
	// waited for. One that hangs in the kernel dies later, or never.
	letGo = time.Second
)

// deadline ends the patience with a worker after some time.
func deadline(after time.Duration) <-chan error {
	over := make(chan error, 1)
	time.AfterFunc(after, func() { over <- fmt.Errorf("no answer within %v", after) })
	return over
}

// run returns what the worker prints.
func run(path, version string, giveUp <-chan error) ([]byte, error) {
	command := exec.Command(path, Verb, version)
	if path == Itself {
		command.Args[0] = "gorun"
	}
	stdout, stderr := &bounded{most: longest}, &bounded{most: 4 << 10, cuts: true}
	command.Stdout, command.Stderr, command.WaitDelay = stdout, stderr, letGo
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the worker ends with the thread that started it
	defer runtime.UnlockOSThread()
	if err := command.Start(); err != nil {
		return nil, reason(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		switch {
		case stdout.full:
			return nil, errTooLong
		case err != nil && !errors.Is(err, exec.ErrWaitDelay): // that is what it left behind, not the answer
			return nil, ending(err, stderr.text.String())
		}
		return stdout.text.Bytes(), nil
	case why := <-giveUp:
		_ = command.Process.Kill() // it may have ended meanwhile
		select {
		case <-ended:
		case <-time.After(2 * letGo):
			why = fmt.Errorf("%w, and process %d cannot be killed", why, command.Process.Pid)
		}
		return nil, why
	}
}

// reason is an error without the file's name, which stands beside it.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// ending says how a worker ended that did not answer, with the first line that it
// wrote on standard error: that of a crash names the signal.
func ending(err error, stderr string) error {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			return fmt.Errorf("%w: %s", err, line)
		}
	}
	return err
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	text bytes.Buffer
	most int
	cuts bool // the rest is thrown away; else it is an error
	full bool // there was more
}

// errTooLong ends a worker that writes without end: it gets SIGPIPE.
var errTooLong = errors.New("the answer has no end")

// Write takes p.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.text.Len()
	b.full = b.full || len(p) > room
	if b.full && !b.cuts {
		return 0, errTooLong
	}
	b.text.Write(p[:min(len(p), room)])
	return len(p), nil
}
