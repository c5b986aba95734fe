package dialect

import (
	"errors"
	"fmt"
	"strings"
)

// splitCommand splits a command into words as a shell does: at blanks, with
// '...', "..." and backslashes. No shell will read it, so what only a shell could
// fill in or connect is refused where it is not quoted.
func splitCommand(line string) ([]string, error) {
	s := commandSplitter{rest: line}
	for s.rest != "" {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.end()
	if len(s.words) == 0 || s.words[0] == "" {
		return nil, errors.New("no program: the value is a command such as 'ssh -K'")
	}
	return s.words, nil
}

// commandSplitter is the state between two bytes outside of quotes.
type commandSplitter struct {
	rest  string
	words []string
	word  strings.Builder
	open  bool // a word has begun, if only by empty quotes
	// literal takes what only a shell could fill in or connect as it stands.
	literal bool
}

// end ends the word that is open.
func (s *commandSplitter) end() {
	if s.open {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.open = false
}

// put adds a byte to the word.
func (s *commandSplitter) put(c byte) {
	s.word.WriteByte(c)
	s.open = true
}

// step takes a byte, or what stands in quotes.
func (s *commandSplitter) step() error {
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case strings.IndexByte(" \t\r\n", c) >= 0:
		s.end()
	case c == '\'':
		return s.single()
	case c == '"':
		return s.double()
	case c == '\\':
		if s.rest == "" {
			return errors.New(`a backslash stands at the end, with nothing behind it: write \\ for one`)
		}
		s.put(s.rest[0])
		s.rest = s.rest[1:]
	case !s.literal && strings.IndexByte("|&;<>()$`", c) >= 0:
		return needsShell(c)
	default:
		s.put(c)
	}
	return nil
}

func needsShell(c byte) error {
	return fmt.Errorf(
		"%q is a shell's, and no shell reads this command: put it in single quotes, or the command into a script", c)
}

// single takes what stands in '...', as it is.
func (s *commandSplitter) single() error {
	inside, behind, closed := strings.Cut(s.rest, "'")
	if !closed {
		return errors.New("a ' is not closed")
	}
	s.word.WriteString(inside)
	s.open, s.rest = true, behind
	return nil
}

// double takes what stands in "...", where a backslash counts before ", \, $ and `
// alone.
func (s *commandSplitter) double() error {
	s.open = true
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return nil
		case !s.literal && (c == '$' || c == '`'):
			return needsShell(c)
		case c == '\\' && s.rest != "" && strings.IndexByte("\"\\$`", s.rest[0]) >= 0:
			c, s.rest = s.rest[0], s.rest[1:]
		}
		s.put(c)
	}
	return errors.New(`a " is not closed`)
}
