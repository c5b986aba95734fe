package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
	"gorun/placement"
	"gorun/placement/gpufacts"
	"gorun/placement/sysfs/sysfstest"
)

// scene is a made-up host.
type scene struct {
	sysfstest.Tree
	cpus      placement.CPUSet
	uid       int
	machine   string
	limits    map[string]doctor.Limit
	shm       doctor.FileSystem
	hostname  string
	addresses []string
	resolver  error
	networks  map[string][]string
	refused   map[string]string // of Access
	denied    map[string]string
	log       string
	python    func(ctx context.Context) ([]byte, error)
	nvml      gpufacts.Facts
	nvmlError error
	environ   map[string]string
	clock     *doctor.Clock
	during    func() // what happens while NVIDIA's library is asked
	changing  sync.RWMutex
}

// files are the scene's, which may change while somebody else reads.
type files struct{ of *scene }

func (f files) Open(name string) (fs.File, error) {
	f.of.changing.RLock()
	defer f.of.changing.RUnlock()
	return f.of.MapFS.Open(name)
}

func (f files) Lstat(name string) (fs.FileInfo, error) {
	f.of.changing.RLock()
	defer f.of.changing.RUnlock()
	return f.of.MapFS.Lstat(name)
}

func (f files) ReadLink(name string) (string, error) {
	f.of.changing.RLock()
	defer f.of.changing.RUnlock()
	return f.of.MapFS.ReadLink(name)
}

// changes are counters of a port that become others while somebody else reads files.
func (s *scene) changes(port string, values map[string]int) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for name, value := range values {
		s.Put(s.port(port)+"/"+name, value)
	}
}

func (s *scene) CPUs() placement.CPUSet              { return s.cpus }
func (s *scene) UID() (int, string)                  { return s.uid, "ada" }
func (s *scene) Uname() (string, string)             { return "6.8.0-45-generic", s.machine }
func (s *scene) Limits() map[string]doctor.Limit     { return s.limits }
func (s *scene) FileSystem(string) doctor.FileSystem { return s.shm }
func (s *scene) Hostname() string                    { return s.hostname }
func (s *scene) Addresses() map[string][]string      { return s.networks }
func (s *scene) Denied() map[string]string           { return s.denied }
func (s *scene) KernelLog() []byte                   { return []byte(s.log) }
func (s *scene) Reverse(context.Context, string) ([]string, error) {
	return []string{s.hostname + ".example.org."}, nil
}

func (s *scene) Lookup(context.Context, string) ([]string, error) { return s.addresses, s.resolver }

func (s *scene) Access(path string) string {
	if why := s.refused[path]; why != "" {
		return why
	}
	if _, err := fs.Stat(s.MapFS, strings.TrimPrefix(path, "/")); err != nil {
		return "no such file or directory"
	}
	return ""
}

func (s *scene) Python(ctx context.Context, _, _ string) ([]byte, error) {
	if s.python == nil {
		return nil, errors.New("none")
	}
	return s.python(ctx)
}

