package bootstrap

import (
	_ "embed"
	"fmt"
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

// joined is a script as one line: comments and empty lines are left out. csh knows
// no newline between quotes.
func joined(script string) string {
	var line strings.Builder
	for text := range strings.Lines(script) {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		line.WriteString(text)
		if goesOn(text) {
			line.WriteString(" ")
		} else {
			line.WriteString("; ")
		}
	}
	return strings.TrimRight(line.String(), "; ")
}

// goesOn tells whether a line is no whole command, so that no semicolon may follow.
func goesOn(line string) bool {
	for _, end := range []string{"{", "then", "do", "else", ";", "&&", "||"} {
		if strings.HasSuffix(line, end) {
			return true
		}
	}
	return false
}

// commandLine is the line that has /bin/sh run a script whatever the login shell
// is: sh, fish and csh read text between single quotes alike as long as there is no
// single quote, newline, exclamation mark or pair of backslashes in it.
func commandLine(script string) string { return "exec /bin/sh -c '" + script + "'" }

// words are texts from outside within a script. What more than names and paths of
// the usual kind have is not quoted, as shells do not agree on how: printf writes it
// byte by byte into a variable first.
type words struct {
	assign strings.Builder
	count  int
}

// add returns how the script refers to the text.
func (w *words) add(text string) string {
	if plain(text) {
		return text
	}
	w.count++
	name := fmt.Sprintf("gr_%d", w.count)
	// $() would drop newlines at the end
	fmt.Fprintf(&w.assign, `%s=$(printf "%s."); %s=${%s%%.}; `, name, octal(text), name, name)
	return `"$` + name + `"`
}

// list is add for several, one beside the other.
func (w *words) list(texts []string) string {
	said := make([]string, len(texts))
	for i, text := range texts {
		said[i] = w.add(text)
	}
	return strings.Join(said, " ")
}

// lines are the commands that have to run before the words are used.
func (w *words) lines() string { return strings.TrimSuffix(":; "+w.assign.String(), "; ") }

// plain tells whether every shell takes the text as one word that is the text.
func plain(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return !plainRune(r) }) < 0
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:=", r)
}

// octal is a text as printf's format writes it: plain characters and escapes. A
// hyphen in front would make it an option.
func octal(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plainRune(rune(c)) && c != '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String()
}
