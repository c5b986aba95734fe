package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"gorun/internal/testneeds"
	"gorun/placement"
)

// machine loads a file tree from placement/testdata/machines. A tree is a single archive, because Go
// modules cannot contain file names with a colon, such as those of PCI devices.
func machine(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("..", "testdata", "machines", name, "tree.txtar"))
	require.NoError(t, err)
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

func cpus(t *testing.T, list string) placement.CPUSet {
	t.Helper()
	set, err := placement.ParseCPUSet(list)
	require.NoError(t, err)
	return set
}

// series returns one GPU of a vendor for each PCI bus.
func series(vendor placement.Vendor, uuid func(i int) string, buses ...string) []placement.GPU {
	var gpus []placement.GPU
	for i, bus := range buses {
		gpus = append(gpus, placement.GPU{Index: i, PCI: "0000:" + bus + ":00.0", Vendor: vendor, UUID: uuid(i)})
	}
	return gpus
}

func unknown(int) string { return "" }

func TestMachines(t *testing.T) {
	tests := []struct {
		name string
		want placement.Machine
	}{
		{"laptop", placement.Machine{CPUs: cpus(t, "0-15")}},
		{"container-v1", placement.Machine{CPUs: cpus(t, "0-7"), Quota: 1.5, MemoryLimit: 512 << 20}},
		{"pod-v2", placement.Machine{CPUs: cpus(t, "0-63"), Quota: 2.5, MemoryLimit: 4 << 30}},
		{"dgx-h100", placement.Machine{
			CPUs: cpus(t, "0-55,112-167"), Quota: 56, MemoryLimit: 1 << 40,
			GPUs: series(placement.NVIDIA, func(i int) string { return fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", i) },
				"1b", "43", "52", "61", "9d", "c3", "d1", "df"),
		}},
		{"container-2-of-4-gpus", placement.Machine{
			CPUs:  cpus(t, "0-31"),
			GPUs:  series(placement.NVIDIA, unknown, "52", "61"),
			Notes: []string{"2 of 4 NVIDIA GPUs have no device file: this container cannot use them (docker run --gpus all)"},
		}},
		{"mi300x", placement.Machine{
			CPUs: cpus(t, "0-383"),
			GPUs: series(placement.AMD, func(i int) string { return fmt.Sprintf("GPU-abcdef00%08x", i) },
				"1b", "3d", "4e", "5f", "9d", "bd", "cd", "dd"),
			Notes: []string{
				"limits of the cpu cgroup /../user.slice are unknown: it is outside this cgroup namespace",
				"limits of the memory cgroup /../user.slice are unknown: it is outside this cgroup namespace",
			},
		}},
		{"hybrid", placement.Machine{CPUs: cpus(t, "0-3,8"), Quota: 2}},
		{"no-driver", placement.Machine{CPUs: cpus(t, "0-7"), Notes: []string{
			`ignored the CPU quota "lots" with the period "100000" in /sys/fs/odd place/a b.scope/cpu.max, which is ` +
				`not a number`,
			`ignored the memory limit "-5" in /sys/fs/odd place/a b.scope/memory.max, which is not a number`,
			"NVIDIA GPUs on the PCI bus: 1, all without the vendor's compute driver: check that it is loaded",
		}}},
		{"arc", placement.Machine{
			CPUs:  cpus(t, "0-23"),
			GPUs:  series(placement.Intel, unknown, "03", "83"),
			Notes: []string{"CPU quota and memory limit are unknown: cannot read /proc/self/cgroup"},
		}},
	}
	var tested []string
	for _, test := range tests {
		tested = append(tested, test.name)
		t.Run(test.name, func(t *testing.T) {
			got := ReadFS(machine(t, test.name), test.want.CPUs, Needs{CPUs: true, Memory: true, GPUs: true, Driverless: true})
			assert.Equal(t, test.want, got)
		})
	}
	folders, err := os.ReadDir(filepath.Join("..", "testdata", "machines"))
	require.NoError(t, err)
	for _, folder := range folders {
		if !folder.IsDir() {
			continue // an example
		}
		assert.Contains(t, tested, folder.Name(), "a machine is there to be tested")
	}
}

// Only the selected facts are read, because each file delays the start of a job.
func TestNeedsAreObeyed(t *testing.T) {
	allowed := cpus(t, "0-55,112-167")
	all := ReadFS(machine(t, "dgx-h100"), allowed, Needs{CPUs: true, Memory: true, GPUs: true})
	tests := []struct {
		name  string
		needs Needs
		want  placement.Machine
	}{
		{"nothing", Needs{}, placement.Machine{CPUs: allowed}},
		{"CPUs", Needs{CPUs: true}, placement.Machine{CPUs: allowed, Quota: all.Quota}},
		{"memory", Needs{Memory: true}, placement.Machine{CPUs: allowed, MemoryLimit: all.MemoryLimit}},
		{"GPUs", Needs{GPUs: true}, placement.Machine{CPUs: allowed, GPUs: all.GPUs}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, ReadFS(machine(t, "dgx-h100"), allowed, test.needs))
		})
	}
}

