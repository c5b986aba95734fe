package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
	"gorun/placement"
)

// Healthy machines of all kinds have no findings, alone and in pairs.
func TestHealthyMachines(t *testing.T) {
	for _, name := range placement.Examples() {
		t.Run(name, func(t *testing.T) {
			one, two := example(t, name, 1), example(t, name, 2)
			assert.Empty(t, wrong(judged(t, one)))
			assert.Empty(t, wrong(judged(t, one, two)))
		})
	}
	for _, name := range []string{"laptop", "container-2-of-4-gpus", "container-v1", "pod-v2", "hybrid", "arc"} {
		t.Run(name, func(t *testing.T) {
			s := saved(t, name)
			s.Put("sys/class/dmi/id/chassis_type", 10)
			s.Put("dev/nvidiactl", "")
			s.Put("dev/nvidia-uvm", "")
			assert.Empty(t, wrong(judged(t, s)))
		})
	}
}

// A container without GPUs on a host that has some, with what Docker gives it, is well.
func TestContainerWithoutGPUs(t *testing.T) {
	s := saved(t, "pod-v2")
	s.Put(".dockerenv", "")
	s.shm = doctor.FileSystem{Type: "tmpfs", Total: 64 << 20, Free: 64 << 20}
	s.limits["memlock"] = doctor.Limit{Soft: 64 << 10, Hard: 64 << 10}
	s.denied["set_mempolicy"] = "operation not permitted"
	s.Put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19")
	findings := judged(t, s)
	assert.Empty(t, wrong(findings))
	assert.True(t, slices.ContainsFunc(findings, func(f doctor.Finding) bool {
		return f.Check == "shm" && strings.HasPrefix(f.Fix, "docker run --shm-size")
	}), "%v", findings)
}

