package bootstrap

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// Stream is a program that runs on a host.
type Stream struct {
	remote.Process
	rest   *bufio.Reader // the output after the last answer
	host   string
	began  time.Time
	wrote  bool
	waited sync.Once
	end    error
}

// Read reads the program's standard output. If the program ends without any output, it did not start: the error is a
// *remote.Error with its last lines.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.rest.Read(p)
	s.wrote = s.wrote || n > 0
	if errors.Is(err, io.EOF) && !s.wrote {
		return n, s.startError()
	}
	return n, err
}

// startError is the error of a program without output.
func (s *Stream) startError() error {
	text := "it ended at once"
	end := s.Wait()
	if _, exited := errors.AsType[*remote.ExitError](end); exited {
		text += " with " + end.Error()
	} else if end != nil {
		text = end.Error()
	}
	if lines := remote.LastLines(s.Stderr()); lines != "" {
		text += ": " + lines
	}
	return remote.Failed(s.host, remote.StepStart, s.began, printable.Short(text), end)
}

// Wait waits for the program's end. It may be called again.
func (s *Stream) Wait() error {
	s.waited.Do(func() { s.end = s.Process.Wait() })
	return s.end
}

// lastWordsLimit is how long LastWords waits for the program's end.
const lastWordsLimit = 500 * time.Millisecond

// LastWords returns the end of what the program has written to standard error. Call it after the end of its output:
// what it has written last may still be under way, so it waits for the program's end, but not for long.
func (s *Stream) LastWords() string {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(lastWordsLimit):
	}
	return s.Stderr()
}
