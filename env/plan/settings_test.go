package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/env/nccl"
	"gorun/placement"
)

// variation is one difference between hosts, or between their users.
type variation struct {
	name string
	make func(*Inputs)
}

// eachNode changes every node.
func eachNode(change func(i int, n *Node)) func(*Inputs) {
	return func(in *Inputs) {
		for i := range in.Nodes {
			change(i, &in.Nodes[i])
		}
	}
}

var networks = []variation{
	{"one host", func(in *Inputs) { in.Nodes, in.Ranks = in.Nodes[:1], in.Ranks[:2] }},
	{"one host without a network", func(in *Inputs) {
		in.Nodes, in.Ranks = in.Nodes[:1], in.Ranks[:2]
		in.Nodes[0].Host.OnlyLoopback = in.Nodes[0].Host.GPUs
	}},
	{"other names on each host, 25 Gb/s", eachNode(func(i int, n *Node) {
		n.Address, n.Interface, n.Mbps = fmt.Sprintf("10.0.0.%d", i+1), []string{"eno1", "enp6s0"}[i], 25_000
	})},
	{"100 Gb/s", eachNode(func(i int, n *Node) {
		n.Address, n.Interface, n.Mbps = fmt.Sprintf("10.0.0.%d", i+1), "eth0", 100_000
	})},
	{"IPv6 alone", eachNode(func(i int, n *Node) {
		n.Address, n.Interface, n.Mbps = fmt.Sprintf("2001:db8::%d", i+1), "eth0", 10_000
		for p := range n.RDMA {
			n.RDMA[p].GIDIPv6 = n.RDMA[p].Kind == placement.RoCE
		}
	})},
}

var surroundings = []variation{
	{"NCCL 2.30.7", eachNode(func(_ int, n *Node) { n.Host.Library = "2.30.7" })},
	{"NCCL 2.19.3, one port is Ethernet", eachNode(func(_ int, n *Node) {
		n.Host.Library = "2.19.3"
		if len(n.RDMA) > 0 {
			n.RDMA[0].Kind, n.RDMA[0].Gbps, n.RDMA[0].GID = placement.RoCE, 25, 3
		}
	})},
	{"container with NCCL 2.25.1", eachNode(func(_ int, n *Node) {
		n.Host.Library, n.Host.Container, n.Host.NoMemoryPolicy, n.Host.Shm, n.Host.Memlock = "2.25.1", "Docker", true,
			64<<20, 64<<10
		n.Crowded, n.Host.EndlessStack = true, true
	})},
}

var users = []variation{
	{"says nothing", func(*Inputs) {}},
	{"has settings", func(in *Inputs) {
		in.Inherited = append(in.Inherited, "NCCL_SOCKET_IFNAME=bond0", "NCCL_IB_HCA=mlx5_9", "NCCL_DEBUG=INFO",
			"NCCL_ALGO=Tree")
	}},
	{"has a nccl.conf", func(in *Inputs) {
		in.Nodes[0].Host.Conf = []nccl.ConfFile{{
			Path: "/etc/nccl.conf",
			Text: "NCCL_SOCKET_IFNAME=bond0\nNCCL_IB_DISABLE=1\nNCCL_DEBUG=VERSION\n",
		}}
	}},
}

// example is a job of two nodes with two ranks each, on machines of one kind.
func example(t *testing.T, name string) Inputs {
	t.Helper()
	m, err := placement.Example(name)
	require.NoError(t, err)
	in := Inputs{RASAddr: "localhost:24001", JoinNodes: func(names []string) string { return strings.Join(names, "+") }}
	for i := range 2 {
		n := Node{
			Name: fmt.Sprint("n", i+1), GPUs: m.GPUs, Host: nccl.Host{GPUs: len(m.GPUs) > 0, Shm: -1, Memlock: -1},
			Remote: i > 0,
		}
		for _, nic := range m.Topology.NICs {
			if nic.Port > 0 && n.Host.GPUs {
				nic.Bus = nil
				n.RDMA = append(n.RDMA, nic)
			}
		}
		in.Nodes = append(in.Nodes, n)
		in.Ranks = append(in.Ranks, Rank{Node: i}, Rank{Node: i, LocalRank: 1})
	}
	return in
}