// newScene has a host that is well, number n of several.
func newScene(tree fstest.MapFS, cpus placement.CPUSet, n int) *scene {
	s := &scene{
		Tree: sysfstest.Tree{MapFS: tree}, cpus: cpus, uid: 1000, machine: "x86_64", hostname: fmt.Sprint("n", n),
		addresses: []string{fmt.Sprint("10.0.0.", n)},
		limits: map[string]doctor.Limit{
			"memlock": {Soft: -1, Hard: -1}, "nofile": {Soft: 1024, Hard: 1 << 20},
			"nproc": {Soft: 1 << 16, Hard: 1 << 16}, "stack": {Soft: 8 << 20, Hard: -1},
		},
		shm: doctor.FileSystem{Type: "tmpfs", Total: 64 << 30, Free: 60 << 30}, refused: map[string]string{},
		denied: map[string]string{}, networks: map[string][]string{},
		environ: map[string]string{"PATH": "/usr/bin", "HOME": "/home/ada"},
		clock:   &doctor.Clock{Ahead: 0.001, Uncertainty: 0.002},
	}
	for name, content := range map[string]string{
		"proc/sys/kernel/random/boot_id": fmt.Sprint("boot-", n), "proc/sys/kernel/shmmax": "18446744073692774399",
		"proc/sys/kernel/numa_balancing": "0",
		"proc/sys/vm/overcommit_memory":  "0", "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
		"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel",
		"proc/meminfo": "MemTotal: 1056000000 kB\nMemAvailable: 900000000 kB\nCommitLimit: 500000000 kB\n" +
			"Committed_AS: 1000 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB",
		"proc/1/stat": "1 (systemd) S 0 1 1 0", "etc/hosts": "127.0.0.1 localhost\n10.0.0.1 n1",
		"usr/lib/x86_64-linux-gnu/libibverbs.so.1": "", "usr/lib/python3.11/site-packages/torch-2.9.1.dist-info/METADATA": "",
		"usr/lib/python3.11/site-packages/torch/version.py": "__version__ = '2.9.1'\n" +
			"cuda: Optional[str] = '12.8'\nhip: Optional[str] = None",
		"usr/lib/python3.11/site-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA": "", "usr/bin/python3.11": "\x7fELF",
	} {
		s.Put(name, content)
	}
	s.Link("usr/bin/python3", "usr/bin/python3.11")
	return s
}

// example is one of the typical machines, well in every respect.
func example(t *testing.T, name string, n int) *scene {
	t.Helper()
	m, err := placement.Example(name)
	require.NoError(t, err)
	tree := sysfstest.TreeOf(m)
	for file := range tree { // most of the files, and nobody judges them
		if strings.HasPrefix(file, "sys/devices/system/cpu/cpu") && strings.Contains(file, "/cache/") {
			delete(tree, file)
		}
	}
	s := newScene(tree, m.CPUs, n)
	if name == "gb200-tray" {
		s.machine = "aarch64"
	}
	verbs := 0
	for _, nic := range m.Topology.NICs {
		if nic.Port > 0 {
			s.Put(fmt.Sprintf("sys/class/infiniband_verbs/uverbs%d/ibdev", verbs), nic.Name)
			s.Put(fmt.Sprintf("dev/infiniband/uverbs%d", verbs), "")
			verbs++
		}
	}
	s.facts(m)
	return s
}

// facts has NVIDIA's driver and library tell that all is well.
func (s *scene) facts(m placement.Machine) {
	for _, g := range m.GPUs {
		if g.Vendor != placement.NVIDIA {
			continue
		}
		s.Put("proc/driver/nvidia/version",
			"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build")
		for _, node := range []string{"nvidiactl", "nvidia-uvm", "gdrdrv"} {
			s.Put("dev/"+node, "")
		}
		s.Put("proc/77/stat", "77 (nv-fabricmanage) S 1 77 77 0")
		gpu := gpufacts.GPU{PCI: g.PCI, UUID: "GPU-" + g.PCI, Name: g.Name, Used: new(false), Health: &gpufacts.Health{}}
		for _, l := range g.Links {
			gpu.Switched = l.Count
		}
		for _, other := range m.GPUs {
			if other.PCI != g.PCI {
				gpu.Peers = append(gpu.Peers, placement.Peer{PCI: other.PCI, Access: placement.P2POK})
			}
		}
		s.nvml.GPUs = append(s.nvml.GPUs, gpu)
	}
	s.nvml.CUDA = "12.8"
	if m.GPUs != nil && m.GPUs[0].Vendor == placement.AMD {
		s.Put("dev/kfd", "")
		for i := range m.GPUs {
			s.Put(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/gpu_id", i+2), 4000+i)
		}
	}
}

// saved is a machine of a report.
func saved(t *testing.T, name string) *scene {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("..", "..", "..", "placement", "testdata", "machines", name,
		"tree.txtar"))
	require.NoError(t, err)
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o444}
	}
	s := newScene(tree, placement.CPUSetOf([]uint64{0xffff}), 1)
	s.Put("sys/class/net/lo/type", 772)
	return s
}