// What is wrong with one of two hosts is found by one check, on that host.
func TestSickHosts(t *testing.T) {
	testFaults(t, []fault{
		{"64 KiB memlock with InfiniBand", "dgx-h100", func(s *scene) {
			s.limits["memlock"] = doctor.Limit{Soft: 64 << 10, Hard: 64 << 10}
		}, "memlock", doctor.Error, "64 KiB"},
		{"few files", "one", func(s *scene) {
			s.limits["nofile"] = doctor.Limit{Soft: 256, Hard: 256}
		}, "nofile", doctor.Warning, "256"},
		{"few processes", "one", func(s *scene) {
			s.limits["nproc"] = doctor.Limit{Soft: 100, Hard: 100}
		}, "nproc", doctor.Warning, "100"},
		{"tiny stack", "one", func(s *scene) {
			s.limits["stack"] = doctor.Limit{Soft: 64 << 10, Hard: -1}
		}, "stack", doctor.Warning, "64 KiB"},
		{"endless stacks", "dgx-h100", func(s *scene) {
			s.limits["stack"] = doctor.Limit{Soft: -1, Hard: -1}
		}, "stack", doctor.Warning, "NCCL 2.27.5"},
		{"1 MiB /dev/shm", "one", func(s *scene) {
			s.shm = doctor.FileSystem{Type: "tmpfs", Total: 1 << 20, Free: 1 << 20}
		}, "shm", doctor.Warning, "1 MiB"},
		{"1 MiB /dev/shm and GPUs", "dgx-h100", func(s *scene) {
			s.shm = doctor.FileSystem{Type: "tmpfs", Total: 1 << 20, Free: 1 << 20}
		}, "shm", doctor.Error, "1 MiB"},
		{"64 MiB /dev/shm and GPUs", "dgx-h100", func(s *scene) {
			s.shm = doctor.FileSystem{Type: "tmpfs", Total: 64 << 20, Free: 64 << 20}
		}, "shm", doctor.Warning, "NCCL"},
		{"/dev/shm on a disk", "one", func(s *scene) {
			s.shm = doctor.FileSystem{Type: "ext4", Total: 1 << 40, Free: 1 << 40}
		}, "shm", doctor.Warning, "ext4"},
		{"no /dev/shm", "one", func(s *scene) {
			s.shm = doctor.FileSystem{Error: "no such file or directory"}
		}, "shm", doctor.Warning, "no such"},
		{"/dev/shm full", "one", func(s *scene) { s.shm.Free = 4096 }, "shm", doctor.Warning, "full"},
		{"small segments", "one", func(s *scene) {
			s.Put("proc/sys/kernel/shmmax", 32<<20)
		}, "shmmax", doctor.Warning, "32 MiB"},
		{"no overcommit", "one", func(s *scene) {
			s.Put("proc/sys/vm/overcommit_memory", 2)
			s.Put("proc/meminfo", "MemTotal: 1000000 kB\nCommitLimit: 500000 kB\nCommitted_AS: 450000 kB")
		}, "overcommit", doctor.Warning, "hardly any"},
		{"memory of a cgroup", "one", func(s *scene) {
			s.Put("sys/fs/cgroup/memory.max", 1<<30)
			s.Put("sys/fs/cgroup/memory.current", 1<<30-4096)
			s.Put("sys/fs/cgroup/memory.stat", "anon 1000\nfile 2097152\nshmem 1048576")
		}, "cgroup-memory", doctor.Warning, "1 MiB of 1 GiB"},
		{"memory of the cgroup above, whose limit is higher and nearly reached", "one", func(s *scene) {
			s.Put("proc/self/cgroup", "0::/user/job")
			for dir, numbers := range map[string][2]int{
				"": {}, "/user": {8 << 30, 8<<30 - 10<<20},
				"/user/job": {4 << 30, 1 << 30},
			} {
				s.Put("sys/fs/cgroup"+dir+"/cgroup.procs", "")
				if numbers[0] > 0 {
					s.Put("sys/fs/cgroup"+dir+"/memory.max", numbers[0])
					s.Put("sys/fs/cgroup"+dir+"/memory.current", numbers[1])
				}
			}
		}, "cgroup-memory", doctor.Warning, "10 MiB of 8 GiB"},
		{"processes of a cgroup", "one", func(s *scene) {
			s.Put("sys/fs/cgroup/pids.max", 100)
			s.Put("sys/fs/cgroup/pids.current", 40)
		}, "cgroup-pids", doctor.Warning, "60"},
		{"half a CPU", "one", func(s *scene) {
			s.Put("sys/fs/cgroup/cpu.max", "50000 100000")
		}, "cgroup-cpu", doctor.Warning, "0.5 of"},
		{"huge pages for nobody", "one", func(s *scene) {
			s.Put("proc/meminfo", "MemTotal: 1000000 kB\nHugePages_Total: 400\nHugePages_Free: 400\nHugepagesize: 2048 kB")
		}, "huge-pages", doctor.Warning, "huge pages"},
		{"127.0.1.1", "one", func(s *scene) {
			s.addresses = []string{"127.0.1.1"}
			s.Put("etc/hosts", "127.0.1.1\tn2.example.org n2 # Debian's installer")
		}, "hostname", doctor.Warning, "loopback"},
		{"no address", "one", func(s *scene) {
			s.addresses, s.resolver = nil, errors.New("no such host")
		}, "hostname", doctor.Warning, "no address"},
		{"a resolver that does not answer", "one", func(s *scene) {
			s.addresses, s.resolver = nil, context.DeadlineExceeded
		}, "hostname", doctor.Warning, "the resolver does not answer"},
		{"clock off by an hour", "one", func(s *scene) {
			s.clock = &doctor.Clock{Ahead: -3600, Uncertainty: 0.001}
		}, "clock", doctor.Warning, "3600.0 s behind"},
		{"another kind of machine", "one", func(s *scene) {
			s.machine = "aarch64"
		}, "architecture", doctor.Warning, "aarch64"},
		{"NUMA balancing on AMD", "mi300x", func(s *scene) {
			s.Put("proc/sys/kernel/numa_balancing", 1)
		}, "numa-balancing", doctor.Warning, "NUMA"},
		{"slow governor", "dgx-h100", func(s *scene) {
			s.Put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave")
			s.Put("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq")
			s.Put("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0 1")
		}, "governor", doctor.Warning, "2 CPUs"},
		{"RemoveIPC", "one", func(s *scene) {
			s.Put("run/systemd/seats/seat0", "")
			s.Put("etc/systemd/logind.conf", "[Login]\n#RemoveIPC=no\nRemoveIPC=yes")
		}, "remove-ipc", doctor.Warning, "shared memory"},
		{"few ports", "one", func(s *scene) {
			s.Put("proc/sys/net/ipv4/ip_local_port_range", "60000 60099")
		}, "ports", doctor.Warning, "100 ports"},
		{"no policies and an NCCL that needs them", "dgx-h100", func(s *scene) {
			s.denied["set_mempolicy"] = "operation not permitted"
			s.package_("nvidia_nccl_cu12", "2.25.1")
		}, "", "", "mempolicy nccl-differs"},
		{"another NCCL", "dgx-h100", func(s *scene) {
			s.package_("nvidia_nccl_cu12", "2.21.5")
		}, "nccl-differs", doctor.Error, "NCCL is 2.21.5, on 2 others 2.27.5"},
		{"another NCCL, and no GPUs", "one", func(s *scene) {
			s.package_("nvidia_nccl_cu12", "2.21.5")
			s.limits["nofile"] = doctor.Limit{Soft: 100, Hard: 100}
		}, "nofile", doctor.Warning, ""},
		{"a job's leftovers", "one", func(s *scene) {
			s.process(50, 1, "trainer", "7f3a")
			s.process(60, 1, "gorun", "")
			s.process(61, 60, "rank", "6b01")
		}, "leftover-processes", doctor.Warning, "1 orphan of dead jobs: trainer (pid 50)"},
		{"much that is left in /dev/shm", "one", func(s *scene) {
			s.MapFS["dev/shm/nccl-1aB"] = &fstest.MapFile{Data: make([]byte, 65<<20), Mode: 0o600}
			s.MapFS["dev/shm/nccl-used"] = &fstest.MapFile{Data: make([]byte, 1), Mode: 0o600}
			s.MapFS["dev/shm/somebodys"] = &fstest.MapFile{Data: make([]byte, 1), Mode: 0o600}
			s.process(50, 1, "trainer", "")
			s.Put("proc/50/maps", "7f0000000000-7f0000001000 rw-s 00000000 00:18 12 /dev/shm/nccl-used")
		}, "leftover-shm", doctor.Warning, "1 file in /dev/shm of dead programs: nccl-1aB"},
	})
}

