//go:build cgo

package nccl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
	ncclfake "gorun/comm/internal/nccl/fake"
	"gorun/internal/testneeds"
)

// alone removes the variables that affect the search for libraries.
func alone(t *testing.T) {
	for _, name := range []string{VarNCCL, VarRuntime, "VIRTUAL_ENV", "CONDA_PREFIX", "PATH", "HOME"} {
		t.Setenv(name, "")
	}
}

func TestVersions(t *testing.T) {
	for code, text := range map[int]string{2708: "2.7.8", 21403: "2.14.3", 23007: "2.30.7", 22105: "2.21.5"} {
		require.Equal(t, text, versionOf(code).String())
	}
}

func TestLibrariesThatAreOfNoUse(t *testing.T) {
	for name, test := range map[string]struct {
		flags   []string
		version string
		said    string
	}{
		"old": {
			[]string{"-DOLD"}, "2907", " is NCCL 2.9.7: comm needs 2.14.0 or later; COMM_NCCL_LIBRARY can name another file",
		},
		"incomplete": {
			[]string{"-DNO_RECV"},
			"21400",
			" (NCCL 2.14.0) lacks the function ncclRecv; COMM_NCCL_LIBRARY can name another file",
		},
		"no version": {nil, "0", " does not tell its version: it is no libnccl"},
		"another one?": {
			[]string{"-DOLD", "-DNO_RECV"},
			"21400",
			" (NCCL 2.14.0) lacks the function ncclCommInitRankConfig; COMM_NCCL_LIBRARY can name another file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := ncclfake.Build(t, test.flags...)
			alone(t)
			t.Setenv("FAKE_NCCL_VERSION", test.version)
			_, err := openFrom(t, folder, folder)
			require.EqualError(t, err, filepath.Join(folder, "libnccl.so.2")+test.said)
		})
	}
}

func TestNoLibrary(t *testing.T) {
	folder := ncclfake.Build(t)
	alone(t)
	var missing *MissingError
	gone := filepath.Join(t.TempDir(), "libnccl.so.2")
	_, err := openFrom(t, gone, folder)
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, "libnccl.so.2 or librccl.so.1 not found (searched "+gone+
		"); COMM_NCCL_LIBRARY can name the file")
	_, err = openFrom(t, folder, gone)
	require.ErrorAs(t, err, &missing)
	require.Contains(t, err.Error(), "libcudart not found (searched "+gone+")")
	text := filepath.Join(t.TempDir(), "libcudart.so.13")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o644))
	_, err = openFrom(t, folder, text)
	require.ErrorContains(t, err, "libcudart not found (searched "+text+": file too short")
	_, err = openFrom(t, folder, "libm.so.6")
	require.ErrorContains(t, err,
		"libm.so.6 lacks the function cudaGetDeviceCount; COMM_CUDART_LIBRARY can name another file")
}

// Devices explains why there is no GPU.
func TestDevices(t *testing.T) {
	folder := ncclfake.Build(t)
	runtime := filepath.Join(folder, "libcudart.so.13")
	l, err := openFrom(t, folder, folder)
	require.NoError(t, err)
	n, err := l.Devices()
	require.NoError(t, err)
	require.Equal(t, 8, n)
	for variable, said := range map[string]string{
		"FAKE_CUDA_DRIVER=0": "no NVIDIA driver: " + runtime +
			": cudaGetDeviceCount: CUDA driver version is insufficient for CUDA runtime version (35)",
		"FAKE_CUDA_DEVICES=0": "no GPU: " + runtime +
			": cudaGetDeviceCount: no CUDA-capable device is detected (100)",
		"FAKE_CUDA_FAIL=GetDeviceCount:46": "no GPU: " + runtime +
			": cudaGetDeviceCount: an illegal memory access was encountered (46)",
		"FAKE_CUDA_FAIL=DriverGetVersion:100": "no GPU: " + runtime +
			": cudaDriverGetVersion: no CUDA-capable device is detected (100)",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			l, err := Open()
			require.NoError(t, err)
			_, err = l.Devices()
			require.EqualError(t, err, said)
		})
	}
}

