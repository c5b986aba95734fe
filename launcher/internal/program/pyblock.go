package program

import "iter"

// statement is a simple statement, or a compound one with what stands below it.
type statement struct {
	keyword string  // "if", "else", "def", …; "" for a simple statement
	tokens  []token // the statement, or the header between keyword and colon
	body    []statement
}

// blockReader turns logical lines into statements by their indentation.
type blockReader struct {
	lines []logicalLine
	next  int
}

// blocks returns the statements of a program.
func blocks(lines []logicalLine) []statement {
	r := &blockReader{lines: lines}
	return r.suite(0)
}

// suite reads the statements that are indented at least that far.
func (r *blockReader) suite(indent int) []statement {
	var suite []statement
	for r.next < len(r.lines) && r.lines[r.next].indent >= indent {
		suite = r.statement(suite)
	}
	return suite
}

// statement appends what the next logical line begins.
func (r *blockReader) statement(suite []statement) []statement {
	line := r.lines[r.next]
	r.next++
	keyword, header, rest, ok := compound(line.tokens)
	if !ok {
		return append(suite, simple(line.tokens)...)
	}
	s := statement{keyword: keyword, tokens: header}
	if len(rest) > 0 {
		s.body = simple(rest)
	} else {
		s.body = r.suite(line.indent + 1)
	}
	return append(suite, s)
}

// compound takes a line apart that begins a compound statement.
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

// headerColon is the index of the colon that ends a header, or -1: outside brackets,
// and not that of a lambda.
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

// outside are the tokens outside brackets, with their indices.
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

// nesting is by how much t changes the depth of brackets.
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

// simple returns the simple statements of a line, which semicolons part.
func simple(tokens []token) []statement {
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
