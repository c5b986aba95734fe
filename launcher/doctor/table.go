package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Check is one thing to look at.
type Check struct {
	ID    string `json:"check"`
	Group string `json:"subject"`  // see [Groups]
	What  string `json:"looks_at"` // in a line
	Why   string `json:"why"`      // that matters, in a sentence or two
	// Run makes the findings; Check is filled in.
	Run func(c *Cluster) []Finding `json:"-"`
}

// Checks is the table of all checks, in the order in which they are run and listed.
func Checks() []Check {
	return slices.Concat(reachChecks(), clockChecks(), programChecks(), limitChecks(), memoryChecks(), kernelChecks(),
		nameChecks(), pythonChecks(),
		gpuChecks(), gpuLinkChecks(), gpuNetworkChecks(), amdChecks(), rdmaChecks(), rdmaCounterChecks(), ethernetChecks(),
		networkChecks(), leftoverChecks(), environmentChecks())
}

// Find returns the check of a name.
func Find(id string) (check Check, ok bool) {
	all := Checks()
	i := slices.IndexFunc(all, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return check, false
	}
	return all[i], true
}

// Group is a subject on which there are several checks.
type Group struct {
	Name string
	// Healthy says in a few words what is well where no check of the group found anything; ""
	// where there was nothing to look at.
	Healthy func(c *Cluster) string
}

// Groups are the subjects, in the order in which they are told of.
func Groups() []Group {
	known := func(text string, of func(*Host) bool) func(*Cluster) string { // of all hosts
		return func(c *Cluster) string {
			if len(c.Hosts) == 0 || c.some(func(h *Host) bool { return !of(h) }) {
				return ""
			}
			return text
		}
	}
	return []Group{
		{"reach", healthyReach},
		{"clock", healthyClock},
		{"program", healthyProgram},
		{"limits", known("limits", func(h *Host) bool { return h.Limits != nil })},
		{"memory", known("memory", func(h *Host) bool { return h.Shm != nil && h.Memory.Total > 0 })},
		{"kernel", known("kernel", func(h *Host) bool { return h.Kernel != "" })},
		{"names", known("host names", func(h *Host) bool { return h.Names != nil })},
		{"python", healthyPython},
		{"gpu", healthyGPUs},
		{"rdma", healthyRDMA},
		{"ethernet", func(c *Cluster) string {
			if !c.some(func(h *Host) bool { return len(physical(h)) > 0 }) {
				return ""
			}
			return "network interfaces"
		}},
		{"network", func(c *Cluster) string { return c.Network.Summary }},
		{"leftovers", known("nothing left of dead jobs", func(h *Host) bool { return h.ProcessesKnown })},
		{"environment", func(*Cluster) string { return "" }},
	}
}

// Healthy are the words of all groups of which no check found more than a note.
func Healthy(c *Cluster, findings []Finding) (words []string) {
	for _, g := range Groups() {
		sick := slices.ContainsFunc(findings, func(f Finding) bool {
			check, _ := Find(f.Check)
			return check.Group == g.Name && f.Severity != Note
		})
		if text := g.Healthy(c); text != "" && !sick {
			words = append(words, text)
		}
	}
	return words
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
	if !c.several() {
		counts = counts[:min(1, len(counts))]
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
