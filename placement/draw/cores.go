package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gorun/placement"
)

type core struct {
	id   int // -1: unknown, one CPU counts as a core
	l3   int
	kind int
	cpus []int // threads in order
}

// part is the intersection of a package and a NUMA node. On most machines the two are equal or one
// contains the other.
type part struct {
	pkg, node int
	cores     []core
}

// parts groups the machine's CPUs by package, node, L3 cache and core.
func parts(t *placement.Topology) []part {
	cpus := slices.Clone(t.CPUs)
	slices.SortStableFunc(cpus, func(a, b placement.CPU) int {
		return slices.Compare(position(a), position(b))
	})
	var all []part
	for _, c := range cpus {
		if n := len(all); n == 0 || all[n-1].pkg != c.Package || all[n-1].node != c.Node {
			all = append(all, part{pkg: c.Package, node: c.Node})
		}
		p := &all[len(all)-1]
		if n := len(p.cores); n > 0 && c.Core >= 0 && p.cores[n-1].id == c.Core && p.cores[n-1].l3 == c.L3 {
			p.cores[n-1].cpus = append(p.cores[n-1].cpus, c.ID)
			continue
		}
		p.cores = append(p.cores, core{id: c.Core, l3: c.L3, kind: c.Kind, cpus: []int{c.ID}})
	}
	return all
}

// position defines the order of CPUs. Cores without a shared L3 cache come last.
func position(c placement.CPU) []int {
	l3 := c.L3
	if l3 < 0 {
		l3 = math.MaxInt
	}
	return []int{c.Package, c.Node, l3, c.Core, c.Thread, c.ID}
}

func byPackage(all []part) [][]part { return grouped(all, func(p part) int { return p.pkg }) }

func cpusOf(cores []core) []int {
	var all []int
	for _, c := range cores {
		all = append(all, c.cpus...)
	}
	return all
}

// run is a row of L3 caches with equal cores, or of cores without a shared cache.
type run struct {
	first, last int // numbers of the L3 caches; -1: unknown
	caches      int
	cores       []core
}

// runs combines neighboring L3 caches with equal cores into one run. A cache with several kinds of
// cores has a run of its own.
func runs(cores []core) []run {
	var all []run
	for _, one := range byL3(cores) {
		if n := len(all); n > 0 && one.first == all[n-1].last+1 && one.first > 0 &&
			alike(all[n-1].cores[:len(all[n-1].cores)/all[n-1].caches], one.cores) {
			all[n-1].last, all[n-1].caches = one.last, all[n-1].caches+1
			all[n-1].cores = append(all[n-1].cores, one.cores...)
			continue
		}
		all = append(all, one)
	}
	return all
}

// byL3 groups cores by their L3 cache.
func byL3(cores []core) (all []run) {
	for _, own := range grouped(cores, func(c core) int { return c.l3 }) {
		all = append(all, run{first: own[0].l3, last: own[0].l3, caches: 1, cores: own})
	}
	return all
}

// alike reports whether two caches have the same number and kind of cores.
func alike(a, b []core) bool {
	return slices.EqualFunc(a, b, func(a, b core) bool { return a.kind == b.kind && len(a.cpus) == len(b.cpus) })
}

// sameMake groups consecutive cores of the same kind with the same number of threads.
func sameMake(cores []core) [][]core {
	var all [][]core
	for _, c := range cores {
		if n := len(all); n > 0 && alike(all[n-1][:1], []core{c}) {
			all[n-1] = append(all[n-1], c)
			continue
		}
		all = append(all, []core{c})
	}
	return all
}

// title returns the name of a run's caches: "L3 0-7", "L3 0", or "".
func (r run) title() string {
	switch {
	case r.first < 0:
		return ""
	case r.first == r.last:
		return fmt.Sprintf("L3 %d", r.first)
	}
	return fmt.Sprintf("L3 %d-%d", r.first, r.last)
}

