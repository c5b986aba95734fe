package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
	"gorun/placement/gpufacts"
)

func gpuChecks() []Check {
	return []Check{
		{
			ID: "gpu-driver", Group: "gpu",
			What: "GPUs on the PCI bus that no driver serves",
			Why:  "Programs do not see them, and a job has fewer ranks than was meant.",
			Run:  each(gpuDriver),
		},
		{
			ID: "gpu-library", Group: "gpu",
			What: "whether NVIDIA's library answers, and belongs to the driver that is loaded",
			Why:  "After an update of the driver CUDA fails until the module is loaded anew: 'Driver/library version mismatch'.",
			Run:  each(gpuLibrary),
		},
		{
			ID: "gpu-access", Group: "gpu",
			What: "whether the device files of NVIDIA's GPUs can be opened",
			Why:  "CUDA says 'unknown error' or 'no CUDA-capable device' without /dev/nvidia-uvm or the GPU's own file.",
			Run:  each(gpuAccess),
		},
		{
			ID: "gpu-count", Group: "gpu",
			What: "whether all hosts have as many GPUs, of one model",
			Why:  "A GPU that fell off the bus is missed here first. The slowest model sets a job's pace.",
			Run:  gpuCount,
		},
		{
			ID: "driver-differs", Group: "gpu",
			What: "whether NVIDIA's or AMD's driver has the same version on all hosts",
			Why:  "A host with another driver may lack what the program was built for, and behaves differently.",
			Run: func(c *Cluster) []Finding {
				return c.differing(driver, func(h *Host, own, most string, others int) Finding {
					return Finding{
						Severity: Warning, Text: fmt.Sprintf("the GPUs' driver is %s, %s %s", own, onTheOthers(others), most),
						Evidence: driverFile(h), Fix: "cat " + driverFile(h),
					}
				})
			},
		},
		{
			ID: "cuda-driver", Group: "gpu",
			What: "whether the driver serves the CUDA that PyTorch was built for",
			Why: "'CUDA driver version is insufficient for CUDA runtime version'. Within one major version an older driver " +
				"serves, too.",
			Run: each(cudaDriver),
		},
		{
			ID: "gpu-used", Group: "gpu",
			What: "processes that compute on the GPUs",
			Why:  "They take memory and time: 'CUDA out of memory' with a small model.",
			Run:  each(gpuUsed),
		},
		{
			ID: "gpu-errors", Group: "gpu",
			What: "errors of the GPUs: lost ones, uncorrectable ECC errors, memory that waits for a reset, serious Xids in " +
				"the kernel's log",
			Why: "Such a GPU ends the job, or computes nonsense. Xids of programs' own mistakes (13, 31, 43) are left out.",
			Run: each(gpuErrors),
		},
		{
			ID: "gpu-slowed", Group: "gpu",
			What: "GPUs that the hardware slows down now, by heat or power",
			Why:  "All ranks wait for the slowest GPU.",
			Run:  each(gpuSlowed),
		},
		{
			ID: "gpu-persistence", Group: "gpu",
			What: "NVIDIA's persistence mode",
			Why:  "Without it the driver initialises each GPU whenever a first program comes, for one to three seconds.",
			Run:  each(gpuPersistence),
		},
		{
			ID: "gpu-mode", Group: "gpu",
			What: "compute modes other than the default, and GPUs in parts (MIG)",
			Why: "A GPU in exclusive mode takes one process. Parts of a GPU have no peer-to-peer access, and NCCL takes one " +
				"part a rank at most.",
			Run: each(gpuMode),
		},
	}
}

// told are the GPUs that NVIDIA's library knows.
func told(h *Host) []gpufacts.GPU {
	if h.NVIDIA == nil {
		return nil
	}
	return h.NVIDIA.Facts.GPUs
}

