package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// input writes to a rank's stdin.
type input struct {
	file *os.File
	tty  bool // file is the master of a pseudo-terminal

	mu      sync.Mutex
	ended   bool
	midLine bool // the last byte written was not a newline
}

// newInput takes ownership of fd, our end of a rank's stdin. It is non-blocking, so that the runtime's poller waits
// instead of a thread.
func newInput(fd int32, tty bool) *input {
	setNonblock(fd)
	return &input{file: os.NewFile(uintptr(fd), "stdin of rank"), tty: tty}
}

// Stdin returns a writer to the stdin of a rank that was started with kind Pipe or PTY, else nil. Write blocks while
// the rank does not read, so call it on its own goroutine; Close and [Group.Close] unblock it. The rank sees
// end-of-file after Close. If the read end is closed Write returns io.ErrClosedPipe, which is not a failure: a rank
// need not read its input.
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

// Close ends the rank's input. On a terminal it writes the end-of-file character, and blocks like Write.
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

// abandon closes the rank's input at once and unblocks a pending Write.
func (in *input) abandon() { _ = in.file.Close() }
