package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/launcher"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
)

// property is something that hosts have in common or not: where all have the same it
// stands once below the table, else it is a column.
type property struct {
	name string
	of   func(launcher.HostReport) string
}

// hostTable is the table of a report's hosts.
type hostTable struct {
	report  *launcher.HostsReport
	columns []property // that differ
	common  []property
	groups  [][]launcher.HostReport // of hosts that are alike
}

func newHostTable(r *launcher.HostsReport) *hostTable {
	t := &hostTable{report: r}
	for _, p := range hostProperties(r) {
		if t.differs(p) {
			t.columns = append(t.columns, p)
		} else {
			t.common = append(t.common, p)
		}
	}
	place := map[string]int{}
	for _, h := range r.Hosts {
		key := t.key(h)
		at, known := place[key]
		if !known {
			at = len(t.groups)
			place[key] = at
			t.groups = append(t.groups, nil)
		}
		t.groups[at] = append(t.groups[at], h)
	}
	return t
}

func hostProperties(r *launcher.HostsReport) []property {
	list := []property{
		{"gorun", func(h launcher.HostReport) string { return h.Version }},
		{"machine", func(h launcher.HostReport) string {
			return joined(", ", h.Architecture, "Linux "+h.Kernel, cpusText(h.CPUs))
		}},
		{"limits", limitsText},
		{"GPUs", gpusText},
		{"directory", func(h launcher.HostReport) string {
			if h.Missing != "" {
				return "missing"
			}
			return h.Dir
		}},
	}
	if r.Program != "" {
		list = append(list, property{"program", programText})
	}
	return list
}

// answered reports whether a host said what it has.
func answered(h launcher.HostReport) bool { return h.Architecture != "" }

func (t *hostTable) differs(p property) bool {
	first, have := "", false
	for _, h := range t.report.Hosts {
		switch {
		case !answered(h):
		case !have:
			first, have = p.of(h), true
		case p.of(h) != first:
			return true
		}
	}
	return false
}

// key is the same for hosts that are alike.
func (t *hostTable) key(h launcher.HostReport) string {
	words := []string{
		fmt.Sprint(h.Reached, answered(h)), h.Step,
		fmt.Sprint(h.Clock != nil && math.Abs(h.Clock.Ahead) >= 1),
	}
	for _, p := range t.report.Problems {
		if !p.Note && slices.Contains(p.Hosts, h.Name) {
			words = append(words, p.Text)
		}
	}
	if answered(h) {
		for _, p := range t.columns {
			words = append(words, p.of(h))
		}
	}
	return strings.Join(words, "\x00")
}

// rows is the table.
func (t *hostTable) rows() string {
	title := []string{"host", "reached", "clock", "cache", "tmp"}
	for _, p := range t.columns {
		title = append(title, p.name)
	}
	table := [][]string{title}
	for _, group := range t.groups {
		var names []string
		for _, h := range group {
			names = append(names, h.Name)
		}
		row := []string{hosts.Fold(names), reachedText(group)}
		if answered(group[0]) {
			row = append(row, clockText(group), roomText(group, "cache"), roomText(group, "temporary files"))
			for _, p := range t.columns {
				row = append(row, p.of(group[0]))
			}
		}
		table = append(table, row)
	}
	return aligned(withoutEmpty(table, 1, len(title)-1))
}

// withoutEmpty leaves out columns, of those from first to last, of which nothing is known below their title.
func withoutEmpty(table [][]string, first, last int) [][]string {
	for column := last; column >= first; column-- {
		if slices.ContainsFunc(table[1:], func(row []string) bool {
			return column < len(row) && row[column] != "-" && row[column] != ""
		}) {
			continue
		}
		for i, row := range table {
			if column < len(row) {
				table[i] = slices.Delete(row, column, column+1)
			}
		}
	}
	return table
}

