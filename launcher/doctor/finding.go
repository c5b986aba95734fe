package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // jobs cannot work
	Warning Severity = "warning" // they will be slow, or may fail
	Note    Severity = "note"    // nothing to repair
)

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Note}, s) }

// Finding is something that a check found, or that somebody else found of what a check passes on.
type Finding struct {
	Check    string   `json:"check,omitempty"`
	Severity Severity `json:"severity"`
	Hosts    []string `json:"hosts,omitempty"`
	Text     string   `json:"text"` // in a line, without the hosts
	// Evidence is the value that was read and where: on the first of the hosts, where they
	// differ.
	Evidence string `json:"evidence,omitempty"`
	Fix      string `json:"fix,omitempty"` // a command that repairs it, or shows more
}

// Where names the hosts, folded.
func (f Finding) Where() string { return hosts.Fold(f.Hosts) }

// finding is one, as checks return it.
func finding(severity Severity, text, evidence, fix string) []Finding {
	return []Finding{{Severity: severity, Text: text, Evidence: evidence, Fix: fix}}
}

func failure(text, evidence, fix string) []Finding { return finding(Error, text, evidence, fix) }

func warning(text, evidence, fix string) []Finding { return finding(Warning, text, evidence, fix) }

func note(text, evidence, fix string) []Finding { return finding(Note, text, evidence, fix) }

// warningIf is a note where the condition does not hold.
func warningIf(serious bool, text, evidence, fix string) []Finding {
	if serious {
		return warning(text, evidence, fix)
	}
	return note(text, evidence, fix)
}

// about is a finding that lists several things, none where there are none.
func about(severity Severity, things []string, one, many, evidence, fix string) []Finding {
	if len(things) == 0 {
		return nil
	}
	return finding(severity, plural(len(things), one, many)+": "+listed(things), evidence, fix)
}

// on names the hosts of findings.
func on(names []string, all []Finding) []Finding {
	for i := range all {
		all[i].Hosts = names
	}
	return all
}

// each runs a check over one host after the other.
func each(run func(h *Host) []Finding) func(*Cluster) []Finding {
	return func(c *Cluster) (all []Finding) {
		for _, h := range c.Hosts {
			all = append(all, on([]string{h.Name}, run(h))...)
		}
		return all
	}
}

// differing calls tell for the hosts whose property is not that of most. Hosts for which
// it is "" do not count.
func (c *Cluster) differing(property func(*Host) string,
	tell func(h *Host, own, most, others string) []Finding,
) (all []Finding) {
	count := map[string]int{}
	for _, h := range c.Hosts {
		if p := property(h); p != "" {
			count[p]++
		}
	}
	var most string
	for _, h := range c.Hosts { // the first one where there is no majority
		if p := property(h); p != "" && count[p] > count[most] {
			most = p
		}
	}
	others := "the other host"
	if count[most] != 1 {
		others = fmt.Sprintf("%d others", count[most])
	}
	for _, h := range c.Hosts {
		if p := property(h); p != "" && p != most {
			all = append(all, on([]string{h.Name}, tell(h, p, most, others))...)
		}
	}
	return all
}

// unlike is a check that a property is the same on all hosts. The text has places for a
// host's own, the other hosts and what most of them have.
func unlike(severity Severity, property func(*Host) string, text, evidence, fix string) func(*Cluster) []Finding {
	return func(c *Cluster) []Finding {
		return c.differing(property, func(_ *Host, own, most, others string) []Finding {
			return finding(severity, fmt.Sprintf(text, own, others, most), evidence, fix)
		})
	}
}

// add adds a finding to those that say the same of other hosts.
func add(all []Finding, f Finding) []Finding {
	for i, g := range all {
		if g.Check == f.Check && g.Severity == f.Severity && g.Text == f.Text && g.Fix == f.Fix {
			for _, name := range f.Hosts {
				if !slices.Contains(all[i].Hosts, name) {
					all[i].Hosts = append(all[i].Hosts, name)
				}
			}
			return all
		}
	}
	f.Hosts = slices.Clone(f.Hosts)
	return append(all, f)
}

// Diagnose runs the checks that are named, or all. The findings stand in the order of their severity,
// then in that of the table; what is the same on several hosts is one.
func Diagnose(c *Cluster, ids ...string) []Finding {
	var all []Finding
	for _, check := range Checks() {
		if ids != nil && !slices.Contains(ids, check.ID) {
			continue
		}
		for _, f := range check.Run(c) {
			f.Check = check.ID
			all = add(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return all
}

// CountProblems counts findings that are more than notes.
func CountProblems(findings []Finding) (n int) {
	for _, f := range findings {
		if f.Severity != Note {
			n++
		}
	}
	return n
}

// Size writes bytes for people.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for ; n >= 1<<10 && at < len(units)-1; at++ {
		n >>= 10
	}
	return fmt.Sprintf("%d %s", n, units[at])
}

// counted writes a number with its noun: "1 GPU", "2 GPUs".
func counted(n int, noun string) string { return plural(n, noun, noun+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// listed joins words, the first few of many.
func listed(words []string) string {
	const few = 4
	if len(words) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:few], ", "), len(words)-few)
	}
	return strings.Join(words, ", ")
}

// times is "once", "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
