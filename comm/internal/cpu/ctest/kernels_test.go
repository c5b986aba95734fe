package ctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// layerARM64 is a C compiler for arm64 and an emulator that runs what it made.
const layerARM64 testneeds.Layer = "arm64"

// warnings are those of every build, and cgo's dialect.
var warnings = []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror"}

// optimised is what cgo compiles the package with, beside the warnings.
var optimised = []string{"-O3"}

// sanitized finds accesses out of bounds and undefined behaviour. The omitted ones take most of the compiler's time
// and finds nothing that the address sanitizer doesn't: the kernels reach memory by memcpy alone. Calls instead of
// inline checks halve the time, too.
var sanitized = []string{
	"-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
	"-fno-sanitize=null,object-size,pointer-overflow,alignment",
	"--param", "asan-instrumentation-with-call-threshold=0",
}

func TestKernelsSanitized(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	check(t, testneeds.Count(5, 0), build(t, gcc, "kernels_test.c", sanitized...))
}

func TestKernelsAsCgoCompilesThem(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	check(t, testneeds.Count(15, 0), build(t, gcc, "kernels_test.c", optimised...))
}

func TestKernelsOnARM64(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, layerARM64, "aarch64-linux-gnu-gcc")
	emulator := testneeds.Program(t, layerARM64, "qemu-aarch64-static")
	check(t, testneeds.Count(3, 0), emulator,
		build(t, gcc, "kernels_test.c", append([]string{"-static"}, optimised...)...))
}

// BenchmarkKernels prints what every instruction set moves; see csrc/kernels_bench.c.
func BenchmarkKernels(b *testing.B) {
	gcc := testneeds.Program(b, testneeds.LayerGCC, "gcc")
	said, err := exec.Command(build(b, gcc, "kernels_bench.c", optimised...)).CombinedOutput()
	require.NoError(b, err, "%s", said)
	b.Logf("\n%s", said)
}

// check runs the test program with a seed; places says how many arrangements of each reduction it tries, 0 all.
func check(t *testing.T, places int, argv ...string) {
	seed := testneeds.Rand(t).Uint64()
	argv = append(argv, fmt.Sprint(seed), fmt.Sprint(places))
	said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%s\n%s", strings.Join(argv, " "), said)
	t.Logf("%s", said)
}

// build makes a program of the kernels and one file of csrc; buildOf of other code.
func build(t testing.TB, gcc, source string, flags ...string) (program string) {
	t.Helper()
	kernels, err := filepath.Glob("../kernels*.c")
	require.NoError(t, err)
	return buildOf(t, gcc, kernels, source, flags...)
}

func buildOf(t testing.TB, gcc string, code []string, source string, flags ...string) (program string) {
	t.Helper()
	return link(t, gcc, objectsOf(t, gcc, append(code, filepath.Join("csrc", source)), flags...), flags...)
}

func link(t testing.TB, gcc string, objects []string, flags ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program")
	require.NoError(t, compile(gcc, flags, append(objects, "-o", program, "-pthread", "-lm")...))
	return program
}

// objectsOf compiles each file by a compiler of its own, all at once.
func objectsOf(t testing.TB, gcc string, files []string, flags ...string) []string {
	t.Helper()
	headers, err := filepath.Glob("../*.h")
	require.NoError(t, err)
	for _, file := range slices.Concat(headers, files, []string{"csrc/reference.h"}) {
		_, err := os.ReadFile(file) // go test then knows that its result depends on it
		require.NoError(t, err)
	}
	flags = slices.Concat(flags, warnings)
	made, results := make([]string, len(files)), make([]error, len(files))
	var compilers sync.WaitGroup
	for i, file := range files {
		compilers.Go(func() { made[i], results[i] = object(gcc, flags, file) })
	}
	compilers.Wait()
	require.NoError(t, errors.Join(results...))
	return made
}

// objects are the files that were compiled before, by command line: the kernels take a compiler seconds, and several
// tests use them.
var objects sync.Map

func object(gcc string, flags []string, source string) (path string, err error) {
	what := fmt.Sprint(gcc, flags, source)
	once, _ := objects.LoadOrStore(what, sync.OnceValues(func() (string, error) {
		file, err := os.CreateTemp(objectDir, filepath.Base(source)+"-*.o")
		if err != nil {
			return "", err
		}
		defer file.Close()
		return file.Name(), compile(gcc, flags, "-c", "-o", file.Name(), source)
	}))
	return once.(func() (string, error))()
}

// objectDir is there while the tests run.
var objectDir string

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	var err error
	if objectDir, err = os.MkdirTemp("", "gorun-ctest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(objectDir)
	return m.Run()
}

func compile(gcc string, flags []string, arguments ...string) error {
	command := exec.Command(gcc, append(flags[:len(flags):len(flags)], arguments...)...)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, said)
	}
	return nil
}
