package program

import (
	"slices"
	"strings"
)

const masterPort = "MASTER_PORT"

// portScan looks for unconditional assignments of MASTER_PORT, in the order of the program.
type portScan struct {
	// environ are the names of os.environ.
	environ map[string]bool
	// kept are names that may hold the old port: assigning them keeps it.
	kept map[string]bool
	// uncalled are functions that never run.
	uncalled map[*statement]bool
	// ports are the literal ports that are assigned, by line.
	ports map[int]int
}

// suite returns the line of the first statement that sets MASTER_PORT whenever the suite runs; 0 if none exists.
func (s *portScan) suite(suite []statement) (line int) {
	for i := 0; i < len(suite) && line == 0; i++ {
		if s.uncalled[&suite[i]] {
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
			if line == 0 && end == i+1 && s.readsEnviron(st.tokens) && exits(st.body) {
				return 0 // the rest runs only if MASTER_PORT was not set
			}
			i = end - 1
		case "elif", "else", "except", "match", "case": // may never run, but may keep the old port
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

// branches returns the line of the first assignment in a chain of if, elif and else, if every path has one.
func (s *portScan) branches(chain []statement) int {
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

// decided returns the value of a condition that is constant on Linux.
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

// joined returns the text of an expression without blanks and quotes.
func joined(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.text)
	}
	return b.String()
}

// readsEnviron reports whether a condition depends on the environment.
func (s *portScan) readsEnviron(condition []token) bool {
	return s.keeps(condition) || slices.ContainsFunc(condition, func(t token) bool {
		return t.kind == tokenName && (s.environ[t.text] || t.text == "getenv")
	})
}

// exits reports whether a block ends by leaving its function, loop or program.
func exits(body []statement) bool {
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

// parameters records parameters with the old port as their default.
func (s *portScan) parameters(header []token) {
	if !s.keeps(header) {
		return
	}
	for i, t := range header[:len(header)-1] {
		if t.kind == tokenName && header[i+1].is("=") {
			s.kept[t.text] = true
		}
	}
}
