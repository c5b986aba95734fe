package ncclhost

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
)

// quiet is a kernel that forbids nothing.
type quiet struct {
	policy, verbs string
	shm, memlock  int64
	stack         bool
}

func (k quiet) Denied() map[string]string { return map[string]string{"set_mempolicy": k.policy} }
func (k quiet) Access(string) string      { return k.verbs }

func (k quiet) FileSystem(string) doctor.FileSystem {
	if k.shm < 0 {
		return doctor.FileSystem{Error: "no such file or directory"}
	}
	return doctor.FileSystem{Total: k.shm}
}

func (k quiet) Limits() map[string]doctor.Limit {
	limits := map[string]doctor.Limit{"memlock": {Soft: k.memlock}}
	if k.stack {
		limits["stack"] = doctor.Limit{Soft: -1}
	}
	return limits
}

// tree has one file a line: path, blank, text; "->" before the text makes a link.
func tree(lines string) fstest.MapFS {
	files := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		file := &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "|", "\n")), Mode: 0o644}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			file.Data, file.Mode = []byte(target), fs.ModeSymlink|0o777
		}
		if name != "" {
			files[name] = file
		}
	}
	return files
}

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if n, value, _ := strings.Cut(p, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestRead(t *testing.T) {
	const forbidden = "operation not permitted"
	for name, test := range map[string]struct {
		files  string
		kernel quiet
		ranks  Ranks
		want   nccl.Host
	}{
		"without GPUs only the files of settings are looked at": {
			"etc/nccl.conf NCCL_DEBUG=WARN|\nhome/u/.nccl.conf NCCL_ALGO=Ring|\n.dockerenv x\nsys/class/infiniband/mlx5_0/x y",
			quiet{shm: 5},
			Ranks{Getenv: environ("HOME=/home/u")},
			nccl.Host{Conf: []nccl.ConfFile{
				{Path: "/home/u/.nccl.conf", Text: "NCCL_ALGO=Ring\n"},
				{Path: "/etc/nccl.conf", Text: "NCCL_DEBUG=WARN\n"},
			}, Shm: -1, Memlock: -1},
		},
		"a file that the user names replaces the user's own": {
			"srv/my.conf A=1\nhome/u/.nccl.conf NCCL_ALGO=Ring|",
			quiet{},
			Ranks{Getenv: environ("HOME=/home/u", "NCCL_CONF_FILE=/srv/my.conf")},
			nccl.Host{Conf: []nccl.ConfFile{{Path: "/srv/my.conf", Text: "A=1"}}, Shm: -1, Memlock: -1},
		},
		"and one relative to the ranks' directory": {
			"srv/run/my.conf A=1\nmy.conf A=2",
			quiet{},
			Ranks{Getenv: environ("NCCL_CONF_FILE=my.conf"), Dir: func() string { return "/srv/run" }},
			nccl.Host{Conf: []nccl.ConfFile{{Path: "my.conf", Text: "A=1"}}, Shm: -1, Memlock: -1},
		},
		"a container with an NVIDIA one, and PyTorch": {
			"dev/nvidiactl x\n.dockerenv x\nv[/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2 x\n" +
				"v[/lib/python3.11/site-packages/nvidia_nccl_cu12-2.25.1.dist-info/METADATA x\n" +
				"v[/lib/python3.11/site-packages/torch-2.6.0+cu124.dist-info/METADATA x\n" +
				"sys/class/net/lo/operstate unknown\nsys/class/net/eth0/operstate up",
			quiet{policy: forbidden, shm: 64 << 20, memlock: 64 << 10, stack: true},
			Ranks{Getenv: environ(), PythonPrefix: "/v["},
			nccl.Host{
				GPUs: true, Library: "2.25.1", Torch: "2.6.0", Container: "Docker", NoMemoryPolicy: true, Shm: 64 << 20,
				Memlock: 64 << 10, EndlessStack: true,
			},
		},
		"a library of the system, whose link has the version": {
			"dev/nvidiactl x\nusr/lib/x86_64-linux-gnu/libnccl.so.2 -> libnccl.so.2.18.3\n" +
				"usr/lib/x86_64-linux-gnu/libnccl.so.2.18.3 x\n" +
				"usr/local/lib/python3.12/dist-packages/torch-2.9.1-py3.12.egg-info/PKG-INFO x\n" +
				"sys/class/net/lo/operstate unknown\nsys/class/net/eth0/operstate down\nsys/class/dmi/id/sys_vendor Amazon EC2|",
			quiet{shm: -1, memlock: -1},
			Ranks{Getenv: environ(), PythonPrefix: "/usr"},
			nccl.Host{
				GPUs: true, Library: "2.18.3", Torch: "2.9.1", Shm: -1, Memlock: -1, OnlyLoopback: true, Cloud: "Amazon EC2",
			},
		},
		"RDMA devices without their files": {
			"dev/nvidiactl x\nsys/class/infiniband/mlx5_0/node_type 1\n" +
				"sys/class/dmi/id/chassis_asset_tag 7783-7084-3265-9085-8269-3286-77|",
			quiet{shm: -1, memlock: -1},
			Ranks{Getenv: environ("KUBERNETES_SERVICE_HOST=10.0.0.1")},
			nccl.Host{
				GPUs: true, Container: "Kubernetes", Cloud: "Azure", NoVerbs: true,
				NoVerbsWhy: "there is no /dev/infiniband/uverbs0", Shm: -1, Memlock: -1,
			},
		},
		"and with files that nobody may open": {
			"dev/nvidiactl x\nsys/class/infiniband/mlx5_0/node_type 1\nsys/class/infiniband_verbs/abi_version 6\n" +
				"sys/class/infiniband_verbs/uverbs0/ibdev mlx5_0",
			quiet{verbs: forbidden, shm: -1, memlock: -1},
			Ranks{Getenv: environ()},
			nccl.Host{
				GPUs: true, NoVerbs: true, NoVerbsWhy: "/dev/infiniband/uverbs0: operation not permitted", Shm: -1,
				Memlock: -1,
			},
		},
		"AMD's": {
			"dev/kfd x\netc/nccl.conf NCCL_DEBUG=WARN|\netc/rccl.conf NCCL_DEBUG=INFO|\nopt/rocm/.info/version 6.4.1-83|\n" +
				"sys/class/kfd/kfd/topology/nodes/0/properties gfx_target_version 0|\n" +
				"sys/class/kfd/kfd/topology/nodes/1/properties simd_count 440|gfx_target_version 90010|\n" +
				"sys/class/kfd/kfd/topology/nodes/2/properties gfx_target_version 90010|\n" +
				"sys/class/kfd/kfd/topology/nodes/3/properties gfx_target_version 110000|",
			quiet{shm: -1, memlock: -1},
			Ranks{Getenv: environ()},
			nccl.Host{
				GPUs: true, Conf: []nccl.ConfFile{{Path: "/etc/rccl.conf", Text: "NCCL_DEBUG=INFO\n"}},
				ROCm: "6.4.1-83", GFX: []string{"gfx90a", "gfx1100"}, Shm: -1, Memlock: -1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, read(tree(test.files), test.kernel, test.ranks))
		})
	}
}

// A file of settings may be of any size, or no file.
func TestReadIsBounded(t *testing.T) {
	files := tree("etc/nccl.conf x")
	files["etc/nccl.conf"].Data = []byte(strings.Repeat("A=1\n", maxConf))
	assert.Len(t, read(files, quiet{}, Ranks{Getenv: environ()}).Conf[0].Text, maxConf)
	files["etc/nccl.conf"].Mode = fs.ModeNamedPipe
	assert.Empty(t, read(files, quiet{}, Ranks{Getenv: environ()}).Conf)
}

// This host can be read, whatever it is: what costs time only where there are GPUs.
func TestReadHere(t *testing.T) {
	h := Read(Ranks{Getenv: environ()})
	if !h.GPUs {
		h.Conf = nil
		assert.Equal(t, nccl.Host{Shm: -1, Memlock: -1}, h)
	}
}