// fault is a change to the second of two machines, and the finding that it causes.
type fault struct {
	what, machine string
	change        func(s *scene)
	check         string // "": text lists the checks that find something
	severity      doctor.Severity
	text          string // that the finding has
}

func testFaults(t *testing.T, faults []fault) {
	for _, f := range faults {
		t.Run(f.what, f.isFound)
	}
}

func (f fault) isFound(t *testing.T) {
	sick := example(t, f.machine, 2)
	f.change(sick)
	findings := wrong(beside(t, f.machine, sick))
	if f.check == "" {
		var checks []string
		for _, got := range findings {
			assert.Equal(t, []string{"n2"}, got.Hosts, got.Check)
			checks = append(checks, got.Check)
		}
		assert.ElementsMatch(t, strings.Fields(f.text), checks)
		return
	}
	require.Len(t, findings, 1, "%v", findings)
	got := findings[0]
	assert.Equal(t, f.check, got.Check)
	assert.Equal(t, f.severity, got.Severity)
	assert.Equal(t, []string{"n2"}, got.Hosts)
	assert.Contains(t, got.Text, f.text)
	assert.NotEmpty(t, got.Evidence)
	assert.NotEmpty(t, got.Fix)
	if f.machine == "mi300x" {
		assert.NotContains(t, got.Fix, "nvidia")
	}
}

// package_ replaces the version of a Python package.
func (s *scene) package_(name, version string) {
	dir := "usr/lib/python3.11/site-packages/"
	for file := range s.MapFS {
		if strings.HasPrefix(file, dir+name+"-") {
			delete(s.MapFS, file)
		}
	}
	if version != "" {
		s.Put(dir+name+"-"+version+".dist-info/METADATA", "")
	}
}

