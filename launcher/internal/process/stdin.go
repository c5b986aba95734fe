package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// input is the way into a rank's stdin.
type input struct {
	file *os.File
	tty  bool // file is a pseudo-terminal's master

	mu      sync.Mutex
	ended   bool
	midLine bool // what was written to the terminal last did not end a line
}

// newInput takes over fd, our end of a rank's stdin. It is made non-blocking so
// that the runtime waits for it, and not a thread.
func newInput(fd int32, tty bool) *input {
	setNonblock(fd)
	return &input{file: os.NewFile(uintptr(fd), "stdin of rank"), tty: tty}
}

// Stdin returns the way into the stdin of a rank that was started with one of
// kind Pipe or PTY, else nil. Its Write waits while the rank does not read, so
// it belongs into a goroutine of its own; Close, and the group's, end the wait.
// The rank sees end-of-file after Close. When nobody can read any more Write
// returns io.ErrClosedPipe, which is no failure: a rank need not read its input.
func (g *Group) Stdin(id int) io.WriteCloser {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if r, ok := g.ranks[id]; ok {
		if in := r.input.Load(); in != nil {
			return in
		}
	}
	return nil
}

func (in *input) Write(p []byte) (int, error) {
	n, err := in.file.Write(p)
	if n > 0 {
		in.mu.Lock()
		in.midLine = p[n-1] != '\n'
		in.mu.Unlock()
	}
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EIO), errors.Is(err, os.ErrClosed):
		err = io.ErrClosedPipe
	case err != nil:
		err = fmt.Errorf("write to stdin of rank: %w", err)
	}
	return n, err
}

// Close ends the rank's input, on a terminal by the character that says so, which
// waits like Write.
func (in *input) Close() error {
	in.mu.Lock()
	ended, midLine := in.ended, in.midLine
	in.ended = true
	in.mu.Unlock()
	if ended {
		return nil
	}
	if in.tty {
		_, _ = in.file.Write(in.endOfFile(midLine))
	}
	return in.file.Close()
}

// abandon closes the rank's input at once and ends a Write that waits.
func (in *input) abandon() { _ = in.file.Close() }
