package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Check is one thing that doctor looks at.
type Check struct {
	ID    string `json:"check"`    // name for `gorun explain`, such as "shm-size"
	Group string `json:"subject"`  // such as "memory"
	What  string `json:"looks_at"` // one line
	Why   string `json:"reason"`   // why it matters, in one or two sentences
	run   func(c *Cluster, r report)
}

// Checks returns all checks, in the order in which they are run and listed.
func Checks() []Check {
	return slices.Concat(reachChecks(), clockChecks(), programChecks(), limitChecks(), memoryChecks(), kernelChecks(),
		nameChecks(), pythonChecks(), gpuChecks(), gpuLinkChecks(), gpuNetworkChecks(), amdChecks(), rdmaChecks(),
		rdmaCounterChecks(), ethernetChecks(), networkChecks(), orphanChecks(), environmentChecks())
}

// Quick are the checks of --check, by ID: what fails in a running cluster, and a quick inspection shows.
var Quick = []string{
	"room", "memlock", "nofile", "nproc", "gpu-library", "gpu-access", "gpu-count", "gpu-errors", "gpu-mode", "p2p",
	"nvlink", "fabric-manager", "kfd", "amd-errors", "rdma-port", "link-layer", "uverbs",
}

// Start are the checks of `gorun hosts check`, by ID: what keeps a job from starting, and Quick.
var Start = append([]string{
	Reach, "gorun-version", Skipped, "clock", "program", "program-differs", "architecture", "gpu-used", "mtu", "speed",
	Unreachable, PathMTU, PacketLoss, NetworkSpeed, NetworkInterface, NoAddress,
}, Quick...)

// Find returns the check with an ID.
func Find(id string) (check Check, ok bool) {
	all := Checks()
	i := slices.IndexFunc(all, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return check, false
	}
	return all[i], true
}

// Diagnose runs the checks with these IDs, or all. It returns the findings by severity and then in the order of the
// checks; what is the same on several hosts is one finding.
func Diagnose(c *Cluster, ids ...string) (findings []Finding) {
	for _, check := range Checks() {
		if ids == nil || slices.Contains(ids, check.ID) {
			check.run(c, report{findings: &findings, check: check.ID})
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return findings
}

// each makes a check of a function that checks one host.
func each(check func(h *Host, r report)) func(*Cluster, report) {
	return func(c *Cluster, r report) {
		for _, h := range c.Hosts {
			check(h, r.about(h.Name))
		}
	}
}

// differing calls add for the hosts whose property differs from that of most. Hosts without the property (the zero
// value) do not count.
func differing[P comparable](c *Cluster, r report, property func(*Host) P,
	add func(h *Host, r report, own, most P, others string),
) {
	var none, most P
	count := map[P]int{}
	for _, h := range c.Hosts {
		count[property(h)]++
	}
	count[none] = 0
	for _, h := range c.Hosts { // the first one if there is no majority
		if p := property(h); count[p] > count[most] {
			most = p
		}
	}
	others := "the other host"
	if count[most] != 1 {
		others = fmt.Sprintf("%d others", count[most])
	}
	for _, h := range c.Hosts {
		if p := property(h); p != none && p != most {
			add(h, r.about(h.Name), p, most, others)
		}
	}
}

// unlike makes a check that a property is the same on all hosts. The text has verbs for a host's own value, the other
// hosts, and the value of most of them.
func unlike(severity Severity, property func(*Host) string, text, evidence, fix string) func(*Cluster, report) {
	return func(c *Cluster, r report) {
		differing(c, r, property, func(_ *Host, r report, own, most, others string) {
			r.add(severity, fmt.Sprintf(text, own, others, most), evidence, fix)
		})
	}
}

// Group is a subject of several checks.
type Group struct {
	Name string
	// Healthy says in a few words what is well if no check of the group found anything; "" if there was nothing to check.
	Healthy func(c *Cluster) string
}

// Groups returns the subjects, in the order in which they are reported.
func Groups() []Group {
	ifAll := func(known func(*Host) bool, text string) func(*Cluster) string {
		return func(c *Cluster) string {
			if len(c.Hosts) == 0 || c.any(func(h *Host) bool { return !known(h) }) {
				return ""
			}
			return text
		}
	}
	return []Group{
		{"reach", healthyReach},
		{"clock", healthyClock},
		{"program", healthyProgram},
		{"limits", ifAll(func(h *Host) bool { return h.Limits != nil }, "limits")},
		{"memory", ifAll(func(h *Host) bool { return h.Shm != nil && h.Memory.Total > 0 }, "memory")},
		{"kernel", ifAll(func(h *Host) bool { return h.Kernel != "" }, "kernel")},
		{"names", ifAll(func(h *Host) bool { return h.Names != nil }, "host names")},
		{"python", healthyPython},
		{"gpu", healthyGPUs},
		{"rdma", healthyRDMA},
		{"ethernet", func(c *Cluster) string {
			if !c.any(func(h *Host) bool { return len(physical(h)) > 0 }) {
				return ""
			}
			return "network interfaces"
		}},
		{"network", func(c *Cluster) string {
			if c.Network == nil {
				return ""
			}
			return c.Network.Summary
		}},
		{"leftovers", ifAll(func(h *Host) bool { return h.ProcessesKnown }, "nothing left of dead jobs")},
		{"environment", func(*Cluster) string { return "" }},
	}
}

// Healthy describes the groups whose checks found nothing more than notes.
func Healthy(c *Cluster, findings []Finding) (texts []string) {
	for _, g := range Groups() {
		unhealthy := slices.ContainsFunc(findings, func(f Finding) bool {
			check, _ := Find(f.Check)
			return check.Group == g.Name && f.Severity != Note
		})
		if text := g.Healthy(c); text != "" && !unhealthy {
			texts = append(texts, text)
		}
	}
	return texts
}

func healthyReach(c *Cluster) string {
	if !c.several() {
		return ""
	}
	return fmt.Sprintf("%d of %d hosts reached, same gorun", len(c.Hosts), c.Asked)
}

func healthyClock(c *Cluster) string {
	most := -1.0
	for _, h := range c.Hosts {
		if h.Clock != nil {
			most = max(most, math.Abs(h.Clock.Ahead)+h.Clock.Uncertainty)
		}
	}
	if most < 0 {
		return ""
	}
	return fmt.Sprintf("clock < %d ms", int(most*1000)+1)
}

func healthyProgram(c *Cluster) string {
	switch {
	case c.Program == "" || len(c.Hosts) == 0:
		return ""
	case c.several():
		return "same program"
	}
	return "program"
}

func healthyPython(c *Cluster) string {
	for _, h := range c.Hosts {
		if hasTorch(h) {
			return "PyTorch " + h.Python.Packages["torch"]
		}
	}
	return ""
}

// perHost says that each of several hosts has something.
func (c *Cluster) perHost(text string) string {
	if text != "" && c.several() {
		return text + " a host"
	}
	return text
}

func healthyGPUs(c *Cluster) string {
	var counts []string
	for _, h := range c.Hosts {
		if n := len(h.Machine.GPUs); n > 0 && !slices.Contains(counts, counted(n, "GPU")) {
			counts = append(counts, counted(n, "GPU"))
		}
	}
	return c.perHost(strings.Join(counts, ", "))
}

func healthyRDMA(c *Cluster) string {
	for _, h := range c.Hosts {
		if n := len(activePorts(h)); n > 0 {
			return c.perHost(counted(n, "RDMA port") + " up")
		}
	}
	return ""
}
