package bootstrap

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed start.sh
var startScript string

//go:embed agent.sh
var agentScript string

//go:embed place.sh
var placeScript string

//go:embed private.sh
var privateScript string

//go:embed bring.sh
var bringScript string

// oneLine joins a script to one line without comments: csh has no newline between quotes.
func oneLine(script string) string {
	var line strings.Builder
	for text := range strings.Lines(script) {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		line.WriteString(text)
		if goesOn := func(end string) bool { return strings.HasSuffix(text, end) }; !slices.ContainsFunc(openEnds, goesOn) {
			line.WriteString(";")
		}
		line.WriteString(" ")
	}
	return strings.TrimRight(line.String(), "; ")
}

// openEnds end a line whose command goes on in the next.
var openEnds = []string{"{", "then", "do", "else", ";", "&&", "||"}

// commandLine returns the line that runs a script by /bin/sh, whatever the login shell is: sh, fish and csh read text
// between single quotes alike if it has no single quote, newline, exclamation mark or double backslash.
func commandLine(script string) string { return "exec /bin/sh -c '" + script + "'" }

// variables hold external texts for a script. Shells quote differently: a text that is not a plain name or path is
// assigned to a variable first, from a printf format.
type variables struct {
	assignments strings.Builder
	count       int
}

// ref returns the word that expands to the text in the script.
func (v *variables) ref(text string) string {
	if isPlain(text) {
		return text
	}
	v.count++
	name := fmt.Sprintf("gr_%d", v.count)
	// $() would drop newlines at the end
	fmt.Fprintf(&v.assignments, `%s=$(printf "%s."); %s=${%s%%.}; `, name, octal(text), name, name)
	return `"$` + name + `"`
}

// refs returns the words for several texts.
func (v *variables) refs(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = v.ref(text)
	}
	return strings.Join(words, " ")
}

// commands returns the assignments, which must run before the variables are used.
func (v *variables) commands() string { return strings.TrimSuffix(":; "+v.assignments.String(), "; ") }

// isPlain reports whether every shell takes the text literally, as one word.
func isPlain(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return !isPlainRune(r) }) < 0
}

func isPlainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:=", r)
}

// octal returns a printf format for a text. A leading hyphen would be an option.
func octal(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; isPlainRune(rune(c)) && c != '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String()
}
