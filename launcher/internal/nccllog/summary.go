package nccllog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
)

// Ready reports whether all ranks of the largest known communicator are connected, so that Summaries are complete.
// versionOnly reports that only a version was logged, which may be all that comes.
func (c *Collector) Ready() (ready, versionOnly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.total
	return t.connected > 0 && t.connected >= t.size, c.versionLine && !t.detailed
}

// Summaries describes how ranks communicate, grouped by equal descriptions and ordered by the lowest rank. A rank
// without a version gets the common version of the others. linked reports whether a rank's GPUs have NVLink, which
// NCCL does not always log; it may be nil.
func (c *Collector) Summaries(linked func(rank int) bool) (list []spec.NCCLSummary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	only := c.onlyVersion()
	type group struct {
		Facts
		names []string
		ranks []int
	}
	groups := map[string]*group{}
	var order []*group
	for _, rank := range slices.Sorted(maps.Keys(c.ranks)) {
		f := *c.ranks[rank]
		if f.Version == "" && only != nil {
			f.Library, f.Version = only.Library, only.Version
		}
		if linked != nil && f.Via.Has(P2P) && linked(rank) {
			f.Via |= NVLink
		}
		key := f.summary(nil)
		if key == "" {
			continue
		}
		g := groups[key]
		if g == nil {
			g = &group{Facts: f}
			groups[key], order = g, append(order, g)
		}
		g.ranks, g.names = append(g.ranks, rank), append(g.names, f.usedNames()...)
		g.InitSeconds = max(g.InitSeconds, f.InitSeconds)
	}
	for _, g := range order {
		list = append(list, spec.NCCLSummary{
			Text: printable.Text(g.summary(nodeList(g.names))), Ranks: g.ranks, InitSeconds: g.InitSeconds,
			VersionOnly: len(g.over(nil)) == 0 && g.Size == 0,
		})
	}
	return list
}

// onlyVersion returns facts with the version that all ranks with a version have, or nil.
func (c *Collector) onlyVersion() (only *Facts) {
	for _, f := range c.ranks {
		switch {
		case f.Version == "":
		case only == nil:
			only = f
		case f.Version != only.Version || f.Library != only.Library:
			return nil
		}
	}
	return only
}

// Mixed reports whether ranks have different versions.
func (c *Collector) Mixed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total.mixed
}

// Versions returns the ranks by library version. Ranks of different versions cannot talk to each other.
func (c *Collector) Versions() map[string][]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := map[string][]int{}
	for _, rank := range slices.Sorted(maps.Keys(c.ranks)) {
		if name := c.ranks[rank].name(); name != "" {
			versions[name] = append(versions[name], rank)
		}
	}
	return versions
}

// summary describes how a rank communicates, over the named devices; "" if nothing is known.
func (f *Facts) summary(names []string) string {
	over := f.over(names)
	if f.Version == "" && len(over) == 0 {
		return ""
	}
	text := cmp.Or(f.Library, "NCCL")
	if f.Version != "" {
		text += " " + f.Version
	}
	if len(over) > 0 {
		text += " over " + strings.Join(over, " and ")
	}
	switch {
	case f.Channels == 1:
		text += ", 1 channel"
	case f.Channels > 1:
		text += fmt.Sprintf(", %d channels", f.Channels)
	}
	return text
}

// over returns the kinds of connections, the nearest first.
func (f *Facts) over(names []string) (list []string) {
	if f.Via.Has(P2P) {
		way := "P2P"
		if f.Via.Has(NVLink) {
			way = "NVLink P2P"
		}
		if f.Via.Has(NVLS) {
			way += " with NVLS"
		}
		list = append(list, way)
	}
	if f.Via.Has(SharedMemory) {
		list = append(list, "shared memory")
	}
	if f.Via.Has(Net) {
		list = append(list, f.network(names))
	}
	return list
}

// network describes the connections between hosts: "InfiniBand (mlx5_[0-7], GPUDirect RDMA)".
func (f *Facts) network(names []string) string {
	text := f.Network
	switch f.Network {
	case "":
		text = "a network"
	case "Socket":
		text = "sockets"
	case "IB":
		text = "InfiniBand"
		if len(f.Ports) > 0 && f.Ports[0].Kind == "RoCE" {
			text = "RoCE"
		}
	}
	detail := slices.Clone(names)
	switch {
	case f.Network == "Socket": // without GPUDirect
	case f.Via.Has(GDR | NoGDR):
		detail = append(detail, "GPUDirect RDMA in part")
	case f.Via.Has(GDR):
		detail = append(detail, "GPUDirect RDMA")
	default:
		detail = append(detail, "no GPUDirect RDMA")
	}
	if len(detail) == 0 {
		return text
	}
	return text + " (" + strings.Join(detail, ", ") + ")"
}

// usedNames returns the devices that connections use, as far as NCCL logged them.
func (f *Facts) usedNames() (names []string) {
	for _, n := range f.Used {
		switch {
		case f.Network == "Socket" && n < len(f.Interfaces):
			names = append(names, f.Interfaces[n])
		case f.Network == "IB" && n < len(f.Ports):
			name, _, _ := strings.Cut(f.Ports[n].Name, ":")
			names = append(names, name)
		}
	}
	return names
}

// nodeList merges names that differ in their final number: mlx5_[0-3,6].
func nodeList(names []string) (merged []string) {
	numbers := map[string][]int{}
	for _, name := range names {
		stem := strings.TrimRight(name, "0123456789")
		n, err := strconv.Atoi(name[len(stem):])
		if err != nil { // no number, or a long one
			stem, n = name, -1
		}
		numbers[stem] = append(numbers[stem], n)
	}
	for _, stem := range slices.Sorted(maps.Keys(numbers)) {
		list := numbers[stem]
		slices.Sort(list)
		list = slices.Compact(list)
		if list[0] < 0 {
			merged, list = append(merged, stem), list[1:]
		}
		switch len(list) {
		case 0:
		case 1:
			merged = append(merged, stem+strconv.Itoa(list[0]))
		default:
			merged = append(merged, stem+"["+printable.Ranges(list)+"]")
		}
	}
	return merged
}
