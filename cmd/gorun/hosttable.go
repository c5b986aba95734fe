package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gorun/cmd/gorun/internal/show"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
)

// property is something that hosts may have in common.
type property struct {
	name string
	of   func(*doctor.Host) string
}

// hostTable is the table of a cluster's hosts. Hosts that are alike share a row. What all hosts have in common is below
// the table.
type hostTable struct {
	diagnosis
	differs, common []property
	groups          [][]doctor.Reached // of hosts that are alike
}

func newHostTable(d diagnosis) *hostTable {
	t := &hostTable{diagnosis: d}
	for _, p := range hostProperties(d.cluster) {
		if t.isCommon(p) {
			t.common = append(t.common, p)
		} else {
			t.differs = append(t.differs, p)
		}
	}
	index := map[string]int{}
	for _, r := range d.cluster.Reached {
		key := t.key(r)
		at, known := index[key]
		if !known {
			at = len(t.groups)
			index[key] = at
			t.groups = append(t.groups, nil)
		}
		t.groups[at] = append(t.groups[at], r)
	}
	return t
}

func hostProperties(c *doctor.Cluster) []property {
	list := []property{
		{"gorun", func(h *doctor.Host) string { return h.Gorun }},
		{"machine", func(h *doctor.Host) string {
			cpus := ""
			if n := h.Machine.CPUs.Len(); n > 0 {
				cpus = show.Count(n, "CPU")
			}
			return show.Join(", ", h.Architecture, "Linux "+h.Kernel, cpus)
		}},
		{"limits", limitsText},
		{"GPUs", gpusText},
		{"directory", func(h *doctor.Host) string {
			if h.Program != nil && h.Program.NoDir != "" {
				return "missing"
			}
			return h.Dir
		}},
	}
	if c.Program != "" {
		list = append(list, property{"program", programText})
	}
	return list
}

func (t *hostTable) isCommon(p property) bool {
	return !slices.ContainsFunc(t.cluster.Hosts, func(h *doctor.Host) bool { return p.of(h) != p.of(t.cluster.Hosts[0]) })
}

// key is equal for hosts that are alike.
func (t *hostTable) key(r doctor.Reached) string {
	words := []string{fmt.Sprint(r.OK, r.Host != nil), r.Step}
	for _, f := range t.findings {
		if f.Severity != doctor.Note && slices.Contains(f.Hosts, r.Name) {
			words = append(words, f.Text)
		}
	}
	if r.Host != nil {
		for _, p := range t.differs {
			words = append(words, p.of(r.Host))
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
		if h := group[0].Host; h != nil {
			row = append(row, clockText(group), spaceText(group, "cache"), spaceText(group, "temporary files"))
			for _, p := range t.differs {
				row = append(row, p.of(h))
			}
		}
		rows = append(rows, row)
	}
	return show.Table(show.WithoutEmpty(rows, 1, len(heading)-1), width)
}

func (t *hostTable) commonalities(width int) string {
	if len(t.cluster.Hosts) == 0 {
		return ""
	}
	var rows [][]string
	for _, p := range t.common {
		if text := p.of(t.cluster.Hosts[0]); text != "" {
			rows = append(rows, []string{p.name, text})
		}
	}
	copied := slices.DeleteFunc(slices.Clone(t.cluster.Reached), func(r doctor.Reached) bool { return !r.Copied })
	if len(copied) > 0 {
		rows = append(rows, []string{"copied", "to " + hosts.NodeList(hostNames(copied)) + ", now in the cache there"})
	}
	return show.Table(rows, width)
}

func hostNames(group []doctor.Reached) (names []string) {
	for _, h := range group {
		names = append(names, h.Name)
	}
	return names
}

// reachedText says how long it took to reach hosts, or at which step it failed.
func reachedText(group []doctor.Reached) string {
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
	case group[0].OK:
		return text
	}
	return fmt.Sprintf("no: %s (%s)", group[0].Step, text)
}

// clockText is the largest clock offset of a group.
func clockText(group []doctor.Reached) string {
	var worst *doctor.Clock
	for _, h := range group {
		if c := h.Host.Clock; c != nil && (worst == nil || math.Abs(c.Ahead) > math.Abs(worst.Ahead)) {
			worst = c
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
func spaceText(group []doctor.Reached, purpose string) string {
	least := int64(-1)
	for _, h := range group {
		for _, room := range h.Host.DiskSpace {
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

// limitNames are the limits that are shown.
var limitNames = []string{"memlock", "nofile", "nproc"}

func limitsText(h *doctor.Host) string {
	var words []string
	for _, name := range limitNames {
		l, ok := h.Limits[name]
		value := fmt.Sprint(l.Soft)
		switch {
		case !ok:
			continue
		case l.Soft < 0:
			value = "unlimited"
		case name == "memlock":
			value = doctor.Size(l.Soft)
		}
		words = append(words, name+" "+value)
	}
	return strings.Join(words, ", ")
}

func gpusText(h *doctor.Host) string {
	if len(h.Machine.GPUs) == 0 {
		return "none"
	}
	count, used := map[string]int{}, 0
	var names []string
	for _, g := range h.Machine.GPUs {
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
func programText(h *doctor.Host) string {
	const digits = 12
	p := h.Program
	switch {
	case p == nil || p.NoDir != "":
		return "not looked for"
	case p.Error != "":
		return "missing"
	case p.SHA256 == "":
		return p.Kind
	}
	return show.Join(", ", p.Path, doctor.Size(p.Size), "SHA-256 "+p.SHA256[:min(digits, len(p.SHA256))])
}
