package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// Bits of the control word of a bridge's access control services that send what a device
// writes to its neighbour through the host first. Source: PCI Express Base Specification,
// "ACS Control Register".
const (
	acsRequestRedirect    = 1 << 2
	acsCompletionRedirect = 1 << 3
)

func gpuLinkChecks() []Check {
	return []Check{
		{
			ID: "p2p", Group: "gpu",
			What: "which NVIDIA GPUs reach each other's memory, and why not",
			Why: "Without it NCCL copies through the host's memory. Between GPUs that NVLinks connect it is a fault of the " +
				"hardware or of the fabric manager.",
			Run: each(peerToPeer),
		},
		{
			ID: "nvlink", Group: "gpu",
			What: "NVLinks that are down, or fewer than those of the other GPUs",
			Why:  "A collective runs at the pace of the GPU with the fewest links.",
			Run:  each(nvlink),
		},
		{
			ID: "fabric-manager", Group: "gpu",
			What: "NVIDIA's fabric manager, where there are NVSwitches",
			Why:  "Without it CUDA says 'system not yet initialized' (802).",
			Run: each(func(h *Host) []Finding {
				n := h.NVIDIA
				if n == nil || n.Switches == 0 || n.FabricManager || h.Container != "" || n.Driver == "" {
					return nil
				}
				return []Finding{{
					Severity: Error, Text: "the fabric manager does not run, and there are NVSwitches",
					Evidence: fmt.Sprintf("/proc/*/comm; %s on the bus", counted(n.Switches, "NVSwitch")),
					Fix:      "sudo systemctl enable --now nvidia-fabricmanager",
				}}
			}),
		},
		{
			ID: "iommu", Group: "gpu",
			What: "whether an IOMMU translates what GPUs and adapters write to each other",
			Why:  "Peer-to-peer over PCIe hangs, is slow or gives wrong sums behind one that translates; RCCL asks for iommu=pt.",
			Run:  each(iommu),
		},
		{
			ID: "acs", Group: "gpu",
			What: "access control services (ACS) of the PCI switches above GPUs; root alone can see them",
			Why: "They send what GPUs and adapters write to each other up to the CPU: NCCL's peer-to-peer and GPUDirect RDMA " +
				"are slow, or hang.",
			Run: each(accessControl),
		},
		{
			ID: "pcie-width", Group: "gpu",
			What: "GPUs and adapters with fewer PCIe lanes than they could have",
			Why: "A card that sits badly has half of its bandwidth. (The rate of an idle GPU is low by itself, and is not " +
				"looked at.)",
			Run: each(pcieWidth),
		},
	}
}

func peerToPeer(h *Host) (all []Finding) {
	reasons := map[placement.P2PStatus][]string{}
	var broken []string
	for _, g := range h.Machine.GPUs {
		if g.Vendor != placement.NVIDIA || len(g.MIG) > 0 {
			continue
		}
		for _, p := range g.Peers {
			if p.Access == placement.P2POK || p.Access == placement.P2PUndefined {
				continue
			}
			other := indexOf(h, p.PCI)
			if fmt.Sprint(g.Index) > other { // each pair once
				continue
			}
			pair := fmt.Sprintf("%d-%s", g.Index, other)
			if slices.ContainsFunc(g.Links, func(l placement.Link) bool { return l.Peer == p.PCI }) {
				broken = append(broken, pair)
				continue
			}
			reasons[p.Access] = append(reasons[p.Access], pair)
		}
	}
	if broken != nil {
		all = append(all, Finding{
			Severity: Error, Text: "GPUs with NVLinks between them do not reach each other's memory: " + listed(broken),
			Evidence: "NVML, P2P status", Fix: "nvidia-smi topo -p2p r; nvidia-smi nvlink -s",
		})
	}
	for _, why := range []placement.P2PStatus{
		placement.P2PChipset, placement.P2PGPU, placement.P2PTopology,
		placement.P2PDisabled, placement.P2PNone,
	} {
		pairs := reasons[why]
		if pairs == nil {
			continue
		}
		f := Finding{
			Severity: Note, Text: fmt.Sprintf("%s of GPUs by way of the host's memory (%s): %s",
				plural(len(pairs), "pair talks", "pairs talk"), why, listed(pairs)), Evidence: "NVML, P2P status",
			Fix: "nvidia-smi topo -p2p r",
		}
		if why == placement.P2PDisabled || why == placement.P2PTopology {
			f.Severity = Warning
		}
		all = append(all, f)
	}
	return all
}

func indexOf(h *Host, pci string) string {
	for _, g := range h.Machine.GPUs {
		if g.PCI == pci {
			return fmt.Sprint(g.Index)
		}
	}
	return pci
}

