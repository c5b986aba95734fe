// Package testneeds is the only way for a test of this project to skip itself.
//
// A test that needs more than a Go toolchain (root, PyTorch, a second user) requests it here. If it is missing, the
// test
// skips with a reason, which is also appended to the file in [SkipLogVariable]: with CI=true, `make test` fails for any
// layer that .ci/optional-layers does not list. A bare t.Skip would not be counted; the architecture test refuses it.
//
// The package also has the settings of sampled tests: [Count] and [Sampled] (a sample in `make test`, everything in
// `make soak`) and [Rand] (a seed that is printed and can be repeated).
package testneeds

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Variables that the Makefile sets.
const (
	// SkipLogVariable names a file that gets one line per skip: layer, test, reason, separated by tabs.
	SkipLogVariable = "GORUN_TEST_SKIPLOG"
	// SeedVariable is the decimal seed of [Rand]; unset means a new one each time.
	SeedVariable = "GORUN_TEST_SEED"
	// SoakVariable set to 1 requests full counts instead of samples.
	SoakVariable = "GORUN_SOAK"
)

// Layer is something that a machine may lack, by the name under which skips are counted.
type Layer string

// Layers that several packages need. Other layers are required, too, unless .ci/optional-layers lists them.
const (
	LayerRoot   Layer = "root"   // user id 0, to become another user or write cgroups
	LayerTorch  Layer = "torch"  // .venv with PyTorch, made by .ci/setup
	LayerGCC    Layer = "gcc"    // a C compiler
	LayerPython Layer = "python" // a bare python3
	LayerGPU    Layer = "gpu"    // a GPU with its driver, and NCCL or RCCL
	LayerCgroup Layer = "cgroup" // a cgroup hierarchy that the test may write
)

// Skip skips the test because layer is missing for reason, and records that.
func Skip(t testing.TB, layer Layer, reason string) {
	t.Helper()
	if err := record(os.Getenv(SkipLogVariable), layer, t.Name(), reason); err != nil {
		t.Fatalf("record that %s was skipped (%s: %s): %v", t.Name(), layer, reason, err)
	}
	t.Skipf("needs %s: %s", layer, reason)
}

// record appends a line to the skip log by one write, as test binaries of several packages append concurrently.
func record(path string, layer Layer, test, reason string) error {
	if path == "" {
		return nil
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	reason = strings.Join(strings.Fields(reason), " ")
	_, err = fmt.Fprintf(log, "%s\t%s.%s\t%s\n", layer, filepath.Base(os.Args[0]), test, reason)
	return err
}

// Root skips unless the test runs as user id 0.
func Root(t testing.TB) {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		Skip(t, LayerRoot, fmt.Sprintf("runs as user id %d", uid))
	}
}

// Torch returns the Python interpreter of the project's virtual environment, which has PyTorch, NumPy, scikit-learn and
// torchrun.
func Torch(t testing.TB) (python string) {
	t.Helper()
	python = filepath.Join(Repository(t), ".venv", "bin", "python")
	for _, need := range []string{python, filepath.Join(filepath.Dir(python), "torchrun")} {
		if _, err := os.Stat(need); err != nil {
			Skip(t, LayerTorch, err.Error()+"; .ci/setup makes it")
		}
	}
	return python
}

// Program returns the path of an executable in PATH.
func Program(t testing.TB, layer Layer, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, layer, err.Error())
	}
	return path
}

// Repository returns the root folder of this checkout: the nearest one above this source file with a go.mod.
func Repository(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) { // because of -trimpath: use the folder that go test runs in
		var err error
		if file, err = filepath.Abs("."); err != nil {
			t.Fatalf("find the repository: %v", err)
		}
	}
	for dir := file; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatalf("find the repository: no go.mod above %s", file)
	return ""
}

// Soak reports whether full counts are requested.
func Soak() bool { return os.Getenv(SoakVariable) == "1" }

// Count returns full under `make soak` and sample otherwise.
func Count(sample, full int) int {
	if Soak() {
		return full
	}
	return sample
}

// Sampled picks one case of n at random, and every case under `make soak`.
func Sampled(random *rand.Rand, n int) bool { return Soak() || random.IntN(n) == 0 }

// Rand returns a source of random numbers for t and logs the seed, which [SeedVariable] repeats.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(SeedVariable); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
		seed = given
	}
	t.Logf("seed: %s=%d", SeedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}
