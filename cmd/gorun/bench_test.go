package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm/bench"
	"gorun/internal/version"
	"gorun/placement/nvml/worker"
)

// The command line knows what can be measured, and nothing else.
func TestBenchNames(t *testing.T) {
	require.ElementsMatch(t, bench.Operations(), benchOperations)
	require.ElementsMatch(t, bench.DTypes(), benchDTypes)
	require.ElementsMatch(t, bench.Reductions(), benchReductions)
}

// A gorun without cgo says which program it lacks, or what is wrong with it.
func TestWithCollectives(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	beside := worker.Program{Beside: filepath.Join(dir, "gorun")}
	_, err := withCollectives(beside)
	require.EqualError(t, err, "this gorun was built without cgo and has no collectives, and gorun-gpu is neither in "+
		dir+" nor in PATH")

	program := filepath.Join(dir, worker.Name)
	for script, want := range map[string]string{
		"echo gorun v0-other": `gorun-gpu is "gorun v0-other", this is version ` + version.String() +
			": install both together",
		"echo":                           `gorun-gpu is "", this is version`,
		"exit 3":                         "gorun-gpu version: exit status 3",
		"echo gorun " + version.String(): "",
	} {
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		path, err := withCollectives(beside)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, program, path)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// Where there is no GPU that is said once, with the way out.
func TestWithoutGPUs(t *testing.T) {
	unset := func(string) string { return "" }
	none := func(string) bool { return false }
	require.NoError(t, withoutGPUs("auto", unset, none))
	require.NoError(t, withoutGPUs("nccl", unset, func(path string) bool { return path == "/dev/kfd" }))
	require.NoError(t, withoutGPUs("nccl", func(string) string { return "libfake.so" }, none))
	require.ErrorContains(t, withoutGPUs("nccl", unset, none), "use --backend cpu, and -np in place of -g")
}