// AMD's libraries have the same functions with a different prefix.
func TestRCCL(t *testing.T) {
	l := fake(t, "-DPREFIX=hip")
	require.Equal(t, "rccl", l.gpus.family.name)
	require.Equal(t, "librccl.so.1", filepath.Base(l.nccl.file))
	require.Equal(t, "libamdhip64.so.6", filepath.Base(l.gpus.file))
	ranks := group(t, l, 2, nil)
	data := [2]uint8{3, 4}
	run(t, ranks, func(rank int) *backend.Call {
		at := unsafe.Pointer(&data[rank])
		return &backend.Call{Kind: backend.AllReduce, DType: backend.Uint8, Op: backend.Prod, Count: 1, Send: at, Recv: at}
	})
	require.Equal(t, [2]uint8{12, 12}, data)
	t.Setenv("FAKE_CUDA_DRIVER", "0")
	_, err := l.Devices()
	require.ErrorContains(t, err, "no AMD driver: ")
	require.ErrorContains(t, err, "hipGetDeviceCount")
}

// The search order: the library that the user named, then the loader's, then those in Python's directories.
func TestSearch(t *testing.T) {
	folder := ncclfake.Build(t)
	alone(t)
	environment := filepath.Join(t.TempDir(), "no [pattern")
	site := filepath.Join(environment, "lib", "python3.11", "site-packages")
	place := func(below, name string) string {
		at := filepath.Join(site, below, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.Symlink(filepath.Join(folder, name), at))
		return at
	}
	library := place("nvidia/nccl/lib", "libnccl.so.2")
	runtime := place("nvidia/cu13/lib", "libcudart.so.13")

	nvidia := families[0]
	sites := surroundings{virtualEnv: environment}.sitePackages()
	require.Equal(t, site, sites[0])
	require.Equal(t, []string{"libnccl.so.2", library}, candidates("", []string{nvidia.library}, nvidia.libraryBelow,
		nil, []string{site}))
	require.Equal(t, []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", runtime},
		candidates("", nvidia.runtimes, nvidia.runtimeBelow, nil, []string{site}))
	require.Equal(t, []string{"/x/libnccl.so"},
		candidates("/x/libnccl.so", []string{nvidia.library}, nvidia.libraryBelow, nil, []string{site}))
	require.Equal(t, []string{folder + "/libnccl.so.2"},
		candidates(folder, []string{nvidia.library}, nvidia.libraryBelow, nil, []string{site}))

	l, err := openFrom(t, library, filepath.Dir(runtime))
	require.NoError(t, err)
	require.Equal(t, version{2, 30, 7}, l.nccl.version)
	n, err := l.Devices()
	require.NoError(t, err)
	require.Equal(t, 8, n)
}

// Python's directories are found by their layout, without running Python.
func TestPythonOfThePath(t *testing.T) {
	base, environment, home := t.TempDir(), t.TempDir(), t.TempDir()
	for _, folder := range []string{
		base + "/bin", environment + "/bin", base + "/lib/python3.12/dist-packages",
		environment + "/lib/python3.12/site-packages",
		home + "/.local/lib/python3.12/site-packages",
	} {
		require.NoError(t, os.MkdirAll(folder, 0o755))
	}
	require.NoError(t, os.WriteFile(base+"/bin/python3", nil, 0o755))
	require.NoError(t, os.Symlink(base+"/bin/python3", environment+"/bin/python3"))
	found := surroundings{path: "relative:/nowhere:" + environment + "/bin", home: home}.sitePackages()
	require.Equal(t, []string{
		environment + "/lib/python3.12/site-packages", base + "/lib/python3.12/dist-packages",
		home + "/.local/lib/python3.12/site-packages",
	}, found[:3])
}

func TestMemory(t *testing.T) {
	var m memory
	m.add(allocation{200, 10, 1})
	m.add(allocation{100, 10, 0})
	m.add(allocation{110, 5, 2})
	for _, row := range []struct {
		at, room uintptr
		device   int
		ok       bool
	}{
		{99, 0, 0, false},
		{100, 10, 0, true},
		{109, 1, 0, true},
		{110, 5, 2, true},
		{115, 0, 0, false},
		{205, 5, 1, true},
		{210, 0, 0, false},
	} {
		room, device, ok := m.room(row.at)
		require.Equal(t, row, struct {
			at, room uintptr
			device   int
			ok       bool
		}{row.at, room, device, ok})
	}
	m.remove(110)
	m.remove(110)
	require.Len(t, m, 2)
}

