package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// These variables set the state of the GPUs that testdata/nvml.c simulates.
const (
	libraryFails = "INTEROP_NVML"
	libraryPipe  = "INTEROP_PIPE"
	libraryBusy  = "INTEROP_BUSY"
	libraryMIG   = "INTEROP_MIG"
)

// fourGPUs runs a command with a simulated NVIDIA driver that has four unused GPUs. Their UUIDs are unknown. If $1
// is not empty, the third GPU is partitioned.
const fourGPUs = `mount -t tmpfs none /proc/driver &&
for i in 1 2 3 4; do
	mkdir -p "/proc/driver/nvidia/gpus/0000:0$i:00.0" &&
	printf 'Model: \t NVIDIA Fake\nGPU UUID: \t GPU-????????-????-????-????-????????????\n' ` +
	`>"/proc/driver/nvidia/gpus/0000:0$i:00.0/information" || exit 99
done
[ -z "$1" ] || mkdir -p /proc/driver/nvidia/capabilities/gpu2/mig/gi1 || exit 99
shift
exec "$@"`

// gpuPrograms builds gorun as users get it, gorun-gpu next to it, and a libnvidia-ml.so.1, in a folder of their
// own.
var gpuPrograms = sync.OnceValues(func() (string, error) {
	dir := built("gpu")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, program := range []struct{ name, cgo, flags string }{
		{"gorun", "0", "-X gorun/internal/version.Version=v7"},
		{"gorun-gpu", "1", "-X gorun/internal/version.Version=v7 -extldflags=-Wl,-z,lazy"},
	} {
		build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags", program.flags, "-o",
			filepath.Join(dir, program.name), "gorun/cmd/gorun")
		build.Env = append(os.Environ(), "CGO_ENABLED="+program.cgo, "CGO_CFLAGS=-Wno-deprecated-declarations")
		if said, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", program.name, err, said)
		}
	}
	said, err := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
		filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile testdata/nvml.c: %w\n%s", err, said)
	}
	return dir, nil
})

// onFourGPUs is a gorun command on a host with four GPUs, with the library of testdata.
func onFourGPUs(t *testing.T, gorun string, divided bool, words ...string) job {
	t.Helper()
	testneeds.Root(t)
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	dir, err := gpuPrograms()
	require.NoError(t, err)
	sign := ""
	if divided {
		sign = "divided"
	}
	if gorun == "" {
		gorun = filepath.Join(dir, "gorun")
	}
	argv := append([]string{"unshare", "-m", "sh", "-c", fourGPUs, "sh", sign, gorun}, words...)
	return job{argv: argv}.with("LD_LIBRARY_PATH="+dir, "LC_ALL=C")
}

// shownGPU is a GPU in the output of `gorun topo --json`.
type shownGPU struct {
	UUID, Name string
	Memory     int64 `json:"memory_bytes"`
	Used       bool
	MIG        []string
	Links      []struct {
		Peer  string
		Count int
	}
}

type shownMachine struct {
	Machine struct {
		GPUs  []shownGPU
		Notes []string
	}
}

// showTopo is the output of `gorun topo` about GPUs.
func showTopo(t *testing.T, j job) (gpus []shownGPU, notes string) {
	t.Helper()
	var m shownMachine
	require.NoError(t, json.Unmarshal([]byte(j.succeed(t)), &m))
	return m.Machine.GPUs, strings.Join(m.Machine.Notes, "\n")
}

// The machine includes the data from the library. gorun shows the machine even if the library fails.
func TestTopoAsksNVML(t *testing.T) {
	t.Parallel()
	topo := onFourGPUs(t, "", true, "topo", "--json").with(libraryMIG+"=2", libraryBusy+"=13")
	gpus, _ := showTopo(t, topo)
	require.Len(t, gpus, 4)
	for i, g := range gpus {
		assert.Equal(t, fmt.Sprint("NVIDIA Fake ", i), g.Name)
		assert.Equal(t, fmt.Sprint("GPU-", i), g.UUID)
		assert.EqualValues(t, 80<<30, g.Memory)
		assert.Equal(t, i%2 == 1, g.Used)
		require.Len(t, g.Links, 3)
		assert.Equal(t, 18, g.Links[0].Count)
	}
	assert.Equal(t, []string{"MIG-2.1", "MIG-2.2"}, gpus[2].MIG)

	for fails, test := range map[string]struct {
		names []string
		note  string
	}{
		"nodriver": {
			[]string{"NVIDIA Fake", "NVIDIA Fake"}, "NVIDIA's library reports nothing (nvmlInit: Driver Not Loaded): " +
				"NVLinks, memory and users of the GPUs are unknown",
		},
		"lost": {
			[]string{"NVIDIA Fake 1", "NVIDIA Fake 2"}, "NVIDIA's library fails for GPU 0000:03:00.0 " +
				"(nvmlDeviceGetMemoryInfo: GPU is lost): its other properties are unknown",
		},
		"crash": {
			[]string{"NVIDIA Fake", "NVIDIA Fake"},
			"gorun-gpu: exit status 2: SIGSEGV: segmentation violation): NVLinks, memory and users of the GPUs are unknown",
		},
	} {
		gpus, notes := showTopo(t, topo.with(libraryFails+"="+fails))
		require.Len(t, gpus, 4)
		assert.Equal(t, test.names, []string{gpus[1].Name, gpus[2].Name}, fails)
		assert.Contains(t, notes, test.note)
	}
}

