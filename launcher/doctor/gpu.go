package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
	"gorun/placement/gpufacts"
)

func gpuChecks() []Check {
	return []Check{
		{
			"gpu-driver", "gpu",
			"GPUs on the PCI bus without a driver",
			"Programs cannot use them, and a job has fewer ranks than you expect.",
			each(gpuDriver),
		},
		{
			"gpu-library", "gpu",
			"whether NVIDIA's library answers and matches the loaded driver",
			"After a driver update CUDA fails until the module is reloaded: 'Driver/library version mismatch'.",
			each(gpuLibrary),
		},
		{
			"gpu-access", "gpu",
			"whether the device files of NVIDIA's GPUs can be opened",
			"CUDA says 'unknown error' or 'no CUDA-capable device' without /dev/nvidia-uvm or the GPU's own file.",
			each(gpuAccess),
		},
		{
			"gpu-count", "gpu",
			"whether all hosts have as many GPUs, of one model",
			"A GPU that fell off the bus is missing here first. The slowest model limits a job's speed.",
			gpuCount,
		},
		{
			"driver-differs", "gpu",
			"whether NVIDIA's or AMD's driver has the same version on all hosts",
			"A host with another driver may lack features that the program needs, and may behave differently.",
			driverDiffers,
		},
		{
			"cuda-driver", "gpu",
			"whether the driver supports PyTorch's CUDA version",
			"'CUDA driver version is insufficient for CUDA runtime version'. Within one major version an older " +
				"driver works, too.",
			each(cudaDriver),
		},
		{
			"gpu-used", "gpu",
			"processes that compute on the GPUs",
			"They use memory and time: a small model fails with 'CUDA out of memory'.",
			each(gpuUsed),
		},
		{
			"gpu-errors", "gpu",
			"errors of GPUs: lost GPUs, uncorrectable ECC errors, memory that needs a reset, serious Xids in the kernel's log",
			"Such a GPU ends the job, or computes wrong results. doctor ignores Xids that programs cause (13, 31, 43).",
			each(gpuErrors),
		},
		{
			"gpu-slowed", "gpu",
			"GPUs that the hardware slows down now, because of heat or power",
			"All ranks wait for the slowest GPU.",
			each(gpuSlowed),
		},
		{
			"gpu-persistence", "gpu",
			"NVIDIA's persistence mode",
			"Without it the driver initializes each GPU again for the first program, which takes one to three seconds.",
			each(gpuPersistence),
		},
		{
			"gpu-mode", "gpu",
			"compute modes other than the default, and divided GPUs (MIG)",
			"A GPU in exclusive mode accepts one process. MIG instances have no peer-to-peer access, and NCCL uses " +
				"at most one per rank.",
			each(gpuMode),
		},
	}
}

// nvidia returns the state of NVIDIA's driver, zero without one.
func (h *Host) nvidia() NVIDIA {
	if h.NVIDIA == nil {
		return NVIDIA{}
	}
	return *h.NVIDIA
}

// gpusWhere returns the names of the NVIDIA GPUs that match.
func (h *Host) gpusWhere(match func(g gpufacts.GPU) bool) (names []string) {
	for i, g := range h.nvidia().Facts.GPUs {
		if match(g) {
			names = append(names, gpuName(h, i, g))
		}
	}
	return names
}

// gpusOf returns the GPUs of a vendor that programs can use.
func (h *Host) gpusOf(vendor placement.Vendor) []placement.GPU {
	return slices.DeleteFunc(slices.Clone(h.Machine.GPUs), func(g placement.GPU) bool { return g.Vendor != vendor })
}

// virtual reports whether the host is known to be a virtual machine.
func (h *Host) virtual() bool { return h.Machine.Topology != nil && h.Machine.Topology.Virtual }

// gpuName returns the GPU's index as programs count, or its PCI address.
func gpuName(h *Host, i int, g gpufacts.GPU) string {
	for _, known := range h.gpusOf(placement.NVIDIA) {
		if known.PCI == g.PCI {
			return fmt.Sprint(known.Index)
		}
	}
	return cmp.Or(g.PCI, fmt.Sprint(i))
}