// process adds a process with a job's marker.
func (s *scene) process(pid, parent int, name, marker string) {
	dir := fmt.Sprint("proc/", pid)
	s.Put(dir+"/stat", fmt.Sprintf("%d (%s) S %d %[1]d %[1]d 0", pid, name, parent))
	environ := "PATH=/usr/bin\x00"
	if marker != "" {
		environ += "GORUN_JOB=" + marker + "\x00"
	}
	s.MapFS[dir+"/environ"] = &fstest.MapFile{Data: []byte(environ), Mode: 0o400}
	s.Put(dir+"/status", "Name:\t"+name+"\nUid:\t1000\t1000\t1000\t1000")
}

func TestSickSoftware(t *testing.T) {
	testFaults(t, []fault{
		{"another PyTorch", "one", func(s *scene) {
			s.package_("torch", "2.8.0")
		}, "torch-differs", doctor.Error, "PyTorch is 2.8.0, on 2 others 2.9.1"},
		{"no PyTorch", "one", func(s *scene) { s.package_("torch", "") }, "torch-missing", doctor.Warning, "PyTorch"},
		{"another CUDA", "one", func(s *scene) {
			s.Put("usr/lib/python3.11/site-packages/torch/version.py", "cuda: Optional[str] = '11.8'")
		}, "torch-differs", doctor.Warning, "11.8"},
	})
	sick := example(t, "one", 1)
	sick.environ["LD_LIBRARY_PATH"] = "/opt/old"
	sick.Link("opt/old/libnccl.so.2", "opt/old/libnccl.so.2.27.5")
	sick.Put("opt/old/libnccl.so.2.27.5", "")
	assert.Empty(t, wrong(judged(t, sick)), "the same version hides nothing")
	sick.Link("opt/old/libnccl.so.2", "opt/old/libnccl.so.2.18.3")
	sick.Put("opt/old/libnccl.so.2.18.3", "")
	findings := wrong(judged(t, sick))
	require.Len(t, findings, 1)
	assert.Equal(t, "nccl-override", findings[0].Check)
	assert.Contains(t, findings[0].Text, "NCCL 2.18.3, which hides PyTorch's 2.27.5")

	// LD_LIBRARY_PATH does not hide what a library names by DT_RPATH, as PyTorch's wheels do.
	for _, tags := range []string{"--disable-new-dtags", "--enable-new-dtags"} {
		library := filepath.Join(t.TempDir(), "libtorch_cuda.so")
		out, err := exec.Command("gcc", "-shared", "-o", library, "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib,"+tags,
			"-xc", os.DevNull).CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(library)
		require.NoError(t, err)
		sick.Put("usr/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so", string(text))
		assert.Equal(t, tags == "--enable-new-dtags", slices.ContainsFunc(judged(t, sick), func(f doctor.Finding) bool {
			return f.Check == "nccl-override"
		}), tags)
	}
}

// A link that names no version, as to a library of another folder, is of an unknown one.
func TestNCCLWithoutVersion(t *testing.T) {
	s := example(t, "one", 1)
	s.environ["LD_LIBRARY_PATH"] = "/opt/linked"
	s.Link("opt/linked/libnccl.so.2", "opt/build/libnccl.so.2")
	s.Put("opt/build/libnccl.so.2", "")
	p := s.inspected(t).Python
	assert.Equal(t, "/opt/linked/libnccl.so.2", p.Override)
	assert.Equal(t, map[string]string{"/opt/linked/libnccl.so.2": ""}, p.NCCL)
}

// A container that was given one device knows nothing of the others.
func TestRDMAOfAContainer(t *testing.T) {
	s := example(t, "dgx-h100", 1)
	s.Put(".dockerenv", "")
	s.Put(s.port("mlx5_1")+"/link_layer", "Ethernet")
	for i := 1; i < 16; i++ {
		s.Remove(fmt.Sprintf("dev/infiniband/uverbs%d", i))
	}
	require.Len(t, s.inspected(t).RDMA, 1)
	assert.Empty(t, wrong(judged(t, s)))
}

