package signature

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// pattern is a "line" of a record: pieces in order, with anything between them.
type pattern struct {
	longest []byte // of its literals, in lower case
	// expression matches a line in lower case. It has a group for each {name}.
	expression func() *regexp.Regexp
}

// minLiteral is the minimum length of a pattern's longest literal: shorter ones match too much.
const minLiteral = 4

// compile parses a pattern.
func compile(text string) (p pattern, err error) {
	pieces := strings.Split(lower(text), "*")
	for i, piece := range pieces {
		if pieces[i], err = p.piece(strings.TrimSpace(piece)); err != nil {
			return pattern{}, err
		}
	}
	if len(p.longest) < minLiteral {
		return pattern{}, fmt.Errorf("no literal text of %d bytes or more", minLiteral)
	}
	p.expression = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(pieces, `.*?`)) })
	return p, nil
}

// Words consist of bytes that need no shell quoting, and do not begin like an option; at the end of a piece they
// exclude trailing full stops and colons. Literals do not begin or end within a number: 12 does not match in 120.
const (
	aWord    = `(?P<%s>[a-z0-9._+:/@%%=][a-z0-9._+:/@%%=-]*?)`
	endWord  = `(?P<%s>(?:[a-z0-9._+:/@%%=][a-z0-9._+:/@%%=-]*)?[a-z0-9_+/@%%=])`
	aNumber  = `(?P<%s>[0-9]+)`
	noWord   = `(?:^|[^a-z0-9._+:/@%=-])`
	noNumber = `(?:^|[^0-9])`
	atEnd    = `(?:[^0-9]|$)`
)

// piece returns the expression for a piece of a pattern.
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
				p.longest = []byte(literal)
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

// maxWord bounds the bytes of a word.
const maxWord = 300

// match matches a line; low is the line in lower case. values has the text of each {name}.
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
		if len(values[name]) > maxWord {
			return nil, false
		}
	}
	return values, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lower converts ASCII to lower case and keeps all offsets.
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