// gpuName is the GPU's number as programs count, or its address.
func gpuName(h *Host, i int, g gpufacts.GPU) string {
	for _, known := range h.Machine.GPUs {
		if known.Vendor == placement.NVIDIA && known.PCI == g.PCI {
			return fmt.Sprint(known.Index)
		}
	}
	return cmp.Or(g.PCI, fmt.Sprint(i))
}

func gpuDriver(h *Host) (all []Finding) {
	var list []string
	picture := true // all of them draw a picture, as a desktop's by nouveau
	for _, d := range h.Driverless {
		switch d.Driver {
		case "vfio-pci": // somebody gave it to a virtual machine
			all = append(all, Finding{
				Severity: Note, Text: "GPU " + d.Address + " is a virtual machine's",
				Evidence: "its driver is vfio-pci", Fix: "lspci -nnk -s " + shellwords.Quote(d.Address),
			})
			continue
		case "":
			list = append(list, d.Address)
		default:
			list = append(list, d.Address+" ("+d.Driver+")")
		}
		picture = picture && strings.HasPrefix(d.Class, "0x0300")
	}
	if len(list) == 0 {
		return all
	}
	f := Finding{
		Severity: Warning, Text: plural(len(list), "GPU has", "GPUs have") + " no driver that computes: " + listed(list),
		Evidence: "/sys/bus/pci/devices/*/driver",
		Fix:      "lspci -nnk | grep -iEA3 'vga|3d controller|display controller|processing accelerators'",
	}
	if h.Portable || picture {
		f.Severity = Note
	}
	return append(all, f)
}

func gpuLibrary(h *Host) []Finding {
	n := h.NVIDIA
	if n == nil || n.Driver == "" && len(h.Machine.GPUs) == 0 {
		return nil
	}
	evidence := "NVML"
	if n.Driver != "" {
		evidence = "/proc/driver/nvidia/version has " + n.Driver
	}
	switch {
	case strings.Contains(strings.ToLower(n.Facts.Error), "mismatch"):
		return []Finding{{
			Severity: Error, Text: "NVIDIA's library is of another version than the driver that is loaded",
			Evidence: evidence + "; " + n.Facts.Error,
			Fix:      "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia nvidia_uvm # or a reboot",
		}}
	case n.Facts.Error != "":
		return []Finding{{
			Severity: Warning, Text: "NVIDIA's library tells nothing: " + n.Facts.Error, Evidence: evidence,
			Fix: choose(h, "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...", "nvidia-smi"),
		}}
	case n.Error != "":
		return []Finding{{
			Severity: Note, Text: "GPUs' errors, links and users are not known: " + n.Error,
			Evidence: evidence, Fix: "nvidia-smi",
		}}
	}
	return nil
}

func gpuAccess(h *Host) []Finding {
	if h.NVIDIA == nil {
		return nil
	}
	return refused(h.NVIDIA.Nodes, func(missing bool) string {
		if missing {
			return choose(h, "docker run --gpus all ...", "sudo nvidia-modprobe -c 0 -u")
		}
		return choose(h, "docker run --gpus all ...", "ls -l /dev/nvidia*")
	})
}

