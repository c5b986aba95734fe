package program

import "strings"

// tokenKind is the kind of a Python token, as far as this package needs it.
type tokenKind uint8

const (
	tokenName   tokenKind = iota // names, keywords and numbers
	tokenString                  // its text is the content without quotes
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

// logicalLine is a logical line of Python: joined over brackets, backslashes and multi-line strings, without comments.
type logicalLine struct {
	indent int // columns, a tab reaching to the next multiple of 8
	tokens []token
}

// logicalLines splits a Python program into its lines that are not empty. It accepts invalid programs.
func logicalLines(text string) (lines []logicalLine) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	var now logicalLine
	depth, atStart := 0, true // open brackets; only blanks so far
	for number := 1; text != ""; {
		size := 1
		switch c := text[0]; {
		case c == '\n' && depth == 0:
			if len(now.tokens) > 0 {
				lines = append(lines, now)
			}
			now, atStart = logicalLine{}, true
		case strings.IndexByte(" \t\f", c) >= 0:
			if atStart {
				now.indent = indented(now.indent, c)
			}
		case c == '#':
			size = len(text)
			if end := strings.IndexByte(text, '\n'); end >= 0 {
				size = end
			}
		case c == '\\' && strings.HasPrefix(text, "\\\n"):
			size = 2
		case c != '\n' && c != '\\':
			var t token
			t, size = firstToken(text)
			depth = max(depth+nesting(t), 0)
			t.line = number
			now.tokens = append(now.tokens, t)
			atStart = false
		}
		number += strings.Count(text[:size], "\n")
		text = text[size:]
	}
	if len(now.tokens) > 0 {
		lines = append(lines, now)
	}
	return lines
}

// indented returns the column after a blank at the start of a line.
func indented(column int, blank byte) int {
	switch blank {
	case '\t':
		return (column/8 + 1) * 8
	case '\f':
		return 0
	}
	return column + 1
}

// firstToken returns the first token of a text and its length. Operators of several characters matter only if they
// contain = or :, which would otherwise look like an assignment or the end of a header.
func firstToken(text string) (token, int) {
	word := text[:len(text)-len(strings.TrimLeftFunc(text, isNameRune))]
	if quoted, ok := quote(text[len(word):]); ok && len(word) <= 2 && strings.Trim(word, "rRbBuUfFtT") == "" {
		kind := tokenString
		if strings.ContainsAny(word, "fFtT") {
			kind = tokenFormat
		}
		content, size := cutString(text[len(word)+len(quoted):], quoted)
		return token{kind: kind, text: content}, len(word) + len(quoted) + size
	}
	if word != "" {
		return token{kind: tokenName, text: word}, len(word)
	}
	size := 1
	for _, long := range []string{
		"**=", "//=", ">>=", "<<=", "==", "!=", "<=", ">=", ":=", "->", "+=", "-=", "*=",
		"/=", "%=", "&=", "|=", "^=", "@=",
	} {
		if strings.HasPrefix(text, long) {
			size = len(long)
			break
		}
	}
	return token{kind: tokenSymbol, text: text[:size]}, size
}

// quote returns the quotation marks at the start of a text.
func quote(text string) (marks string, ok bool) {
	for _, marks := range [...]string{`"""`, "'''", `"`, "'"} {
		if strings.HasPrefix(text, marks) {
			return marks, true
		}
	}
	return "", false
}

// cutString returns the content of a string and its length with the closing marks. A backslash escapes a quote, even in
// raw strings. A string without closing marks ends with its line, or with the text.
func cutString(text, marks string) (content string, size int) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], marks):
			return text[:i], i + len(marks)
		case text[i] == '\n' && len(marks) == 1:
			return text[:i], i
		}
	}
	return text, len(text)
}

func isNameRune(r rune) bool {
	return r >= 0x80 || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'
}
