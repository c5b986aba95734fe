package nccl

import (
	"slices"
	"strconv"
	"strings"
)

// yaml reads the part of YAML in which manifests and configurations are written: mappings
// and lists by indentation, collections in brackets, scalars of all kinds. Anchors and
// tags are passed over. A library would do all of it, and compile regular expressions in
// every program that starts.
type yaml struct {
	lines []string
	at    int
	// rest stands in for the line at which it is read, from column on: what follows "- ".
	rest   string
	column int
	within bool
}

// parseYAML returns what the documents of a YAML text set.
func parseYAML(text string) (found []Assignment) {
	y := yaml{lines: strings.Split(text, "\n")}
	t := tree{}
	for {
		indent, _, ok := y.next()
		if !ok {
			return t.found
		}
		before, within := y.at, y.within
		t.node("", y.block(indent, 0))
		if y.at == before && y.within == within { // nothing that this reads
			y.advance()
		}
	}
}

// next is the line, or its rest, that says something next.
func (y *yaml) next() (indent int, text string, ok bool) {
	if y.within {
		return y.column, y.rest, true
	}
	for ; y.at < len(y.lines); y.at++ {
		line := withoutRemark(strings.TrimRight(y.lines[y.at], "\r"))
		text := strings.TrimLeft(line, " ")
		if text != "" && text != "---" && text != "..." && text[0] != '%' && !strings.HasPrefix(text, "{{") { // of Helm's templates
			return len(line) - len(text), text, true
		}
	}
	return 0, "", false
}

func (y *yaml) advance() { y.at, y.within = y.at+1, false }

// withoutRemark is a line up to a # that stands behind a blank and not in quotes.
func withoutRemark(line string) string {
	quote := byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote && (c != '"' || line[i-1] != '\\') {
				quote = 0
			}
		case (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:", line[i-1]) >= 0):
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return strings.TrimRight(line[:i], " \t")
		}
	}
	return strings.TrimRight(line, " \t")
}

// block reads what begins here, and stands at least this far from the left.
func (y *yaml) block(indent, depth int) node {
	_, text, _ := y.next()
	n := node{line: y.at + 1}
	switch _, _, isKey := keyOf(text); {
	case depth > deepest:
	case text == "-" || strings.HasPrefix(text, "- "):
		n.list = true
		for here, text, ok := y.next(); ok && here == indent && (text == "-" || strings.HasPrefix(text, "- ")); here, text, ok = y.next() {
			n.items = append(n.items, y.entry(indent, text[1:], depth))
		}
	case isKey:
		n.keys = []node{}
		for here, text, ok := y.next(); ok && here == indent; here, text, ok = y.next() {
			key, rest, isKey := keyOf(text)
			if !isKey {
				break
			}
			n.keys = append(n.keys, node{text: key, line: y.at + 1})
			n.items = append(n.items, y.mapped(indent, rest, depth))
		}
	default:
		return y.scalar(indent-1, text)
	}
	return n
}

// entry reads what stands behind a "-" at some place.
func (y *yaml) entry(indent int, rest string, depth int) node {
	text := strings.TrimLeft(rest, " ")
	if text == "" {
		return y.below(indent, depth)
	}
	y.rest, y.column, y.within = text, indent+1+len(rest)-len(text), true
	if _, _, isKey := keyOf(text); isKey || text == "-" || strings.HasPrefix(text, "- ") {
		n := y.block(y.column, depth+1)
		if y.within { // too deep
			y.advance()
		}
		return n
	}
	return y.scalar(indent, text)
}

// mapped reads what stands behind a key: a list may stand below it as far from the left.
func (y *yaml) mapped(indent int, rest string, depth int) node {
	for rest != "" && (rest[0] == '&' || rest[0] == '!') {
		_, rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimLeft(rest, " ")
	}
	if rest != "" {
		return y.scalar(indent, rest)
	}
	return y.below(indent, depth)
}

// below reads what stands on the lines below one, further from the left.
func (y *yaml) below(indent, depth int) node {
	line := y.at + 1
	y.advance()
	here, text, ok := y.next()
	if ok && (here > indent || here == indent && strings.HasPrefix(text, "-")) && depth < deepest {
		return y.block(here, depth+1)
	}
	return node{line: line}
}

// keyOf splits "key: value".
func keyOf(text string) (key, rest string, ok bool) {
	if text == "" || strings.IndexByte("[{#&*!|>%@`", text[0]) >= 0 {
		return "", "", false
	}
	from := 0
	if quote := text[0]; quote == '"' || quote == '\'' {
		if from = strings.IndexByte(text[1:], quote) + 2; from < 2 {
			return "", "", false
		}
	}
	at := strings.Index(text[from:]+" ", ": ")
	if at < 0 {
		return "", "", false
	}
	key, rest = strings.TrimSpace(text[:from+at]), strings.TrimSpace(text[min(from+at+1, len(text)):])
	return strings.Trim(key, `"'`), rest, true
}

// scalar reads a value that begins with text on this line; what goes on stands further
// from the left than indent.
func (y *yaml) scalar(indent int, text string) node {
	n := node{text: text, line: y.at + 1}
	switch {
	case text[0] == '|' || text[0] == '>':
		return y.literal(indent)
	case strings.IndexByte("[{\"'", text[0]) >= 0:
		return y.flow(indent, text)
	}
	y.advance()
	for here, more, ok := y.next(); ok && here > indent; here, more, ok = y.next() {
		n.text += " " + more
		y.advance()
	}
	return n
}