// A saved machine includes the data from the library.
func TestTopoSavesWhatNVMLTells(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "saved")
	onFourGPUs(t, "", false, "topo", "--save", dir).succeed(t)
	gpus, _ := showTopo(t, gorun("topo", "--json", "--from", dir))
	require.Len(t, gpus, 4)
	assert.Equal(t, "NVIDIA Fake 3", gpus[3].Name)
	assert.Len(t, gpus[3].Links, 3)
	assert.Empty(t, gpus[3].UUID)
}

// Without a gorun-gpu of the same version, gorun uses the files. One note names the missing program and the missing
// data.
func TestWithoutGorunGPU(t *testing.T) {
	t.Parallel()
	gpus, notes := showTopo(t, onFourGPUs(t, built("gorun"), false, "topo", "--json"))
	assert.Len(t, gpus, 4)
	missing := "gorun did not query NVIDIA's library (gorun-gpu is not in " + bin + " or PATH): "
	assert.Equal(t, 1, strings.Count(notes, missing+"NVLinks, memory and users of the GPUs are unknown"))
	assert.NotContains(t, notes, "paths between GPUs")

	j := onFourGPUs(t, built("gorun"), false, "--gpus", "free", "sh", "-c", whatISee)
	got := j.run(t)
	require.Zero(t, got.code, got.stderr)
	assert.Equal(t, 1, strings.Count(got.stderr, missing+"the users of the GPUs are unknown, so all GPUs count as free\n"),
		got.stderr)
	assert.Equal(t, 4, strings.Count(got.stdout, " 0,1,2,3\n"), got.stdout)

	other, err := gpuPrograms()
	require.NoError(t, err)
	got = j.with("PATH=" + other + ":" + os.Getenv("PATH")).run(t)
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stderr, "gorun did not query NVIDIA's library ("+other+"/gorun-gpu: version v7, gorun is ")
}

// Ranks get the GPUs that no process uses. Each rank finds its own GPU, or its partitions by names that only the
// library knows. A job that needs none of this does not load the library: a crash would be reported.
func TestJobsAskNVML(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words   string
		divided bool
		with    []string
		want    []string
	}{
		{"--gpus free", false, []string{libraryBusy + "=02"}, []string{"0 0 GPU-1,GPU-3", "1 1 GPU-1,GPU-3"}},
		{"--gpus free --isolate-gpus", false, []string{libraryBusy + "=02"}, []string{"0 0 GPU-1", "1 1 GPU-3"}},
		{"--isolate-gpus -n 2", false, nil, []string{"0 0 GPU-0", "1 1 GPU-1"}},
		{"--isolate-gpus --gpus 2", true, []string{libraryMIG + "=2"}, []string{"0 0 MIG-2.1", "1 1 MIG-2.2"}},
		{"-n 2", true, []string{libraryFails + "=crash"}, []string{"0 0 ", "1 1 "}},
		{"--gpus 3,1", true, []string{libraryFails + "=crash"}, []string{"0 0 3,1", "1 1 3,1"}},
	} {
		j := onFourGPUs(t, "", test.divided, append(strings.Fields(test.words), "sh", "-c", whatISee)...).with(test.with...)
		got := j.run(t)
		require.Zero(t, got.code, "%s: %s", test.words, got.stderr)
		lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
		slices.Sort(lines)
		assert.Equal(t, test.want, lines, test.words)
		assert.NotContains(t, got.stderr, "NVIDIA's library")
	}
}

// --dry-run finds the free GPUs as the job would, and --report-bindings the NVLinks. A crash costs only a note.
func TestPlansAskNVML(t *testing.T) {
	t.Parallel()
	dry := onFourGPUs(t, "", false, "--gpus", "free", "--dry-run", "-v", "true").with(libraryBusy + "=02")
	assert.Contains(t, dry.succeed(t), "GPU-1,GPU-3")

	got := onFourGPUs(t, "", false, "-n", "2", "--report-bindings", "true").run(t)
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stderr, "GPU 0 (NV18)")

	got = dry.with(libraryFails + "=crash").run(t)
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stderr, "SIGSEGV: segmentation violation): the users of the GPUs are unknown, so all GPUs "+
		"count as free\n")
	assert.Contains(t, got.stdout, "0,1,2,3")

	got = dry.with(libraryBusy+"=0", libraryFails+"=lost").run(t)
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stderr, "NVIDIA's library fails for these GPUs, so they do not count as free: 0000:03:00.0\n")
	assert.Contains(t, got.stdout, "GPU-1,GPU-3")

	got = onFourGPUs(t, "", false, "--gpus", "free", "--dry-run", "true").with(libraryBusy + "=0123").run(t)
	assert.Equal(t, 2, got.code)
	assert.Regexp(t, `^gorun: --gpus free: none of the 4 GPUs of \S+ is free\n$`, got.stderr)
}

// A library that hangs does not outlive the gorun that waits for it.
func TestHungNVMLDies(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	r := onFourGPUs(t, "", false, "topo").with(libraryFails+"=hang", libraryPipe+"="+pipe).start(t)
	said, err := os.Open(pipe)
	require.NoError(t, err)
	defer said.Close()
	var pid int
	_, err = fmt.Fscan(said, &pid)
	require.NoError(t, err)
	r.signal(t, syscall.SIGKILL)
	assert.Equal(t, 137, r.wait(t).code) // markOf checks at the end of the test that the library's process is gone
}
