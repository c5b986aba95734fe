package draw

import (
	"fmt"
	"strings"

	"gorun/placement"
)

// The classes of paths between two devices, the nearest first, as nvidia-smi topo
// -m names them. A class of its own for each number of links comes before them.
const (
	pathSelf = "X"
	pathPIX  = "PIX"
	pathPXB  = "PXB"
	pathPHB  = "PHB"
	pathNODE = "NODE"
	pathSYS  = "SYS"
)

// linkWord names direct links as the matrix does: "NV18", "XGMI".
func linkWord(l placement.Link) string {
	switch {
	case l.Kind == "nvlink":
		return fmt.Sprint("NV", l.Count)
	case l.Kind == "xgmi" && l.Count > 1:
		return fmt.Sprint("XGMI", l.Count)
	}
	return strings.ToUpper(l.Kind)
}

// between is the path class of two devices.
func between(a, b device) string {
	if a.gpu != nil && b.gpu != nil {
		for _, l := range a.gpu.Links {
			if l.Peer == b.gpu.PCI && l.Count > 0 {
				return linkWord(l)
			}
		}
	}
	return pathClass(a.bus, b.bus)
}

// pathClass is the class of the way through the PCI tree.
func pathClass(a, b *placement.Bus) string {
	switch {
	case a.Address == b.Address:
		return pathSelf
	case a.Root == "" || a.Root != b.Root:
		if a.Node >= 0 && a.Node == b.Node {
			return pathNODE
		}
		return pathSYS
	}
	common := 0
	for common < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[common] == b.Bridges[common] {
		common++
	}
	switch {
	case common == 0:
		return pathPHB
	case len(a.Bridges)-common <= 1 && len(b.Bridges)-common <= 1:
		return pathPIX
	}
	return pathPXB
}
