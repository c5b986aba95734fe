package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// readGPUs returns the GPUs that a program can use: those that have a driver and are available in this
// container.
func (r *reader) readGPUs(needs Needs) {
	r.readNVIDIA()
	r.readAMD()
	r.readIntel()
	if needs.Driverless && len(r.machine.GPUs) == 0 {
		r.noteDriverless()
	}
}

// add appends the GPUs of one vendor in PCI address order.
func (r *reader) add(gpus []placement.GPU) {
	slices.SortFunc(gpus, func(a, b placement.GPU) int { return strings.Compare(a.PCI, b.PCI) })
	for i := range gpus {
		gpus[i].Index = i
	}
	r.machine.GPUs = append(r.machine.GPUs, gpus...)
}

const nvidiaDir = "proc/driver/nvidia/gpus"

// readNVIDIA lists the GPUs of NVIDIA's driver. In a container, the driver's files show all GPUs of
// the host unless NVIDIA's runtime hides them. Only GPUs assigned to the container have a device file.
func (r *reader) readNVIDIA() {
	var gpus []placement.GPU
	var devices []string
	for _, address := range r.names(nvidiaDir) {
		info, _ := r.text(nvidiaDir + "/" + address + "/information")
		uuid := field(info, "GPU UUID:")
		if strings.Contains(uuid, "?") { // the driver sets it on first use of the GPU
			uuid = ""
		}
		gpu := placement.GPU{PCI: strings.ToLower(address), Vendor: placement.NVIDIA, UUID: uuid}
		if r.needs.Topology {
			gpu.Name = field(info, "Model:")
		}
		gpus = append(gpus, gpu)
		devices = append(devices, "dev/nvidia"+field(info, "Device Minor:"))
	}
	r.add(r.given(gpus, devices, "NVIDIA GPUs", "--gpus all"))
}

// given removes GPUs without a device file, and those of other jobs, which a batch system's cgroup forbids (Slurm:
// ConstrainDevices): CUDA neither lists nor counts them. If no GPU has a file, this is either a host or a container
// without GPUs. A host creates the files on first use of a GPU.
func (r *reader) given(gpus []placement.GPU, devices []string, what, option string) []placement.GPU {
	var given []placement.GPU
	missing := 0
	for i, gpu := range gpus {
		_, err := fs.Stat(r.root, devices[i])
		switch {
		case err == nil || devices[i] == "dev/nvidia": // without a number
			given = append(given, gpu)
		case !errors.Is(err, fs.ErrPermission):
			missing++
		}
	}
	switch {
	case len(given)+missing == 0 && len(gpus) > 0:
		r.note("the cgroup of this process allows none of %d %s", len(gpus), what)
	case missing == 0:
	case missing == len(gpus) && !r.inContainer():
		return gpus
	default:
		r.note("%d of %d %s have no device file: this container cannot use them (docker run %s)",
			missing, len(gpus), what, option)
	}
	return given
}

// inContainer recognizes Docker, Podman and containerd. It recognizes containerd by the file system of
// /.
func (r *reader) inContainer() bool {
	if r.exists(".dockerenv") || r.exists("run/.containerenv") {
		return true
	}
	mounts, _ := r.text("proc/self/mountinfo")
	for line := range strings.Lines(mounts) {
		if strings.Contains(line, " / / ") {
			_, kind, _ := strings.Cut(line, " - ")
			return strings.HasPrefix(kind, "overlay ")
		}
	}
	return false
}

// field returns the rest of the line that begins with a name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

const kfdDir = "sys/class/kfd/kfd/topology/nodes"

// readAMD lists the KFD nodes with SIMD units, because the others are processors. Nodes outside this
// container are not readable.
func (r *reader) readAMD() {
	var gpus []placement.GPU
	for _, node := range r.names(kfdDir) {
		properties, ok := r.text(kfdDir + "/" + node + "/properties")
		if !ok || property(properties, "simd_count") == 0 {
			continue
		}
		gpu := placement.GPU{
			PCI:    kfdAddress(property(properties, "domain"), property(properties, "location_id")),
			Vendor: placement.AMD,
		}
		if id := property(properties, "unique_id"); id != 0 {
			gpu.UUID = fmt.Sprintf("GPU-%016x", id)
		}
		gpus = append(gpus, gpu)
		if r.kfdNode == nil {
			r.kfdNode = map[string]string{}
		}
		r.kfdNode[gpu.PCI] = node
	}
	r.add(gpus)
}

// property returns a number from the "name value" lines of KFD, or 0 if it is missing.
func property(text, name string) uint64 {
	n, _ := strconv.ParseUint(field(text, name+" "), 10, 64)
	return n
}

// kfdAddress formats a PCI address. location_id is (bus<<8)|(device<<3)|function. The number of a compute partition is
// in the function or, in some kernels, in bits 28 to 31: the result has it as the function.
func kfdAddress(domain, location uint64) string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain, location>>8&0xff, location>>3&0x1f, (location|location>>28)&7)
}

const drmDir = "sys/class/drm"

// readIntel lists Intel's discrete GPUs. It skips the integrated GPU of a processor, always
// 0000:00:02.0, because ranks do not use it.
func (r *reader) readIntel() {
	var gpus []placement.GPU
	var devices []string
	for _, name := range r.names(drmDir) {
		if !strings.HasPrefix(name, "renderD") {
			continue
		}
		event, _ := r.text(drmDir + "/" + name + "/device/uevent")
		address := field(event, "PCI_SLOT_NAME=")
		if strings.HasPrefix(field(event, "PCI_ID="), "8086:") && address != "0000:00:02.0" {
			gpus = append(gpus, placement.GPU{PCI: address, Vendor: placement.Intel})
			devices = append(devices, "dev/dri/"+name)
		}
	}
	r.add(r.given(gpus, devices, "Intel GPUs", "--device=/dev/dri"))
}

const pciDir = "sys/bus/pci/devices"

// noteDriverless adds a note about GPUs without a driver, for users who requested GPUs.
func (r *reader) noteDriverless() {
	counts := map[string]int{}
	for _, address := range r.names(pciDir) {
		event, _ := r.text(pciDir + "/" + address + "/uevent")
		if address != "0000:00:02.0" {
			counts[vendorOfGPU(event)]++
		}
	}
	for _, vendor := range []string{"NVIDIA", "AMD", "Intel"} {
		if n := counts[vendor]; n > 0 && (vendor != "NVIDIA" || !r.exists(nvidiaDir)) {
			r.note("%s on the PCI bus: %d, all without the vendor's compute driver: check that it is loaded", vendor+" GPUs", n)
		}
	}
}

// vendorOfGPU returns the vendor of a PCI device if its class is that of a GPU: display (03) or
// processing accelerator (12).
func vendorOfGPU(event string) string {
	class := field(event, "PCI_CLASS=")
	if len(class) != 5 && len(class) != 6 {
		return ""
	}
	if class = class[:len(class)-4]; class != "3" && class != "12" {
		return ""
	}
	vendor, _, _ := strings.Cut(field(event, "PCI_ID="), ":")
	switch vendor {
	case "10DE":
		return "NVIDIA"
	case "1002":
		return "AMD"
	case "8086":
		return "Intel"
	}
	return ""
}