func gpuDriver(h *Host, r report) {
	var list []string
	graphicsOnly := true // such as a desktop's with nouveau
	for _, d := range h.Driverless {
		switch d.Driver {
		case "vfio-pci": // passed through to a virtual machine
			r.note("GPU "+d.Address+" is a virtual machine's", "its driver is vfio-pci",
				"lspci -nnk -s "+shellwords.Quote(d.Address))
			continue
		case "":
			list = append(list, d.Address)
		default:
			list = append(list, d.Address+" ("+d.Driver+")")
		}
		graphicsOnly = graphicsOnly && strings.HasPrefix(d.Class, "0x0300")
	}
	r.list(warningIf(!h.Portable && !graphicsOnly), list,
		"GPU has no driver that computes", "GPUs have no driver that computes",
		"/sys/bus/pci/devices/*/driver",
		"lspci -nnk | grep -iEA3 'vga|3d controller|display controller|processing accelerators'")
}

func gpuLibrary(h *Host, r report) {
	n := h.nvidia()
	if n.Driver == "" && len(h.Machine.GPUs) == 0 {
		return
	}
	evidence := "NVML"
	if n.Driver != "" {
		evidence = "/proc/driver/nvidia/version has " + n.Driver
	}
	switch {
	case strings.Contains(strings.ToLower(n.Facts.Error), "mismatch"):
		r.fail("NVIDIA's library is of another version than the driver that is loaded",
			evidence+"; "+n.Facts.Error,
			"sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe -a nvidia nvidia_uvm # or a reboot")
	case n.Facts.Error != "":
		r.warn("NVIDIA's library cannot be queried: "+n.Facts.Error, evidence,
			choose(h, "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...", "nvidia-smi"))
	case n.Error != "":
		r.note("GPUs' errors, links and users are unknown: "+n.Error, evidence, "nvidia-smi")
	}
}

// unopenable reports device files that are missing or cannot be opened, with a severity and commands for both cases.
func (r report) unopenable(severity Severity, nodes map[string]string, ifMissing, otherwise string) {
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		why, fix := nodes[path], otherwise
		if strings.Contains(why, "no such") {
			fix = ifMissing
		}
		if why != "" {
			r.add(severity, path+" cannot be opened: "+why, "open "+path, fix)
		}
	}
}

func gpuAccess(h *Host, r report) {
	const contained = "docker run --gpus all ..."
	r.unopenable(Error, h.nvidia().Nodes, choose(h, contained, "sudo nvidia-modprobe -c 0 -u"),
		choose(h, contained, "ls -l /dev/nvidia*"))
}

func driverDiffers(c *Cluster, r report) {
	version := func(h *Host) string { return cmp.Or(h.nvidia().Driver, h.amd().Driver) }
	differing(c, r, version, func(h *Host, r report, own, most, others string) {
		file := "/sys/module/amdgpu/version"
		if h.nvidia().Driver != "" {
			file = "/proc/driver/nvidia/version"
		}
		r.warn(fmt.Sprintf("the GPUs' driver is %s, on %s %s", own, others, most), file, "cat "+file)
	})
}

func gpuPersistence(h *Host, r report) {
	off := h.gpusWhere(func(g gpufacts.GPU) bool { return g.Health != nil && g.Health.NoPersistence })
	if len(off) > 0 && !h.Portable {
		r.note("persistence mode is off: the first program waits for the GPUs", "NVML, "+counted(len(off), "GPU"),
			"sudo nvidia-smi -pm 1")
	}
}

func gpuCount(c *Cluster, r report) {
	count := func(h *Host) string {
		switch n := len(h.Machine.GPUs); {
		case h.Machine.CPUs.Len() == 0: // not inspected in time
			return ""
		case n == 0:
			return "no GPU"
		default:
			return counted(n, "GPU")
		}
	}
	lister := "nvidia-smi -L"
	of := func(vendor placement.Vendor) bool {
		return c.any(func(h *Host) bool { return len(h.gpusOf(vendor)) > 0 })
	}
	if of(placement.AMD) && !of(placement.NVIDIA) { // also on a host that has lost its GPUs
		lister = "rocm-smi --showproductname || amd-smi list"
	}
	unlike(Warning, count, "it has %s, %s %s", "devices that a program can use",
		lister+" # a driver may be missing, or a GPU have failed")(c, r)
	unlike(Note, models, "its GPUs are %s, %s %s", "their names", lister)(c, r)
}

