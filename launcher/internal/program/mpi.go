package program

import "strings"

// Families of MPI libraries, whose programs cannot communicate with each other. MPICH includes Intel MPI and MVAPICH,
// which have the same library names.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
)

// MPIFamily returns the family of the MPI library that the executable at path links. It returns "" if the file links
// no known one or is not in ELF format. Libraries that a script or a plug-in loads are unknown until it runs.
func MPIFamily(path string) string {
	for _, library := range librariesOf(path) {
		if family := familyOf(library); family != "" {
			return family
		}
	}
	return ""
}

// familyOf returns the family of a C, C++ or Fortran library. Both families have a libmpi: Open MPI 2 to 5 use the
// versions 20 and 40, MPICH's common ABI uses 12.
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
