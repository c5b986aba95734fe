package bootstrap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Bounds of what is read before the agent's own bytes.
const (
	maxChatter = 4 << 20 // bytes that a login shell may print before our script runs
	maxAnswer  = 64 << 10
	maxAnswers = 16      // our scripts give one for each of four places, and two more
	keptTail   = 2 << 10 // of the chatter, for a message
)

// answers reads the script's lines out of a command's standard output.
type answers struct {
	from *bufio.Reader
	mark []byte
	// said is the end of what stood before the mark: a shell that refuses to work
	// often says so on its standard output.
	said []byte
}

func newAnswers(from io.Reader, mark string) *answers {
	return &answers{from: bufio.NewReaderSize(from, 32<<10), mark: []byte(mark)}
}

// next is the next answer's first word and the rest of its line.
func (a *answers) next() (word, text string, err error) {
	if err := a.skip(); err != nil {
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

// skip reads up to the end of the next mark. The mark's first byte occurs in it only
// once in each half, so that looking at the last bytes read is enough.
func (a *answers) skip() error {
	var window []byte
	for n := 0; n <= maxChatter; n++ {
		c, err := a.from.ReadByte()
		if err != nil {
			a.said = bytes.Clone(window)
			return err
		}
		if window = append(window, c); bytes.HasSuffix(window, a.mark) {
			return nil
		}
		if len(window) > 2*keptTail {
			window = append(window[:0], window[len(window)-keptTail:]...)
		}
	}
	a.said = window
	return fmt.Errorf("its login shell prints more than %d MiB before it does anything", maxChatter>>20)
}

// rest is what follows the last answer.
func (a *answers) rest() *bufio.Reader { return a.from }