// refused tells of device files that cannot be opened.
func refused(nodes map[string]string, fix func(missing bool) string) (all []Finding) {
	for _, path := range sortedKeys(nodes) {
		if why := nodes[path]; why != "" {
			all = append(all, Finding{
				Severity: Error, Text: path + " cannot be opened: " + why, Evidence: "open " + path,
				Fix: fix(strings.Contains(why, "no such")),
			})
		}
	}
	return all
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func gpuCount(c *Cluster) []Finding {
	count := func(h *Host) string {
		switch {
		case !h.devicesKnown():
			return ""
		case len(h.Machine.GPUs) == 0:
			return "no GPU"
		}
		return counted(len(h.Machine.GPUs), "GPU")
	}
	lister := func(h *Host) string { // a host that has lost its GPUs is asked as the others are
		amd := hasGPU(h, placement.AMD) || !hasGPU(h, placement.NVIDIA) && c.some(func(o *Host) bool {
			return hasGPU(o, placement.AMD)
		})
		if amd && !c.some(func(o *Host) bool { return hasGPU(o, placement.NVIDIA) }) {
			return gpuLister(placement.AMD)
		}
		return gpuLister(placement.NVIDIA)
	}
	all := c.differing(count, func(h *Host, own, most string, others int) Finding {
		return Finding{
			Severity: Warning, Text: fmt.Sprintf("it has %s, %s %s", own, theOthers(others), most),
			Evidence: "devices that a program can use",
			Fix:      lister(h) + " # a driver may be missing, or a GPU have failed",
		}
	})
	return append(all, c.differing(models, func(h *Host, own, most string, others int) Finding {
		return Finding{
			Severity: Note, Text: fmt.Sprintf("its GPUs are %s, %s %s", own, theOthers(others), most),
			Evidence: "their names", Fix: lister(h),
		}
	})...)
}

func models(h *Host) string {
	var names []string
	for _, g := range h.Machine.GPUs {
		if g.Name != "" && !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func driver(h *Host) string {
	switch {
	case h.NVIDIA != nil && h.NVIDIA.Driver != "":
		return h.NVIDIA.Driver
	case h.AMD != nil:
		return h.AMD.Driver
	}
	return ""
}

func driverFile(h *Host) string {
	if h.NVIDIA != nil && h.NVIDIA.Driver != "" {
		return "/proc/driver/nvidia/version"
	}
	return "/sys/module/amdgpu/version"
}

func cudaDriver(h *Host) []Finding {
	if h.NVIDIA == nil || h.NVIDIA.Facts.CUDA == "" || pythonOf(h).CUDA == "" {
		return nil
	}
	var have, want int
	fmt.Sscanf(h.NVIDIA.Facts.CUDA, "%d.", &have)
	fmt.Sscanf(h.Python.CUDA, "%d.", &want)
	if have == 0 || want <= have {
		return nil
	}
	return []Finding{{
		Severity: Error, Text: fmt.Sprintf("PyTorch is built for CUDA %s, the driver serves CUDA up to %s", h.Python.CUDA,
			h.NVIDIA.Facts.CUDA), Evidence: "NVML; packages of " + h.Python.Path,
		Fix: fmt.Sprintf(
			"python3 -m pip install torch --index-url https://download.pytorch.org/whl/cu%d6 # or a newer driver", have),
	}}
}

func gpuUsed(h *Host) []Finding {
	var used, who []string
	for i, g := range told(h) {
		if g.Used != nil && *g.Used {
			used = append(used, gpuName(h, i, g))
			for _, pid := range g.Processes {
				if text := fmt.Sprint(pid); !slices.Contains(who, text) {
					who = append(who, text)
				}
			}
		}
	}
	if used == nil {
		return nil
	}
	evidence := "NVML"
	if who != nil {
		evidence += ", processes " + listed(who)
	}
	return []Finding{{
		Severity: Warning, Text: plural(len(used), "GPU is", "GPUs are") + " in use: " + listed(used), Evidence: evidence,
		Fix: "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv # gorun --gpus free takes the others",
	}}
}

// serious says what an Xid of the hardware means; "" for one of programs' own mistakes.
// Source: NVIDIA's "XID Errors".
func serious(xid int) string {
	switch xid {
	case 48:
		return "double-bit ECC error"
	case 63:
		return "bad memory was taken out"
	case 64:
		return "bad memory could not be taken out"
	case 74:
		return "NVLink error"
	case 79:
		return "fell off the bus"
	case 92:
		return "many single-bit ECC errors"
	case 94:
		return "contained ECC error"
	case 95:
		return "uncontained ECC error"
	case 119, 120:
		return "its GSP does not answer"
	case 140:
		return "unrecovered ECC error"
	}
	return ""
}

func gpuErrors(h *Host) (all []Finding) {
	for i, g := range told(h) {
		name := "GPU " + gpuName(h, i, g)
		if g.Failed {
			all = append(all, Finding{
				Severity: Error, Text: name + " does not answer its driver", Evidence: "NVML, " + g.PCI,
				Fix: "sudo dmesg | grep -i xid # it needs a reset or a reboot",
			})
		}
		health := g.Health
		if health == nil {
			continue
		}
		switch {
		case health.Broken:
			all = append(all, Finding{
				Severity: Error, Text: name + " has bad memory that could not be replaced",
				Evidence: "NVML, remapped rows", Fix: "nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",
			})
		case health.Pending:
			all = append(all, Finding{
				Severity: Warning, Text: name + " has bad memory, which a reset replaces",
				Evidence: "NVML, remapped rows", Fix: "sudo nvidia-smi --gpu-reset -i " + gpuName(h, i, g),
			})
		case health.Uncorrected > 0:
			all = append(all, Finding{
				Severity: Warning, Text: fmt.Sprintf("%s had %s that nobody could correct", name,
					memoryErrors(health.Uncorrected)), Evidence: "NVML, since the driver was loaded",
				Fix: "nvidia-smi -q -d ECC",
			})
		}
	}
	for _, x := range h.KernelXids {
		what := serious(x.Code)
		if what == "" {
			continue
		}
		severity := Warning
		if x.Code == 79 || x.Code == 95 {
			severity = Error
		}
		all = append(all, Finding{
			Severity: severity, Text: fmt.Sprintf("the GPU %s had Xid %d (%s)", x.PCI, x.Code, what),
			Evidence: "/dev/kmsg, " + times(x.Count), Fix: "sudo dmesg | grep 'NVRM: Xid'",
		})
	}
	return all
}

func memoryErrors(n int64) string {
	if n == 1 {
		return "1 error of its memory"
	}
	return fmt.Sprintf("%d errors of its memory", n)
}

func gpuMode(h *Host) (all []Finding) {
	byMode := map[string][]string{}
	parts := 0
	for i, g := range told(h) {
		parts += len(g.MIG)
		if g.Health != nil && g.Health.Mode != "" {
			byMode[g.Health.Mode] = append(byMode[g.Health.Mode], gpuName(h, i, g))
		}
	}
	for _, mode := range sortedKeys(byMode) {
		f := Finding{
			Severity: Note, Text: fmt.Sprintf("%s in compute mode %q: %s", plural(len(byMode[mode]), "GPU is", "GPUs are"),
				mode, listed(byMode[mode])), Evidence: "NVML", Fix: "sudo nvidia-smi -c DEFAULT",
		}
		if mode == "prohibited" {
			f.Severity = Error
		}
		all = append(all, f)
	}
	if parts > 0 {
		all = append(all, Finding{
			Severity: Note, Text: fmt.Sprintf("GPUs are divided into %s (MIG): without peer-to-peer access between them",
				counted(parts, "part")), Evidence: "NVML", Fix: "nvidia-smi -L",
		})
	}
	return all
}

func gpuSlowed(h *Host) []Finding {
	var slowed []string
	why := map[string]bool{}
	for i, g := range told(h) {
		if g.Health != nil && len(g.Health.Slowed) > 0 {
			slowed = append(slowed, gpuName(h, i, g))
			why[strings.Join(g.Health.Slowed, ", ")] = true
		}
	}
	if slowed == nil {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: plural(len(slowed), "GPU is", "GPUs are") + " slowed down: " + listed(slowed),
		Evidence: "NVML: " + strings.Join(sortedKeys(why), "; "),
		Fix:      "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
	}}
}

func gpuPersistence(h *Host) []Finding {
	n := 0
	for _, g := range told(h) {
		if g.Health != nil && g.Health.NoPersistence {
			n++
		}
	}
	if n == 0 || h.Portable {
		return nil
	}
	return []Finding{{
		Severity: Note, Text: "persistence mode is off: the first program waits for the GPUs",
		Evidence: fmt.Sprintf("NVML, %s", counted(n, "GPU")), Fix: "sudo nvidia-smi -pm 1",
	}}
}
