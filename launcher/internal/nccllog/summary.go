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

// Ready reports whether all ranks of the largest communicator that was heard of are connected, so that Summaries are
// complete; alone, that nothing but a version has come, which may be all that is going to.
func (c *Collector) Ready() (ready, alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.total
	return t.connected > 0 && t.connected >= t.size, c.versionAlone && !t.spoke
}

// Summaries say in what way ranks communicate, the same ones together, by the lowest rank. A rank that does not say its
// version has that of the others, where there is one. linked reports of a rank whether its GPUs have NVLink, which NCCL
// does not always say; nil knows of none.
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
		f := c.ranks[rank].clone()
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
			Text: printable.Text(g.summary(FoldNames(g.names))), Ranks: g.ranks, InitSeconds: g.InitSeconds,
			VersionOnly: len(g.over(nil)) == 0 && g.Size == 0,
		})
	}
	return list
}

// onlyVersion is the version where all who said one said the same, else nil.
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

// Mixed reports whether ranks may have different versions; Versions tells.
func (c *Collector) Mixed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total.mixed
}

// Versions are those that ranks have, with their ranks; more than one cannot talk to each other.
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

// summary says it with the names of what is used; "" where there is nothing to say.
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

// over are the ways between ranks, the nearest first.
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

// network names the way between hosts: "InfiniBand (mlx5_[0-7], GPUDirect RDMA)".
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
	case f.Network == "Socket": // has none
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

// usedNames are the devices that connections go by; where connections do not say, there is none.
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

// FoldNames writes names that differ in the number at their end as one: mlx5_[0-3,6].
func FoldNames(names []string) (folded []string) {
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
			folded, list = append(folded, stem), list[1:]
		}
		switch len(list) {
		case 0:
		case 1:
			folded = append(folded, stem+strconv.Itoa(list[0]))
		default:
			folded = append(folded, stem+"["+printable.Ranges(list)+"]")
		}
	}
	return folded
}
