package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/placement"
)

var allNeeds = Needs{CPUs: true, Memory: true, GPUs: true, Driverless: true, Topology: true, NICs: true}

// A saved machine is equal to the original machine.
func TestSavedMachineIsRead(t *testing.T) {
	for _, name := range []string{"container", "hybrid", "offline", "azure-ndh100"} {
		t.Run(name, func(t *testing.T) {
			want, err := placement.Example(name)
			require.NoError(t, err)
			for i := range want.GPUs {
				want.GPUs[i].Peers = []placement.Peer{{PCI: "0000:1b:00.0", Access: placement.P2POK}}
			}
			dir := filepath.Join(t.TempDir(), "saved")
			require.NoError(t, SaveFS(treeOf(want), want.CPUs, want.GPUs, dir))
			got, err := ReadSaved(dir, everything)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestThisMachineIsSaved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Save(dir, nil))
	want := Read(allNeeds)
	got, err := ReadSaved(dir, allNeeds)
	require.NoError(t, err)
	for i := range want.GPUs {
		want.GPUs[i].UUID = ""
	}
	want.Notes, got.Notes = nil, nil // notes about cgroups name confidential data
	assert.Equal(t, hardware(want), hardware(got))
}

// confidential is a machine with all kinds of confidential data.
func confidential(t *testing.T) (fstest.MapFS, placement.Machine) {
	t.Helper()
	m := example(t, "offline")
	tree := fakeTree{MapFS: treeOf(m)}
	const guid = "f8b3781a-1e82-4818-a1c3-63d806ec15bb"
	vmbus := "sys/devices/LNXSYSTM:00/VMBUS:00/" + guid
	tree.Interface(placement.NIC{Name: "eth0", Interface: "eth0", Up: true, Gbps: 10}, vmbus+"/net/eth0")
	tree.Put(vmbus+"/pci0001:00/0001:00:00.0/numa_node", 1)
	tree.Link(pciDir+"/0001:00:00.0", vmbus+"/pci0001:00/0001:00:00.0")
	tree.Put("dev/nvidia0", "")
	tree.Put(nvidiaDir+"/0001:00:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\n"+
		"GPU UUID: \t GPU-8f6b0f6c-0000-1111-2222-333344445555\nDevice Minor: \t 0\nSerial: 1650522004321")
	usb := placement.NIC{Name: "enx0a1b2c3d4e5f", Interface: "enx0a1b2c3d4e5f", Up: true, Gbps: 1}
	tree.Interface(usb, "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/net/"+usb.Name)
	roce := placement.NIC{
		Name: "mlx5_0", Kind: placement.RoCE, Interface: "eno1", Port: 1, Up: true, Gbps: 100, GID: 3,
		Bus: &placement.Bus{
			Root: "pci0000:40", Bridges: []string{"0000:40:01.0"}, Address: "0000:41:00.0",
			Near: cpus(t, "0-2"),
		},
	}
	tree.NIC(roce)
	tree.Put("sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/infiniband/mlx5_0/ports/1/gids/4",
		"2a00:1450:4001:0000:0000:0000:0000:0001")
	tree.Put("proc/self/cgroup", "0::/user.slice/alice.scope")
	tree.Put("proc/self/mountinfo", "1 2 0:3 / / rw - overlay fileserver.example.com rw")
	tree.Put("sys/fs/cgroup/user.slice/alice.scope/cgroup.procs", 1)
	tree.Put("sys/fs/cgroup/user.slice/alice.scope/cpu.max", "150000 100000")
	tree.Put("sys/class/kfd/kfd/topology/nodes/1/properties",
		"simd_count 304\nunique_id 1234567890123\nlocation_id 16640\ndomain 0")
	return tree.MapFS, m
}

func TestSavedMachineTellsNoSecrets(t *testing.T) {
	tree, m := confidential(t)
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t,
		SaveFS(tree, m.CPUs,
			[]placement.GPU{{
				PCI: "0001:00:00.0", UUID: "GPU-8f6b0f6c", MIG: []string{"MIG-8f6b0f6c"},
				Name: "NVIDIA H100 80GB HBM3",
			}}, dir))

	var all strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		all.WriteString(name + "\n")
		switch {
		case err != nil || entry.IsDir():
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(filepath.Join(dir, name))
			require.NoError(t, err)
			all.WriteString(target + "\n")
		default:
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			all.Write(text)
		}
		return nil
	}))
	for _, secret := range []string{
		"f8b3781a", "8f6b0f6c", "1650522004321", "0a1b2c3d4e5f", "alice", "fileserver", "02:11:22", "22ff:fe33",
		"0a00:0001", "2a00:1450", "1234567890123",
	} {
		assert.NotContains(t, all.String(), secret)
	}

	want := ReadFS(tree, m.CPUs, allNeeds)
	require.Len(t, want.GPUs, 2)
	require.Len(t, want.Topology.NICs, 3)
	for i := range want.GPUs {
		want.GPUs[i].UUID = ""
	}
	for i := range want.Topology.NICs {
		if nic := &want.Topology.NICs[i]; strings.HasPrefix(nic.Name, "enx") {
			nic.Name = "enxid0"
			nic.Interface = nic.Name
		}
	}
	got, err := ReadSaved(dir, allNeeds)
	require.NoError(t, err)
	for i := range got.Topology.NICs {
		if nic := &got.Topology.NICs[i]; strings.HasPrefix(nic.Name, "enxid") {
			nic.Name = "enxid0"
			nic.Interface = nic.Name
		}
	}
	assert.Equal(t, want, got)
}

func TestSaveNeedsAnEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
	assert.EqualError(t, Save(dir, nil), "save the machine: "+dir+" is not empty: name a new folder")

	_, err := ReadSaved(dir, everything)
	assert.ErrorContains(t, err, dir+" is not a saved machine: ")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "proc/self"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/self/status"), []byte("Cpus_allowed_list:\tx\n"), 0o600))
	_, err = ReadSaved(dir, everything)
	assert.EqualError(t, err, dir+`/proc/self/status: CPU list "x": "x" is not a CPU number below 65536`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/self/status"), []byte("Cpus_allowed_list:\t0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpus.json"), []byte("{"), 0o600))
	_, err = ReadSaved(dir, everything)
	assert.EqualError(t, err, dir+`/gpus.json: unexpected end of JSON input`)
}

// A saved machine from an untrusted source reveals no files of this machine. Its reader neither blocks
// nor exhausts memory.
func TestSavedMachineIsReadFromItsFolderAlone(t *testing.T) {
	const online = "sys/devices/system/cpu/online"
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("0-7\n"), 0o600))
	for name, replace := range map[string]func(file string) error{
		"a link out": func(file string) error { return os.Symlink(outside, file) },
		"a pipe":     func(file string) error { return unix.Mkfifo(file, 0o600) },
		"a device":   func(file string) error { return os.Symlink("/dev/zero", file) },
		"huge": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40))
		},
		"a folder": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			m, err := placement.Example("offline")
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "saved")
			require.NoError(t, SaveFS(treeOf(m), m.CPUs, nil, dir))
			file := filepath.Join(dir, online)
			require.NoError(t, os.Remove(file))
			require.NoError(t, replace(file))
			got, err := ReadSaved(dir, everything)
			require.NoError(t, err)
			assert.Contains(t, strings.Join(got.Notes, "\n"), "cannot read /"+online)
		})
	}
}
