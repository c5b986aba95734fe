package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
)

func amdChecks() []Check {
	return []Check{
		{
			"kfd", "gpu",
			"whether /dev/kfd and the render nodes of AMD's GPUs can be opened",
			"'Unable to open /dev/kfd read-write: Permission denied': ROCm needs the groups render and video, " +
				"containers both devices.",
			each(amdAccess),
		},
		{
			"amd-errors", "gpu",
			"errors of AMD's GPUs: uncorrectable ones that their RAS counts, and resets in the kernel's log",
			"Such a GPU ends the job ('HSA_STATUS_ERROR', 'GPU reset begin'), or computes wrong results.",
			each(amdErrors),
		},
		{
			"amd-slowed", "gpu",
			"AMD's GPUs at their critical temperature, or with less power than their default",
			"All ranks wait for the slowest GPU.",
			each(amdSlowed),
		},
		{
			"large-bar", "gpu",
			"whether PCIe reaches all memory of AMD's GPUs (large BAR)",
			"Without it other GPUs and adapters reach a window of 256 MiB: no peer-to-peer access, and RCCL copies " +
				"through the host's memory.",
			each(largeBAR),
		},
		{
			"xgmi", "gpu",
			"AMD's GPUs without an xGMI link to some others, while most have one to each",
			"RCCL uses PCIe instead, at a fraction of the bandwidth.",
			each(xgmi),
		},
	}
}

// amd returns the state of AMD's driver, zero without one.
func (h *Host) amd() AMD {
	if h.AMD == nil {
		return AMD{}
	}
	return *h.AMD
}

func amdAccess(h *Host, r report) {
	fix := choose(h, "docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render ...",
		"sudo usermod -aG render,video $USER # then log in again")
	severity := Error
	if h.Portable { // its GPU is for graphics
		severity = Note
	}
	r.unopenable(severity, h.amd().Nodes, fix, fix)
}

func amdErrors(h *Host, r report) {
	var failed, reset []string
	fix := ""
	for _, g := range h.amd().GPUs {
		var blocks []string
		for _, block := range slices.Sorted(maps.Keys(g.Uncorrected)) {
			blocks = append(blocks, fmt.Sprintf("%s %d", block, g.Uncorrected[block]))
		}
		if blocks != nil {
			failed = append(failed, g.PCI+" ("+strings.Join(blocks, ", ")+")")
			if fix == "" {
				fix = "grep . /sys/bus/pci/devices/" + shellwords.Quote(g.PCI) + "/ras/*_err_count"
			}
		}
		if g.Resets > 0 {
			reset = append(reset, fmt.Sprintf("%s (%s)", g.PCI, times(g.Resets)))
		}
	}
	r.list(Warning, failed, "GPU had uncorrectable errors", "GPUs had uncorrectable errors",
		"/sys/bus/pci/devices/*/ras, since the driver was loaded", fix)
	r.list(Warning, reset, "GPU was reset since the boot", "GPUs were reset since the boot", "/dev/kmsg",
		"sudo dmesg | grep -iE 'amdgpu.*(reset|uncorrectable)'")
}

func amdSlowed(h *Host, r report) {
	if h.Portable {
		return
	}
	var hot, capped []string
	for _, g := range h.amd().GPUs {
		if g.Critical > 0 && g.Hottest >= g.Critical {
			hot = append(hot, fmt.Sprintf("%s (%.0f °C)", g.PCI, g.Hottest))
		}
		if g.PowerCap > 0 && g.PowerCap < g.PowerDefault {
			capped = append(capped, fmt.Sprintf("%s (%.0f of %.0f W)", g.PCI, g.PowerCap, g.PowerDefault))
		}
	}
	r.list(Warning, hot, "GPU is at its critical temperature", "GPUs are at their critical temperature",
		"/sys/bus/pci/devices/*/hwmon/*/temp*_input and temp*_crit", "rocm-smi --showtemp --showpower --showclocks")
	// An administrator chose this cap.
	r.list(Note, capped, "GPU has less power than its default", "GPUs have less power than their default",
		"/sys/bus/pci/devices/*/hwmon/*/power1_cap", "rocm-smi --showmaxpower --showpower")
}

func largeBAR(h *Host, r report) {
	if h.Portable || len(h.amd().GPUs) < 2 && len(realPorts(h)) == 0 {
		return
	}
	var small, addresses []string
	for _, g := range h.amd().GPUs {
		if g.Visible > 0 && g.Visible < g.Memory {
			small = append(small, fmt.Sprintf("%s (%s of %s)", g.PCI, Size(g.Visible), Size(g.Memory)))
			addresses = append(addresses, g.PCI)
		}
	}
	if small == nil {
		return
	}
	r.list(Warning, small, "GPU shows others a part of its memory", "GPUs show others a part of their memory",
		"/sys/bus/pci/devices/*/mem_info_vis_vram_total", "sudo lspci -vv -s "+shellwords.Quote(addresses[0])+
			" | grep -iE 'region|BAR' # the firmware's setup has 'Above 4G Decoding' and 'Resizable BAR'")
}

// xgmi checks machines in which most GPUs are linked to all others. Elsewhere the topology varies.
func xgmi(h *Host, r report) {
	gpus := h.gpusOf(placement.AMD)
	var fewer []string
	for _, g := range gpus {
		if n := len(g.Links); n < len(gpus)-1 {
			fewer = append(fewer, fmt.Sprintf("%s (to %d of %d)", g.PCI, n, len(gpus)-1))
		}
	}
	if len(fewer)*2 > len(gpus) || h.virtual() {
		return
	}
	r.list(Warning, fewer, "GPU lacks xGMI links to others", "GPUs lack xGMI links to others",
		"/sys/class/kfd/kfd/topology/nodes/*/io_links", "rocm-smi --showtopo")
}
