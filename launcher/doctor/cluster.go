package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
)

// Cluster is everything that the checks look at.
type Cluster struct {
	Gorun   string  `json:"gorun"`             // version of this one
	Wished  string  `json:"program,omitempty"` // as the user named it; "" for none
	Asked   int     `json:"asked"`             // hosts, those included that were not reached
	Hosts   []*Host `json:"hosts"`             // that said what they have
	Network Network `json:"network"`
	// Unreached are hosts that could not be looked at.
	Unreached []Unreached `json:"unreached,omitempty"`
	// Remarks are findings of others about all hosts, as on the environment.
	Remarks []Remark `json:"remarks,omitempty"`
	// Options are those by which the hosts are reached, and Spelled is how a command line
	// names them where that is not by their names: for commands of gorun that look again.
	Options string            `json:"-"`
	Spelled map[string]string `json:"-"`
}

// again is a command of gorun on some of the hosts.
func (c *Cluster) again(command string, hosts ...string) string {
	words := slices.Clone(hosts)
	for i, name := range words {
		words[i] = cmp.Or(c.Spelled[name], name)
	}
	if c.Options != "" {
		command += " " + c.Options
	}
	return command + " -H " + shellwords.Quote(strings.Join(words, ","))
}

// Unreached are hosts that could not be looked at, for one reason.
type Unreached struct {
	Hosts []string `json:"hosts"`
	Text  string   `json:"text"`
	Hint  string   `json:"hint,omitempty"`
}

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

// Finding is something that a check found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Hosts    []string `json:"hosts"`
	Text     string   `json:"text"` // in a line, without the hosts
	// Evidence is the value that was read and where: on the first of the hosts, where they
	// differ.
	Evidence string `json:"evidence,omitempty"`
	Fix      string `json:"fix,omitempty"` // a command that repairs it, or shows more
}

// Where names the hosts, folded.
func (f Finding) Where() string { return hosts.Fold(f.Hosts) }

// Check is one thing to look at.
type Check struct {
	ID    string
	Group string // see [Groups]
	What  string // it looks at, in a line
	Why   string // that matters, in a sentence or two
	// Run makes the findings; Check and, where there is a single host, Hosts are filled in.
	Run func(c *Cluster) []Finding
}

// Find returns the check of a name.
func Find(id string) (Check, bool) {
	all := Checks()
	i := slices.IndexFunc(all, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return Check{}, false
	}
	return all[i], true
}

// Judge runs all checks. The findings stand in the order of their severity, then in that
// of the table; what is the same on several hosts is one.
func Judge(c *Cluster) []Finding {
	var all []Finding
	for _, check := range Checks() {
		for _, f := range check.Run(c) {
			f.Check = check.ID
			all = add(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return all
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

// Wrong counts findings that are more than notes.
func Wrong(findings []Finding) (n int) {
	for _, f := range findings {
		if f.Severity != Note {
			n++
		}
	}
	return n
}

// each runs a check over one host after the other.
func each(run func(h *Host) []Finding) func(*Cluster) []Finding {
	return func(c *Cluster) (all []Finding) {
		for _, h := range c.Hosts {
			for _, f := range run(h) {
				f.Hosts = []string{h.Name}
				all = append(all, f)
			}
		}
		return all
	}
}

// differing calls tell for the hosts whose property is not that of most. Hosts for which
// it is "" do not count.
func (c *Cluster) differing(property func(*Host) string,
	tell func(h *Host, own, most string, others int) Finding,
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
	for _, h := range c.Hosts {
		if p := property(h); p != "" && p != most {
			f := tell(h, p, most, count[most])
			f.Hosts = []string{h.Name}
			all = append(all, f)
		}
	}
	return all
}

// theOthers begins what most other hosts have.
func theOthers(others int) string {
	if others == 1 {
		return "the other host"
	}
	return fmt.Sprintf("%d others", others)
}

// some reports whether a host has something.
func (c *Cluster) some(has func(*Host) bool) bool { return slices.ContainsFunc(c.Hosts, has) }

// devicesKnown reports whether the host was asked for its GPUs and adapters in time: every
// host has CPUs.
func (h *Host) devicesKnown() bool { return h.Machine.CPUs.Len() > 0 }

// several reports whether a job would span hosts.
func (c *Cluster) several() bool { return c.Asked > 1 }

// machines counts the hosts, those that are one machine by several names once.
func (c *Cluster) machines() int {
	n, seen := c.Asked-len(c.Hosts), map[string]bool{}
	for _, h := range c.Hosts {
		if key := h.Boot + h.Hostname; h.Boot == "" || !seen[key] {
			seen[key] = true
			n++
		}
	}
	return n
}

// bytes writes a size for people.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for ; n >= 1<<10 && at < len(units)-1; at++ {
		n >>= 10
	}
	return fmt.Sprintf("%d %s", n, units[at])
}

// counted writes a number with its noun: "1 GPU", "2 GPUs".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