// describe describes equal cores: "cores 0-15, 2 threads each, CPUs 0-15,64-79".
func describe(cores []core, kinds int) string {
	ids := make([]int, 0, len(cores))
	for _, c := range cores {
		if c.id >= 0 {
			ids = append(ids, c.id)
		}
	}
	what := counted(len(cores), "CPU") + " on unknown cores"
	if len(ids) == len(cores) {
		what = numbered("core", ids) + ", " + counted(len(cores[0].cpus), "thread")
		if len(cores) > 1 {
			what += " each"
		}
	}
	if kind := kindWord(cores[0].kind, kinds); kind != "" {
		what += ", " + kind
	}
	return what + ", " + numbered("CPU", cpusOf(cores))
}

// numbered returns a name with numbers: "core 3", "cores 0-15".
func numbered(noun string, numbers []int) string {
	if len(numbers) != 1 {
		noun += "s"
	}
	return noun + " " + list(numbers)
}

// kindWord returns the name of a core kind if the machine has several kinds.
func kindWord(kind, kinds int) string {
	switch {
	case kinds < 2:
		return ""
	case kinds > 2:
		return fmt.Sprintf("kind %d of %d (0 is the strongest)", kind, kinds)
	case kind == 0:
		return "performance"
	}
	return "efficiency"
}

func kindsOf(t *placement.Topology) int {
	most := 0
	for _, c := range t.CPUs {
		most = max(most, c.Kind+1)
	}
	return most
}

const (
	markAll      = '█'
	markSome     = '▒'
	markNone     = '░'
	markIsolated = 'i'
	markShared   = '*'
)

// legend lists the marks in the order of the explanation.
var legend = []struct {
	mark rune
	text string
}{
	{markAll, "a core that you may use"},
	{markSome, "only some of its threads"},
	{markNone, "not allowed for you"},
	{markIsolated, "isolated: the kernel schedules no tasks there"},
	{markShared, "several ranks"},
}

// mark returns a one-character state of a core.
func (p *picture) mark(c core) rune {
	allowed, isolated := 0, true
	for _, cpu := range c.cpus {
		if p.allowed(cpu) {
			allowed++
		}
		isolated = isolated && p.topo.Isolated.Has(cpu)
	}
	switch {
	case isolated:
		return markIsolated
	case allowed == 0:
		return markNone
	case p.bound():
		return p.owner(c)
	case allowed < len(c.cpus):
		return markSome
	}
	return markAll
}

// digits represent ranks in strips by the last digit of their number.
const digits = "0123456789"

// bound reports whether any rank is bound.
func (p *picture) bound() bool {
	return slices.ContainsFunc(p.placed, func(s Placement) bool { return s.CPUs.Len() > 0 && s.CPUs.Len() < p.usable() })
}

// owner returns the last digit of the rank on a core, or the mark of a usable core if it is free.
func (p *picture) owner(c core) rune {
	found := -1
	for i, s := range p.placed {
		if !slices.ContainsFunc(c.cpus, s.CPUs.Has) {
			continue
		}
		if found >= 0 {
			return markShared
		}
		found = i
	}
	if found < 0 {
		return markAll
	}
	return rune(digits[p.placed[found].Rank%len(digits)])
}

// allowed reports whether this process may use a CPU. If that is unknown, it is true for every CPU.
func (p *picture) allowed(cpu int) bool { return p.machine.CPUs.Len() == 0 || p.machine.CPUs.Has(cpu) }

// usable returns the number of allowed CPUs.
func (p *picture) usable() int {
	n := 0
	for _, c := range p.topo.CPUs {
		if p.allowed(c.ID) {
			n++
		}
	}
	return n
}

// strip draws the cores of a run in a row, one character each, with spaces between caches.
func (p *picture) strip(r run) string {
	var b strings.Builder
	each := len(r.cores) / r.caches
	for i, c := range r.cores {
		if i > 0 && i%each == 0 && each > 1 {
			b.WriteByte(' ')
		}
		mark := p.mark(c)
		p.used[mark] = true
		b.WriteRune(mark)
	}
	return b.String()
}
