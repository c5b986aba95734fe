package nccl

import (
	"strconv"
	"strings"
)

// token is one of a Python program's.
type token struct {
	kind     tokenKind
	text     string // of a string what it says
	computed bool   // a string with {…}
	line     int
	branch   string
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenString
	tokenNumber
	tokenOther // an operator, or a bracket
	tokenLine  // the end of a statement
)

// parsePython returns what a Python program sets in its environment: os.environ["A"] =
// "b", setdefault, putenv, update, and what it puts into a dictionary whose name has
// "env" in it.
func parsePython(text string) (found []Assignment) {
	p := python{tokens: tokens(text)}
	for p.at = 0; p.at < len(p.tokens); p.at++ {
		found = append(found, p.statement()...)
	}
	return found
}

// python looks for assignments in tokens.
type python struct {
	tokens []token
	at     int
}

// ahead is the token n behind this one; an end where there is none.
func (p *python) ahead(n int) token {
	if i := p.at + n; i >= 0 && i < len(p.tokens) {
		return p.tokens[i]
	}
	return token{}
}

// is reports whether the tokens from the n-th on are these operators or names; "S"
// stands for any string.
func (p *python) is(n int, texts ...string) bool {
	for i, text := range texts {
		t := p.ahead(n + i)
		if text == "S" && t.kind == tokenString {
			continue
		}
		if t.kind != tokenName && t.kind != tokenOther || t.text != text {
			return false
		}
	}
	return true
}

// statement takes what the tokens from this one on set.
func (p *python) statement() []Assignment {
	t := p.ahead(0)
	if t.kind != tokenName && t.kind != tokenString {
		return nil
	}
	environment := strings.Contains(strings.ToLower(t.text), "env")
	switch {
	case t.kind == tokenName && environment && p.is(1, "[", "S", "]", "="):
		return p.set(p.ahead(2), 5)
	case t.kind == tokenName && environment && p.is(1, ".", "setdefault", "(", "S", ","):
		return p.set(p.ahead(4), 6)
	case (t.text == "putenv" || t.text == "setenv") && p.is(1, "(", "S", ","):
		return p.set(p.ahead(2), 4)
	case environment && p.is(1, ".", "update", "("):
		return p.pairs(3)
	case environment && (p.is(1, "=", "{") || p.is(1, "|=", "{") || p.is(1, ":", "{")):
		return p.pairs(2)
	case environment && (p.is(1, "=", "dict", "(") || p.is(1, "|=", "dict", "(")):
		return p.pairs(3)
	}
	return nil
}

// set is the assignment of a name with the value that begins at the n-th token.
func (p *python) set(name token, n int) []Assignment {
	if !isName(name.text) || name.computed {
		return nil
	}
	value, known := p.value(n)
	return []Assignment{{Name: name.text, Value: value, Computed: !known, Line: name.line, branch: name.branch}}
}

// value reads "text", text in several strings, str(4), str("text"), or a number.
func (p *python) value(n int) (value string, known bool) {
	if p.is(n, "str", "(") && p.is(n+3, ")") {
		n += 2
	}
	for t := p.ahead(n); t.kind == tokenString; t = p.ahead(n) {
		if t.computed {
			return "", false
		}
		value, known = value+t.text, true
		n++
	}
	if t := p.ahead(n); t.kind == tokenNumber && !known {
		value, known = t.text, true
		n++
	}
	switch end := p.ahead(n); {
	case end.kind == tokenLine || end.kind == tokenEnd:
	case end.kind == tokenOther && strings.Contains(",)}];", end.text):
	default: // "a" + b, "a" if b else "c"
		return "", false
	}
	return value, known
}

// pairs takes "A": "b" and A="b" up to the bracket that closes the n-th token, and goes
// there.
func (p *python) pairs(n int) (found []Assignment) {
	depth := 0
	defer func() { p.at += n }()
	for ; p.ahead(n).kind != tokenEnd; n++ {
		switch t := p.ahead(n); {
		case t.kind == tokenOther && strings.Contains("([{", t.text):
			depth++
		case t.kind == tokenOther && strings.Contains(")]}", t.text):
			if depth--; depth <= 0 {
				return found
			}
		case t.kind == tokenString && p.is(n+1, ":") && !p.is(n+2, "{"), t.kind == tokenName && p.is(n+1, "="):
			found = append(found, p.set(t, n+2)...)
		}
	}
	return found
}