// same is what all hosts have in common.
func (t *hostTable) same() string {
	at := slices.IndexFunc(t.report.Hosts, answered)
	if at < 0 {
		return ""
	}
	var table [][]string
	for _, p := range t.common {
		if text := p.of(t.report.Hosts[at]); text != "" {
			table = append(table, []string{p.name, text})
		}
	}
	if copied := copiedTo(t.report); copied != "" {
		table = append(table, []string{"copied", copied})
	}
	return aligned(table)
}

// aligned has columns stand below each other, with two spaces between.
func aligned(table [][]string) string {
	var widths []int
	for _, row := range table {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 { // the last one of a row is as long as it likes
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range table {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// joined are the words that say something.
func joined(by string, words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), by)
}

func cpusText(n int) string {
	if n == 0 {
		return ""
	}
	return counted(n, "CPU")
}

// copiedTo are the hosts to which gorun was copied.
func copiedTo(r *launcher.HostsReport) string {
	var names []string
	for _, h := range r.Hosts {
		if h.Copied {
			names = append(names, h.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "to " + hosts.Fold(names) + ", now in the cache there"
}

// reachedText says how long it took to reach hosts, or where it failed.
func reachedText(group []launcher.HostReport) string {
	least, most := group[0].Seconds, group[0].Seconds
	for _, h := range group {
		least, most = min(least, h.Seconds), max(most, h.Seconds)
	}
	text := fmt.Sprintf("%.1f s", most)
	if from := fmt.Sprintf("%.1f", least); from+" s" != text {
		text = from + "-" + text
	}
	switch {
	case group[0].Here:
		return "this host"
	case group[0].Reached:
		return text
	}
	return fmt.Sprintf("no: %s (%s)", group[0].Step, text)
}

// clockText is the largest offset of some clocks.
func clockText(group []launcher.HostReport) string {
	var most *doctor.Clock
	for _, h := range group {
		if h.Clock != nil && (most == nil || math.Abs(h.Clock.Ahead) > math.Abs(most.Ahead)) {
			most = h.Clock
		}
	}
	switch {
	case most == nil:
		return "-"
	case math.Abs(most.Ahead) < 0.001:
		return "< 1 ms"
	case math.Abs(most.Ahead) < max(most.Uncertainty, 1): // as far as can be told
		return fmt.Sprintf("< %d ms", int(math.Ceil(1000*max(math.Abs(most.Ahead), most.Uncertainty))))
	}
	return fmt.Sprintf("%+.1f s", most.Ahead)
}

// roomText is the least free space of some hosts.
func roomText(group []launcher.HostReport, purpose string) string {
	least := int64(-1)
	for _, h := range group {
		for _, room := range h.Rooms {
			switch {
			case room.Purpose != purpose:
			case room.Error != "":
				return "none"
			case least < 0 || room.Free < least:
				least = room.Free
			}
		}
	}
	if least < 0 {
		return "-"
	}
	return doctor.Size(least) + " free"
}

func limitsText(h launcher.HostReport) string {
	var words []string
	for _, l := range h.Limits {
		value := fmt.Sprint(l.Soft)
		if l.Soft < 0 {
			value = "unlimited"
		} else if l.Name == "memlock" {
			value = doctor.Size(l.Soft)
		}
		words = append(words, l.Name+" "+value)
	}
	return strings.Join(words, ", ")
}

func gpusText(h launcher.HostReport) string {
	if len(h.GPUs) == 0 {
		return "none"
	}
	count, used := map[string]int{}, 0
	var names []string
	for _, g := range h.GPUs {
		name := g.Name
		if name == "" {
			name = string(g.Vendor)
		}
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
		if g.Used {
			used++
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", count[name], name)
	}
	text := strings.Join(names, ", ")
	if used > 0 {
		return fmt.Sprintf("%s, %d in use", text, used)
	}
	return text + ", idle"
}

// programText is a program by which it is told from others.
func programText(h launcher.HostReport) string {
	const digits = 12
	p := h.Program
	switch {
	case p == nil:
		return "not looked for"
	case p.Error != "":
		return "missing"
	case p.SHA256 == "":
		return p.Kind
	}
	return joined(", ", p.Path, doctor.Size(p.Size), "SHA-256 "+p.SHA256[:min(digits, len(p.SHA256))])
}
