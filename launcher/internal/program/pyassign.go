package program

import (
	"strconv"
	"strings"
)

// simple returns the line on which a simple statement assigns MASTER_PORT whatever
// it was; 0 if it doesn't. It notes new names for os.environ and for old ports.
func (s *scan) simple(tokens []token) int {
	if len(tokens) == 0 {
		return 0
	}
	if tokens[0].is("from") {
		s.imports(tokens)
		return 0
	}
	if equals := lastEquals(tokens); equals > 0 {
		return s.assignment(tokens[:equals], tokens[equals+1:])
	}
	s.options(tokens)
	return s.call(tokens)
}

// imports notes `from os import environ as env`.
func (s *scan) imports(tokens []token) {
	for i := 2; i < len(tokens); i++ {
		if tokens[i-1].is("as") && tokens[i-2].is("environ") {
			s.environ[tokens[i].text] = true
		}
	}
}

// lastEquals is the index of the last = outside brackets, or -1.
func lastEquals(tokens []token) int {
	last, depth := -1, 0
	for i, t := range tokens {
		depth += nesting(t)
		if depth == 0 && t.is("=") {
			last = i
		}
	}
	return last
}

// assignment is `targets = value`; targets may hold further = signs.
func (s *scan) assignment(targets, value []token) int {
	if s.keeps(value) {
		s.keep(targets)
		return 0
	}
	s.alias(targets, value)
	depth := 0
	for i, t := range targets {
		depth += nesting(t)
		if depth == 0 && s.isTarget(targets, i) {
			s.note(t.line, value)
			return t.line
		}
	}
	return 0
}

// isTarget reports whether `environ["MASTER_PORT"]` begins at i, perhaps after
// `os.`, and is assigned to.
func (s *scan) isTarget(targets []token, i int) bool {
	if !s.isEnviron(targets[i]) || !isPort(targets, i+2) || !targets[i+1].is("[") || i+3 >= len(targets) ||
		!targets[i+3].is("]") {
		return false
	}
	if i+4 < len(targets) && !targets[i+4].is(",") && !targets[i+4].is("=") && !targets[i+4].is(":") {
		return false
	}
	for i > 1 && targets[i-1].is(".") {
		i -= 2
	}
	return i == 0 || targets[i-1].is(",") || targets[i-1].is("=")
}

func (s *scan) isEnviron(t token) bool { return t.kind == tokenName && s.environ[t.text] }

func isPort(tokens []token, i int) bool {
	return i < len(tokens) && tokens[i].kind == tokenString && tokens[i].text == masterPort
}

// keep notes that the targets of an assignment hold what may be the old port.
func (s *scan) keep(targets []token) {
	for i, t := range targets {
		last := i+1 == len(targets) || targets[i+1].is("=") || targets[i+1].is(",") || targets[i+1].is(":")
		if last && t.kind == tokenName {
			s.kept[t.text] = true
		}
		if t.is(":") {
			return // a type
		}
	}
}

// alias notes `env = os.environ`, and that env is something else later.
func (s *scan) alias(targets, value []token) {
	if len(targets) != 1 || targets[0].kind != tokenName {
		return
	}
	name := targets[0].text
	switch whole := joined(value[:min(len(value), 8)]); {
	case whole == "environ" || strings.HasSuffix(whole, ".environ"):
		s.environ[name] = true
	case name != "environ" && name != "environb":
		delete(s.environ, name)
	}
}

// options notes the command line options of a statement such as
// add_argument("--master-port", default=os.environ.get("MASTER_PORT")).
func (s *scan) options(tokens []token) {
	if !s.keeps(tokens) {
		return
	}
	for _, t := range tokens {
		if option := strings.TrimLeft(t.text, "-"); t.kind == tokenString && option != t.text {
			s.kept[strings.ReplaceAll(option, "-", "_")] = true
		}
	}
}