// summarize formats the decisions on NCCL's settings for a golden file. It omits what all jobs have.
func summarize(in Inputs, e Environment) string {
	var b strings.Builder
	line := func(where string, v Variable) {
		if r := ruleFor(v.Name); r != nil && r.level != "" && v.Origin == Gorun && v.Name != "NCCL_DEBUG" &&
			v.Name != "NCCL_RAS_ADDR" && v.Name != "TP_SOCKET_IFNAME" {
			fmt.Fprintf(&b, "  %-5s %s=%s  [%s] %s\n", where, v.Name, v.Value, v.Level, v.Reason)
		}
	}
	for _, v := range e.Common {
		line("all", v)
	}
	for i, list := range e.Nodes {
		for _, v := range list {
			line(in.Nodes[i].Name, v)
		}
	}
	for _, l := range e.Left {
		if !slices.Contains(folklore, l) {
			fmt.Fprintf(&b, "  left  %s: %s\n", l.Name, l.Reason)
		}
	}
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "  note  %s\n", n)
	}
	return b.String()
}

// TestSettings combines every machine, network, library, container and user. Review the golden tables by hand.
func TestSettings(t *testing.T) {
	for _, machine := range placement.Examples() {
		t.Run(machine, func(t *testing.T) {
			var got strings.Builder
			for _, network := range networks {
				for _, around := range surroundings {
					for _, user := range users {
						in := example(t, machine)
						for _, v := range []variation{network, around, user} {
							v.make(&in)
						}
						e := build(t, in)
						fmt.Fprintf(&got, "%s; %s; the user %s\n%s", network.name, around.name, user.name, summarize(in, e))
						for _, given := range in.Inherited {
							name, value, _ := strings.Cut(given, "=")
							for rank, r := range in.Ranks {
								v, _ := e.find(r.Node, rank, name)
								require.Equal(t, value, v.Value, "a user's value is never changed")
							}
						}
					}
				}
			}
			file := filepath.Join("testdata", "settings", machine+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o666))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
		})
	}
}

// The user's settings take precedence from any source and with any facts.
func TestUsersSettingsWin(t *testing.T) {
	for _, r := range tunedRules() {
		name := r.Name
		in := example(t, "dgx-h100")
		networks[4].make(&in)
		surroundings[1].make(&in)
		in.Inherited = []string{name + "=mine"}
		e := build(t, in)
		v, _ := e.find(1, 2, name)
		assert.Equal(t, "mine", v.Value, name)
		in.Inherited, in.Exports = nil, []Export{{Name: name, Value: "mine", HasValue: true}}
		e = build(t, in)
		v, _ = e.find(1, 2, name)
		assert.Equal(t, Exported, v.Origin, name)
		in.Exports, in.Nodes[1].Host.Conf = nil, []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: name + "=admin's\n"}}
		e = build(t, in)
		_, set := e.find(1, 2, name)
		assert.False(t, set, "%s: what nccl.conf says would be cancelled", name)
	}
}

// Every setting that gorun makes is known, current, and no default.
func TestSettingsExist(t *testing.T) {
	for _, r := range tunedRules() {
		v, ok := nccl.Lookup(r.Name)
		require.True(t, ok, r.Name)
		assert.True(t, v.Alive(), v.Name)
		assert.NotEqual(t, nccl.Leaves, v.Gorun, "%s: the database says that gorun never sets it", v.Name)
		assert.NotContains(t, []string{"NCCL_ALGO", "NCCL_PROTO"}, v.Name)
		assert.Contains(t, []Level{Needed, Helps}, r.level)
		assert.False(t, v.MustAgree() && r.differs == ofNode, "%s must be the same on all ranks", v.Name)
	}
	for _, v := range nccl.Variables() {
		if v.Gorun == nccl.Sets {
			assert.True(t, Sets(v.Name), "%s: the database says that gorun sets it", v.Name)
		}
	}
}