// port is the folder of the first port of an RDMA device.
func (s *scene) port(device string) string {
	return s.Resolve("sys/class/infiniband/"+device) + "/ports/1"
}

// gpu is the folder of a device on the PCI bus.
func (s *scene) pci(address string) string { return s.Resolve("sys/bus/pci/devices/" + address) }

func TestSickEthernet(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(s *scene)
		check  string
		text   string
	}{
		{"MTU", func(s *scene) {
			s.wire("enp6s0", 1500, "10.0.0.2/24")
		}, "mtu", "enp6s0 has an MTU of 1500, on 2 others 9000"},
		{"speed", func(s *scene) { s.Put("sys/class/net/eno1/speed", 1000) }, "speed", "eno1 runs at 1000 Mb/s"},
		{"duplex", func(s *scene) { s.Put("sys/class/net/eno1/duplex", "half") }, "duplex", "eno1"},
		{"drops", func(s *scene) { s.Put("sys/class/net/eno1/statistics/rx_missed_errors", 100_000) }, "drops", "2.0 %"},
		{"carrier", func(s *scene) { s.Put("sys/class/net/eno1/carrier", 0) }, "carrier", "no carrier"},
		{"docker's is nobody's business", func(s *scene) {
			s.wire("docker0", 1450, "172.17.0.1/16")
			s.Put("sys/class/net/eno1/duplex", "half")
		}, "duplex", ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			var all []*scene
			for n := 1; n <= 3; n++ {
				s := saved(t, "pod-v2")
				s.hostname, s.addresses = fmt.Sprint("n", n), []string{fmt.Sprint("10.0.0.", n)}
				s.Put("proc/sys/kernel/random/boot_id", n)
				if n == 2 && test.what == "MTU" { // by another name
					test.change(s)
				} else {
					s.wire("eno1", 9000, fmt.Sprintf("10.0.0.%d/24", n))
				}
				if n != 2 {
					s.wire("docker0", 1500, "172.17.0.1/16")
				} else if test.what != "MTU" {
					test.change(s)
				}
				all = append(all, s)
			}
			findings := wrong(judged(t, all...))
			require.Len(t, findings, 1, "%v", findings)
			assert.Equal(t, test.check, findings[0].Check)
			assert.Equal(t, []string{"n2"}, findings[0].Hosts)
			assert.Contains(t, findings[0].Text, test.text)
		})
	}
}

// A job's processes count as left when no launcher is above any of them.
func TestLeftovers(t *testing.T) {
	s := example(t, "one", 1)
	s.process(10, 1, "gorun", "")
	s.process(11, 10, "rank", "live")
	s.process(12, 1, "daemon of live", "live") // adopted by the first process while its job goes on
	s.process(20, 1, "rank", "dead")
	s.process(21, 20, "child (of) it", "dead")
	s.process(30, 1, "systemd", "")
	s.process(31, 30, "rank", "outer:inner")
	s.process(40, 39, "rank", "unseen") // its parent is another user's
	var names []string
	for _, p := range s.inspected(t).Orphans {
		names = append(names, p.Name)
		assert.Equal(t, 1000, p.UID)
	}
	assert.Equal(t, []string{"rank", "child (of) it", "rank"}, names)
}

// Without /proc leftovers are unknown.
func TestLeftoversWithoutProc(t *testing.T) {
	s := example(t, "one", 1)
	assert.True(t, s.inspected(t).ProcessesKnown)
	s.Remove("proc")
	assert.False(t, s.inspected(t).ProcessesKnown)
}

