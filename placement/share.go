package placement

import (
	"slices"
)

// grain is a way to divide a machine into shares: no share crosses a bin, and shares consist of
// whole units.
type grain struct{ bin, unit Object }

// grains are tried in this order. Shares stay inside the smallest objects that they fit into, and
// larger shares consist of whole objects if that works out.
var grains = []grain{
	{ByL3, ByCore},
	{ByNUMA, ByL3},
	{ByNUMA, ByCore},
	{ByPackage, ByNUMA},
	{ByPackage, ByCore},
	{ByBoard, ByPackage},
	{ByBoard, ByNUMA},
	{ByBoard, ByCore},
}

// worthStaying reports whether the limits of objects cost ranks at most a quarter of their fair
// share of the cores, if each then has size cores. If they cost more, shares may cross objects.
func worthStaying(size, cores, ranks int) bool { return 4*size >= 3*(cores/ranks) }

// divide divides cores among n ranks, n ≤ len(cores). Each rank gets its own cores in logical
// order; the numbers differ by at most one. Shares do not cross an L3 cache, a NUMA node or a
// package, nor mix cores of different power, as long as that is [worthStaying]. With exact > 0 each
// rank gets that many cores; n × exact ≤ len(cores).
func divide(cores []*core, n, exact int) [][]*core {
	for _, g := range grains {
		if exact > 0 && g.unit != ByCore {
			continue
		}
		if shares := g.divide(cores, n, exact); shares != nil {
			return shares
		}
	}
	whole, limit := slices.Collect(slices.Chunk(cores, 1)), len(cores)/n+1
	if exact > 0 {
		limit = exact
	}
	return cut([][][]*core{whole}, []int{n}, limit)
}

// bins groups cores into bins, or returns nil if the machine does not report the objects.
func (g grain) bins(cores []*core) [][]*core {
	if slices.ContainsFunc(cores, func(c *core) bool { return c.key(g.bin) < 0 }) {
		return nil
	}
	return groupBy(cores, func(c *core) [4]int {
		// NUMA nodes may share a cache, and packages a NUMA node: a bin is their intersection.
		key := [4]int{c.Kind, c.key(g.bin)}
		switch g.bin {
		case ByL3:
			key[2], key[3] = c.Node, c.Package
		case ByNUMA:
			key[3] = c.Package
		}
		return key
	})
}

// units divides a bin into units, or returns nil if these differ in size.
func (g grain) units(bin []*core) [][]*core {
	if g.unit == ByCore {
		return slices.Collect(slices.Chunk(bin, 1))
	}
	units := groupBy(bin, func(c *core) int { return c.key(g.unit) })
	for _, unit := range units {
		if unit[0].key(g.unit) < 0 || len(unit) != len(units[0]) {
			return nil
		}
	}
	return units
}

// divide is [divide] with one grain; it returns nil if that does not work out.
func (g grain) divide(cores []*core, n, exact int) [][]*core {
	var bins [][][]*core // bin, unit, core
	for _, bin := range g.bins(cores) {
		units := g.units(bin)
		if units == nil || len(bins) > 0 && len(units[0]) != len(bins[0][0]) {
			return nil
		}
		bins = append(bins, units)
	}
	if len(bins) == 0 {
		return nil
	}
	size := exact
	if exact == 0 {
		size = largestShare(bins, n)
	}
	if capacity(bins, size) < n || exact == 0 && !worthStaying(size*len(bins[0][0]), len(cores), n) {
		return nil
	}
	limit := size
	if g.unit == ByCore && exact == 0 {
		limit++
	}
	return cut(bins, spread(bins, n, size), limit)
}

// capacity returns how many shares of size units fit into bins.
func capacity(bins [][][]*core, size int) int {
	n := 0
	for _, bin := range bins {
		n += len(bin) / size
	}
	return n
}

// largestShare returns the largest size, in units, at which n shares fit into bins; 1 if none does.
func largestShare(bins [][][]*core, n int) int {
	size := 1
	for _, bin := range bins {
		size = max(size, len(bin))
	}
	for size > 1 && capacity(bins, size) < n {
		size--
	}
	return size
}

// spread distributes n ranks over bins so that all ranks have about the same room.
func spread(bins [][][]*core, n, size int) []int {
	ranks := make([]int, len(bins))
	for range n {
		best := -1
		for i, bin := range bins {
			if ranks[i] < len(bin)/size && (best < 0 || len(bin)*(ranks[best]+1) > len(bins[best])*(ranks[i]+1)) {
				best = i
			}
		}
		ranks[best]++
	}
	return ranks
}

// cut gives the ranks of each bin their units, at most limit per rank.
func cut(bins [][][]*core, ranks []int, limit int) [][]*core {
	var shares [][]*core
	for i, bin := range bins {
		if ranks[i] == 0 {
			continue
		}
		each, more := len(bin)/ranks[i], len(bin)%ranks[i]
		for rank := range ranks[i] {
			size := each
			if rank < more {
				size++
			}
			size = min(size, limit)
			shares = append(shares, slices.Concat(bin[:size]...))
			bin = bin[size:]
		}
	}
	return shares
}
