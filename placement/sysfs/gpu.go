package sysfs

import (
	"fmt"
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
	var minors []string
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
		minors = append(minors, field(info, "Device Minor:"))
	}
	r.add(r.given(gpus, minors))
}

// given removes GPUs without a device file. If no GPU has one, this is either a host or a container
// without GPUs. A host creates the files on first use of a GPU.
func (r *reader) given(gpus []placement.GPU, minors []string) []placement.GPU {
	if len(gpus) == 0 {
		return nil
	}
	var given []placement.GPU
	for i, gpu := range gpus {
		if minors[i] == "" || r.exists("dev/nvidia"+minors[i]) {
			given = append(given, gpu)
		}
	}
	switch {
	case len(given) == 0 && !r.inContainer():
		return gpus
	case len(given) < len(gpus):
		r.note("%d of %d NVIDIA GPUs have no device file: this container cannot use them (docker run --gpus all)",
			len(gpus)-len(given), len(gpus))
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

// kfdAddress formats a PCI address. location_id is (bus<<8)|(device<<3)|function.
func kfdAddress(domain, location uint64) string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain, location>>8&0xff, location>>3&0x1f, location&7)
}

const drmDir = "sys/class/drm"

// readIntel lists Intel's discrete GPUs. It skips the integrated GPU of a processor, always
// 0000:00:02.0, because ranks do not use it.
func (r *reader) readIntel() {
	var gpus []placement.GPU
	for _, name := range r.names(drmDir) {
		if !strings.HasPrefix(name, "renderD") {
			continue
		}
		event, _ := r.text(drmDir + "/" + name + "/device/uevent")
		address := field(event, "PCI_SLOT_NAME=")
		if strings.HasPrefix(field(event, "PCI_ID="), "8086:") && address != "0000:00:02.0" {
			gpus = append(gpus, placement.GPU{PCI: address, Vendor: placement.Intel})
		}
	}
	r.add(gpus)
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
		if n := counts[vendor]; n > 0 {
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
