package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // jobs cannot work
	Warning Severity = "warning" // jobs will be slow, or may fail
	Note    Severity = "note"    // nothing to repair
)

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Note}, s) }

// Finding is the outcome of a check.
type Finding struct {
	Check    string   `json:"check,omitempty"` // Check.ID
	Severity Severity `json:"severity"`        // "error", "warning" or "note"
	Hosts    []string `json:"hosts,omitempty"` // hosts that it is about; absent for all
	Text     string   `json:"text"`            // one line, without the hosts
	// Evidence is the value that was read, and where. If it differs between hosts, it is that of the first.
	Evidence string `json:"evidence,omitempty"`
	Advice   string `json:"advice,omitempty"` // what to do, in words
	Fix      string `json:"fix,omitempty"`    // a command that repairs it or shows more
}

// Where returns the hosts as a host range: "node[01-16]".
func (f Finding) Where() string { return hosts.NodeList(f.Hosts) }

// CountProblems counts findings that are more than notes.
func CountProblems(findings []Finding) (n int) {
	for _, f := range findings {
		if f.Severity != Note {
			n++
		}
	}
	return n
}

// report collects the findings of one check, merging those that are the same on several hosts.
type report struct {
	findings *[]Finding
	check    string
	hosts    []string // that new findings are about
}

// about returns a report on other hosts.
func (r report) about(hosts ...string) report {
	r.hosts = hosts
	return r
}

func (r report) add(severity Severity, text, evidence, fix string) {
	r.merge(Finding{Check: r.check, Severity: severity, Hosts: r.hosts, Text: text, Evidence: evidence, Fix: fix})
}

func (r report) merge(found Finding) {
	for i := range *r.findings {
		f := &(*r.findings)[i]
		if f.Check == found.Check && f.Severity == found.Severity && f.Text == found.Text && f.Fix == found.Fix {
			for _, name := range found.Hosts {
				if !slices.Contains(f.Hosts, name) {
					f.Hosts = append(f.Hosts, name)
				}
			}
			return
		}
	}
	found.Hosts = slices.Clone(found.Hosts)
	*r.findings = append(*r.findings, found)
}

// pass adds what other packages have found that belongs to this check.
func pass(c *Cluster, r report) {
	for _, f := range c.Found {
		if f.Check == r.check {
			r.merge(f)
		}
	}
}

// any reports whether the check has found anything yet.
func (r report) any() bool {
	all := *r.findings
	return len(all) > 0 && all[len(all)-1].Check == r.check
}

func (r report) fail(text, evidence, fix string) { r.add(Error, text, evidence, fix) }

func (r report) warn(text, evidence, fix string) { r.add(Warning, text, evidence, fix) }

func (r report) note(text, evidence, fix string) { r.add(Note, text, evidence, fix) }

// warnIf adds a warning if the condition holds, or else a note.
func (r report) warnIf(serious bool, text, evidence, fix string) {
	r.add(warningIf(serious), text, evidence, fix)
}

func warningIf(serious bool) Severity {
	if serious {
		return Warning
	}
	return Note
}

// list adds one finding about several things, if there are any.
func (r report) list(severity Severity, things []string, one, many, evidence, fix string) {
	if len(things) > 0 {
		r.add(severity, plural(len(things), one, many)+": "+listed(things), evidence, fix)
	}
}

// Size formats bytes: "64 MiB".
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for ; n >= 1<<10 && len(units) > 1; n >>= 10 {
		units = units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}

// counted formats a number and its noun: "1 GPU", "2 GPUs".
func counted(n int, noun string) string { return plural(n, noun, noun+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// listed joins the first few words.
func listed(words []string) string {
	const few = 4
	if len(words) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:few], ", "), len(words)-few)
	}
	return strings.Join(words, ", ")
}

// times formats a count of events: "once", "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
