package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

// Bits of a bridge's ACS control word that redirect writes between devices through the host. Source: PCI Express Base
// Specification, "ACS Control Register".
const (
	acsRequestRedirect    = 1 << 2
	acsCompletionRedirect = 1 << 3
)

func gpuLinkChecks() []Check {
	return []Check{
		{
			"p2p", "gpu",
			"which NVIDIA GPUs reach each other's memory, and why not",
			"Without it NCCL copies through the host's memory. Between GPUs with NVLinks, it means a fault of the " +
				"hardware or the fabric manager.",
			each(peerToPeer),
		},
		{
			"nvlink", "gpu",
			"NVLinks that are down, or fewer than those of the other GPUs",
			"A collective is as fast as the GPU with the fewest links.",
			each(nvlink),
		},
		{
			"fabric-manager", "gpu",
			"NVIDIA's fabric manager, on machines with NVSwitches",
			"Without it CUDA fails with 'system not yet initialized' (802).",
			each(func(h *Host, r report) {
				n := h.nvidia()
				if n.Switches > 0 && !n.FabricManager && h.Container == "" && n.Driver != "" {
					r.fail("the fabric manager does not run, and there are NVSwitches",
						fmt.Sprintf("/proc/*/comm; %s on the bus", counted(n.Switches, "NVSwitch")),
						"sudo systemctl enable --now nvidia-fabricmanager")
				}
			}),
		},
		{
			"iommu", "gpu",
			"whether an IOMMU translates transfers between GPUs and adapters",
			"Peer-to-peer transfers over PCIe then hang, are slow or give wrong sums; RCCL requires iommu=pt.",
			each(iommu),
		},
		{
			"acs", "gpu",
			"access control services (ACS) of the PCI switches above GPUs; only root can see them",
			"They route transfers between GPUs and adapters through the CPU: NCCL's peer-to-peer and GPUDirect RDMA " +
				"are slow or hang.",
			each(accessControl),
		},
		{
			"pcie-width", "gpu",
			"GPUs and adapters with fewer PCIe lanes than they could have",
			"A card that is not fully in its slot has half of its bandwidth. (doctor ignores the rate, which is low " +
				"on idle GPUs.)",
			each(pcieWidth),
		},
	}
}

func peerToPeer(h *Host, r report) {
	reasons := map[placement.P2PStatus][]string{}
	var broken []string
	for _, g := range h.gpusOf(placement.NVIDIA) {
		if len(g.MIG) > 0 {
			continue
		}
		for _, p := range g.Peers {
			other := gpuName(h, 0, gpufacts.GPU{PCI: p.PCI})
			fine := p.Access == placement.P2POK || p.Access == placement.P2PUndefined
			if fine || fmt.Sprint(g.Index) > other { // report each pair once
				continue
			}
			pair := fmt.Sprintf("%d-%s", g.Index, other)
			if slices.ContainsFunc(g.Links, func(l placement.Link) bool { return l.Peer == p.PCI }) {
				broken = append(broken, pair)
			} else {
				reasons[p.Access] = append(reasons[p.Access], pair)
			}
		}
	}
	if broken != nil {
		r.fail("GPUs with NVLinks between them do not reach each other's memory: "+listed(broken),
			"NVML, P2P status", "nvidia-smi topo -p2p r; nvidia-smi nvlink -s")
	}
	for _, why := range []placement.P2PStatus{
		placement.P2PChipset, placement.P2PGPU, placement.P2PTopology,
		placement.P2PDisabled, placement.P2PNone,
	} {
		way := fmt.Sprintf(" of GPUs by way of the host's memory (%s)", why)
		r.list(warningIf(why == placement.P2PDisabled || why == placement.P2PTopology), reasons[why],
			"pair talks"+way, "pairs talk"+way, "NVML, P2P status",
			"nvidia-smi topo -p2p r")
	}
}