func models(h *Host) string {
	var names []string
	for _, g := range h.Machine.GPUs {
		if g.Name != "" {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func cudaDriver(h *Host, r report) {
	p, serves := h.Python, h.nvidia().Facts.CUDA
	var have, want int
	fmt.Sscanf(serves, "%d.", &have)
	fmt.Sscanf(p.CUDA, "%d.", &want)
	if have == 0 || want <= have {
		return
	}
	build := map[int]string{11: "cu118", 12: "cu126"}[have]
	r.fail(fmt.Sprintf("PyTorch is built for CUDA %s, the driver serves CUDA up to %s", p.CUDA, serves),
		"NVML; packages of "+p.Path, "python3 -m pip install torch --index-url https://download.pytorch.org/whl/"+
			cmp.Or(build, "cpu")+" # or a newer driver")
}

func gpuUsed(h *Host, r report) {
	var used, users []string
	for _, g := range h.Machine.GPUs {
		if g.Used {
			used = append(used, fmt.Sprint(g.Index))
		}
	}
	for _, g := range h.nvidia().Facts.GPUs {
		for _, pid := range g.Processes {
			if text := fmt.Sprint(pid); !slices.Contains(users, text) {
				users = append(users, text)
			}
		}
	}
	evidence := "NVML"
	if users != nil {
		evidence += ", processes " + listed(users)
	}
	r.list(Warning, used, "GPU is in use", "GPUs are in use", evidence,
		"nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv # gorun --gpus free takes the others")
}

// seriousXids are the hardware's errors; others are mistakes of programs. Source: NVIDIA's "XID Errors".
var seriousXids = map[int]string{
	48:  "double-bit ECC error",
	63:  "bad memory was taken out",
	64:  "bad memory could not be taken out",
	74:  "NVLink error",
	79:  "fell off the bus",
	92:  "many single-bit ECC errors",
	94:  "contained ECC error",
	95:  "uncontained ECC error",
	119: "its GSP does not answer",
	120: "its GSP does not answer",
	140: "unrecovered ECC error",
}

func gpuErrors(h *Host, r report) {
	for i, g := range h.nvidia().Facts.GPUs {
		number := gpuName(h, i, g)
		name := "GPU " + number
		if g.Failed {
			r.fail(name+" does not answer its driver", "NVML, "+g.PCI,
				"sudo dmesg | grep -i xid # it needs a reset or a reboot")
		}
		switch health := g.Health; {
		case health == nil:
		case health.Broken:
			r.fail(name+" has bad memory that could not be replaced", "NVML, remapped rows",
				"nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT")
		case health.Pending:
			r.warn(name+" has bad memory, which a reset replaces", "NVML, remapped rows",
				"sudo nvidia-smi --gpu-reset -i "+number)
		case health.Uncorrected > 0:
			r.warn(name+" had "+counted(int(health.Uncorrected), "uncorrectable memory error"),
				"NVML, since the driver was loaded", "nvidia-smi -q -d ECC")
		}
	}
	for _, x := range h.KernelXids {
		what, severity := seriousXids[x.Code], Warning
		if x.Code == 79 || x.Code == 95 {
			severity = Error
		}
		if what != "" {
			r.add(severity, fmt.Sprintf("the GPU %s had Xid %d (%s)", x.PCI, x.Code, what),
				"/dev/kmsg, "+times(x.Count), "sudo dmesg | grep 'NVRM: Xid'")
		}
	}
}

func gpuMode(h *Host, r report) {
	byMode := map[string][]string{}
	parts := 0
	for i, g := range h.nvidia().Facts.GPUs {
		parts += len(g.MIG)
		if g.Health != nil && g.Health.Mode != "" {
			byMode[g.Health.Mode] = append(byMode[g.Health.Mode], gpuName(h, i, g))
		}
	}
	for _, mode := range slices.Sorted(maps.Keys(byMode)) {
		severity, in := Note, fmt.Sprintf(" in compute mode %q", mode)
		if mode == "prohibited" {
			severity = Error
		}
		r.list(severity, byMode[mode], "GPU is"+in, "GPUs are"+in, "NVML", "sudo nvidia-smi -c DEFAULT")
	}
	if parts > 0 {
		r.note(fmt.Sprintf("GPUs are divided into %s (MIG): without peer-to-peer access between them",
			counted(parts, "part")), "NVML", "nvidia-smi -L")
	}
}

func gpuSlowed(h *Host, r report) {
	reasons := map[string]bool{}
	slowed := h.gpusWhere(func(g gpufacts.GPU) bool {
		if g.Health == nil || len(g.Health.Slowed) == 0 {
			return false
		}
		reasons[strings.Join(g.Health.Slowed, ", ")] = true
		return true
	})
	r.list(Warning, slowed, "GPU is slowed down", "GPUs are slowed down",
		"NVML: "+strings.Join(slices.Sorted(maps.Keys(reasons)), "; "), "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER")
}
