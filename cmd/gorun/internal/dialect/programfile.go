package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refuseProgramFile is only called for a file within a file: read replaces others by their words.
func refuseProgramFile(Arg) error {
	return errors.New("a program file cannot include another one")
}

// programFile replaces --app or -configfile by the words of its file. It reports whether there was one.
func (p *Line) programFile(d *Dialect, args []string) (words []string, found bool) {
	r := d.rewrite(args)
	at := -1
	for i, o := range r.options {
		if name := o.Option.Name(); name == "app" || name == "configfile" {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	file := r.options[at]
	for _, o := range slices.Delete(slices.Clone(r.options), at, at+1) {
		words = append(words, o.typed...)
	}
	for _, problem := range r.problems {
		p.Problem(problem)
	}
	if len(r.program) > 0 || r.more {
		p.problem("%s names the programs: leave %s out", file.Text, append(r.program, ":")[0])
		return append(words, args[len(args)-len(r.program)-len(r.next):]...), true
	}
	content, err := p.around.ReadFile(file.Value)
	var programs []string
	var lines []int
	if err == nil {
		programs, lines, err = programWords(file.Value, string(content))
	}
	if err != nil {
		p.problem("%s: %w", file.Text, err)
		return append(words, "--", file.Value), true // any program: a missing one would be a second problem
	}
	for i, line := range lines {
		p.positions = append(p.positions, fmt.Sprintf("%s:%d: ", file.Value, line))
		if i == 0 && len(words) > 0 {
			p.positions[0] = "" // options before the file belong to its first program, too
		}
	}
	return append(words, programs...), true
}

// programWords returns the words of a file of programs, one on each line. # begins a comment line, a
// backslash at the end continues a line, and quotes work as in a shell. lines are the line numbers, from 1, on which
// the programs begin.
func programWords(name, text string) (words []string, lines []int, err error) {
	number, continued := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if !continued && (line == "" || line[0] == '#') {
			continue
		}
		line, more := strings.CutSuffix(line, "\\")
		some, err := splitWords(line, true)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if len(words) > 0 && !continued && words[len(words)-1] != ":" && (len(some) == 0 || some[0] != ":") {
			words = append(words, ":")
		}
		for _, word := range some {
			if word != ":" && (len(words) == 0 || words[len(words)-1] == ":") {
				lines = append(lines, number)
			}
			words = append(words, word)
		}
		continued = more
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("%s names no program", name)
	}
	return words, lines, nil
}