func nvlink(h *Host, r report) {
	n := h.nvidia()
	up := func(g gpufacts.GPU) int {
		links := g.Switched
		for _, count := range g.Links {
			links += count
		}
		return links
	}
	most, switched := 0, n.Switches > 0
	for _, g := range n.Facts.GPUs {
		most, switched = max(most, up(g)), switched || g.Switched > 0
	}
	var down []string
	for i, g := range n.Facts.GPUs {
		links, all := up(g), most
		if most == 0 && n.Switches > 0 {
			all = g.Down
		}
		// Without switches, a GPU without links may be a card without an NVLink bridge.
		if links < all && len(g.MIG) == 0 && (g.Down > 0 && switched || links > 0) {
			down = append(down, fmt.Sprintf("%s (%d of %d)", gpuName(h, i, g), links, all))
		}
	}
	r.list(Warning, down, "GPU lacks NVLinks", "GPUs lack NVLinks", "NVML, links that are up",
		"nvidia-smi nvlink -s; nvidia-smi nvlink -e")
}

// hasPCIPeers reports whether GPUs have other GPUs or adapters to write to over a real PCI bus.
func hasPCIPeers(h *Host) bool {
	gpus := len(h.Machine.GPUs)
	return gpus > 0 && gpus+len(realPorts(h)) > 1 && !h.virtual()
}

func iommu(h *Host, r report) {
	var translated []string
	for _, g := range h.Machine.GPUs {
		if strings.HasPrefix(h.IOMMU[g.PCI], "DMA") {
			translated = append(translated, g.PCI)
		}
	}
	if translated == nil || !hasPCIPeers(h) || strings.HasPrefix(h.Architecture, "aarch") {
		return
	}
	kernel := "intel_iommu=on iommu=pt"
	if h.CPUVendor == "AuthenticAMD" {
		kernel = "amd_iommu=on iommu=pt"
	}
	r.warn("an IOMMU translates what "+plural(len(translated), "GPU writes", "GPUs write")+" to others: "+
		listed(translated), "/sys/kernel/iommu_groups/*/type is "+h.IOMMU[translated[0]],
		"cat /proc/cmdline # it has to have '"+kernel+"': GRUB_CMDLINE_LINUX of /etc/default/grub, then a reboot")
}

func accessControl(h *Host, r report) {
	if !hasPCIPeers(h) {
		return
	}
	var redirecting []string
	for _, b := range h.Bridges {
		if b.ACS != nil && *b.ACS&(acsRequestRedirect|acsCompletionRedirect) != 0 {
			redirecting = append(redirecting, b.Address)
		}
	}
	const what = " what GPUs write to each other through the CPU (ACS)"
	r.list(Warning, redirecting, "PCI bridge sends"+what, "PCI bridges send"+what,
		"their configuration space, ACSCtl",
		"for b in "+strings.Join(redirecting, " ")+"; do sudo setpci -s $b ECAP_ACS+6.w=0000; done")
}

// besideCPU reports whether a GPU has NVLink-C2C to its CPU and does not need PCIe lanes.
func besideCPU(name string) bool {
	return slices.ContainsFunc([]string{"GH200", "GB200", "GB300", "GB10"}, func(s string) bool {
		return strings.Contains(name, s)
	})
}

func pcieWidth(h *Host, r report) {
	if h.Portable || h.virtual() {
		return
	}
	var narrow []string
	check := func(name string, b *placement.Bus) {
		if b != nil && b.Link != nil && b.Link.WidthNow > 0 && b.Link.WidthNow < b.Link.Width {
			narrow = append(narrow, fmt.Sprintf("%s (x%d of x%d)", name, b.Link.WidthNow, b.Link.Width))
		}
	}
	for _, g := range h.Machine.GPUs {
		if !besideCPU(g.Name) {
			check("GPU "+g.PCI, g.Bus)
		}
	}
	ports := len(realPorts(h))
	if h.Machine.Topology != nil && len(h.Machine.GPUs)+ports > 0 {
		for _, n := range h.Machine.Topology.NICs {
			if n.Kind == placement.InfiniBand || n.Kind == placement.RoCE {
				check(n.Name, n.Bus)
			}
		}
	}
	workstation := len(h.Machine.GPUs) == 1 && ports == 0 // its slot may have no more lanes
	slices.Sort(narrow)
	r.list(warningIf(!workstation), slices.Compact(narrow), "device has fewer PCIe lanes than it could",
		"devices have fewer PCIe lanes than they could", "/sys/bus/pci/devices/*/current_link_width",
		"sudo lspci -vv | grep -E '^[0-9a-f]|LnkSta:|LnkCap:'")
}
