package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// PathClass is the class of the path between two devices, as defined in the legend of `nvidia-smi
// topo -m`; a smaller value is a shorter path.
type PathClass int

// Path classes.
const (
	PathSelf PathClass = iota // the same device
	PathLink                  // NVLink or XGMI between two GPUs
	PathPIX                   // at most one PCIe bridge, such as one switch
	PathPXB                   // several PCIe bridges, but no host bridge
	PathPHB                   // a PCIe host bridge, typically the CPU
	PathNODE                  // several host bridges of one NUMA node
	PathSYS                   // the interconnect between NUMA nodes
)

var pathNames = [...]string{"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"}

// Path is the path between two devices.
type Path struct {
	Class PathClass
	// Links and Kind describe the direct connections of a PathLink.
	Links int
	Kind  string // "nvlink" or "xgmi"
}

// String formats the path as nvidia-smi does: "NV18", "XGMI", "PIX".
func (p Path) String() string {
	switch {
	case p.Class == PathLink && p.Kind == "xgmi":
		return "XGMI"
	case p.Class == PathLink:
		return fmt.Sprint("NV", p.Links)
	case p.Class < 0 || int(p.Class) >= len(pathNames):
		return "?"
	}
	return pathNames[p.Class]
}

// Compare orders paths by class, the shortest first, then by the number of links, the most first.
func (p Path) Compare(other Path) int {
	return cmp.Or(cmp.Compare(p.Class, other.Class), cmp.Compare(other.Links, p.Links))
}

// PathBetween returns the path between two positions on the PCI bus. A position that is not known
// (nil, or without a host bridge) is judged by its NUMA node; two unknown nodes count as equal.
func PathBetween(a, b *Bus) Path {
	if a == nil || b == nil {
		return Path{Class: PathSYS}
	}
	if a.Address == b.Address {
		return Path{Class: PathSelf}
	}
	if a.Root == "" || a.Root != b.Root {
		if a.Node == b.Node {
			return Path{Class: PathNODE}
		}
		return Path{Class: PathSYS}
	}
	common := 0
	for common < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[common] == b.Bridges[common] {
		common++
	}
	switch {
	case common == 0:
		return Path{Class: PathPHB}
	// Below the common part each has its own port of the same switch, or none if both are functions
	// of one card.
	case len(a.Bridges) <= common+1 && len(b.Bridges) <= common+1:
		return Path{Class: PathPIX}
	}
	return Path{Class: PathPXB}
}

// PathBetweenGPUs returns the path between two GPUs. Direct links take precedence over the PCI bus,
// even if only one GPU reports them.
func PathBetweenGPUs(a, b GPU) Path {
	if a.PCI == b.PCI {
		return Path{Class: PathSelf}
	}
	if l, ok := a.link(b.PCI); ok {
		return Path{Class: PathLink, Links: l.Count, Kind: l.Kind}
	}
	if l, ok := b.link(a.PCI); ok {
		return Path{Class: PathLink, Links: l.Count, Kind: l.Kind}
	}
	return PathBetween(a.Bus, b.Bus)
}

func (g GPU) link(peer string) (Link, bool) {
	i := slices.IndexFunc(g.Links, func(l Link) bool { return l.Peer == peer && l.Count > 0 })
	if i < 0 {
		return Link{}, false
	}
	return g.Links[i], true
}