// call is a statement that begins with os.environ.update(…), os.environ |= …,
// os.environ.__setitem__(…) or os.putenv(…).
func (s *scan) call(tokens []token) int {
	i := 0
	for i+2 < len(tokens) && tokens[i+1].is(".") && !s.isEnviron(tokens[i]) {
		i += 2
	}
	rest := tokens[i+1:]
	switch {
	case tokens[i].is("putenv") && isPort(rest, 1):
		return s.unlessKept(rest[1].line, rest[2:])
	case !s.isEnviron(tokens[i]):
		return 0
	case len(rest) > 2 && rest[0].is(".") && rest[1].is("update"):
		return s.update(rest[2:])
	case len(rest) > 4 && rest[0].is(".") && rest[1].is("__setitem__") && isPort(rest, 3):
		return s.unlessKept(rest[3].line, rest[4:])
	case len(rest) > 1 && rest[0].is("|="):
		return s.update(rest[1:])
	}
	return 0
}

// update looks for MASTER_PORT among the keys of a mapping that is poured into the
// environment, if the mapping has not been filtered.
func (s *scan) update(tokens []token) int {
	for i, t := range tokens {
		whole := s.isEnviron(t) && i+1 < len(tokens) && !tokens[i+1].is(".") && !tokens[i+1].is("[")
		if t.is("for") || whole {
			return 0
		}
	}
	for i, t := range tokens[:len(tokens)-1] {
		named := t.is(masterPort) && tokens[i+1].is("=")
		keyed := isPort(tokens, i) && tokens[i+1].is(":")
		paired := isPort(tokens, i) && tokens[i+1].is(",") && i > 0 && (tokens[i-1].is("(") || tokens[i-1].is("["))
		if named || keyed || paired {
			return s.unlessKept(t.line, element(tokens[i+2:]))
		}
	}
	return 0
}

// element is the beginning of tokens up to the comma or bracket that ends it.
func element(tokens []token) []token {
	depth := 0
	for i, t := range tokens {
		depth += nesting(t)
		if depth < 0 || depth == 0 && t.is(",") {
			return tokens[:i]
		}
	}
	return tokens
}

// unlessKept returns line unless the value may be the old port.
func (s *scan) unlessKept(line int, value []token) int {
	if s.keeps(value) {
		return 0
	}
	s.note(line, value)
	return line
}

// note remembers the port that stands in an expression: "12355", or str(12355).
func (s *scan) note(line int, value []token) {
	for len(value) > 0 && (value[0].is("str") || value[0].is("(") || value[0].is(",")) {
		value = value[1:]
	}
	for len(value) > 1 && value[len(value)-1].is(")") {
		value = value[:len(value)-1]
	}
	if len(value) != 1 {
		return
	}
	if port, err := strconv.ParseUint(value[0].text, 10, 16); err == nil {
		s.ports[line] = int(port)
	}
}

// keeps reports whether an expression reads or asks for the MASTER_PORT that was
// there before, directly or through a name that holds it.
func (s *scan) keeps(tokens []token) bool {
	for i, t := range tokens {
		switch {
		case t.kind == tokenName && s.kept[t.text]:
			return true
		case t.kind == tokenFormat && strings.Contains(t.text, masterPort):
			return true
		case isPort(tokens, i) && s.isRead(tokens, i):
			return true
		}
	}
	return false
}

// isRead reports whether the string at i is the key of a look into the environment:
// environ["…"], environ.get("…"), getenv("…"), any function("…"), "…" in environ.
// The keys of other mappings are not: config["…"], config.get("…").
func (s *scan) isRead(tokens []token, i int) bool {
	if i+1 < len(tokens) && (tokens[i+1].is("in") || tokens[i+1].is("not")) {
		return true
	}
	if i < 2 || tokens[i-2].kind != tokenName {
		return false
	}
	switch name := tokens[i-2]; {
	case tokens[i-1].is("["):
		return s.isEnviron(name)
	case !tokens[i-1].is("("):
		return false
	case i >= 4 && tokens[i-3].is(".") && (name.is("get") || name.is("pop")):
		return s.isEnviron(tokens[i-4])
	}
	return true
}
