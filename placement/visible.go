package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Visibility holds the variables by which a user, a batch system or an outer
// launcher hides GPUs from programs, by name. An empty one hides nothing.
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

// VisibilityOf picks the variables out of an environment of NAME=VALUE entries,
// that of the ranks. Of two entries for one name the last counts.
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

// Visible returns the GPUs of a machine that a program sees, in the order in
// which it counts them, and a remark where a variable hid some ("" otherwise).
// It looks at one vendor's GPUs, the first that [Vendor] lists and gpus contain.
//
// A part of a GPU (NVIDIA's MIG instance, Intel's tile) counts as a GPU of its
// own; UUID is what its variable calls it ("MIG-…", "0.1"). A GPU that is named by
// a UUID of which the machine knows nothing counts too, as does such an instance;
// both have no PCI address and the Index -1 then.
func Visible(gpus []GPU, v Visibility) (visible []GPU, remark string) {
	for _, vendor := range []Vendor{NVIDIA, AMD, Intel} {
		visible = ofVendor(gpus, vendor)
		if len(visible) == 0 {
			continue
		}
		for _, filter := range v.filters(vendor) {
			var note string
			if visible, note = choose(visible, vendor, filter); note != "" {
				remark = note
			}
		}
		break
	}
	return visible, remark
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

// filters returns the variables that a vendor's libraries read, outermost first:
// the numbers in HIP's count what ROCR's left over, and CUDA's is an alias of
// HIP's for AMD's GPUs.
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

// choose applies one variable. It follows CUDA: the list ends before the first
// entry that names no GPU (-1 is the customary one), and an entry that comes
// twice hides all.
func choose(gpus []GPU, vendor Vendor, list variable) (chosen []GPU, remark string) {
	if vendor == Intel {
		return chooseTiles(gpus, list)
	}
	find := finder(gpus, list.value)
	entries := strings.Split(list.value, ",")
	for i, entry := range entries {
		gpu, ok := find(strings.TrimSpace(entry))
		if !ok {
			return chosen, endOfList(list, entries, i, len(gpus))
		}
		if slices.ContainsFunc(chosen, gpu.is) {
			return nil, fmt.Sprintf("%s names %q twice, which hides all of %s", list, entry, plural(len(gpus), "GPU"))
		}
		chosen = append(chosen, gpu)
	}
	return chosen, list.String()
}

// endOfList tells a list that was meant to end from one that went wrong.
func endOfList(list variable, entries []string, i, all int) string {
	entry := strings.TrimSpace(entries[i])
	if i == 0 && (entry == "" || entry == "-1") {
		return fmt.Sprintf("%s hides all of %s", list, plural(all, "GPU"))
	}
	return fmt.Sprintf("%s counts only up to %q, which names none of %s", list, entry, plural(all, "GPU"))
}

// finder returns how the entries of a list find their GPU. The first entry
// decides whether a list is one of UUIDs, of MIG instances or of numbers.
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

// byInstance finds the GPU that a MIG instance is part of, as far as that is known.
func byInstance(gpus []GPU, uuid string) (GPU, bool) {
	for _, g := range gpus {
		if slices.Contains(g.MIG, uuid) {
			return instance(g, uuid), true
		}
	}
	return GPU{Index: -1, Vendor: NVIDIA, UUID: uuid}, strings.HasPrefix(uuid, migPrefix)
}

// byUUID finds a GPU by the beginning of its UUID; it must fit one only.
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

// leadingNumber reads a number as C's strtoul does, for which "1gpu" is 1. It
// returns -1 where there is none.
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

// chooseTiles applies ZE_AFFINITY_MASK: "0,1" are devices, "0.0,0.1" tiles of
// them. Entries that name no device are passed over.
func chooseTiles(gpus []GPU, mask variable) (chosen []GPU, remark string) {
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
