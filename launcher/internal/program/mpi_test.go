package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestFamiliesOfMPILibraries(t *testing.T) {
	for library, family := range map[string]string{
		"libmpi.so.40": OpenMPI, "libmpi.so.20": OpenMPI, "libopen-rte.so.40": OpenMPI, "libmpi_usempif08.so.40": OpenMPI,
		"libmpi_mpifh.so.40.30.4": OpenMPI,
		"libmpich.so.12":          MPICH, "libmpi.so.12": MPICH, "libmpifort.so.12": MPICH, "libmpichfort.so.12": MPICH,
		"libmpicxx.so.12": MPICH,
		"libmpi_abi.so.1": "", "libmpi.so": "", "libc.so.6": "", "libmpiexample.so.40": "",
	} {
		require.Equal(t, family, familyOf(library), library)
	}
}

func TestFamilyOfNoMPIProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	for _, path := range []string{script, self, filepath.Join(t.TempDir(), "missing"), t.TempDir()} {
		require.Empty(t, MPIFamily(path), path)
	}
}

// A program links what its linker was given: an empty library with the name of an MPI
// library's is enough.
func TestFamilyOfLinkedPrograms(t *testing.T) {
	cc := testneeds.Program(t, testneeds.LayerGCC, "cc")
	for name, family := range map[string]string{"libmpi.so.40": OpenMPI, "libmpich.so.12": MPICH} {
		dir := t.TempDir()
		source := filepath.Join(dir, "empty.c")
		require.NoError(t, os.WriteFile(source, []byte("int MPI_Init(void) { return 0; }\n"), 0o644))
		build := func(args ...string) {
			out, err := exec.Command(cc, args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		library, program := filepath.Join(dir, name), filepath.Join(dir, "program")
		build("-shared", "-fPIC", "-Wl,-soname,"+name, "-o", library, source)
		main := filepath.Join(dir, "main.c")
		require.NoError(t, os.WriteFile(main, []byte("int MPI_Init(void);\nint main(void) { return MPI_Init(); }\n"), 0o644))
		build("-o", program, main, library)
		require.Equal(t, family, MPIFamily(program))
	}
}