func TestDeviceBuffer(t *testing.T) {
	l := fake(t)
	buffer, err := l.Alloc(2, 16)
	require.NoError(t, err)
	in, out := [3]byte{1, 2, 3}, [2]byte{}
	require.NoError(t, buffer.CopyIn(unsafe.Pointer(&in), 3))
	require.NoError(t, buffer.CopyOut(unsafe.Pointer(&out), 2))
	require.Equal(t, [2]byte{1, 2}, out)
	require.NoError(t, buffer.CopyIn(nil, 0))
	t.Setenv("FAKE_CUDA_FAIL", "MemcpyAsync:46")
	require.EqualError(t, buffer.CopyIn(unsafe.Pointer(&in), 3),
		"copy 3 bytes to GPU 2: cudaMemcpyAsync: an illegal memory access was encountered (46)")
	require.NoError(t, buffer.Free())
	require.NoError(t, buffer.Free())
	require.Nil(t, buffer.Pointer())
	require.EqualError(t, buffer.CopyIn(unsafe.Pointer(&in), 3),
		"copy 3 bytes to offset 0 of a device buffer of 0: out of range")
	empty, err := l.Alloc(0, 0)
	require.NoError(t, err)
	require.NoError(t, empty.Free())
	_, err = l.Alloc(0, -1)
	require.EqualError(t, err, "allocate -1 bytes on GPU 0: the number is negative")
	_, err = l.Alloc(9, 1)
	require.EqualError(t, err, "allocate 1 bytes on GPU 9: cudaSetDevice: invalid device ordinal (101)")
	require.Empty(t, l.buffers)
}

// wheel returns the site-packages directory with PyTorch's NCCL.
func wheel(t *testing.T) string {
	t.Helper()
	python := testneeds.Torch(t)
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(python)),
		"lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
	if len(found) == 0 {
		testneeds.Skip(t, testneeds.LayerTorch, "its wheel brings no libnccl.so.2")
	}
	return filepath.Join(filepath.Dir(found[0]), "../../..")
}

// The real library answers these calls without a GPU.
func TestRealLibrary(t *testing.T) {
	site := wheel(t)
	header, err := os.ReadFile(filepath.Join(site, "nvidia/nccl/include/nccl.h"))
	require.NoError(t, err)
	code := regexp.MustCompile(`NCCL_VERSION_CODE (\d+)`).FindStringSubmatch(string(header))
	require.NotNil(t, code)
	t.Setenv("VIRTUAL_ENV", filepath.Dir(filepath.Dir(testneeds.Torch(t))))
	t.Setenv(VarNCCL, filepath.Join(site, "nvidia/nccl/lib"))
	l, err := Open()
	require.NoError(t, err)
	number, err := strconv.Atoi(code[1])
	require.NoError(t, err)
	require.Equal(t, versionOf(number), l.nccl.version)
	require.NotNil(t, l.nccl.table.init_rank_scalable)
	require.NotNil(t, l.nccl.table.all_to_all)
	if _, err := l.Devices(); err != nil {
		require.Regexp(t, `^no (NVIDIA driver|GPU): .*libcudart\.so\.\d+: cudaGetDeviceCount: `, err.Error())
	}
}

// Without a GPU, Join returns the real library's own error.
func TestRealLibraryWithoutGPU(t *testing.T) {
	site, folder := wheel(t), ncclfake.Build(t)
	l, err := openFrom(t, filepath.Join(site, "nvidia/nccl/lib"), filepath.Join(site, "nvidia/cu13/lib"))
	require.NoError(t, err)
	if n, err := l.Devices(); err == nil {
		t.Logf("there are %d GPUs: TestRealGPU tells more", n)
		return
	}
	l, err = openFrom(t, filepath.Join(site, "nvidia/nccl/lib"), folder)
	require.NoError(t, err)
	meeting := newRound(1)
	_, err = l.Join(context.Background(), Config{Ranks: 1, Exchange: meeting.exchange(0)})
	t.Log(err)
	require.ErrorContains(t, err, "join: rank 0 of 1 on GPU 0: ")
	require.ErrorContains(t, err, "unhandled cuda error")
	require.Empty(t, l.buffers)
}

// A group of one runs on one real GPU.
func TestRealGPU(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", filepath.Join(testneeds.Repository(t), ".venv"))
	l, _ := realGPUs(t)
	groupOfOne(t, l)
}

// realGPUs opens the libraries for this host's GPUs.
func realGPUs(t *testing.T) (l *Library, gpus int) {
	t.Helper()
	l, err := Open()
	if err == nil {
		gpus, err = l.Devices()
	}
	if err != nil {
		testneeds.Skip(t, testneeds.LayerGPU, err.Error())
	}
	return l, gpus
}

