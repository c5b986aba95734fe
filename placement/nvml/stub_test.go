//go:build cgo

package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
)

// stubVariable names the library for a separate process. A separate process is necessary because the
// dynamic linker does not rebind symbols to another library.
const stubVariable = "NVML_TEST_STUB"

// The dynamic linker loads real files. They are a library that cannot start, a library that lacks most
// functions, and a file that is not a library.
func TestStubLibraries(t *testing.T) {
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	for name, test := range map[string]struct{ init, child string }{
		"driver not loaded": {"9", "TestStubWithoutDriver"},
		"nearly empty":      {"0", "TestStubNearlyEmpty"},
		"no library":        {"", "TestStubNoLibrary"},
	} {
		t.Run(name, func(t *testing.T) {
			library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
			if test.init == "" {
				require.NoError(t, os.WriteFile(library, []byte("not ELF"), 0o600))
			} else {
				build := exec.Command(gcc, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DINIT="+test.init, "-o", library,
					"testdata/stub.c")
				out, err := build.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			child := exec.Command(os.Args[0], "-test.run=^"+test.child+"$", "-test.v")
			child.Env = append(os.Environ(), stubVariable+"="+library)
			out, err := child.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "--- PASS: "+test.child)
		})
	}
}

// stubbed adds the facts from the library in the variable. It returns false if the variable is not set.
func stubbed(t *testing.T) (m placement.Machine, asked bool) {
	path := os.Getenv(stubVariable)
	if path == "" {
		return m, false
	}
	_, m = withoutLibrary(t, "dgx-h100")
	merge(&m, askLibrary(nvml.New(nvml.WithLibraryPath(path))))
	return m, true
}

func TestStubWithoutDriver(t *testing.T) {
	if m, asked := stubbed(t); asked {
		assert.Equal(t, []string{
			"NVIDIA's library reports nothing (nvmlInit: Driver Not Loaded): NVLinks, memory and users of the GPUs are unknown",
		}, m.Notes)
	}
}

func TestStubNearlyEmpty(t *testing.T) {
	if m, asked := stubbed(t); asked {
		_, want := withoutLibrary(t, "dgx-h100")
		want.GPUs[0].Name = "Tesla K80"
		assert.Equal(t, want, m)
	}
}

func TestStubNoLibrary(t *testing.T) {
	if m, asked := stubbed(t); asked {
		assert.Equal(t, []string{
			"NVIDIA's library reports nothing (cannot find libnvidia-ml.so.1): NVLinks, memory and users of the GPUs " +
				"are unknown",
		}, m.Notes)
	}
}