// flow reads a collection in brackets or a text in quotes, over as many lines as it has.
func (y *yaml) flow(indent int, text string) node {
	f := flow{line: y.at + 1}
	open := brackets{}
	open.follow(text)
	lines := []string{text}
	for y.advance(); !open.closed() && y.at < len(y.lines); y.at++ {
		line := strings.TrimLeft(y.lines[y.at], " ")
		if line != "" && len(y.lines[y.at])-len(line) <= indent && line[0] != ']' && line[0] != '}' {
			break // nobody closed it
		}
		open.follow(line)
		lines = append(lines, line)
	}
	f.text = strings.Join(lines, "\n")
	return f.value(0)
}

// brackets are those of a text that are open, and its quote.
type brackets struct {
	open  int
	quote byte
}

func (b *brackets) follow(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case b.quote != 0:
			if c == b.quote && (c != '"' || i == 0 || text[i-1] != '\\') {
				b.quote = 0
			}
		case (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:", text[i-1]) >= 0):
			b.quote = c
		case c == '[' || c == '{':
			b.open++
		case c == ']' || c == '}':
			b.open--
		}
	}
}

func (b *brackets) closed() bool { return b.open <= 0 && b.quote == 0 }

// literal reads the lines below a | or >.
func (y *yaml) literal(indent int) node {
	y.advance()
	n := node{line: y.at + 1, block: true}
	var lines []string
	for ; y.at < len(y.lines); y.at++ {
		line := y.lines[y.at]
		if trimmed := strings.TrimLeft(line, " "); strings.TrimSpace(line) != "" && len(line)-len(trimmed) <= indent {
			break
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	n.text = strings.Join(lines, "\n")
	return n
}

// tree finds settings in what was read.
type tree struct {
	found    []Assignment
	branches int
}

// scripts are the keys whose texts are commands.
var scripts = []string{"command", "args", "arg", "entrypoint", "cmd", "run", "script", "prelaunch", "postlaunch", "startup_script", "main"}

// node takes what a piece below a key sets.
func (t *tree) node(key string, n node) {
	lower := strings.ToLower(key)
	environment := strings.Contains(lower, "env")
	switch {
	case n.isScalar():
		if slices.Contains(scripts, lower) {
			t.add(parseShell(n.text), n.line-1)
		}
	case environment:
		t.environment(key, n)
	case n.isMapping():
		for i, item := range n.items {
			if k := n.keys[i]; item.isScalar() && isOurs(k.text) {
				t.set(k, item)
			} else {
				t.node(k.text, item)
			}
		}
	default:
		t.list(key, lower, n)
	}
}

// isOurs reports whether a name is that of a variable by itself, wherever it stands.
func isOurs(name string) bool {
	_, found := Lookup(name)
	return isName(name) && (found || strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "RCCL_"))
}

// environment takes NAME: value, NAME=VALUE, and pairs of name and value, which hold
// together.
func (t *tree) environment(key string, n node) {
	t.branches++
	for i, item := range n.items {
		switch {
		case n.isMapping() && item.isScalar() && isName(n.keys[i].text):
			t.set(n.keys[i], item)
		case n.isMapping():
			t.node(n.keys[i].text, item)
		case item.isMapping():
			t.pair(item)
		case item.isScalar():
			if name, value, found := strings.Cut(item.text, "="); found && isName(name) {
				t.set(node{text: name, line: item.line}, node{text: value})
			}
		default:
			t.node(key, item)
		}
	}
}

// pair takes - name: A, value: b; where the value comes from elsewhere it is not known.
func (t *tree) pair(n node) {
	name, value := node{}, node{text: "$"}
	for i, k := range n.keys {
		switch strings.ToLower(k.text) {
		case "name", "key":
			name = n.items[i]
		case "value":
			value = n.items[i]
		}
	}
	if isName(name.text) {
		t.set(name, value)
	}
}

func (t *tree) set(name, value node) {
	a := Assignment{Name: name.text, Value: value.text, Line: name.line}
	a.Computed = !value.isScalar() || strings.Contains(value.text, "$") || strings.Contains(value.text, "{{") || !value.block && strings.HasPrefix(value.text, "*")
	if t.branches > 0 {
		a.branch = "/i" + strconv.Itoa(t.branches)
	}
	t.found = append(t.found, a)
}

// list takes what the words of a command set, and what stands below.
func (t *tree) list(key, lower string, n node) {
	var words []word
	for i, item := range n.items {
		switch {
		case !item.isScalar():
			t.node(key, item)
		case i > 0 && strings.HasPrefix(n.items[i-1].text, "-") && strings.HasSuffix(n.items[i-1].text, "c"), strings.Contains(item.text, "\n"):
			t.add(parseShell(item.text), item.line-1)
		default:
			words = append(words, word{text: item.text, line: item.line, computed: strings.Contains(item.text, "$")})
		}
	}
	if slices.Contains(scripts, lower) {
		t.add(settings(words), 0)
	}
}

// add takes what a script sets, which begins on the line behind another.
func (t *tree) add(found []Assignment, before int) {
	t.branches++
	for _, a := range found {
		a.Line += before
		a.branch = "/i" + strconv.Itoa(t.branches) + a.branch
		t.found = append(t.found, a)
	}
}
