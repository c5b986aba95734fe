package gpufacts

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// Query selects facts about NVIDIA GPUs that the kernel's files may lack. The zero value selects
// nothing and costs nothing.
type Query struct {
	// All selects all facts, for a picture of the machine.
	All bool
	// Users selects whether each GPU is in use (--gpus free).
	Users bool
	// Names selects the UUIDs of GPUs and MIG devices, which can restrict a program to them
	// (--isolate-gpus).
	Names bool
	// Links selects the paths between GPUs. They are for output only and do not affect the placement.
	Links bool
}

// Signs are indications of NVIDIA GPUs that the kernel's files do not fully describe.
type Signs struct {
	// Hidden reports that there may be GPUs that no file describes.
	Hidden bool
	// Divided reports that some GPUs have MIG instances.
	Divided bool
}

// NeedsLibrary reports whether to query the library. A query takes seconds if no process holds the
// driver open.
func (w Query) NeedsLibrary(m placement.Machine, signs Signs) bool {
	gpus := nvidias(m)
	if len(gpus) == 0 {
		return signs.Hidden && (w.All || w.Users || w.Names)
	}
	nameless := signs.Divided || slices.ContainsFunc(gpus, func(g placement.GPU) bool { return g.UUID == "" })
	return w.All || w.Users || w.Names && nameless || w.Links && len(gpus) > 1
}

func nvidias(m placement.Machine) (gpus []placement.GPU) {
	for _, g := range m.GPUs {
		if isNVIDIA(g) {
			gpus = append(gpus, g)
		}
	}
	return gpus
}

// Complete adds the library's facts to a machine. If facts are missing, the notes name them and the
// reason. err is the error of the query.
func (w Query) Complete(m *placement.Machine, f Facts, err error) (notes []string) {
	gpus := len(nvidias(*m))
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%v: %s", err, w.unknown(gpus))}
	case f.Error != "" && gpus == 0: // no note is necessary without NVIDIA GPUs
		return nil
	case f.Error != "":
		return []string{fmt.Sprintf("NVIDIA's library reports nothing (%s): %s", f.Error, w.unknown(gpus))}
	case !w.All && !w.Users && !w.Names:
		f = f.paths()
	}
	notes = Merge(m, f)
	if w.Users {
		notes = append(notes, judgeSilent(m, f)...)
	}
	return notes
}

// unknown describes the facts that are unavailable without the library.
func (w Query) unknown(gpus int) string {
	if gpus == 0 {
		return "NVIDIA GPUs are unknown, since no file here describes them"
	}
	if w.All {
		return "NVLinks, memory and users of the GPUs are unknown"
	}
	var parts []string
	for _, part := range []struct {
		selected bool
		text     string
	}{
		{w.Users, "the users of the GPUs are unknown, so all GPUs count as free"},
		{w.Names, "UUIDs of GPUs and MIG instances are unknown"},
		{w.Links, "NVLinks are unknown"},
	} {
		if part.selected {
			parts = append(parts, part.text)
		}
	}
	return strings.Join(parts, "; ")
}

// judgeSilent handles GPUs whose use is unknown. A job that requests free GPUs must not get a GPU that
// the library cannot reach.
func judgeSilent(m *placement.Machine, f Facts) (notes []string) {
	var lost, silent []string
	for i := range m.GPUs {
		gpu := &m.GPUs[i]
		if !isNVIDIA(*gpu) {
			continue
		}
		at := slices.IndexFunc(f.GPUs, func(g GPU) bool { return g.PCI == gpu.PCI })
		switch {
		case at >= 0 && f.GPUs[at].Used != nil:
		case len(f.GPUs) > 0 && (at < 0 || f.GPUs[at].Failed):
			gpu.Used = true
			lost = append(lost, gpu.PCI)
		default:
			silent = append(silent, gpu.PCI)
		}
	}
	if len(lost) > 0 {
		notes = append(notes,
			"NVIDIA's library fails for these GPUs, so they do not count as free: "+strings.Join(lost, ", "))
	}
	if len(silent) > 0 {
		notes = append(notes, "NVIDIA's library does not report the users of these GPUs, so they count as free: "+
			strings.Join(silent, ", "))
	}
	return notes
}
