package program

import "strings"

// tokenKind is what a token of Python is, as far as this package cares.
type tokenKind uint8

const (
	tokenName   tokenKind = iota // names, keywords and numbers
	tokenString                  // its text is what stands between the quotes
	tokenFormat                  // an f-string: it may contain expressions
	tokenSymbol                  // operators and brackets
)

// token is one token of a Python program.
type token struct {
	kind tokenKind
	text string
	line int // from 1
}

// is reports whether t is the given name or symbol.
func (t token) is(text string) bool {
	return t.text == text && (t.kind == tokenName || t.kind == tokenSymbol)
}

// logicalLine is a line as Python understands it: joined over brackets,
// continuation characters and strings of several lines, without comments.
type logicalLine struct {
	indent int // columns, a tab reaching to the next multiple of 8
	tokens []token
}

// lexer cuts a Python program into logical lines. Wrong programs give some lines or
// other: it never fails.
type lexer struct {
	text  string
	at    int
	line  int
	depth int // open brackets
	lines []logicalLine
	now   logicalLine
}

// logicalLines returns the lines of text that are not empty.
func logicalLines(text string) []logicalLine {
	l := &lexer{text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	for l.at < len(l.text) {
		l.indent()
		for l.at < len(l.text) && !l.token() {
		}
		l.end()
	}
	return l.lines
}

// end closes the logical line.
func (l *lexer) end() {
	if len(l.now.tokens) > 0 {
		l.lines = append(l.lines, l.now)
	}
	l.now, l.depth = logicalLine{}, 0
}

// indent reads the blanks at the beginning of a line.
func (l *lexer) indent() {
	for ; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case ' ':
			l.now.indent++
		case '\t':
			l.now.indent = (l.now.indent/8 + 1) * 8
		case '\f':
			l.now.indent = 0
		default:
			return
		}
	}
}

// token reads one token or what stands between tokens; done is true at the end of a
// logical line.
func (l *lexer) token() (done bool) {
	switch c := l.text[l.at]; {
	case c == '\n' || c == '\r':
		l.newline()
		return l.depth == 0
	case c == ' ' || c == '\t' || c == '\f':
		l.at++
	case c == '#':
		l.comment()
	case c == '\\':
		l.at++
		if l.at < len(l.text) && (l.text[l.at] == '\n' || l.text[l.at] == '\r') {
			l.newline()
		}
	case c == '"' || c == '\'':
		l.stringToken(tokenString)
	case isNameByte(c):
		l.name()
	default:
		l.symbol()
	}
	return false
}

// newline passes one end of line of any system.
func (l *lexer) newline() {
	if strings.HasPrefix(l.text[l.at:], "\r\n") {
		l.at++
	}
	l.at++
	l.line++
}

func (l *lexer) comment() {
	for l.at < len(l.text) && l.text[l.at] != '\n' && l.text[l.at] != '\r' {
		l.at++
	}
}

func (l *lexer) add(kind tokenKind, text string, line int) {
	l.now.tokens = append(l.now.tokens, token{kind, text, line})
}

// name reads a name, or a string with its prefix.
func (l *lexer) name() {
	start := l.at
	for l.at < len(l.text) && isNameByte(l.text[l.at]) {
		l.at++
	}
	word := l.text[start:l.at]
	if l.at < len(l.text) && (l.text[l.at] == '"' || l.text[l.at] == '\'') && isStringPrefix(word) {
		kind := tokenString
		if strings.ContainsAny(word, "fFtT") {
			kind = tokenFormat
		}
		l.stringToken(kind)
		return
	}
	l.add(tokenName, word, l.line)
}

func isStringPrefix(word string) bool {
	return len(word) <= 2 && strings.Trim(word, "rRbBuUfFtT") == ""
}

// stringToken reads a string of any kind. In raw ones too a backslash protects the
// quote after it, so both are read alike.
func (l *lexer) stringToken(kind tokenKind) {
	line, quote := l.line, l.text[l.at:l.at+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(l.text[l.at:], long) {
		quote = long
	}
	l.at += len(quote)
	start := l.at
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			l.stringByte()
		case strings.HasPrefix(l.text[l.at:], quote):
			l.add(kind, l.text[start:l.at], line)
			l.at += len(quote)
			return
		case (c == '\n' || c == '\r') && len(quote) == 1:
			l.add(kind, l.text[start:l.at], line) // not closed: a mistake that ends with its line
			return
		default:
			l.stringByte()
		}
	}
	l.add(kind, l.text[start:l.at], line)
}

// stringByte passes one byte of a string, and counts lines.
func (l *lexer) stringByte() {
	if c := l.text[l.at]; c == '\n' || c == '\r' {
		l.newline()
		return
	}
	l.at++
}

// symbol reads an operator. Those of several characters matter only where they
// contain = or :, which would else look like an assignment or the end of a header.
func (l *lexer) symbol() {
	n := 1
	for _, long := range []string{
		"**=", "//=", ">>=", "<<=", "==", "!=", "<=", ">=", ":=", "->", "+=", "-=", "*=",
		"/=", "%=", "&=", "|=", "^=", "@=",
	} {
		if strings.HasPrefix(l.text[l.at:], long) {
			n = len(long)
			break
		}
	}
	text := l.text[l.at : l.at+n]
	switch text {
	case "(", "[", "{":
		l.depth++
	case ")", "]", "}":
		l.depth = max(l.depth-1, 0)
	}
	l.add(tokenSymbol, text, l.line)
	l.at += n
}

func isNameByte(c byte) bool {
	return isAlphanumeric(c) || c == '_' || c >= 0x80
}
