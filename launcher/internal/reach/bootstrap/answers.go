package bootstrap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Limits on what is read before the agent's own bytes.
const (
	maxChatter = 4 << 20 // bytes that a login shell may print before our script runs
	maxAnswer  = 64 << 10
	maxAnswers = 16      // our scripts send one for each of four places, and two more
	keptTail   = 2 << 10 // bytes of the chatter, for a message
)

// answers reads the script's lines from a command's standard output.
type answers struct {
	from *bufio.Reader
	mark []byte
	// chatter is the end of the text before the mark: a shell that refuses to work often says so on standard output.
	chatter []byte
}

func newAnswers(from io.Reader, mark string) *answers {
	return &answers{from: bufio.NewReaderSize(from, 32<<10), mark: []byte(mark)}
}

// next returns the first word of the next answer and the rest of its line.
func (a *answers) next() (word, text string, err error) {
	if err := a.skipToMark(); err != nil {
		return "", "", err
	}
	var line []byte
	for {
		c, err := a.from.ReadByte()
		if err != nil {
			return "", "", err
		}
		if c == '\n' {
			break
		}
		if line = append(line, c); len(line) > maxAnswer {
			return "", "", fmt.Errorf("an answer is longer than %d bytes", maxAnswer)
		}
	}
	word, text, _ = strings.Cut(strings.TrimPrefix(string(line), " "), " ")
	return word, text, nil
}

// skipToMark reads to the end of the next mark.
func (a *answers) skipToMark() error {
	var window []byte
	for n := 0; n <= maxChatter; n++ {
		c, err := a.from.ReadByte()
		if err != nil {
			a.chatter = bytes.Clone(window)
			return err
		}
		if window = append(window, c); bytes.HasSuffix(window, a.mark) {
			return nil
		}
		if len(window) > 2*keptTail {
			window = append(window[:0], window[len(window)-keptTail:]...)
		}
	}
	a.chatter = window
	return fmt.Errorf("the login shell prints more than %d MiB before it starts gorun", maxChatter>>20)
}
