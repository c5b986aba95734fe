package doctor

import (
	"fmt"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
)

func amdChecks() []Check {
	return []Check{
		{
			ID: "kfd", Group: "gpu",
			What: "whether /dev/kfd and the render nodes of AMD's GPUs can be opened",
			Why: "'Unable to open /dev/kfd read-write: Permission denied': ROCm needs the groups render and video, " +
				"containers both devices.",
			Run: each(func(h *Host) []Finding {
				if h.AMD == nil {
					return nil
				}
				all := refused(h.AMD.Nodes, func(bool) string {
					return choose(h, "docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render ...",
						"sudo usermod -aG render,video $USER # then log in again")
				})
				for i := range all {
					if h.Portable { // its GPU draws a picture, and few compute with it
						all[i].Severity = Note
					}
				}
				return all
			}),
		},
		{
			ID: "amd-errors", Group: "gpu",
			What: "errors of AMD's GPUs: uncorrectable ones that their RAS counts, and resets in the kernel's log",
			Why:  "Such a GPU ends the job ('HSA_STATUS_ERROR', 'GPU reset begin'), or computes nonsense.",
			Run:  each(amdErrors),
		},
		{
			ID: "amd-slowed", Group: "gpu",
			What: "AMD's GPUs at their critical temperature, or with less power than their default",
			Why:  "All ranks wait for the slowest GPU.",
			Run:  each(amdSlowed),
		},
		{
			ID: "large-bar", Group: "gpu",
			What: "whether all memory of AMD's GPUs can be reached over PCIe (large BAR)",
			Why: "Without it other GPUs and adapters reach a window of 256 MiB: no peer-to-peer access, and RCCL copies " +
				"through the host's memory.",
			Run: each(largeBAR),
		},
		{
			ID: "xgmi", Group: "gpu",
			What: "AMD's GPUs without an xGMI link to some others, where most have one to each",
			Why:  "RCCL goes over PCIe instead, at a fraction of the bandwidth.",
			Run:  each(xgmi),
		},
	}
}

// amdFinding is one about several GPUs.
func amdFinding(severity Severity, gpus []string, one, many, evidence, fix string) Finding {
	return Finding{
		Severity: severity, Text: plural(len(gpus), one, many) + ": " + listed(gpus), Evidence: evidence,
		Fix: fix,
	}
}

func amdErrors(h *Host) (all []Finding) {
	if h.AMD == nil {
		return nil
	}
	var failed, reset []string
	fix := ""
	for _, g := range h.AMD.GPUs {
		var blocks []string
		for _, block := range sortedKeys(g.Uncorrected) {
			blocks = append(blocks, fmt.Sprintf("%s %d", block, g.Uncorrected[block]))
		}
		if blocks != nil {
			failed = append(failed, g.PCI+" ("+strings.Join(blocks, ", ")+")")
			if fix == "" {
				fix = "grep . " + pciFile(g.PCI, "ras/*_err_count")
			}
		}
		if g.Resets > 0 {
			reset = append(reset, fmt.Sprintf("%s (%s)", g.PCI, times(g.Resets)))
		}
	}
	if failed != nil {
		all = append(all, amdFinding(Warning, failed, "GPU had errors that nobody could correct",
			"GPUs had errors that nobody could correct", "/sys/bus/pci/devices/*/ras, since the driver was loaded", fix))
	}
	if reset != nil {
		all = append(all, amdFinding(Warning, reset, "GPU was reset since the boot", "GPUs were reset since the boot",
			"/dev/kmsg", "sudo dmesg | grep -iE 'amdgpu.*(reset|uncorrectable)'"))
	}
	return all
}

// pciFile is a file of a PCI device.
func pciFile(address, name string) string {
	return "/sys/bus/pci/devices/" + shellwords.Quote(address) + "/" + name
}

func amdSlowed(h *Host) (all []Finding) {
	if h.AMD == nil || h.Portable {
		return nil
	}
	var hot, capped []string
	for _, g := range h.AMD.GPUs {
		if g.Critical > 0 && g.Hottest >= g.Critical {
			hot = append(hot, fmt.Sprintf("%s (%.0f °C)", g.PCI, g.Hottest))
		}
		if g.PowerCap > 0 && g.PowerCap < g.PowerDefault {
			capped = append(capped, fmt.Sprintf("%s (%.0f of %.0f W)", g.PCI, g.PowerCap, g.PowerDefault))
		}
	}
	if hot != nil {
		all = append(all, amdFinding(Warning, hot, "GPU is at its critical temperature",
			"GPUs are at their critical temperature", "/sys/bus/pci/devices/*/hwmon/*/temp*_input and temp*_crit",
			"rocm-smi --showtemp --showpower --showclocks"))
	}
	if capped != nil { // somebody wished it
		all = append(all, amdFinding(Note, capped, "GPU has less power than its default",
			"GPUs have less power than their default", "/sys/bus/pci/devices/*/hwmon/*/power1_cap",
			"rocm-smi --showmaxpower --showpower"))
	}
	return all
}

func largeBAR(h *Host) []Finding {
	if h.AMD == nil || h.Portable || len(h.AMD.GPUs) < 2 && len(realPorts(h)) == 0 {
		return nil
	}
	var small []string
	for _, g := range h.AMD.GPUs {
		if g.Visible > 0 && g.Visible < g.Memory {
			small = append(small, fmt.Sprintf("%s (%s of %s)", g.PCI, bytes(g.Visible), bytes(g.Memory)))
		}
	}
	if small == nil {
		return nil
	}
	address, _, _ := strings.Cut(small[0], " ")
	return []Finding{amdFinding(Warning, small, "GPU shows others a part of its memory",
		"GPUs show others a part of their memory", "/sys/bus/pci/devices/*/mem_info_vis_vram_total",
		"sudo lspci -vv -s "+shellwords.Quote(address)+
			" | grep -iE 'region|BAR' # the firmware's setup has 'Above 4G Decoding' and 'Resizable BAR'")}
}

// xgmi looks at machines in which most GPUs have a link to each other one: how links are
// laid elsewhere differs from machine to machine.
func xgmi(h *Host) []Finding {
	gpus := 0
	var fewer []string
	for _, g := range h.Machine.GPUs {
		if g.Vendor == placement.AMD {
			gpus++
		}
	}
	for _, g := range h.Machine.GPUs {
		if n := len(g.Links); g.Vendor == placement.AMD && n < gpus-1 {
			fewer = append(fewer, fmt.Sprintf("%s (to %d of %d)", g.PCI, n, gpus-1))
		}
	}
	if fewer == nil || len(fewer)*2 > gpus || h.Machine.Topology != nil && h.Machine.Topology.Virtual {
		return nil
	}
	return []Finding{amdFinding(Warning, fewer, "GPU lacks xGMI links to others", "GPUs lack xGMI links to others",
		"/sys/class/kfd/kfd/topology/nodes/*/io_links", "rocm-smi --showtopo")}
}

// gpuLister is a command that lists the GPUs that the driver knows.
func gpuLister(vendor placement.Vendor) string {
	if vendor == placement.AMD {
		return "rocm-smi --showproductname || amd-smi list"
	}
	return "nvidia-smi -L"
}
