package signature

import (
	"errors"
	"fmt"
	"strings"
)

// pattern is a line of a record, in small letters: segments that follow each other in a line with anything between
// them.
type pattern struct {
	segments []segment
}

// segment is text that stands together: literals, with a word or a number between them.
type segment struct {
	lead  capture // before the first literal, or none
	parts []part
}

// part is a literal and what is read behind it.
type part struct {
	literal string
	then    capture // none for the last, mostly
}

// capture is what is read out of a line.
type capture struct {
	name   string // "" is none
	number bool
}

// leastLiteral is how long the longest literal of a pattern must be: shorter ones would be found everywhere.
const leastLiteral = 4

// compile reads a pattern.
func compile(text string) (pattern, error) {
	var p pattern
	for piece := range strings.SplitSeq(lower(text), "*") {
		s, err := compileSegment(strings.TrimSpace(piece))
		if err != nil {
			return pattern{}, err
		}
		p.segments = append(p.segments, s)
	}
	if len(p.longest()) < leastLiteral {
		return pattern{}, fmt.Errorf("no literal text of %d bytes or more", leastLiteral)
	}
	return p, nil
}

func compileSegment(text string) (segment, error) {
	var s segment
	for {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			s.parts = append(s.parts, part{literal: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		c := capture{name: strings.TrimSuffix(name, "#"), number: strings.HasSuffix(name, "#")}
		switch {
		case !closed || c.name == "" || strings.Trim(c.name, "abcdefghijklmnopqrstuvwxyz") != "":
			return segment{}, fmt.Errorf("{%s: a name in small letters has to stand between braces", name)
		case literal == "" && (len(s.parts) > 0 || s.lead.name != ""):
			return segment{}, fmt.Errorf("{%s} follows another without text between them", name)
		case literal == "":
			s.lead = c
		default:
			s.parts[len(s.parts)-1].then = c
		}
		text = after
	}
	if len(s.parts) == 0 {
		return segment{}, errors.New("a piece without text")
	}
	return s, nil
}

// longest is the pattern's longest literal.
func (p pattern) longest() string {
	var longest string
	for _, s := range p.segments {
		for _, q := range s.parts {
			if len(q.literal) > len(longest) {
				longest = q.literal
			}
		}
	}
	return longest
}

// match looks for the pattern in a line, whose small letters are low. Values are what the line held; nil where nothing
// is read.
func (p pattern) match(line, low string) (values map[string]string, ok bool) {
	from := 0
	for _, s := range p.segments {
		end, ok := s.find(line, low, from, &values)
		if !ok {
			return nil, false
		}
		from = end
	}
	return values, true
}

// find looks for a segment from a place on, and returns the place behind it.
func (s segment) find(line, low string, from int, values *map[string]string) (end int, ok bool) {
	first := s.parts[0].literal
	for from <= len(low) {
		at := strings.Index(low[from:], first)
		if at < 0 {
			return 0, false
		}
		at += from
		if end, ok := s.at(line, low, at, values); ok {
			return end, true
		}
		from = at + 1
	}
	return 0, false
}

// at compares a segment whose first literal stands at a place.
func (s segment) at(line, low string, at int, values *map[string]string) (end int, ok bool) {
	read := make([]string, 0, 4)
	if s.lead.name != "" {
		word := wordBefore(line[:at], s.lead.number)
		if word == "" {
			return 0, false
		}
		read = append(read, s.lead.name, word)
	}
	for i, q := range s.parts {
		if !strings.HasPrefix(low[at:], q.literal) || !wholeNumbers(low, at, at+len(q.literal)) {
			return 0, false
		}
		at += len(q.literal)
		if q.then.name == "" {
			continue
		}
		next := ""
		if i+1 < len(s.parts) {
			next = s.parts[i+1].literal
		}
		length := wordAfter(low[at:], next, q.then.number)
		if length == 0 {
			return 0, false
		}
		read = append(read, q.then.name, line[at:at+length])
		at += length
	}
	for i := 0; i < len(read); i += 2 {
		if *values == nil {
			*values = map[string]string{}
		}
		(*values)[read[i]] = read[i+1]
	}
	return at, true
}

// wholeNumbers reports whether a literal at that place neither begins nor ends within a number: 12 is not in 120.
func wholeNumbers(low string, from, to int) bool {
	return !(from > 0 && isDigit(low[from]) && isDigit(low[from-1])) &&
		!(to < len(low) && isDigit(low[to-1]) && isDigit(low[to]))
}

// longestWord is how many bytes a word may have, which bounds what a hostile line costs.
const longestWord = 300

// wordAfter is how long the word or number is with which text begins, up to the literal that has to follow.
func wordAfter(text, next string, number bool) int {
	most := 0
	for most <= longestWord && most < len(text) && fits(text[most], number) {
		most++
	}
	if most == 0 || most > longestWord || !number && text[0] == '-' { // which a command would take for an option
		return 0
	}
	if number || next == "" {
		if next == "" && !number {
			most = len(strings.TrimRight(text[:most], ".:"))
		}
		return most
	}
	for length := 1; length <= most; length++ {
		if strings.HasPrefix(text[length:], next) {
			return length
		}
	}
	return 0
}

// wordBefore is the word or number with which text ends.
func wordBefore(text string, number bool) string {
	from := len(text)
	for len(text)-from <= longestWord && from > 0 && fits(text[from-1], number) {
		from--
	}
	if len(text)-from > longestWord || from < len(text) && !number && text[from] == '-' {
		return ""
	}
	return text[from:]
}

// fits tells the bytes of words: those that a shell takes as they are.
func fits(c byte, number bool) bool {
	return isDigit(c) || !number &&
		(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("._-+:/@%=", c) >= 0)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lower is text with small letters, byte for byte: places in both are the same.
func lower(text string) string {
	for i := range len(text) {
		if c := text[i]; c >= 'A' && c <= 'Z' {
			b := []byte(text)
			for ; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return text
}
