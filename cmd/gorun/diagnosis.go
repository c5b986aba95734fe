package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/placement/draw"
)

// diagnosis formats what gorun doctor or gorun hosts check found.
type diagnosis struct {
	cluster  *doctor.Cluster
	findings []doctor.Finding // the worst first
	style    draw.Style
	all      bool   // print each finding, not a summary of maxLines
	evidence bool   // print what was read
	verbose  string // the command that prints everything
}

// exit returns the error of a command that printed the diagnosis.
func (d diagnosis) exit(err error) error {
	if err == nil && doctor.CountProblems(d.findings) > 0 {
		return exitWith(exitFindings)
	}
	return err
}

const (
	maxLines    = 20 // of the summary
	maxFindings = 7  // in the summary, of two lines each
)

// text lists the groups of checks that passed, in a few lines, then the findings.
func (d diagnosis) text() string {
	var lines []string
	notes := 0
	var groups []similarFindings
	for _, f := range d.findings {
		switch {
		case d.all:
			lines = append(lines, d.finding(f)...)
		case f.Severity == doctor.Note:
			notes++
		default:
			groups = addSimilar(groups, f)
		}
	}
	for i, g := range groups {
		if i == maxFindings {
			more := groups[i:]
			lines = append(lines, fmt.Sprintf("and %s (%s): %s", show.Count(len(more), "more finding"), checkNames(more),
				d.verbose))
			break
		}
		lines = append(lines, d.finding(g.summary())...)
	}
	if text := d.skipped(); text != "" && !d.all {
		lines = append(lines, text)
	}
	if doctor.CountProblems(d.findings) == 0 {
		lines = append(lines, "nothing is wrong")
	}
	if notes > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s", show.Count(notes, "note"), d.verbose))
	}
	healthy := d.healthy()
	if room := maxLines - len(lines); len(healthy) > room && !d.all { // a narrow terminal
		healthy = append(healthy[:max(room-1, 0)], d.mark("")+" ...")
	}
	return strings.Join(append(healthy, lines...), "\n") + "\n"
}

// similarFindings are findings of one check that differ in hosts and numbers only, such as clocks that are off by one
// second and by two.
type similarFindings []doctor.Finding

func addSimilar(groups []similarFindings, f doctor.Finding) []similarFindings {
	for i, g := range groups {
		if g[0].Check == f.Check && g[0].Severity == f.Severity && withoutNumbers(g[0].Text) == withoutNumbers(f.Text) &&
			!g.mentions(f.Hosts) {
			groups[i] = append(g, f)
			return groups
		}
	}
	return append(groups, similarFindings{f})
}

// mentions reports whether the findings are about one of the hosts.
func (g similarFindings) mentions(names []string) bool {
	return slices.ContainsFunc(g, func(f doctor.Finding) bool {
		return slices.ContainsFunc(f.Hosts, func(name string) bool { return slices.Contains(names, name) })
	})
}

// summary is the first finding with the hosts of the others.
func (g similarFindings) summary() doctor.Finding {
	f := g[0]
	var others []string
	for _, other := range g[1:] {
		if other.Text == f.Text {
			f.Hosts = slices.Concat(f.Hosts, other.Hosts)
		} else {
			others = append(others, other.Hosts...)
		}
	}
	if others != nil {
		f.Text += "; similar on " + hosts.NodeList(others)
	}
	return f
}

func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}

func checkNames(groups []similarFindings) string {
	const maxNames = 5
	var names []string
	for _, g := range groups {
		if !slices.Contains(names, g[0].Check) {
			names = append(names, g[0].Check)
		}
	}
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}

// skipped says what could not be checked, since "nothing is wrong" does not cover it.
func (d diagnosis) skipped() string {
	const maxTexts = 3
	var texts []string
	for _, f := range d.findings {
		if f.Check == doctor.Skipped {
			texts = append(texts, d.place(f)+f.Text)
		}
	}
	if texts == nil {
		return ""
	}
	more := ""
	if len(texts) > maxTexts {
		more = fmt.Sprintf("; and %d more", len(texts)-maxTexts)
		texts = texts[:maxTexts]
	}
	return "not looked at: " + strings.Join(texts, "; ") + more
}

// place is the prefix for a finding's hosts, if there are several hosts.
func (d diagnosis) place(f doctor.Finding) string {
	if d.cluster.Asked > 1 && len(f.Hosts) > 0 {
		return f.Where() + ": "
	}
	return ""
}

// mark precedes a finding of some severity, or, for "", checks that passed.
func (d diagnosis) mark(s doctor.Severity) string { return severityMark(s, d.style.ASCII) }

func severityMark(s doctor.Severity, ascii bool) string {
	if ascii {
		return map[doctor.Severity]string{"": "ok", doctor.Error: "X", doctor.Warning: "!", doctor.Note: "-"}[s]
	}
	return map[doctor.Severity]string{"": "✓", doctor.Error: "✗", doctor.Warning: "⚠", doctor.Note: "·"}[s]
}

// healthy lists the groups of checks that passed.
func (d diagnosis) healthy() []string {
	words := doctor.Healthy(d.cluster, d.findings)
	if words == nil {
		return nil
	}
	for i := range words {
		words[i] = d.mark("") + " " + words[i]
	}
	return printable.WrapWords(words, "  ", textWidth(d.style))
}

// finding formats what is wrong and where, what was read, and how to fix it.
func (d diagnosis) finding(f doctor.Finding) []string {
	text, more, _ := strings.Cut(f.Text, "\n")
	lines := d.wrap(fmt.Sprintf("%s %s%s [%s]", d.mark(f.Severity), d.place(f), text, f.Check), "", "  ")
	if more != "" {
		lines = append(lines, strings.Split("    "+strings.ReplaceAll(more, "\n", "\n    "), "\n")...)
	}
	if d.evidence && f.Evidence != "" {
		lines = append(lines, d.wrap("read: "+oneLine(f.Evidence), "    ", "          ")...)
	}
	if d.all && f.Advice != "" {
		lines = append(lines, d.wrap(oneLine(f.Advice), "    ", "    ")...)
	}
	if f.Fix != "" {
		lines = append(lines, fixLine(f.Fix))
	}
	return lines
}

// fixLine is never wrapped, so that it can be copied.
func fixLine(fix string) string { return "    try:  " + printable.Text(oneLine(fix)) }

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// wrap wraps a line to the terminal if everything is printed. Without a terminal, lines stay whole for grep.
func (d diagnosis) wrap(line, indent, nextIndent string) []string {
	const minWidth = 40
	if !d.all || d.style.Width == 0 || utf8.RuneCountInString(indent+line) <= d.style.Width {
		return []string{indent + line}
	}
	lines := printable.Wrap(line, max(d.style.Width, minWidth)-len(nextIndent))
	for i := range lines {
		lines[i] = indent + lines[i]
		indent = nextIndent
	}
	return lines
}

// textWidth is the width of wrapped text.
func textWidth(style draw.Style) int {
	if style.Width == 0 {
		return draw.DefaultWidth
	}
	return max(style.Width, draw.MinWidth)
}