func TestTuneOff(t *testing.T) {
	in := example(t, "dgx-h100")
	in.Tune = TuneOff
	networks[4].make(&in)
	e := build(t, in)
	assert.Empty(t, summarize(in, e))
	for _, name := range []string{"NCCL_DEBUG", "NCCL_RAS_ADDR", "NCCL_SOCKET_IFNAME", "CUDA_DEVICE_ORDER"} {
		_, set := e.find(1, 3, name)
		assert.False(t, set, name)
	}
}

// TestTextbook lists the recommendations of teaching texts, each with its flaw.
func TestTextbook(t *testing.T) {
	in := example(t, "dgx-h100")
	networks[2].make(&in)
	in.Tune, in.Study = TuneTextbook, Study{ModelBytes: 13_000_000_000, Network: "ib"}
	in.Inherited = []string{"NCCL_ALGO=NVLS"}
	e := build(t, in)
	for name, want := range map[string]string{
		"NCCL_ALGO": "NVLS", "NCCL_PROTO": "LL128", "NCCL_IB_GID_INDEX": "3", "NCCL_SOCKET_IFNAME": "ib0",
		"NCCL_NTHREADS": "16", "NCCL_MAX_NCHANNELS": "16",
	} {
		v, _ := e.find(1, 3, name)
		assert.Equal(t, want, v.Value, name)
	}
	v, _ := e.find(1, 3, "NCCL_NTHREADS")
	assert.Equal(t, ForStudy, v.Level)
	_, set := e.find(1, 3, "NCCL_P2P_LEVEL")
	assert.False(t, set)
	assert.Len(t, e.Notes, 1)
	in.Inherited, in.Study = nil, Study{ModelBytes: 500_000_000, Network: "nvlink"}
	e = build(t, in)
	v, _ = e.find(1, 3, "NCCL_ALGO")
	assert.Equal(t, "Tree", v.Value)
	v, _ = e.find(1, 3, "NCCL_P2P_LEVEL")
	assert.Equal(t, "NVL", v.Value)
}

// TestRanksMustAgree covers settings that NCCL does not compare.
func TestRanksMustAgree(t *testing.T) {
	in := example(t, "dgx-h100")
	networks[2].make(&in)
	in.Nodes[1].Host.Conf = []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: "NCCL_ALGO=Ring\nNCCL_TOPO_FILE=/x\n"}}
	assert.Equal(t, []string{"NCCL_ALGO differs between ranks, so they may hang or fail: it is not set on n1, Ring " +
		"on n2; -x NCCL_ALGO=VALUE sets it on all"}, build(t, in).Notes)
	in.Exports = []Export{{Name: "NCCL_ALGO", Value: "Tree", HasValue: true}}
	assert.Empty(t, build(t, in).Notes, "-x overrides the file")
	in.Exports = nil
	in.Nodes[0].Host.Conf = in.Nodes[1].Host.Conf
	assert.Empty(t, build(t, in).Notes)

	for text, notes := range map[string]int{
		"NCCL_IB_DISABLE=0\n": 0, "NCCL_BUFFSIZE=4194304\n": 0, "NCCL_BUFFSIZE=8388608\n": 1, "NCCL_CROSS_NIC=2\n": 0,
		"NCCL_NET_GDR_LEVEL=PXB\n":      1,
		"NCCL_IB_SPLIT_DATA_ON_QPS=0\n": 1, // 1 was the default of some versions
	} {
		in.Nodes[0].Host.Conf, in.Nodes[1].Host.Conf = nil, []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: text}}
		assert.Len(t, build(t, in).Notes, notes, "a default that one host sets explicitly is no difference: %s", text)
	}

	in = example(t, "dgx-h100")
	in.Ranks[3].Exports = []Export{
		{Name: "NCCL_PROTO", Value: "LL", HasValue: true},
		{Name: "NCCL_DEBUG", Value: "INFO", HasValue: true},
	}
	assert.Equal(t, []string{"NCCL_PROTO differs between ranks, so they may hang or fail: it is not set on n1+n2, LL " +
		"on n2; give each program the same -x NCCL_PROTO=VALUE"}, build(t, in).Notes,
		"an -x for all would not override a program's own")

	in = example(t, "dgx-h100")
	in.Nodes[1].Host.Conf = []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: "NCCL_ALGO=Ring\n"}}
	for i := range in.Nodes {
		in.Nodes[i].Host.GPUs = false
	}
	assert.Empty(t, build(t, in).Notes, "without GPUs nobody reads the file")
}