// Another interpreter than files tell of is asked once, and may run into its timeout.
func TestPythonThatIsAScript(t *testing.T) {
	s := example(t, "one", 1)
	s.Remove("usr/bin/python3")
	s.Put("usr/bin/python3", "#!/bin/sh")
	s.python = func(context.Context) ([]byte, error) {
		return []byte("python 3.12.4\n/opt/py/lib\n/usr/lib/python3.11/site-packages\n"), nil
	}
	p := s.inspected(t).Python
	assert.Equal(t, "3.12.4", p.Version)
	assert.Equal(t, "2.9.1", p.Packages["torch"])
	synctest.Test(t, func(t *testing.T) {
		s.python = func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		begin := time.Now()
		host := s.inspected(t)
		p := host.Python
		assert.Empty(t, p.Packages)
		assert.Equal(t, []string{"Python's packages: /usr/bin/python3 said nothing within 2s"}, host.Unknown)
		assert.Less(t, time.Since(begin), 3*time.Second)
	})
}

// The MPI library of a program, also that of mpi4py, is found where the loader looks.
func TestVersionOfMPI(t *testing.T) {
	dir := t.TempDir()
	build := func(args ...string) {
		c := exec.Command("gcc", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.WriteFile(dir+"/x.c", []byte("int f(void) { return 0; }"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/main.c", []byte("int f(void);\nint main(void) { return f(); }"), 0o600))
	require.NoError(t, os.MkdirAll(dir+"/venv/lib/python3.12/site-packages/mpi4py-4.1.0.dist-info", 0o700))
	require.NoError(t, os.MkdirAll(dir+"/venv/lib/python3.12/site-packages/mpi4py", 0o700))
	require.NoError(t, os.MkdirAll(dir+"/venv/bin", 0o700))
	require.NoError(t, os.WriteFile(dir+"/venv/pyvenv.cfg", []byte("version_info = 3.12.1"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/venv/bin/python3", nil, 0o600))
	library := dir + "/libmpi.so.40.30.4"
	build("-shared", "-o", library, "-Wl,-soname,libmpi.so.40", "x.c")
	require.NoError(t, os.Symlink("libmpi.so.40.30.4", dir+"/libmpi.so.40"))
	build("-o", "solver", "-Wl,-rpath,$ORIGIN", "main.c", library)
	build("-shared", "-Wl,--no-as-needed", "-o", "venv/lib/python3.12/site-packages/mpi4py/MPI.abi3.so", "x.c", library)
	root := os.DirFS("/")
	none := func(string) string { return "" }
	assert.Equal(t, map[string]string{"MPI": library}, inspect.Versions(root, dir+"/solver", none))
	assert.Equal(t, map[string]string{"Python": "3.12.1", "mpi4py": "4.1.0", "MPI": library},
		inspect.Versions(root, dir+"/venv/bin/python3", func(name string) string {
			return map[string]string{"LD_LIBRARY_PATH": dir}[name]
		}))
	assert.Empty(t, inspect.Versions(root, dir+"/x.c", none))
}

// stuck is a file system that does not answer for one file.
type stuck struct {
	fs.FS
	name string
	free chan struct{}
}

func (s stuck) Open(name string) (fs.File, error) {
	if name == s.name {
		<-s.free
	}
	return s.FS.Open(name)
}

// A file system that never answers costs what it has, and not the rest.
func TestStuckFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := example(t, "one", 1)
		s.Link("usr/bin/python3", "usr/bin/python3.11")
		root := stuck{s.MapFS, "proc/sys/kernel/random/boot_id", make(chan struct{})}
		begin := time.Now()
		host := inspect.Inspect(inspect.Config{Root: root, System: s, Getenv: os.Getenv, Limit: 4 * time.Second})
		assert.Equal(t, 5*time.Second, time.Since(begin))
		assert.Equal(t, []string{"the kernel: no answer within 4s"}, host.Unknown)
		assert.NotEmpty(t, host.Limits)
		close(root.free)
	})
}

// This machine can be looked at, whatever it is.
func TestThisHost(t *testing.T) {
	host := inspect.Inspect(inspect.Config{
		Root: fstest.MapFS{}, System: inspect.Local(), Getenv: os.Getenv, Limit: time.Minute,
	})
	assert.NotEmpty(t, host.Kernel)
	assert.Contains(t, host.Limits, "memlock")
	assert.NotNil(t, host.Shm)
	assert.NotNil(t, host.Names)
}
