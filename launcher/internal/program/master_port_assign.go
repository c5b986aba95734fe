package program

import (
	"strconv"
	"strings"
)

// simple returns the line on which a simple statement sets MASTER_PORT unconditionally, or 0. It records new names of
// os.environ and of the old port.
func (s *portScan) simple(tokens []token) int {
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

// imports records `from os import environ as env`.
func (s *portScan) imports(tokens []token) {
	for i := 2; i < len(tokens); i++ {
		if tokens[i-1].is("as") && tokens[i-2].is("environ") {
			s.environ[tokens[i].text] = true
		}
	}
}

// Placeholders in patterns.
const (
	anyName = "NAME"
	environ = "os.environ" // any name of os.environ
	portKey = `"MASTER_PORT"`
)

// hasPrefix reports whether tokens start with a pattern.
func (s *portScan) hasPrefix(tokens []token, pattern ...string) bool {
	if len(tokens) < len(pattern) {
		return false
	}
	for i, wanted := range pattern {
		t, is := tokens[i], false
		switch wanted {
		case anyName:
			is = t.kind == tokenName
		case environ:
			is = t.kind == tokenName && s.environ[t.text]
		case portKey:
			is = t.kind == tokenString && t.text == masterPort
		default:
			is = t.is(wanted)
		}
		if !is {
			return false
		}
	}
	return true
}

// hasSuffix reports whether tokens end with a pattern.
func (s *portScan) hasSuffix(tokens []token, pattern ...string) bool {
	from := len(tokens) - len(pattern)
	return from >= 0 && s.hasPrefix(tokens[from:], pattern...)
}

// lastEquals returns the index of the last = outside brackets, or -1.
func lastEquals(tokens []token) int {
	last := -1
	for i, t := range outside(tokens) {
		if t.is("=") {
			last = i
		}
	}
	return last
}

// assignment handles `targets = value`; targets may have further = signs.
func (s *portScan) assignment(targets, value []token) int {
	if s.keeps(value) {
		s.recordKept(targets)
		return 0
	}
	s.alias(targets, value)
	for i, t := range outside(targets) {
		if s.isTarget(targets, i) {
			s.recordPort(t.line, value)
			return t.line
		}
	}
	return 0
}

// isTarget reports whether `environ["MASTER_PORT"]`, perhaps after `os.`, starts at i and is assigned to.
func (s *portScan) isTarget(targets []token, i int) bool {
	if !s.hasPrefix(targets[i:], environ, "[", portKey, "]") {
		return false
	}
	if after := targets[i+4:]; len(after) > 0 && !after[0].is(",") && !after[0].is("=") && !after[0].is(":") {
		return false
	}
	for i > 1 && targets[i-1].is(".") {
		i -= 2
	}
	return i == 0 || targets[i-1].is(",") || targets[i-1].is("=")
}

// recordKept records that the targets of an assignment may hold the old port.
func (s *portScan) recordKept(targets []token) {
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

// alias records `env = os.environ`, and later assignments of another value to env.
func (s *portScan) alias(targets, value []token) {
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

// options records the command line options of a statement such as
// add_argument("--master-port", default=os.environ.get("MASTER_PORT")).
func (s *portScan) options(tokens []token) {
	if !s.keeps(tokens) {
		return
	}
	for _, t := range tokens {
		if option := strings.TrimLeft(t.text, "-"); t.kind == tokenString && option != t.text {
			s.kept[strings.ReplaceAll(option, "-", "_")] = true
		}
	}
}

// call handles a statement that begins with os.environ.update(…), os.environ |= …, os.environ.__setitem__(…) or
// os.putenv(…).
func (s *portScan) call(tokens []token) int {
	for len(tokens) > 2 && tokens[1].is(".") && !s.hasPrefix(tokens, environ) {
		tokens = tokens[2:]
	}
	switch {
	case s.hasPrefix(tokens, "putenv", "(", portKey):
		return s.unlessKept(tokens[2].line, tokens[3:])
	case s.hasPrefix(tokens, environ, ".", "update"):
		return s.update(tokens[3:])
	case s.hasPrefix(tokens, environ, ".", "__setitem__", "(", portKey):
		return s.unlessKept(tokens[4].line, tokens[5:])
	case s.hasPrefix(tokens, environ, "|="):
		return s.update(tokens[2:])
	}
	return 0
}

// update looks for MASTER_PORT among the keys of a mapping that is merged into the environment, unless the mapping
// was filtered.
func (s *portScan) update(tokens []token) int {
	for i, t := range tokens {
		rest := tokens[i:]
		whole := len(rest) > 1 && s.hasPrefix(rest, environ) && !rest[1].is(".") && !rest[1].is("[")
		if t.is("for") || whole {
			return 0
		}
	}
	for i, t := range tokens {
		named := s.hasPrefix(tokens[i:], masterPort, "=")
		keyed := s.hasPrefix(tokens[i:], portKey, ":")
		paired := s.hasPrefix(tokens[i:], portKey, ",") && i > 0 && (tokens[i-1].is("(") || tokens[i-1].is("["))
		if named || keyed || paired {
			return s.unlessKept(t.line, element(tokens[i+2:]))
		}
	}
	return 0
}

// element returns the tokens before the comma or bracket that ends the first element.
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
func (s *portScan) unlessKept(line int, value []token) int {
	if s.keeps(value) {
		return 0
	}
	s.recordPort(line, value)
	return line
}

// recordPort records a literal port: "12355", or str(12355).
func (s *portScan) recordPort(line int, value []token) {
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

// keeps reports whether an expression reads the old MASTER_PORT, directly or through a name that holds it.
func (s *portScan) keeps(tokens []token) bool {
	for i, t := range tokens {
		switch {
		case t.kind == tokenName && s.kept[t.text]:
			return true
		case t.kind == tokenFormat && strings.Contains(t.text, masterPort):
			return true
		case s.hasPrefix(tokens[i:], portKey) && s.isRead(tokens[:i], tokens[i+1:]):
			return true
		}
	}
	return false
}

// isRead reports whether the string between tokens is a key of the environment: environ["…"], environ.get("…"),
// getenv("…"), any function("…"), "…" in environ. The keys of other mappings do not count: config["…"],
// config.get("…").
func (s *portScan) isRead(before, after []token) bool {
	switch {
	case s.hasPrefix(after, "in"), s.hasPrefix(after, "not"), s.hasSuffix(before, environ, "["):
		return true
	case s.hasSuffix(before, ".", "get", "("), s.hasSuffix(before, ".", "pop", "("):
		return s.hasSuffix(before[:len(before)-3], environ)
	}
	return s.hasSuffix(before, anyName, "(")
}