// A setting that some rank has is not listed as left alone.
func TestLeftAlone(t *testing.T) {
	left := func(in Inputs) (names []string) {
		for _, l := range build(t, in).Left {
			names = append(names, l.Name)
		}
		return names
	}
	in := example(t, "dgx-h100")
	assert.Subset(t, left(in), []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_GID_INDEX", "NCCL_CROSS_NIC"})
	in.Nodes[0].Host.Conf = []nccl.ConfFile{{
		Path: "/etc/nccl.conf",
		Text: "NCCL_PROTO=LL\nNCCL_IB_GID_INDEX=3\nNCCL_DEBUG=INFO\n",
	}}
	in.Nodes[1].Joined, in.Nodes[1].Environ = true, []string{"NCCL_ALGO=Ring"}
	in.Ranks[3].Exports = []Export{{Name: "NCCL_CROSS_NIC", Value: "0", HasValue: true}}
	assert.Equal(t, []string{
		"NCCL_DEBUG", "NCCL_IB_GID_INDEX", "NCCL_NTHREADS", "NCCL_P2P_LEVEL",
		"NCCL_NET_GDR_LEVEL",
	}, left(in))
	in.Exports = []Export{{Name: "NCCL_DEBUG", Value: "WARN", HasValue: true}}
	assert.NotContains(t, left(in), "NCCL_DEBUG", "-x overrides the file")
}

// The recommended container options provide enough shared memory.
func TestShmHint(t *testing.T) {
	for ranks, want := range map[int]string{
		2: "--shm-size=1g", 32: "--shm-size=1g", 33: "--shm-size=2g",
		128: "--shm-size=4g",
	} {
		texts := hostWarnings(&Node{Host: nccl.Host{Container: "Docker", Shm: 1 << 20}}, ranks)
		require.Len(t, texts, 1)
		assert.Contains(t, texts[0], want+" ")
		n := Node{Host: nccl.Host{Container: "Docker", Shm: int64(want[len(want)-2]-'0') << 30}}
		assert.Empty(t, hostWarnings(&n, ranks))
	}
}

// Without a warning the job would silently be many times slower.
func TestRDMAThatRanksCannotUse(t *testing.T) {
	in := example(t, "dgx-h100")
	networks[2].make(&in)
	in.Nodes[1].Host.NoVerbs, in.Nodes[1].Host.NoVerbsWhy = true, "there is no /dev/infiniband/uverbs0"
	notes := build(t, in).Notes
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0],
		"n2: ranks cannot use InfiniBand (mlx5_0), as there is no /dev/infiniband/uverbs0, so NCCL")
	joined := in
	joined.Nodes = slices.Clone(in.Nodes)
	for i := range joined.Nodes {
		joined.Nodes[i].Joined, joined.Nodes[i].Environ = true, []string{"NCCL_IB_DISABLE=1"}
	}
	assert.Empty(t, build(t, joined).Notes, "each node's user has said it")
	in.Inherited = []string{"NCCL_IB_DISABLE=1"}
	assert.Empty(t, build(t, in).Notes)
}