// A host creates the device files on first use of a GPU. A container without device files has no GPU.
func TestNVIDIAWithoutDeviceFiles(t *testing.T) {
	tree := machine(t, "container-2-of-4-gpus")
	delete(tree, "dev/nvidia2")
	delete(tree, "dev/nvidia3")
	m := ReadFS(tree, placement.CPUSet{}, Needs{GPUs: true})
	assert.Empty(t, m.GPUs)
	assert.Equal(t, []string{"4 of 4 NVIDIA GPUs have no device file: this container cannot use them (docker run " +
		"--gpus all)"}, m.Notes)

	delete(tree, "proc/self/mountinfo")
	m = ReadFS(tree, placement.CPUSet{}, Needs{GPUs: true})
	assert.Len(t, m.GPUs, 4)
	assert.Empty(t, m.Notes)

	tree["run/.containerenv"] = &fstest.MapFile{}
	assert.Empty(t, ReadFS(tree, placement.CPUSet{}, Needs{GPUs: true}).GPUs)
}

// A batch system's cgroup hides the GPUs of other jobs from CUDA, which numbers the others from 0.
func TestForbiddenNVIDIADevices(t *testing.T) {
	tree := forbidding{machine(t, "container-2-of-4-gpus"), []string{"dev/nvidia0", "dev/nvidia1"}}
	m := ReadFS(tree, placement.CPUSet{}, Needs{GPUs: true})
	assert.Equal(t, series(placement.NVIDIA, unknown, "52", "61"), m.GPUs)
	assert.Empty(t, m.Notes)
	tree.names = append(tree.names, "dev/nvidia2", "dev/nvidia3")
	tree.MapFS[pciDir+"/0000:1b:00.0/uevent"] = &fstest.MapFile{Data: []byte("PCI_CLASS=30200\nPCI_ID=10DE:26B9\n")}
	m = ReadFS(tree, placement.CPUSet{}, Needs{GPUs: true, Driverless: true})
	assert.Empty(t, m.GPUs)
	assert.Equal(t, []string{"the cgroup of this process allows none of 4 NVIDIA GPUs"}, m.Notes)
}

// forbidding is a tree with devices that a cgroup forbids.
type forbidding struct {
	fstest.MapFS
	names []string
}

func (f forbidding) Stat(name string) (fs.FileInfo, error) {
	if slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "access", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Stat(name)
}

func TestDiskDeniesForbiddenDevices(t *testing.T) {
	testneeds.Root(t)
	const devices = "/sys/fs/cgroup/devices"
	group, err := os.MkdirTemp(devices, "gorun-test-")
	if err != nil {
		testneeds.Skip(t, testneeds.LayerCgroup, err.Error())
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mknod(dir+"/nvidia0", unix.S_IFCHR|0o666, int(unix.Mkdev(195, 0))))
	_, err = disk(dir + "/").Stat("nvidia0")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(group+"/devices.deny", []byte("c 195:0 rwm"), 0))
	runtime.LockOSThread() // the group is this thread's
	defer runtime.UnlockOSThread()
	thread := []byte(strconv.Itoa(unix.Gettid()))
	require.NoError(t, os.WriteFile(group+"/tasks", thread, 0))
	_, err = disk(dir + "/").Stat("nvidia0")
	require.NoError(t, os.WriteFile(devices+"/tasks", thread, 0))
	require.NoError(t, os.Remove(group))
	require.ErrorIs(t, err, fs.ErrPermission)
}

// A cgroup v2 group may be deeper than its mount shows, as under `docker run --cgroupns=host`.
func TestGroupBelowAMountedGroup(t *testing.T) {
	tree := fstest.MapFS{
		"proc/self/cgroup":               {Data: []byte("0::/docker/4c1b/worker\n")},
		"proc/self/mountinfo":            {Data: []byte("1 2 0:3 /docker/4c1b /cg rw - cgroup2 cgroup rw\n")},
		"cg/cpu.max":                     {Data: []byte("400000 100000\n")},
		"cg/worker/cgroup.procs":         {},
		"cg/worker/cpu.max":              {Data: []byte("700000 100000\n")},
		"sys/fs/cgroup/cgroup.procs":     {},
		"sys/fs/cgroup/docker/4c1b/junk": {},
	}
	assert.InDelta(t, 4, ReadFS(tree, placement.CPUSet{}, Needs{CPUs: true}).Quota, 0)
}

func TestGroupThatIsMountedNowhere(t *testing.T) {
	tree := fstest.MapFS{
		"proc/self/cgroup":    {Data: []byte("3:cpu:/x\n0::/x\n")},
		"proc/self/mountinfo": {Data: []byte("1 2 0:3 / /cg rw - cgroup2 cgroup rw\n1 2 0:4 /\n")},
		"cg/cpu.max":          {Data: []byte("400000 100000\n")},
	}
	m := ReadFS(tree, placement.CPUSet{}, Needs{CPUs: true})
	assert.Zero(t, m.Quota, "version 1 has the controller, so version 2's file means nothing")
	assert.Equal(t, []string{"limits of the cpu cgroup /x are unknown: it is not mounted"}, m.Notes)
}

func TestThisMachine(t *testing.T) {
	m := Read(Needs{CPUs: true, Memory: true, GPUs: true})
	assert.Positive(t, m.CPUs.Len())
	assert.Positive(t, m.UsableCPUs())
	assert.LessOrEqual(t, m.UsableCPUs(), m.CPUs.Len())

	// The fast reader and the standard library return the same contents.
	assert.Equal(t, m, ReadFS(os.DirFS("/"), m.CPUs, Needs{CPUs: true, Memory: true, GPUs: true}))
}

// Files longer than the first buffer are complete.
func TestDiskReadsLongFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "long")
	want := make([]byte, 5000)
	for i := range want {
		want[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(name, want, 0o600))
	got, err := disk("/").ReadFile(name[1:])
	require.NoError(t, err)
	assert.Equal(t, want, got)

	_, err = disk("/").ReadFile(name[1:] + "er")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
