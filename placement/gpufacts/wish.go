package gpufacts

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// Wish is what somebody wants to know of NVIDIA's GPUs that the kernel's files may
// not tell. Its zero value is nothing, and costs nothing.
type Wish struct {
	// All is everything, for a picture of the machine.
	All bool
	// Users asks which GPUs are in use (--gpus free).
	Users bool
	// Names asks for the names by which a program is shown a GPU, or a part of one,
	// alone (--isolate-gpus): UUIDs.
	Names bool
	// Links asks how the GPUs reach each other, for people: what is decided stays
	// the same with and without.
	Links bool
}

// Signs are what the kernel's files say of NVIDIA's GPUs without telling more.
type Signs struct {
	// Hidden says that there may be some of which no file tells.
	Hidden bool
	// Divided says that some are divided into parts (MIG).
	Divided bool
}

// NeedsLibrary reports whether the library is worth being asked: it takes
// seconds where no process holds the driver open.
func (w Wish) NeedsLibrary(m placement.Machine, signs Signs) bool {
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

// Complete adds to a machine what the library told, or says by its notes why and
// what of the wish is not known. err is that of whoever went to ask.
func (w Wish) Complete(m *placement.Machine, f Facts, err error) (notes []string) {
	gpus := len(nvidias(*m))
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%v: %s", err, w.unknown(gpus))}
	case f.Error != "" && gpus == 0: // who has no NVIDIA GPU needs no note on its library
		return nil
	case f.Error != "":
		return []string{fmt.Sprintf("NVIDIA's library tells nothing (%s): %s", f.Error, w.unknown(gpus))}
	case !w.All && !w.Users && !w.Names:
		f = f.paths()
	}
	notes = Merge(m, f)
	if w.Users {
		notes = append(notes, judgeSilent(m, f)...)
	}
	return notes
}

// unknown says what nobody knows without the library.
func (w Wish) unknown(gpus int) string {
	if gpus == 0 {
		return "NVIDIA's GPUs, of which no file tells here, are not known"
	}
	if w.All {
		return "NVLinks, memory and users of the GPUs are not known"
	}
	var parts []string
	for _, part := range []struct {
		wished bool
		text   string
	}{
		{w.Users, "who uses the GPUs is not known, all count as free"},
		{w.Names, "UUIDs of GPUs and of their parts (MIG) are not known"},
		{w.Links, "NVLinks are not known"},
	} {
		if part.wished {
			parts = append(parts, part.text)
		}
	}
	return strings.Join(parts, "; ")
}

// judgeSilent decides about GPUs of which nobody said whether they are used: a job
// that asks for free ones must not get one that the library cannot reach.
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
		notes = append(notes, "NVIDIA's library fails for these GPUs, they do not count as free: "+strings.Join(lost, ", "))
	}
	if len(silent) > 0 {
		notes = append(notes, "NVIDIA's library does not tell who uses these GPUs, they count as free: "+
			strings.Join(silent, ", "))
	}
	return notes
}