// Settings of configuration files are listed with their nodes, unless ranks there have the variable.
func TestConfOfNodes(t *testing.T) {
	in := example(t, "dgx-h100")
	file := func(text string) []nccl.ConfFile { return []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: text}} }
	in.Nodes[0].Host.Conf, in.Nodes[1].Host.Conf = file("NCCL_IB_TC=106\nNCCL_IB_SL=3\nNCCL_ALGO=Ring\n"),
		file("# ours\nNCCL_IB_SL=3\nNCCL_IB_TC=96\nNCCL_DEBUG=INFO\n")
	in.Nodes[1].Joined, in.Nodes[1].Environ = true, []string{"NCCL_DEBUG=WARN"}
	in.Exports = []Export{{Name: "NCCL_ALGO", Value: "Tree", HasValue: true}}
	var lines []string
	for _, c := range build(t, in).Conf {
		lines = append(lines, fmt.Sprintf("%s:%d: %s=%s %v", c.File, c.Line, c.Name, c.Value, c.Nodes))
	}
	assert.Equal(t, []string{
		"/etc/nccl.conf:1: NCCL_IB_TC=106 [0]", "/etc/nccl.conf:2: NCCL_IB_SL=3 [0 1]", "/etc/nccl.conf:3: NCCL_IB_TC=96 [1]",
	}, lines)
}

// The library's version reads every setting that gorun adds because of it.
func TestVersionsReadWhatTheyAreGiven(t *testing.T) {
	given := 0
	for minor := 18; minor <= 30; minor++ {
		in := example(t, "dgx-h100")
		networks[4].make(&in)
		surroundings[2].make(&in)
		for i := range in.Nodes {
			in.Nodes[i].Host.Library = fmt.Sprintf("2.%d.7", minor)
		}
		e := build(t, in)
		for _, v := range slices.Concat(e.Common, slices.Concat(e.Nodes...)) {
			known, ok := nccl.Lookup(v.Name)
			// all versions get these
			if !ok || known.Library != nccl.NCCL || v.Origin != Gorun || v.Name == "NCCL_RAS_ADDR" {
				continue
			}
			given++
			assert.True(t, known.In(nccl.Version{Major: 2, Minor: minor, Patch: 7}), "%s is of %s, and given to 2.%d", v.Name,
				known.Since, minor)
		}
	}
	assert.Greater(t, given, 13)
}

// A host's PyTorch gets the names that it reads, unless the user has set either.
func TestFlightRecorder(t *testing.T) {
	const file, oldFile = env.VarTorchFRDumpTempFile, env.VarTorchNCCLDebugInfoTempFile
	const pipe = env.VarTorchNCCLDebugInfoPipeFile
	in := example(t, "dgx-h100")
	in.Dumps, in.Nodes[0].Host.Torch, in.Nodes[1].Host.Torch = "<dir>", "2.15.0", "2.6.0"
	set := func(node int) (names []string) {
		e := build(t, in)
		for _, name := range []string{
			"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", file, oldFile, pipe,
		} {
			if v, is := e.find(node, 2*node, name); is && v.Origin == Gorun {
				names = append(names, name+"="+v.Value)
			}
		}
		return names
	}
	assert.Equal(t, []string{"TORCH_FR_BUFFER_SIZE=2000", file + "=<dir>", pipe + "=<dir>"}, set(0))
	assert.Equal(t, []string{
		"TORCH_NCCL_TRACE_BUFFER_SIZE=2000", "TORCH_NCCL_DUMP_ON_TIMEOUT=1", oldFile + "=<dir>", pipe + "=<dir>",
	}, set(1))
	in.Inherited = []string{"TORCH_NCCL_TRACE_BUFFER_SIZE=0", oldFile + "=/mine", pipe + "="}
	assert.Empty(t, set(0))
	in.Inherited, in.Nodes[0].Host.Torch = nil, ""
	assert.Empty(t, set(0), "no PyTorch, or no GPU")
}
