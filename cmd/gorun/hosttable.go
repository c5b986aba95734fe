package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gorun/cmd/gorun/internal/show"
	"gorun/launcher"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
)

// property is something that hosts may have in common.
type property struct {
	name string
	of   func(launcher.HostReport) string
}

// hostTable is the table of a report's hosts. Hosts that are alike share a row. What all hosts have in common is below
// the table.
type hostTable struct {
	report          *launcher.HostsReport
	differs, common []property
	groups          [][]launcher.HostReport // of hosts that are alike
}

func newHostTable(r *launcher.HostsReport) *hostTable {
	t := &hostTable{report: r}
	for _, p := range hostProperties(r) {
		if t.isCommon(p) {
			t.common = append(t.common, p)
		} else {
			t.differs = append(t.differs, p)
		}
	}
	index := map[string]int{}
	for _, h := range r.Hosts {
		key := t.key(h)
		at, known := index[key]
		if !known {
			at = len(t.groups)
			index[key] = at
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
			cpus := ""
			if h.CPUs > 0 {
				cpus = show.Count(h.CPUs, "CPU")
			}
			return show.Join(", ", h.Architecture, "Linux "+h.Kernel, cpus)
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

// answered reports whether a host described itself.
func answered(h launcher.HostReport) bool { return h.Architecture != "" }

func (t *hostTable) isCommon(p property) bool {
	first := slices.IndexFunc(t.report.Hosts, answered)
	return !slices.ContainsFunc(t.report.Hosts, func(h launcher.HostReport) bool {
		return answered(h) && p.of(h) != p.of(t.report.Hosts[first])
	})
}

// key is equal for hosts that are alike.
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
		for _, p := range t.differs {
			words = append(words, p.of(h))
		}
	}
	return strings.Join(words, "\x00")
}

func (t *hostTable) differences(width int) string {
	heading := []string{"host", "reached", "clock", "cache", "tmp"}
	for _, p := range t.differs {
		heading = append(heading, p.name)
	}
	rows := [][]string{heading}
	for _, group := range t.groups {
		row := []string{hosts.NodeList(hostNames(group)), reachedText(group)}
		if answered(group[0]) {
			row = append(row, clockText(group), spaceText(group, "cache"), spaceText(group, "temporary files"))
			for _, p := range t.differs {
				row = append(row, p.of(group[0]))
			}
		}
		rows = append(rows, row)
	}
	return show.Table(show.WithoutEmpty(rows, 1, len(heading)-1), width)
}

func (t *hostTable) commonalities(width int) string {
	at := slices.IndexFunc(t.report.Hosts, answered)
	if at < 0 {
		return ""
	}
	var rows [][]string
	for _, p := range t.common {
		if text := p.of(t.report.Hosts[at]); text != "" {
			rows = append(rows, []string{p.name, text})
		}
	}
	copied := slices.DeleteFunc(slices.Clone(t.report.Hosts), func(h launcher.HostReport) bool { return !h.Copied })
	if len(copied) > 0 {
		rows = append(rows, []string{"copied", "to " + hosts.NodeList(hostNames(copied)) + ", now in the cache there"})
	}
	return show.Table(rows, width)
}

func hostNames(group []launcher.HostReport) (names []string) {
	for _, h := range group {
		names = append(names, h.Name)
	}
	return names
}

// reachedText says how long it took to reach hosts, or at which step it failed.
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

// clockText is the largest clock offset of a group.
func clockText(group []launcher.HostReport) string {
	var worst *doctor.Clock
	for _, h := range group {
		if h.Clock != nil && (worst == nil || math.Abs(h.Clock.Ahead) > math.Abs(worst.Ahead)) {
			worst = h.Clock
		}
	}
	if worst == nil {
		return "-"
	}
	switch offset := math.Abs(worst.Ahead); {
	case offset < 0.001:
		return "< 1 ms"
	case offset < max(worst.Uncertainty, 1): // within the precision of the measurement
		return fmt.Sprintf("< %d ms", int(math.Ceil(1000*max(offset, worst.Uncertainty))))
	}
	return fmt.Sprintf("%+.1f s", worst.Ahead)
}

// spaceText is the least free disk space of a group.
func spaceText(group []launcher.HostReport, purpose string) string {
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
	use := "idle"
	if used > 0 {
		use = fmt.Sprintf("%d in use", used)
	}
	return strings.Join(names, ", ") + ", " + use
}

// programText identifies the program of a host.
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
	return show.Join(", ", p.Path, doctor.Size(p.Size), "SHA-256 "+p.SHA256[:min(digits, len(p.SHA256))])
}
