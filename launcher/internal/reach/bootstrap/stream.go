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

// Stream is a program that runs on a host: what it reads and writes.
type Stream struct {
	remote.Process
	rest  *bufio.Reader // what follows the last answer
	host  string
	began time.Time
	heard bool

	wait sync.Once
	end  error
}

// Read reads the program's standard output. A program that ends without having
// written anything did not start: that is an *remote.Error with its last words.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.rest.Read(p)
	s.heard = s.heard || n > 0
	if errors.Is(err, io.EOF) && !s.heard {
		return n, s.silent()
	}
	return n, err
}

// silent is the error of a program that never said anything.
func (s *Stream) silent() error {
	text := "it ended at once"
	end := s.Wait()
	if end != nil {
		text += " with " + end.Error()
	}
	if words := remote.LastLines(s.Stderr()); words != "" {
		text += ": " + words
	}
	return remote.Failed(s.host, remote.StepStart, s.began, printable.Short(text), end)
}

// Wait waits for the program's end, as often as it is called.
func (s *Stream) Wait() error {
	s.wait.Do(func() { s.end = s.Process.Wait() })
	return s.end
}
