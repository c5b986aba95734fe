package program

import (
	"slices"
	"strings"
)

const masterPort = "MASTER_PORT"

// scan looks for unconditional assignments of MASTER_PORT in a program's order.
type scan struct {
	// environ are the names that os.environ goes by.
	environ map[string]bool
	// kept are names that may hold a port that was there before: assigning them back
	// keeps it.
	kept map[string]bool
	// unreached are functions that never run.
	unreached map[*statement]bool
	// ports are the numbers that are assigned, by the line.
	ports map[int]int
}

// suite returns the line of the first statement that assigns MASTER_PORT whenever
// the suite runs; 0 is none.
func (s *scan) suite(suite []statement) (line int) {
	for i := 0; i < len(suite) && line == 0; i++ {
		if s.unreached[&suite[i]] {
			continue
		}
		switch st := suite[i]; st.keyword {
		case "":
			line = s.simple(st.tokens)
		case "if":
			end := i + 1
			for end < len(suite) && (suite[end].keyword == "elif" || suite[end].keyword == "else") {
				end++
			}
			line = s.branches(suite[i:end])
			if line == 0 && end == i+1 && s.asks(st.tokens) && leaves(st.body) {
				return 0 // what follows runs only if nothing was set
			}
			i = end - 1
		case "elif", "else", "except", "match", "case": // may never run: read for what they keep
			s.suite(st.body)
		case "while":
			below := s.suite(st.body)
			if is, known := decided(st.tokens); is && known {
				line = below
			}
		default: // def, class, with, try, finally, for
			s.parameters(st.tokens)
			line = s.suite(st.body)
		}
	}
	return line
}

// branches returns the line of the first assignment in if, elif and else if each
// way through them has one.
func (s *scan) branches(chain []statement) int {
	first, all := 0, true
	for _, branch := range chain {
		is, known := true, branch.keyword == "else"
		if !known {
			is, known = decided(branch.tokens)
		}
		line := s.suite(branch.body)
		if known && !is {
			continue
		}
		if first == 0 {
			first = line
		}
		all = all && line != 0
		if known && all {
			return first
		}
		if known {
			return 0
		}
	}
	return 0
}

// decided returns the value of a condition that is the same in every rank on Linux.
func decided(condition []token) (is, known bool) {
	if len(condition) == 1 {
		switch t := condition[0]; {
		case t.is("True") || t.is("1"):
			return true, true
		case t.is("False") || t.is("0"):
			return false, true
		}
	}
	for i, t := range condition {
		if t.is("==") || t.is("!=") {
			equal, known := compared(condition[:i], condition[i+1:])
			return equal == t.is("=="), known
		}
	}
	return false, false
}

// compared reports whether an expression and a string, in either order, are equal.
func compared(a, b []token) (equal, known bool) {
	if len(a) == 1 && a[0].kind == tokenString {
		a, b = b, a
	}
	if len(b) != 1 || b[0].kind != tokenString {
		return false, false
	}
	value := ""
	switch joined(a) {
	case "__name__":
		value = "__main__"
	case "sys.platform", "platform.system().lower()":
		value = "linux"
	case "os.name":
		value = "posix"
	case "platform.system()":
		value = "Linux"
	default:
		return false, false
	}
	return b[0].text == value, true
}

// joined is the text of an expression without strings and blanks.
func joined(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.text)
	}
	return b.String()
}

// asks reports whether a condition is about the environment.
func (s *scan) asks(condition []token) bool {
	return s.keeps(condition) || slices.ContainsFunc(condition, func(t token) bool {
		return t.kind == tokenName && (s.environ[t.text] || t.text == "getenv")
	})
}

// leaves reports whether a block ends by leaving the block around it.
func leaves(body []statement) bool {
	if len(body) == 0 {
		return false
	}
	last := body[len(body)-1]
	if last.keyword != "" || len(last.tokens) == 0 {
		return false
	}
	switch last.tokens[0].text {
	case "return", "raise", "continue", "break", "exit", "quit":
		return true
	}
	return strings.HasPrefix(joined(last.tokens), "sys.exit(")
}

// parameters remembers those of a def that may hold the old port by default.
func (s *scan) parameters(header []token) {
	if !s.keeps(header) {
		return
	}
	for i, t := range header[:len(header)-1] {
		if t.kind == tokenName && header[i+1].is("=") {
			s.kept[t.text] = true
		}
	}
}
