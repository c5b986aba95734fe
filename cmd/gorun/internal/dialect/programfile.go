package dialect

import (
	"errors"
	"fmt"
	"strings"
)

// setProgramFile is never called for a file that was read: what it says took its place.
func setProgramFile(Arg) error {
	return errors.New("a file of programs cannot name another one")
}

// programFile finds --app or -configfile in a part of a command line, and puts what its
// file says in the place of the programs. It reports whether there was one.
func (p *Line) programFile(d *Dialect, args []string) (words []string, found bool) {
	r := d.rewrite(args)
	at := -1
	for i, o := range r.options {
		if name := o.Option.Names[0]; name == "app" || name == "configfile" {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	for i, o := range r.options {
		if i != at {
			words = append(words, o.typed...)
		}
	}
	for _, problem := range r.problems {
		p.Problem(problem)
	}
	file := r.options[at]
	if len(r.program) > 0 || r.more {
		p.problem("%s names the programs: leave %s out", file.Text, append(r.program, ":")[0])
		return append(words, args[len(args)-len(r.program)-len(r.next):]...), true
	}
	content, err := p.around.ReadFile(file.Value)
	var said []string
	var lines []int
	if err == nil {
		said, lines, err = programWords(file.Value, string(content))
	}
	if err != nil {
		p.problem("%s: %w", file.Text, err)
		return append(words, "--", file.Value), true // some program: that there is none is no second problem
	}
	for i, line := range lines {
		p.places = append(p.places, fmt.Sprintf("%s:%d: ", file.Value, line))
		if i == 0 && len(words) > 0 {
			p.places[0] = "" // options before the file are the first program's, too
		}
	}
	return append(words, said...), true
}

// programWords are the words of a file of programs: a line each, with # before what
// nobody reads, and a backslash at the end of a line that goes on. Quotes are a shell's.
// lines are the numbers of those, from 1 on, on which the programs begin.
func programWords(name, text string) (words []string, lines []int, err error) {
	number := 0
	open := false // the line before goes on
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if !open && (line == "" || line[0] == '#') {
			continue
		}
		line, more := strings.CutSuffix(line, "\\")
		s := commandSplitter{rest: line, literal: true}
		for s.rest != "" {
			if err := s.step(); err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
		s.end()
		if len(words) > 0 && !open && words[len(words)-1] != ":" && (len(s.words) == 0 || s.words[0] != ":") {
			words = append(words, ":")
		}
		for i, word := range s.words {
			before := append(words, s.words[:i]...)
			if word != ":" && (len(before) == 0 || before[len(before)-1] == ":") {
				lines = append(lines, number)
			}
		}
		words, open = append(words, s.words...), more
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("%s names no program", name)
	}
	return words, lines, nil
}