// interfaces gives a host an Ethernet interface.
func (s *scene) wire(name string, mtu int, prefix string) {
	dir := "sys/class/net/" + name
	for file, content := range map[string]any{
		"type": 1, "flags": "0x1003", "carrier": 1, "mtu": mtu, "speed": 25000, "duplex": "full",
		"device/vendor": "0x15b3", "operstate": "up",
		"statistics/rx_packets": 5_000_000, "statistics/rx_errors": 0, "statistics/tx_errors": 0,
		"statistics/rx_missed_errors": 3,
	} {
		s.Put(dir+"/"+file, content)
	}
	s.networks[name] = []string{prefix}
}

// inspected is what an agent would send of the scene, as it arrives.
func (s *scene) inspected(t *testing.T) *doctor.Host {
	t.Helper()
	host := inspect.Inspect(inspect.Config{
		Root: files{s}, System: s, Getenv: func(name string) string { return s.environ[name] }, Limit: time.Minute,
		NVML: func(int, time.Duration) (gpufacts.Facts, error) {
			if s.during != nil {
				s.during()
			}
			return s.nvml, s.nvmlError
		},
	})
	text, err := json.Marshal(host)
	require.NoError(t, err)
	var arrived doctor.Host
	require.NoError(t, json.Unmarshal(text, &arrived))
	arrived.Name, arrived.Clock, arrived.Gorun = s.hostname, s.clock, "v1"
	return &arrived
}

// wellKnown are hosts that were inspected before: reading a large machine takes its time.
var wellKnown = map[string]*doctor.Host{}

// beside are the findings on a sick host, number 2, between two healthy ones of the machine.
func beside(t *testing.T, machine string, sick *scene) []doctor.Finding {
	t.Helper()
	healthy := func(n int) *doctor.Host {
		key := fmt.Sprint(machine, n)
		if wellKnown[key] == nil {
			wellKnown[key] = example(t, machine, n).inspected(t)
		}
		return wellKnown[key]
	}
	return withCommands(t,
		doctor.Diagnose(&doctor.Cluster{
			Gorun: "v1", Asked: 3,
			Hosts: []*doctor.Host{healthy(1), sick.inspected(t), healthy(3)},
		}))
}

// judged are the findings on scenes.
func judged(t *testing.T, scenes ...*scene) []doctor.Finding {
	t.Helper()
	c := &doctor.Cluster{Gorun: "v1", Asked: len(scenes)}
	for _, s := range scenes {
		c.Hosts = append(c.Hosts, s.inspected(t))
	}
	return withCommands(t, doctor.Diagnose(c))
}

// programs are those that fixes may begin with.
var programs = strings.Fields(`apt-get awk cat cd df docker dmesg echo ethtool export file for free getent ` +
	`gorun grep ibstat ibv_devinfo ip kill ldconfig loginctl ls lspci
	mlxlink modprobe mount nvidia-modprobe nvidia-smi python3 rdma rm rmmod rocm-smi setpci sminfo sort smpquery ` +
	`ssh sysctl systemctl tee timedatectl ulimit uname unset usermod `)

// withCommands has every finding have a fix that a shell understands and that begins with a
// program that is known, for the maker of the machine.
func withCommands(t *testing.T, findings []doctor.Finding) []doctor.Finding {
	t.Helper()
	script := ""
	for _, f := range findings {
		words := strings.Fields(f.Fix)
		require.NotEmpty(t, words, "%s: %s", f.Check, f.Text)
		if words[0] == "sudo" {
			words = words[1:]
		}
		require.Contains(t, programs, strings.TrimSuffix(words[0], ";"), "%s: %s", f.Check, f.Fix)
		script += strings.ReplaceAll(f.Fix, " ...", " X") + "\n"
	}
	if script != "" {
		said, err := exec.Command("sh", "-n", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s\n%s", said, script)
	}
	return findings
}

// wrong are those that are more than notes.
func wrong(findings []doctor.Finding) (list []doctor.Finding) {
	for _, f := range findings {
		if f.Severity != doctor.Note {
			list = append(list, f)
		}
	}
	return list
}