// tokens splits a program. What is no token of Python's is one of its own.
func tokens(text string) (all []token) {
	s := pythonScanner{text: text, line: 1, fresh: true}
	for {
		t, ok := s.next()
		if !ok {
			return all
		}
		t.branch = s.path()
		all = append(all, t)
	}
}

// pythonScanner reads tokens, and follows the blocks that the indentation makes.
type pythonScanner struct {
	text   string
	at     int
	line   int
	depth  int  // of brackets, in which lines do not end
	fresh  bool // at the beginning of a line
	blocks []pythonBlock
	count  int
}

type pythonBlock struct{ indent, number int }

func (s *pythonScanner) path() string {
	var b strings.Builder
	for _, block := range s.blocks {
		b.WriteString("/" + strconv.Itoa(block.number))
	}
	return b.String()
}

// indented follows the blocks at the beginning of a statement.
func (s *pythonScanner) indented(indent int) {
	for len(s.blocks) > 0 && s.blocks[len(s.blocks)-1].indent > indent {
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
	deepest := 0
	if len(s.blocks) > 0 {
		deepest = s.blocks[len(s.blocks)-1].indent
	}
	if indent > deepest {
		s.count++
		s.blocks = append(s.blocks, pythonBlock{indent, s.count})
	}
}

func (s *pythonScanner) next() (token, bool) {
	indent := 0
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '\n':
			s.at++
			s.line++
			ended := s.depth == 0 && !s.fresh
			s.fresh, indent = s.fresh || s.depth == 0, 0
			if ended {
				return token{kind: tokenLine, line: s.line - 1}, true
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			s.at++
			indent++
		case c == '#':
			s.at += lineEnd(s.text[s.at:])
		case c == '\\' && strings.HasPrefix(s.text[s.at+1:], "\n"):
			s.at += 2
			s.line++
		default:
			if s.fresh && s.depth == 0 {
				s.indented(indent)
			}
			s.fresh = false
			return s.token(), true
		}
	}
	return token{}, false
}

// token reads the token that begins here.
func (s *pythonScanner) token() token {
	rest := s.text[s.at:]
	if prefix := stringPrefix(rest); prefix >= 0 {
		return s.str(prefix)
	}
	t := token{line: s.line}
	end := 1
	switch c := rest[0]; {
	case isName(rest[:1]):
		t.kind = tokenName
		for end < len(rest) && isName("_"+rest[end:end+1]) {
			end++
		}
	case c >= '0' && c <= '9':
		t.kind = tokenNumber
		for end < len(rest) && (isName("_"+rest[end:end+1]) || rest[end] == '.') {
			end++
		}
	default:
		t.kind = tokenOther
		switch {
		case strings.IndexByte("([{", c) >= 0:
			s.depth++
		case strings.IndexByte(")]}", c) >= 0:
			s.depth = max(s.depth-1, 0)
		case len(rest) > 1 && rest[1] == '=' && strings.IndexByte("=!<>+-*/%&|^:@", c) >= 0:
			end = 2
		}
	}
	t.text = rest[:end]
	s.at += end
	return t
}

// stringPrefix is how many letters stand before the quote of a string; -1: it is no
// string.
func stringPrefix(text string) int {
	for i := range min(len(text), 3) {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			return i
		case strings.IndexByte("rRbBuUfF", c) < 0:
			return -1
		}
	}
	return -1
}

// str reads a string whose quote stands behind a prefix.
func (s *pythonScanner) str(prefix int) token {
	t := token{kind: tokenString, line: s.line}
	rest := s.text[s.at+prefix:]
	quote := rest[:1]
	if strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
		quote = rest[:3]
	}
	raw := strings.ContainsAny(s.text[s.at:s.at+prefix], "rR")
	formatted := strings.ContainsAny(s.text[s.at:s.at+prefix], "fF")
	var b strings.Builder
	i := len(quote)
	for i < len(rest) && !strings.HasPrefix(rest[i:], quote) {
		switch c := rest[i]; {
		case c == '\n' && len(quote) == 1: // nobody closed it
			i = min(i, len(rest))
			s.at += prefix + i
			t.text = b.String()
			return t
		case c == '\\' && i+1 < len(rest):
			if raw || rest[i+1] != quote[0] && rest[i+1] != '\\' {
				b.WriteByte(c)
			}
			b.WriteByte(rest[i+1])
			if rest[i+1] == '\n' {
				s.line++
			}
			i += 2
			continue
		case c == '\n':
			s.line++
		case c == '{' && formatted:
			t.computed = true
		}
		b.WriteByte(rest[i])
		i++
	}
	t.text = b.String()
	s.at += prefix + min(i+len(quote), len(rest))
	return t
}
