package program

import "iter"

// statement is a simple statement, or a compound one with its block.
type statement struct {
	keyword string  // "if", "else", "def", …; "" for a simple statement
	tokens  []token // the statement, or the header between keyword and colon
	body    []statement
}

// blockParser groups logical lines into statements by their indentation.
type blockParser struct {
	lines []logicalLine
	next  int
}

// parseBlocks returns the statements of a program.
func parseBlocks(lines []logicalLine) []statement {
	p := &blockParser{lines: lines}
	return p.suite(0)
}

// suite parses the statements with at least an indentation.
func (p *blockParser) suite(indent int) []statement {
	var suite []statement
	for p.next < len(p.lines) && p.lines[p.next].indent >= indent {
		suite = p.statement(suite)
	}
	return suite
}

// statement appends the statement that starts with the next logical line.
func (p *blockParser) statement(suite []statement) []statement {
	line := p.lines[p.next]
	p.next++
	keyword, header, rest, ok := compound(line.tokens)
	if !ok {
		return append(suite, simpleStatements(line.tokens)...)
	}
	s := statement{keyword: keyword, tokens: header}
	if len(rest) > 0 {
		s.body = simpleStatements(rest)
	} else {
		s.body = p.suite(line.indent + 1)
	}
	return append(suite, s)
}

// compound splits a line that starts a compound statement.
func compound(tokens []token) (keyword string, header, rest []token, ok bool) {
	if len(tokens) > 1 && tokens[0].is("async") {
		tokens = tokens[1:]
	}
	if tokens[0].kind != tokenName {
		return "", nil, nil, false
	}
	colon := headerColon(tokens)
	switch keyword = tokens[0].text; keyword {
	case "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class":
		ok = colon > 0
	case "match", "case": // names too, unless a block follows
		ok = colon > 0 && colon == len(tokens)-1
	}
	if !ok {
		return "", nil, nil, false
	}
	return keyword, tokens[1:colon], tokens[colon+1:], true
}

// headerColon returns the index of the colon that ends a header, or -1: outside brackets, and not a lambda's.
func headerColon(tokens []token) int {
	lambdas := 0
	for i, t := range outside(tokens) {
		switch {
		case t.is("lambda"):
			lambdas++
		case t.is(":") && lambdas > 0:
			lambdas--
		case t.is(":"):
			return i
		}
	}
	return -1
}

// outside iterates over the tokens outside brackets, with their indices.
func outside(tokens []token) iter.Seq2[int, token] {
	return func(yield func(int, token) bool) {
		depth := 0
		for i, t := range tokens {
			if depth += nesting(t); depth <= 0 && !yield(i, t) {
				return
			}
		}
	}
}

// nesting is the change of the depth of brackets by t.
func nesting(t token) int {
	if t.kind != tokenSymbol {
		return 0
	}
	switch t.text {
	case "(", "[", "{":
		return 1
	case ")", "]", "}":
		return -1
	}
	return 0
}

// simpleStatements splits a line at semicolons.
func simpleStatements(tokens []token) []statement {
	var all []statement
	start := 0
	for i, t := range tokens {
		if t.is(";") {
			all = append(all, statement{tokens: tokens[start:i]})
			start = i + 1
		}
	}
	return append(all, statement{tokens: tokens[start:]})
}
