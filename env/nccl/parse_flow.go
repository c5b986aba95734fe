package nccl

import (
	"encoding/json"
	"strings"
)

// node is a piece of a YAML or JSON text: a scalar, a list, or a mapping.
type node struct {
	text  string // a scalar
	line  int
	keys  []node // of a mapping, one for each of items
	items []node
	block bool // a scalar over several lines, or a text in quotes
	list  bool
}

func (n *node) isMapping() bool { return n.keys != nil }

func (n *node) isScalar() bool { return n.keys == nil && !n.list }

// deepest is how deep collections may lie within each other: what is deeper is no text of
// a person's.
const deepest = 100

// flow reads {a: b, "c": [d]}: JSON, and YAML's way to write collections in brackets.
// Remarks, as VS Code has them, and commas too many do no harm.
type flow struct {
	text string
	at   int
	line int
}

// skip goes over blanks and remarks.
func (f *flow) skip() {
	for f.at < len(f.text) {
		rest := f.text[f.at:]
		switch {
		case rest[0] == '\n':
			f.line++
			f.at++
		case strings.IndexByte(" \t\r", rest[0]) >= 0:
			f.at++
		case rest[0] == '#' || strings.HasPrefix(rest, "//"):
			f.at += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest, "*/")
			if end < 0 {
				end = len(rest) - 2
			}
			f.line += strings.Count(rest[:end+2], "\n")
			f.at += end + 2
		default:
			return
		}
	}
}

// peek is the byte that comes next, 0 at the end.
func (f *flow) peek() byte {
	if f.skip(); f.at < len(f.text) {
		return f.text[f.at]
	}
	return 0
}

// value reads what stands here.
func (f *flow) value(depth int) node {
	n := node{line: f.line}
	switch c := f.peek(); {
	case depth > deepest:
		f.at = len(f.text)
	case c == '{':
		n.line = f.line
		n.keys = []node{}
		f.collection('}', func() {
			key := f.value(depth + 1)
			var item node
			if f.peek() == ':' {
				f.at++
				item = f.value(depth + 1)
			}
			n.keys, n.items = append(n.keys, key), append(n.items, item)
		})
	case c == '[':
		n.line, n.list = f.line, true
		f.collection(']', func() { n.items = append(n.items, f.value(depth+1)) })
	case c == '"' || c == '\'':
		return f.quoted(c)
	default:
		n.line = f.line
		n.text = f.plain()
	}
	return n
}

// collection reads what stands between commas up to a bracket. Each go takes a byte at
// least.
func (f *flow) collection(end byte, item func()) {
	f.at++
	for {
		switch c := f.peek(); c {
		case 0:
			return
		case end:
			f.at++
			return
		case ',':
			f.at++
			continue
		}
		before := f.at
		if item(); f.at == before {
			f.at++
		}
	}
}

// plain reads a scalar without quotes.
func (f *flow) plain() string {
	begin := f.at
	for f.at < len(f.text) && strings.IndexByte(",[]{}\n", f.text[f.at]) < 0 {
		if f.text[f.at] == ':' && (f.at+1 == len(f.text) || strings.IndexByte(" \t\r\n,", f.text[f.at+1]) >= 0) {
			break
		}
		f.at++
	}
	return strings.TrimSpace(f.text[begin:f.at])
}

// quoted reads a text in quotes, as JSON or YAML have it.
func (f *flow) quoted(quote byte) node {
	begin := f.at
	n := node{line: f.line, block: true}
	for f.at++; f.at < len(f.text) && f.text[f.at] != quote; f.at++ {
		if quote == '"' && f.text[f.at] == '\\' && f.at+1 < len(f.text) {
			f.at++
		}
	}
	f.at = min(f.at, len(f.text))
	inner := f.text[begin+1 : f.at]
	f.at = min(f.at+1, len(f.text))
	f.line += strings.Count(inner, "\n")
	n.text = inner
	if quote == '"' && json.Unmarshal([]byte(`"`+inner+`"`), &n.text) != nil {
		n.text = inner
	}
	return n
}

// parseJSON returns what a JSON text sets: what stands below a key with "env" in it, and
// variables of NCCL's wherever they are.
func parseJSON(text string) []Assignment {
	f, t := flow{text: text, line: 1}, tree{}
	for f.peek() != 0 {
		before := f.at
		if t.node("", f.value(0)); f.at == before {
			f.at++
		}
	}
	return t.found
}
