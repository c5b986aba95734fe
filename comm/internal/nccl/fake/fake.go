// Package fake builds the stand-ins for libnccl and the CUDA runtime (librccl and HIP's with a flag) with which tests
// run what needs a GPU. A process builds each variant once.
package fake

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gorun/internal/testneeds"
)

var built struct {
	sync.Mutex
	root    string
	folders map[string]string // by the compiler's flags
}

// Build compiles the two libraries with more flags of gcc, such as -DNAME, and returns their folder. It stays until
// [Remove]. Without gcc the test is skipped.
func Build(t testing.TB, flags ...string) (folder string) {
	t.Helper()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	built.Lock()
	defer built.Unlock()
	key := strings.Join(flags, " ")
	if folder = built.folders[key]; folder != "" {
		return folder
	}
	folder = newFolder(t)
	runtime, library := filepath.Join(folder, "libcudart.so.13"), filepath.Join(folder, "libnccl.so.2")
	if strings.Contains(key, "hip") {
		runtime, library = filepath.Join(folder, "libamdhip64.so.6"), filepath.Join(folder, "librccl.so.1")
	}
	compile(t, gcc, runtime, "fakecudart.c", flags)
	compile(t, gcc, library, "fakenccl.c", append(append([]string{}, flags...), runtime, "-Wl,-rpath,$ORIGIN"))
	built.folders[key] = folder
	return folder
}

func newFolder(t testing.TB) string {
	t.Helper()
	var err error
	if built.root == "" {
		built.folders = map[string]string{}
		if built.root, err = os.MkdirTemp("", "fakenccl"); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := os.MkdirTemp(built.root, "")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func compile(t testing.TB, gcc, out, source string, more []string) {
	t.Helper()
	path := filepath.Join(testneeds.Repository(t), "comm/internal/nccl/testdata", source)
	if _, err := os.ReadFile(path); err != nil { // go test then knows that its result depends on it
		t.Fatal(err)
	}
	arguments := append([]string{"-Wall", "-Wextra", "-Werror", "-O1", "-g", "-shared", "-fPIC", "-o", out, path}, more...)
	if said, err := exec.Command(gcc, append(arguments, "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, said)
	}
}

// Remove removes what was built, when all tests are over.
func Remove() {
	built.Lock()
	defer built.Unlock()
	if built.root != "" {
		os.RemoveAll(built.root)
		built.root, built.folders = "", nil
	}
}
