package signature

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a file of signatures. A record starts with its ID at the beginning of a line. Below, indented by two
// blanks, follow keys with their values; a line with more indentation continues a value. Empty lines and lines that
// begin with # are ignored. Errors name the file and line.
func Parse(name, text string) ([]Signature, error) {
	var p fileParser
	for number, line := range strings.Split(text, "\n") {
		if err := p.line(strings.TrimRight(line, " \t\r")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number+1, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.list, nil
}

// fileParser has the parser's state between lines.
type fileParser struct {
	list []Signature
	key  string // of the previous line
}

func (p *fileParser) line(line string) error {
	text := strings.TrimLeft(line, " ")
	switch indent := len(line) - len(text); {
	case text == "" || line[0] == '#':
		return nil
	case indent == 0:
		if err := p.finish(); err != nil {
			return err
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%q is no id: it may have small letters, digits and dashes", text)
		}
		p.list, p.key = append(p.list, Signature{ID: text}), ""
		return nil
	case len(p.list) == 0:
		return errors.New("a value before the first id")
	case indent > 2:
		return p.continueValue(text)
	}
	key, value, _ := strings.Cut(text, " ")
	p.key = key
	return p.set(key, strings.TrimSpace(value))
}

// text returns the field of a key that has one value of prose, or nil.
func (s *Signature) text(key string) *string {
	switch key {
	case "family":
		return &s.Family
	case "means":
		return &s.Means
	case "cause":
		return &s.Cause
	case "check":
		return &s.Check
	case "fix":
		return &s.Fix
	case "hint":
		return &s.Hint
	}
	return nil
}

// list returns the field of a key that may occur several times, or nil.
func (s *Signature) list(key string) *[]string {
	switch key {
	case "line":
		return &s.Lines
	case "unless":
		return &s.Unless
	case "example":
		return &s.Examples
	case "vague":
		return &s.Vague
	case "ask":
		return &s.Ask
	case "code":
		return &s.Codes
	}
	return nil
}

func (p *fileParser) set(key, value string) error {
	s := &p.list[len(p.list)-1]
	if value == "" {
		return fmt.Errorf("%s has no value", key)
	}
	if key == "hint" && value == "none" {
		s.NoHint = true
		return nil
	}
	if text := s.text(key); text != nil {
		if *text != "" {
			return fmt.Errorf("%s is there twice", key)
		}
		*text = value
		return nil
	}
	if list := s.list(key); list != nil {
		*list = append(*list, value)
		return nil
	}
	switch key {
	case "class":
		if !slices.Contains([]string{"node", "network", "launcher", "scheduler"}, value) {
			return fmt.Errorf("%q is no class: it is node, network, launcher, scheduler or, without this key, user", value)
		}
		s.Class = value
	case "kind":
		at := slices.Index(kindNames[:], value)
		if at < 0 {
			return fmt.Errorf("%q is no kind: it is cause, symptom, victim or note", value)
		}
		s.Kind = Kind(at)
	case "see":
		s.Variables = append(s.Variables, strings.Fields(value)...)
	case "signal":
		return number(&s.Signals, value)
	case "status":
		return number(&s.Statuses, value)
	default:
		return fmt.Errorf("%q is no key of a record", key)
	}
	return nil
}

func number(list *[]int, value string) error {
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is no number from 0 to 255", value)
	}
	*list = append(*list, int(n))
	return nil
}

// continueValue appends a line to the value of the previous one.
func (p *fileParser) continueValue(text string) error {
	s := &p.list[len(p.list)-1]
	if value := s.text(p.key); value != nil {
		*value += " " + text
		return nil
	}
	return fmt.Errorf("%q goes on with nothing: only a text may", text)
}

// finish checks the last record.
func (p *fileParser) finish() error {
	if len(p.list) == 0 {
		return nil
	}
	s := &p.list[len(p.list)-1]
	for _, key := range []string{"family", "means", "cause", "check", "fix"} {
		if *s.text(key) == "" {
			return fmt.Errorf("%s has no %s", s.ID, key)
		}
	}
	asked := len(s.Ask) + len(s.Vague) + len(s.Codes)
	if len(s.Lines) == 0 && asked == 0 || len(s.Lines) > 0 && len(s.Examples) == 0 {
		return fmt.Errorf("%s needs a line with an example, or a name to ask for it", s.ID)
	}
	s.Class = cmp.Or(s.Class, "user")
	s.patterns, s.unless = nil, nil
	for _, line := range s.Lines {
		compiled, err := compile(line)
		if err != nil {
			return fmt.Errorf("%s: line %s: %w", s.ID, line, err)
		}
		s.patterns = append(s.patterns, compiled)
	}
	for _, other := range s.Unless {
		s.unless = append(s.unless, lower(other))
	}
	return nil
}
