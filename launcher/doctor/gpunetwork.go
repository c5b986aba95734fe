package doctor

import (
	"slices"
	"strings"

	"gorun/placement"
)

func gpuNetworkChecks() []Check {
	return []Check{
		{
			"gpudirect", "gpu",
			"GPUDirect RDMA: nvidia_peermem, or the open driver with Linux 5.12 or newer (dma-buf)",
			"Without it every byte between hosts goes through the host's memory.",
			each(func(h *Host, r report) {
				n := h.nvidia()
				dmaBuf := n.Open && !before(h.Kernel, 5, 12)
				if !hasNVIDIAAndRDMA(h) || n.Peermem || dmaBuf || h.virtual() && h.Container != "" {
					return
				}
				r.warn("adapters cannot reach the GPUs' memory (GPUDirect RDMA)",
					"no /sys/module/nvidia_peermem; the driver is not the open one, or Linux older than 5.12",
					"sudo modprobe nvidia-peermem")
			}),
		},
		{
			"gdrcopy", "gpu",
			"GDRCopy, on hosts with NVIDIA GPUs and RDMA adapters",
			"UCX and NCCL use it to copy small messages of GPUs with less latency.",
			each(func(h *Host, r report) {
				if hasNVIDIAAndRDMA(h) && !h.nvidia().GDRCopy {
					r.note("GDRCopy is missing: small messages of GPUs have a higher latency", "no /dev/gdrdrv",
						"sudo modprobe gdrdrv")
				}
			}),
		},
		{
			"fabric-libraries", "rdma",
			"whether libibverbs, UCX and SHARP are on all hosts, or on none",
			"A host without libibverbs falls back to sockets; one without UCX or SHARP uses another path than its peers.",
			fabricLibraries,
		},
	}
}

// hasNVIDIAAndRDMA reports whether there are NVIDIA GPUs with their driver, and RDMA adapters.
func hasNVIDIAAndRDMA(h *Host) bool {
	return h.nvidia().Driver != "" && len(h.gpusOf(placement.NVIDIA)) > 0 && len(realPorts(h)) > 0
}

// FabricLibraries are the prefixes of the names of the libraries that package inspect looks for.
var FabricLibraries = []string{"libibverbs.so.1", "libucp.so.0", "libsharp.so", "libnccl-net.so", "librccl-net.so"}

func fabricLibraries(c *Cluster, r report) {
	with := func(h *Host, name string) string {
		switch {
		case len(realPorts(h)) == 0 || h.Libraries == nil:
			return ""
		case h.Libraries[name] == "":
			return "without"
		}
		return "with"
	}
	each(func(h *Host, r report) {
		if with(h, FabricLibraries[0]) == "without" {
			r.warn("libibverbs is missing, though there are RDMA adapters: NCCL falls back to sockets",
				"the loader's folders", "sudo apt-get install rdma-core ibverbs-providers # dnf install rdma-core libibverbs")
		}
	})(c, r)
	for _, name := range FabricLibraries[1:] {
		base, _, _ := strings.Cut(name, ".")
		unlike(Note, func(h *Host) string { return with(h, name) }, "it is %s "+base+", %s %s",
			"the loader's folders", "ldconfig -p | grep "+base)(c, r)
	}
}

// realPorts returns the ports of RDMA adapters that jobs use by verbs: no software devices and no EFA.
func realPorts(h *Host) []Port {
	return slices.DeleteFunc(slices.Clone(h.RDMA), func(p Port) bool { return p.Virtual || p.EFA })
}

func activePorts(h *Host) []Port {
	return slices.DeleteFunc(slices.Clone(h.RDMA), func(p Port) bool { return p.Virtual || !p.Active() })
}
