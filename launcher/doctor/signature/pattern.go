package signature

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// pattern is a line of a record: pieces that follow each other in a line with anything between them.
type pattern struct {
	longest string // of its literals, in small letters
	// expression finds it in a line's small letters, and has a group for each {name}.
	expression func() *regexp.Regexp
}

// leastLiteral is how long the longest literal of a pattern must be: shorter ones would be found everywhere.
const leastLiteral = 4

// compile reads a pattern.
func compile(text string) (p pattern, err error) {
	pieces := strings.Split(lower(text), "*")
	for i, piece := range pieces {
		if pieces[i], err = p.piece(strings.TrimSpace(piece)); err != nil {
			return pattern{}, err
		}
	}
	if len(p.longest) < leastLiteral {
		return pattern{}, fmt.Errorf("no literal text of %d bytes or more", leastLiteral)
	}
	p.expression = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(pieces, `.*?`)) })
	return p, nil
}

// Words have the bytes that a shell takes as they are, and do not begin as a command's options do; one at the end of a
// piece is read without full stops and colons behind it. Literals do not begin or end within a number: 12 is not in
// 120.
const (
	aWord    = `(?P<%s>[a-z0-9._+:/@%%=][a-z0-9._+:/@%%=-]*?)`
	endWord  = `(?P<%s>(?:[a-z0-9._+:/@%%=][a-z0-9._+:/@%%=-]*)?[a-z0-9_+/@%%=])`
	aNumber  = `(?P<%s>[0-9]+)`
	noWord   = `(?:^|[^a-z0-9._+:/@%=-])`
	noNumber = `(?:^|[^0-9])`
	atEnd    = `(?:[^0-9]|$)`
)

// piece returns the expression of one.
func (p *pattern) piece(text string) (string, error) {
	var b strings.Builder
	hasText := false
	for first := true; ; first = false {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			hasText = true
			if first && isDigit(literal[0]) {
				b.WriteString(noNumber)
			}
			b.WriteString(regexp.QuoteMeta(literal))
			if !found && isDigit(literal[len(literal)-1]) {
				b.WriteString(atEnd)
			}
			if len(literal) > len(p.longest) {
				p.longest = literal
			}
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		plain, isNumber := strings.CutSuffix(name, "#")
		kind, before := aWord, noWord
		switch {
		case !closed || plain == "" || strings.Trim(plain, "abcdefghijklmnopqrstuvwxyz") != "":
			return "", fmt.Errorf("{%s: a name in small letters has to stand between braces", name)
		case literal == "" && !first:
			return "", fmt.Errorf("{%s} follows another without text between them", name)
		case isNumber:
			kind, before = aNumber, noNumber
		case after == "":
			kind = endWord
		}
		if literal == "" {
			b.WriteString(before)
		}
		fmt.Fprintf(&b, kind, plain)
		text = after
	}
	if !hasText {
		return "", errors.New("a piece without text")
	}
	return b.String(), nil
}

// longestWord is how many bytes a word may have.
const longestWord = 300

// match looks for the pattern in a line, whose small letters are low. Values are what the line held; nil where nothing
// is read.
func (p pattern) match(line, low string) (values map[string]string, ok bool) {
	at := p.expression().FindStringSubmatchIndex(low)
	if at == nil {
		return nil, false
	}
	for i, name := range p.expression().SubexpNames()[1:] {
		if values == nil {
			values = map[string]string{}
		}
		values[name] = line[at[2*i+2]:at[2*i+3]]
		if len(values[name]) > longestWord {
			return nil, false
		}
	}
	return values, true
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
