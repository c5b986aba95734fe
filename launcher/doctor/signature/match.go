package signature

import (
	"strings"
)

// Match is a signature that was found, with what the line held.
type Match struct {
	*Signature
	// Values are by name what the line held where the pattern has {name}: words and numbers that a shell takes as they
	// are.
	Values map[string]string `json:"values,omitempty"`
}

// LongestLine is how many bytes of a line are looked at.
const LongestLine = 4 << 10

// Find returns the signatures of which a line is, the most telling first. The line is one without control bytes, such
// as [Plain] makes.
func Find(line string) []Match { return database().find(line) }

// Best returns the most telling of the signatures of which a line is.
func Best(line string) (Match, bool) {
	found := Find(line)
	if len(found) == 0 {
		return Match{}, false
	}
	return found[0], true
}

// longestAdvice is how long a text is that is not cut to its first sentence, in bytes.
const longestAdvice = 160

// Advice is the one line that a failure report has room for: the hint, or what fixes it, of a long one the first
// sentence. It begins small, as one of a list, and has no full stop.
func (m Match) Advice() string {
	if m.Hint != "" {
		return m.Text(m.Hint)
	}
	text := m.Text(m.Fix)
	if first, _, more := strings.Cut(text, ". "); more && len(text) > longestAdvice {
		text = first
	}
	if len(text) > 1 && text[:2] != strings.ToUpper(text[:2]) { // no NCCL or MPI
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return strings.TrimSuffix(text, ".")
}

// Text fills in what the line held, and leaves out the marks of commands.
func (m Match) Text(template string) string { return strings.ReplaceAll(m.Marked(template), "`", "") }

// Marked fills in what the line held. A name that it did not hold stands in capitals; what is between [[ and ]] is left
// out then.
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

// fill replaces each {name}; known is false when one of them was not in the line.
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
