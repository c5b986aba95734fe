package doctor

import (
	"slices"
	"strings"

	"gorun/placement"
)

func gpuNetworkChecks() []Check {
	return []Check{
		{
			ID: "gpudirect", Group: "gpu",
			What: "GPUDirect RDMA: nvidia_peermem, or the open driver with Linux 5.12 or newer (dma-buf)",
			Why:  "Without it every byte between hosts is copied through the host's memory first.",
			Run: each(func(h *Host) []Finding {
				n := h.NVIDIA
				if n == nil || n.Driver == "" || !hasGPU(h, placement.NVIDIA) || len(realPorts(h)) == 0 || n.Peermem || n.Open &&
					!before(h.Kernel, 5, 12) || h.Machine.Topology != nil && h.Machine.Topology.Virtual && h.Container != "" {
					return nil
				}
				return []Finding{{
					Severity: Warning, Text: "adapters cannot reach the GPUs' memory (GPUDirect RDMA)",
					Evidence: "no /sys/module/nvidia_peermem; the driver is not the open one, or Linux older than 5.12",
					Fix:      "sudo modprobe nvidia-peermem",
				}}
			}),
		},
		{
			ID: "gdrcopy", Group: "gpu",
			What: "GDRCopy, where there are NVIDIA GPUs and RDMA adapters",
			Why:  "UCX and NCCL copy small messages of GPUs by it, with less latency.",
			Run: each(func(h *Host) []Finding {
				if h.NVIDIA == nil || h.NVIDIA.Driver == "" || h.NVIDIA.GDRCopy || len(realPorts(h)) == 0 ||
					!hasGPU(h, placement.NVIDIA) {
					return nil
				}
				return []Finding{{
					Severity: Note, Text: "GDRCopy is not there: small messages of GPUs have a higher latency",
					Evidence: "no /dev/gdrdrv", Fix: "sudo modprobe gdrdrv",
				}}
			}),
		},
		{
			ID: "fabric-libraries", Group: "rdma",
			What: "whether libibverbs, UCX and SHARP are on all hosts, or on none",
			Why:  "A host without libibverbs falls back to sockets; one without UCX or SHARP takes another way than its peers.",
			Run:  fabricLibraries,
		},
	}
}

// FabricLibraries are those that are looked for, by the beginning of their names.
var FabricLibraries = []string{"libibverbs.so.1", "libucp.so.0", "libsharp.so", "libnccl-net.so", "librccl-net.so"}

func fabricLibraries(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		if len(realPorts(h)) > 0 && h.Libraries != nil && h.Libraries["libibverbs.so.1"] == "" {
			all = append(all, Finding{
				Severity: Warning, Hosts: []string{h.Name},
				Text:     "libibverbs is not there, and there are RDMA adapters: NCCL falls back to sockets",
				Evidence: "the loader's folders",
				Fix:      "sudo apt-get install rdma-core ibverbs-providers # dnf install rdma-core libibverbs",
			})
		}
	}
	for _, name := range FabricLibraries[1:] {
		has := func(h *Host) string {
			switch {
			case len(realPorts(h)) == 0 || h.Libraries == nil:
				return ""
			case h.Libraries[name] == "":
				return "without"
			}
			return "with"
		}
		base, _, _ := strings.Cut(name, ".")
		all = append(all, c.differing(has, func(h *Host, own, most string, others int) Finding {
			return Finding{
				Severity: Note, Text: "it is " + own + " " + base + ", " + theOthers(others) + " " + most,
				Evidence: "the loader's folders", Fix: "ldconfig -p | grep " + base,
			}
		})...)
	}
	return all
}

// realPorts are the ports of RDMA adapters that take part in jobs: no software ones, and
// not EFA's, which need none of what verbs need.
func realPorts(h *Host) []Port {
	return slices.DeleteFunc(slices.Clone(h.RDMA), func(p Port) bool { return p.Virtual || p.EFA })
}

func activePorts(h *Host) []Port {
	return slices.DeleteFunc(slices.Clone(h.RDMA), func(p Port) bool { return p.Virtual || !p.Active() })
}
