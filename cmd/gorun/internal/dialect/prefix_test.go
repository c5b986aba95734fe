package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// TestInstallPrefixes: the directories of an installation come first in two variables of ranks, for all sources of
// these variables.
func TestInstallPrefixes(t *testing.T) {
	prefixed := func(option, path, libraries string) []job.Export {
		return []job.Export{
			{Name: "PATH", Value: path, HasValue: true, From: option},
			{Name: "LD_LIBRARY_PATH", Value: libraries, HasValue: true, From: option},
		}
	}
	for line, want := range map[string][]job.Export{
		"mpirun --prefix /o/ -n 1 x":            prefixed("--prefix /o/", "/o/bin:/bin", "/o/lib:/mine"),
		"gorun --prefix=/o -n 1 x":              prefixed("--prefix=/o", "/o/bin:/bin", "/o/lib:/mine"),
		"mpirun --prefix /a --prefix /o -n 1 x": prefixed("--prefix /o", "/o/bin:/bin", "/o/lib:/mine"),
		"mpiexec -genvnone -n 1 --prefix /o x":  prefixed("--prefix /o", "/o/bin", "/o/lib"),
		"mpirun --prefix /o -unset-env PATH -n1 x": append(
			[]job.Export{{Name: "PATH", Remove: true, From: "-unset-env PATH"}},
			prefixed("--prefix /o", "/o/bin", "/o/lib:/mine")...),
		"mpirun --prefix /o -x PATH=/p -n 1 x": append([]job.Export{{Name: "PATH", Value: "/p", HasValue: true}},
			prefixed("--prefix /o", "/o/bin:/p", "/o/lib:/mine")...),
		"mpirun --prefix /o -x LD_* -n 1 x": append([]job.Export{{Name: "LD_*"}},
			prefixed("--prefix /o", "/o/bin:/bin", "/o/lib:/mine")...),
	} {
		require.Equal(t, want, mustParse(t, line, "PATH=/bin", "LD_LIBRARY_PATH=/mine").Spec.Exports, line)
	}
	apps := mustParse(t, "mpirun --prefix /a -n 1 x : -n 1 --prefix /b y : -n 1 z", "PATH=/bin").Spec.Apps
	require.Equal(t, prefixed("--prefix /a", "/a/bin:/bin", "/a/lib"), apps[0].Exports)
	require.Equal(t, prefixed("--prefix /b", "/b/bin:/bin", "/b/lib"), apps[1].Exports)
	require.Empty(t, apps[2].Exports)
	apps = mustParse(t, "gorun --prefix /a -n 1 x : -n 1 y", "PATH=/bin").Spec.Apps
	require.Equal(t, apps[0].Exports, apps[1].Exports, "before the first program it holds for all")
	require.Equal(t, []string{"--prefix=: the value is empty"}, problems(t, "mpirun --prefix= -n 1 x"))
}

// TestSearchPaths: directories to search for a program.
func TestSearchPaths(t *testing.T) {
	apps := mustParse(t, "mpirun -gpath /g -n 1 --path /a:/b x : -n 1 y : -n 1 -path /c z").Spec.Apps
	require.Equal(t, []string{"/a:/b", "/g", "/c"}, []string{apps[0].Path, apps[1].Path, apps[2].Path})
	require.Equal(t, []string{"-gpath /g applies to the whole job: put it before the first program"},
		problems(t, "mpirun -n 1 x : -n 1 -gpath /g y"))
}