func nvlink(h *Host) []Finding {
	most := 0
	switched := h.NVIDIA != nil && h.NVIDIA.Switches > 0
	for _, g := range told(h) {
		switched = switched || g.Switched > 0
		n := g.Switched
		for _, count := range g.Links {
			n += count
		}
		most = max(most, n)
	}
	var down []string
	for i, g := range told(h) {
		n := g.Switched
		for _, count := range g.Links {
			n += count
		}
		// Without switches a GPU with no link may have no bridge on it, as cards have in pairs.
		if most > 0 && n < most && len(g.MIG) == 0 && (g.Down > 0 && switched || n > 0) {
			down = append(down, fmt.Sprintf("%s (%d of %d)", gpuName(h, i, g), n, most))
		}
		if most == 0 && g.Down > 0 && len(g.MIG) == 0 && h.NVIDIA.Switches > 0 {
			down = append(down, fmt.Sprintf("%s (0 of %d)", gpuName(h, i, g), g.Down))
		}
	}
	if down == nil {
		return nil
	}
	return []Finding{{Severity: Warning, Text: plural(len(down), "GPU lacks NVLinks", "GPUs lack NVLinks") + ": " +
		listed(down), Evidence: "NVML, links that are up", Fix: "nvidia-smi nvlink -s; nvidia-smi nvlink -e"}}
}

func iommu(h *Host) []Finding {
	gpus := len(h.Machine.GPUs)
	if gpus == 0 || gpus < 2 && len(realPorts(h)) == 0 || strings.HasPrefix(h.Architecture, "aarch") ||
		h.Machine.Topology != nil && h.Machine.Topology.Virtual {
		return nil
	}
	var translated []string
	for _, g := range h.Machine.GPUs {
		if kind := h.IOMMU[g.PCI]; strings.HasPrefix(kind, "DMA") {
			translated = append(translated, g.PCI)
		}
	}
	if translated == nil {
		return nil
	}
	kernel := "intel_iommu=on iommu=pt"
	if h.CPUVendor == "AuthenticAMD" {
		kernel = "amd_iommu=on iommu=pt"
	}
	return []Finding{{
		Severity: Warning, Text: "an IOMMU translates what " + plural(len(translated), "GPU writes", "GPUs write") +
			" to others: " + listed(translated),
		Evidence: "/sys/kernel/iommu_groups/*/type is " + h.IOMMU[translated[0]],
		Fix: "cat /proc/cmdline # it has to have '" + kernel +
			"': GRUB_CMDLINE_LINUX of /etc/default/grub, then a reboot",
	}}
}

func accessControl(h *Host) []Finding {
	if len(h.Machine.GPUs) == 0 || len(h.Machine.GPUs) < 2 && len(realPorts(h)) == 0 || h.Machine.Topology != nil &&
		h.Machine.Topology.Virtual {
		return nil
	}
	var redirecting []string
	for _, b := range h.Bridges {
		if b.ACS != nil && *b.ACS&(acsRequestRedirect|acsCompletionRedirect) != 0 {
			redirecting = append(redirecting, b.Address)
		}
	}
	if redirecting == nil {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: plural(len(redirecting), "PCI bridge sends", "PCI bridges send") +
			" what GPUs write to each other through the CPU (ACS): " + listed(redirecting),
		Evidence: "their configuration space, ACSCtl", Fix: "for b in " + strings.Join(redirecting, " ") +
			"; do sudo setpci -s $b ECAP_ACS+6.w=0000; done",
	}}
}

// besideCPU reports whether a GPU talks to its CPU by NVLink-C2C, so that nobody misses lanes.
func besideCPU(name string) bool {
	return slices.ContainsFunc([]string{"GH200", "GB200", "GB300", "GB10"}, func(s string) bool {
		return strings.Contains(name, s)
	})
}

func pcieWidth(h *Host) []Finding {
	var narrow []string
	look := func(name string, b *placement.Bus) {
		if b != nil && b.Link != nil && b.Link.WidthNow > 0 && b.Link.WidthNow < b.Link.Width {
			narrow = append(narrow, fmt.Sprintf("%s (x%d of x%d)", name, b.Link.WidthNow, b.Link.Width))
		}
	}
	for _, g := range h.Machine.GPUs {
		if !besideCPU(g.Name) {
			look("GPU "+g.PCI, g.Bus)
		}
	}
	if h.Machine.Topology != nil && len(h.Machine.GPUs)+len(realPorts(h)) > 0 {
		for _, n := range h.Machine.Topology.NICs {
			if n.Kind == placement.InfiniBand || n.Kind == placement.RoCE {
				look(n.Name, n.Bus)
			}
		}
	}
	if narrow == nil || h.Portable || h.Machine.Topology != nil && h.Machine.Topology.Virtual {
		return nil
	}
	slices.Sort(narrow)
	narrow = slices.Compact(narrow)
	f := Finding{
		Severity: Warning, Text: plural(len(narrow), "device has", "devices have") + " fewer PCIe lanes than it could: " +
			listed(narrow), Evidence: "/sys/bus/pci/devices/*/current_link_width",
		Fix: "sudo lspci -vv | grep -E '^[0-9a-f]|LnkSta:|LnkCap:'",
	}
	if len(h.Machine.GPUs) == 1 && len(realPorts(h)) == 0 { // a workstation's slot has no more
		f.Severity = Note
	}
	return []Finding{f}
}
