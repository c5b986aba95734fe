package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gorun/launcher/doctor/signature"
	"gorun/launcher/job"
)

// Widths of what gorun explain prints, in columns: that of the terminal counts within these, and the widest where there
// is none.
const (
	leastWidth = 60
	mostWidth  = 120
	nameWidth  = 9
)

// explainWidth is how wide the text is to be.
func explainWidth(stdout io.Writer) int {
	width := textStyle(stdout).Width
	if width == 0 {
		return mostWidth
	}
	return max(leastWidth, min(width, mostWidth))
}

// text is what a terminal gets: what was found, the most telling first, with blank lines between.
func (a *asked) text(width int) string {
	var b strings.Builder
	for i, f := range a.found {
		if i > 0 {
			b.WriteByte('\n')
		}
		follows := (f.Kind == signature.Symptom || f.Kind == signature.Victim) && a.found[0].Kind == signature.Cause
		writeFinding(&b, f, width, follows)
	}
	return b.String()
}

// kindWords are said behind what a line, or an exit code, means.
func kindWords(f signature.Finding) string {
	switch f.Kind {
	case signature.Symptom:
		if f.Text == "" {
			return "; by itself it leaves the cause open"
		}
		return "; the line leaves the cause open"
	case signature.Victim:
		return "; it follows from another's failure"
	case signature.Remark:
		return "; no failure by itself"
	}
	return ""
}

// writeFinding writes one; of what follows from others that were found only that it is there.
func writeFinding(b *strings.Builder, f signature.Finding, width int, follows bool) {
	fmt.Fprintf(b, "%s: %s (%s%s)\n", f.ID, f.Means, f.Family, kindWords(f))
	row := func(name, text string) {
		for _, line := range wrapCommands(text, width-nameWidth-3) {
			fmt.Fprintf(b, "  %-*s %s\n", nameWidth, name, line)
			name = ""
		}
	}
	if f.Text != "" {
		row("line", f.Text)
		seen := fmt.Sprintf("in line %d", f.Line)
		if f.Count > 1 {
			seen = fmt.Sprintf("%d times, first %s", f.Count, seen)
		}
		if len(f.Ranks) > 0 {
			seen += ", of " + ranksOf(f.Ranks)
		}
		if f.Line > 1 || f.Count > 1 || len(f.Ranks) > 0 {
			row("seen", seen)
		}
	}
	if follows {
		return
	}
	row("cause", f.Marked(f.Cause))
	row("check", f.Marked(f.Check))
	row("fix", f.Marked(f.Fix))
	if len(f.Variables) > 0 {
		text := strings.Join(f.Variables, " ")
		if i := slices.IndexFunc(f.Variables, isExplained); i >= 0 {
			text += "; `gorun env --explain " + f.Variables[i] + "` says what that does"
		}
		row("variables", text)
	}
}

func ranksOf(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return "ranks " + job.Fold(ranks)
}

// wrapCommands breaks text into lines of at most width characters, but no command in it, whose marks it takes off.
func wrapCommands(text string, width int) []string {
	words := commandWords(text)
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "`", "")
	}
	return wrappedWords(words, " ", width)
}

// commandWords splits text at blanks, but not within a command.
func commandWords(text string) []string {
	inside := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '`' {
			inside = !inside
		}
		return r == ' ' && !inside
	})
}
