package signature

import (
	"strings"
)

// Match is a signature that matches a line.
type Match struct {
	*Signature
	// Values maps each {name} in the pattern to the text in the line: a word or number that needs no shell quoting.
	Values map[string]string `json:"values,omitempty"`
}

// MaxLine bounds the bytes of a line that are searched.
const MaxLine = 4 << 10

// Find returns the signatures that match a line, most telling first. The line must have no control bytes; see [Plain].
func Find(line string) []Match { return database().find(line) }

// Best returns the most telling signature that matches a line.
func Best(line string) (Match, bool) {
	found := Find(line)
	if len(found) == 0 {
		return Match{}, false
	}
	return found[0], true
}

// maxAdvice is the length in bytes above which a text is cut to its first sentence.
const maxAdvice = 160

// Advice returns one line for a failure report: the hint, or else the (first sentence of the) fix, in lower case and
// without a full stop.
func (m Match) Advice() string {
	if m.Hint != "" {
		return m.Marked(m.Hint)
	}
	text := m.Marked(m.Fix)
	if first, _, more := strings.Cut(text, ". "); more && len(text) > maxAdvice {
		text = first
	}
	if len(text) > 1 && text[:2] != strings.ToUpper(text[:2]) { // no NCCL or MPI
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return strings.TrimSuffix(text, ".")
}

// Text fills in Values and removes the marks of commands.
func (m Match) Text(template string) string { return strings.ReplaceAll(m.Marked(template), "`", "") }

// Marked fills in Values. An unknown name is written in capitals; text between [[ and ]] that contains one is left out.
func (m Match) Marked(template string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "[[")
		text, _ := m.fill(before)
		b.WriteString(text)
		if !found {
			return strings.TrimSpace(b.String())
		}
		var optional string
		optional, template, _ = strings.Cut(rest, "]]")
		if text, known := m.fill(optional); known {
			b.WriteString(text)
		}
	}
}

// fill replaces each {name}. known reports whether all of them have values.
func (m Match) fill(template string) (text string, known bool) {
	var b strings.Builder
	known = true
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String(), known
		}
		name, after, _ := strings.Cut(rest, "}")
		value, held := m.Values[name]
		if !held {
			value, known = strings.ToUpper(name), false
		}
		b.WriteString(value)
		template = after
	}
}
