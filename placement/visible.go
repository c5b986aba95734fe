package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Visibility maps the names of variables to their values with which a user, a batch system or an
// outer launcher hides GPUs from programs. An empty one hides nothing.
type Visibility map[string]string

const (
	cudaVisible = "CUDA_VISIBLE_DEVICES"
	hipVisible  = "HIP_VISIBLE_DEVICES"
	rocrVisible = "ROCR_VISIBLE_DEVICES"
	zeVisible   = "ZE_AFFINITY_MASK"
)

type variable struct{ name, value string }

func (v variable) String() string {
	if v.value == "" {
		return v.name + `=""`
	}
	return v.name + "=" + v.value
}

// VisibilityOf extracts the variables from the ranks' environment, a list of NAME=VALUE entries.
// The last entry for a name counts.
func VisibilityOf(environ []string) Visibility {
	v := Visibility{}
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); name {
		case cudaVisible, hipVisible, rocrVisible, zeVisible:
			v[name] = value
		}
	}
	return v
}

// Visible returns the GPUs of a machine that a program sees, in the order in which it numbers them,
// and a note if a variable hides some. It considers only the GPUs of one vendor, the first that
// [Vendor] lists and gpus contain.
//
// A part of a GPU (NVIDIA's MIG instance, Intel's tile) counts as a GPU; its UUID is its name in
// the variable ("MIG-…", "0.1"). A GPU or MIG instance with a UUID that the machine does not know
// counts too; it has no PCI address and the Index -1.
func Visible(gpus []GPU, v Visibility) (visible []GPU, note string) {
	for _, vendor := range []Vendor{NVIDIA, AMD, Intel} {
		visible = ofVendor(gpus, vendor)
		if len(visible) == 0 {
			continue
		}
		for _, filter := range v.filters(vendor) {
			var hidden string
			if visible, hidden = choose(visible, vendor, filter); hidden != "" {
				note = hidden
			}
		}
		break
	}
	return visible, note
}

func ofVendor(gpus []GPU, vendor Vendor) []GPU {
	if !slices.ContainsFunc(gpus, func(g GPU) bool { return g.Vendor != vendor }) {
		return slices.Clip(gpus)
	}
	var own []GPU
	for _, gpu := range gpus {
		if gpu.Vendor == vendor {
			own = append(own, gpu)
		}
	}
	return own
}

// filters returns the variables that a vendor's libraries read, outermost first: the numbers in
// HIP's variable selects among the GPUs that ROCR's leaves, and CUDA's is an alias of it for AMD's GPUs.
func (v Visibility) filters(vendor Vendor) (chain []variable) {
	names := map[Vendor][]string{NVIDIA: {cudaVisible}, AMD: {rocrVisible, hipVisible}, Intel: {zeVisible}}[vendor]
	if _, hip := v[hipVisible]; vendor == AMD && !hip {
		names[1] = cudaVisible
	}
	for _, name := range names {
		if value, set := v[name]; set {
			chain = append(chain, variable{name, value})
		}
	}
	return chain
}

// choose applies one variable as CUDA does: the list ends before the first entry that matches no
// GPU (usually -1), and a repeated entry hides all GPUs.
func choose(gpus []GPU, vendor Vendor, list variable) (chosen []GPU, note string) {
	if vendor == Intel {
		return chooseTiles(gpus, list)
	}
	find := finder(gpus, list.value)
	entries := strings.Split(list.value, ",")
	for i, entry := range entries {
		if vendor == AMD { // mixes numbers and UUIDs
			find = finder(gpus, strings.TrimSpace(entry))
		}
		gpu, ok := find(strings.TrimSpace(entry))
		if !ok {
			return chosen, endOfList(list, entries, i, len(gpus))
		}
		if slices.ContainsFunc(chosen, gpu.is) {
			return nil, fmt.Sprintf("%s lists %q twice, which hides all of %s", list, entry, plural(len(gpus), "GPU"))
		}
		chosen = append(chosen, gpu)
	}
	return chosen, list.String()
}

// endOfList returns a note that distinguishes a list that ends on purpose from a faulty one.
func endOfList(list variable, entries []string, i, all int) string {
	entry := strings.TrimSpace(entries[i])
	if i == 0 && (entry == "" || entry == "-1") {
		return fmt.Sprintf("%s hides all of %s", list, plural(all, "GPU"))
	}
	return fmt.Sprintf("%s counts only up to %q, which matches none of %s", list, entry, plural(all, "GPU"))
}

// finder returns a function that finds the GPU of an entry. The first entry decides whether the
// list contains UUIDs, MIG instances or numbers.
func finder(gpus []GPU, list string) func(entry string) (GPU, bool) {
	switch {
	case strings.HasPrefix(list, migPrefix):
		return func(entry string) (GPU, bool) { return byInstance(gpus, entry) }
	case strings.HasPrefix(list, "GPU-"):
		return func(entry string) (GPU, bool) { return byUUID(gpus, entry) }
	}
	return func(entry string) (GPU, bool) {
		n := leadingNumber(entry)
		if n < 0 || n >= len(gpus) {
			return GPU{}, false
		}
		return gpus[n], true
	}
}

// byInstance returns the GPU that a MIG instance belongs to, if known.
func byInstance(gpus []GPU, uuid string) (GPU, bool) {
	for _, g := range gpus {
		if slices.Contains(g.MIG, uuid) {
			return instance(g, uuid), true
		}
	}
	return GPU{Index: -1, Vendor: NVIDIA, UUID: uuid}, strings.HasPrefix(uuid, migPrefix)
}

// byUUID finds the only GPU whose UUID has a prefix.
func byUUID(gpus []GPU, prefix string) (GPU, bool) {
	if !strings.HasPrefix(prefix, "GPU-") {
		return GPU{}, false
	}
	var found []GPU
	for _, gpu := range gpus {
		switch {
		case gpu.UUID == "":
			return GPU{Index: -1, Vendor: gpu.Vendor, UUID: prefix}, true
		case strings.HasPrefix(strings.ToLower(gpu.UUID), strings.ToLower(prefix)):
			found = append(found, gpu)
		}
	}
	if len(found) != 1 {
		return GPU{}, false
	}
	return found[0], true
}

// leadingNumber parses a number as C's strtoul does, for which "1gpu" is 1. It returns -1 without
// one.
func leadingNumber(text string) int {
	text = strings.TrimPrefix(text, "+")
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return -1
	}
	return n
}

// chooseTiles applies ZE_AFFINITY_MASK: "0,1" are devices, "0.0,0.1" tiles of them. It ignores
// entries that match no device.
func chooseTiles(gpus []GPU, mask variable) (chosen []GPU, note string) {
	seen := make(map[string]bool)
	for _, entry := range strings.Split(mask.value, ",") {
		entry = strings.TrimSpace(entry)
		device, _, isTile := strings.Cut(entry, ".")
		n, err := strconv.Atoi(device)
		if err != nil || n < 0 || n >= len(gpus) || seen[entry] {
			continue
		}
		seen[entry] = true
		gpu := gpus[n]
		if isTile {
			gpu.UUID = entry
		}
		chosen = append(chosen, gpu)
	}
	return chosen, mask.String()
}
