package program

import (
	"debug/elf"
	"strings"
)

// Families of MPI libraries: programs of one cannot talk to those of another. MPICH's are
// Intel MPI and MVAPICH as well, which cannot be told from it by what a program links.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
)

// MPIFamily tells which MPI library the executable at path links; "" where it links none,
// or none that is known, or is no executable of the system's format: what a script or a
// plug-in loads shows only when it runs.
func MPIFamily(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return ""
	}
	for _, library := range libraries {
		if family := familyOf(library); family != "" {
			return family
		}
	}
	return ""
}

// familyOf knows the libraries of C, C++ and Fortran by their names and, where both
// families have the same, by their versions: Open MPI's of its releases 2 to 5 have 20 and
// 40, MPICH's common ABI 12.
func familyOf(library string) string {
	name, version, _ := strings.Cut(library, ".so")
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "."), ".")
	switch {
	case strings.HasPrefix(name, "libmpich"), strings.HasPrefix(name, "libmpifort"), strings.HasPrefix(name, "libmpicxx"):
		return MPICH
	case strings.HasPrefix(name, "libopen-rte"), strings.HasPrefix(name, "libopen-pal"),
		strings.HasPrefix(name, "libmpi_usempi"), strings.HasPrefix(name, "libmpi_mpifh"), name == "libmpi_cxx":
		return OpenMPI
	case name == "libmpi" && (version == "20" || version == "40"):
		return OpenMPI
	case name == "libmpi" && version == "12":
		return MPICH
	}
	return ""
}