// Several real GPUs. Tests that need more GPUs than there are do not run.
func TestRealGPUs(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", filepath.Join(testneeds.Repository(t), ".venv"))
	l, n := realGPUs(t)
	severalGPUs(t, l, n)
}

func TestSeveralGPUs(t *testing.T) { severalGPUs(t, fake(t), 3) }

// severalGPUs tests any libraries: all kinds of calls between three GPUs, two groups on the same GPUs, and aborts.
func severalGPUs(t *testing.T, l *Library, gpus int) {
	t.Run("every call", func(t *testing.T) {
		if gpus < 3 {
			testneeds.Skip(t, testneeds.LayerGPU, fmt.Sprintf("the examples are for 3 GPUs, there are %d", gpus))
		}
		ranks := group(t, l, 3, nil)
		for _, e := range examples {
			t.Run(e.name, func(t *testing.T) { e.run(t, ranks, true, false) })
		}
	})
	t.Run("two groups", func(t *testing.T) {
		first, second := group(t, l, min(gpus, 2), nil), group(t, l, min(gpus, 2), nil)
		for _, ranks := range [][]*Backend{first, second, first, second} {
			sums := make([]int64, len(ranks))
			run(t, ranks, func(rank int) *backend.Call {
				sums[rank] = int64(rank + 1)
				at := unsafe.Pointer(&sums[rank])
				return &backend.Call{Kind: backend.AllReduce, DType: backend.Int64, Op: backend.Sum, Count: 1, Send: at, Recv: at}
			})
			for _, sum := range sums {
				require.EqualValues(t, len(ranks)*(len(ranks)+1)/2, sum)
			}
		}
	})
	t.Run("a group that ended leaves the other", func(t *testing.T) {
		ended, other := group(t, l, min(gpus, 2), nil), group(t, l, min(gpus, 2), nil)
		lost := &backend.PeerError{Rank: 1, How: "its process ended"}
		for _, b := range ended {
			b.Abort(lost)
			require.ErrorIs(t, b.Run(t.Context(), barrier()), lost)
		}
		run(t, other, func(int) *backend.Call { return barrier() })
	})
	t.Run("a rank that does not come", func(t *testing.T) {
		if gpus < 2 {
			testneeds.Skip(t, testneeds.LayerGPU, "there is 1 GPU, and it takes 2 to wait for one")
		}
		ranks := group(t, l, 2, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, ranks[0].Run(ctx, barrier()), context.DeadlineExceeded)
		ranks[1].Abort(context.DeadlineExceeded) // comm does the same on all ranks
	})
}

func TestGroupOfOne(t *testing.T) { groupOfOne(t, fake(t)) }

func groupOfOne(t *testing.T, l *Library) {
	ranks := group(t, l, 1, nil)
	for _, e := range examples {
		if e.own != nil || e.call.Kind == backend.SendRecv || e.call.Root > 0 {
			continue // requires three ranks
		}
		for _, device := range []bool{false, true} {
			for _, inPlace := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, device %v, in place %v", e.name, device, inPlace), func(t *testing.T) {
					e.run(t, ranks, device, inPlace)
				})
			}
		}
	}
	data := [4]int32{1, 2, 3, 4}
	at := unsafe.Pointer(&data)
	require.NoError(t,
		ranks[0].Run(t.Context(), &backend.Call{
			Kind: backend.SendRecv, DType: backend.Int32, Count: 2, RecvCount: 2,
			Send: at, Recv: unsafe.Add(at, 8),
		}))
	require.Equal(t, [4]int32{1, 2, 1, 2}, data)
	require.NoError(t,
		ranks[0].Run(t.Context(), &backend.Call{
			Kind: backend.AllToAllV, DType: backend.Int32, SendCounts: []int{4},
			RecvCounts: []int{4}, Send: at, Recv: at,
		}))
	require.Equal(t, [4]int32{1, 2, 1, 2}, data)
}

// gorun's C code compiles without a warning. Its functions run once under sanitizers, with the fakes.
func TestLibraryUnderSanitizers(t *testing.T) {
	folder := ncclfake.Build(t)
	program := filepath.Join(t.TempDir(), "life")
	said, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-I.", "-o", program, "testdata/life.c", "library.c", "-ldl", "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", said)
	life := exec.Command(program, folder+"/libcudart.so.13", folder+"/libnccl.so.2")
	said, err = life.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Equal(t, "3 3\n", string(said))
}
