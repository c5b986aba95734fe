package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm/bench"
	"gorun/internal/testhosts"
	"gorun/internal/version"
	"gorun/launcher/job"
	"gorun/placement/nvml/worker"
)

// plainBench is the configuration of `gorun bench allreduce` without options.
func plainBench() bench.Config {
	return bench.Config{
		Operation: "allreduce", DType: "float32", Op: "sum", Backend: "auto", Begin: 8, End: 64 << 20, Factor: 2,
		Warmup: 5, PerSize: 100 * time.Millisecond,
	}
}

func TestBench(t *testing.T) {
	for line, change := range map[string]func(*bench.Config){
		"gorun bench allreduce":                              func(*bench.Config) {},
		"gorun bench -np 2 all_reduce_perf -b 8 -e 64M -f 2": func(*bench.Config) {},
		"gorun bench --operation AllReduce --world-size 2":   func(*bench.Config) {},
		"gorun bench allreduce -np 2 --operation all-reduce": func(*bench.Config) {},
		"gorun bench allreduce -b 4K -e 1G -f 4": func(w *bench.Config) {
			w.Begin, w.End, w.Factor = 4<<10, 1<<30, 4
		},
		"gorun bench allreduce --minbytes 1K --maxbytes 4K -i 512": func(w *bench.Config) {
			w.Begin, w.End, w.Factor, w.Step = 1<<10, 4<<10, 0, 512
		},
		"gorun bench allreduce --max-size 4": func(w *bench.Config) { w.Begin, w.End = 4, 4 },
		"gorun bench allreduce -b 1G":        func(w *bench.Config) { w.Begin, w.End = 1<<30, 1<<30 },
		"gorun bench allreduce -d half -o max --trials 7 -w 0 -c 1": func(w *bench.Config) {
			w.DType, w.Op, w.Trials, w.Warmup, w.Check = "float16", "max", 7, 0, true
		},
		"gorun bench allreduce --dtype torch.bfloat16 --check": func(w *bench.Config) {
			w.DType, w.Check = "bfloat16", true
		},
		"gorun bench allreduce --dtype int32 --op bxor -np 2": func(w *bench.Config) { w.DType, w.Op = "int32", "bxor" },
		"gorun bench bcast --root 1": func(w *bench.Config) {
			w.Operation, w.Op, w.Root = "broadcast", "", 1
		},
		"gorun bench barrier": func(w *bench.Config) {
			w.Operation, w.Op = "barrier", ""
		},
		"gorun bench allreduce --compute 12ms --predict 1.3GB --csv": func(w *bench.Config) {
			w.Compute, w.Predict, w.CSV = 12*time.Millisecond, 1_395_864_371, true
		},
		"gorun bench allreduce --predict 25M --svg - --json=false": func(w *bench.Config) { w.Predict, w.SVG = 25<<20, "-" },
		"gorun bench allreduce --link-bandwidth 25GB/s --json":     func(w *bench.Config) { w.Link, w.JSON = 25e9, true },
		"gorun bench MPI_Allreduce -np2 -b8 -e64M -f2 -w5 -c0":     func(*bench.Config) {},
		"gorun bench allreduce -b 64KB -e 64KiB --predict 64K": func(w *bench.Config) {
			w.Begin, w.End, w.Predict = 64<<10, 64<<10, 64<<10
		},
		"gorun bench allreduce --link-bandwidth 200Gbit/s": func(w *bench.Config) { w.Link = 25e9 },
		"gorun bench MPI_Bcast -np 2 --root 1": func(w *bench.Config) {
			w.Operation, w.Op, w.Root = "broadcast", "", 1
		},
		"gorun bench MPI_Reduce_scatter_block": func(w *bench.Config) { w.Operation = "reducescatter" },
		"gorun bench barrier --compute 1ms -c 0": func(w *bench.Config) {
			w.Operation, w.Op, w.Compute = "barrier", "", time.Millisecond
		},
		"gorun bench allreduce --json --dry-run": func(*bench.Config) {},
		"gorun bench allreduce --backend cpu --time-per-size 1": func(w *bench.Config) {
			w.Backend, w.PerSize = "cpu", time.Second
		},
		"gorun bench allreduce -g 8": func(w *bench.Config) { w.Backend = "nccl" },
	} {
		t.Run(line, func(t *testing.T) {
			want, got := plainBench(), mustBe[*benchOptions](t, line)
			change(&want)
			require.Equal(t, want, got.Config)
			require.Empty(t, got.Notes)
			require.Len(t, got.Spec.Apps, 1)
			require.Empty(t, got.Spec.Apps[0].Program, "left to who starts it")
			require.Equal(t, job.LabelNever, got.Spec.Output.Label)
		})
	}
}

// gorun bench accepts the options of a job.
func TestBenchIsAJob(t *testing.T) {
	spec := mustBe[*benchOptions](t, "gorun bench allreduce").Spec
	require.Equal(t, job.Count{Kind: job.CountAuto, From: "gorun bench's default"}, spec.PerNode)
	spec = mustBe[*benchOptions](t, "gorun bench allreduce -n4 --bind-to core -x A=1 --timeout 5 --label always").Spec
	require.Equal(t, 4, spec.Apps[0].NumRanks)
	require.Equal(t, "-n4", spec.RanksFrom)
	require.NotZero(t, spec.Place.BindTo)
	require.Equal(t, []job.Export{{Name: "A", Value: "1", HasValue: true}}, spec.Exports)
	require.Equal(t, 5*time.Second, spec.Timeout)
	require.Equal(t, job.LabelAlways, spec.Output.Label)
	require.True(t, mustBe[*benchOptions](t, "gorun bench allreduce --dry-run").DryRun)
	spec = mustBe[*benchOptions](t, "gorun bench allreduce -np 2 -g 4").Spec
	require.Equal(t, 8, spec.Apps[0].NumRanks, "a process has one GPU")
	require.Equal(t, "-np 2 -g 4", spec.RanksFrom)
	spec = mustBe[*benchOptions](t, "gorun bench allreduce --nproc-per-node 2 -g 4").Spec
	require.Equal(t, 8, spec.Apps[0].NumRanks)
	require.Equal(t, job.CountUnset, spec.PerNode.Kind)
	for line, want := range map[string]job.Count{
		"gorun bench p2p -H a,b --nproc-per-node 1":                   fixedCount(1, "--nproc-per-node 1"),
		"gorun bench allreduce -H a,b -g 4":                           fixedCount(4, "-g 4"),
		"gorun bench allreduce -H a,b --nproc-per-node 2 -g 4":        fixedCount(8, "--nproc-per-node 2 -g 4"),
		"gorun bench bcast --nnodes 2 --master-addr a -g 4 --root=7 ": fixedCount(4, "-g 4"),
	} {
		spec = mustBe[*benchOptions](t, line).Spec
		require.Equal(t, want, spec.PerNode, line)
		require.Zero(t, spec.Apps[0].NumRanks, "of each host")
	}
}

func TestBenchProblems(t *testing.T) {
	const size = "not a size; write 1000000 (bytes), 64K, 1.5M or 4G"
	requireProblems(t, map[string][]string{
		"gorun bench": {"which operation? Write gorun bench allreduce, or one of reduce, " +
			"broadcast, allgather, reducescatter, gather, scatter, alltoall, sendrecv, p2p, barrier"},
		"gorun bench frob": {"frob: not an operation; there are allreduce, reduce, broadcast, " +
			"allgather, reducescatter, gather, scatter, alltoall, sendrecv, p2p, barrier"},
		"gorun bench allreduce barrier":          {"barrier: one operation at a time: there is allreduce already"},
		"gorun bench allreduce -b 8M -e 4K":      {"-b 8M is more than -e 4K: the smallest size comes first"},
		"gorun bench allreduce -b x -e 1.5 -f 1": {"-b x: " + size, "-e 1.5: " + size, "-f 1: not a number from 2 on"},
		"gorun bench allreduce -f 2 -i 4": {
			"--stepfactor and --stepbytes contradict each other: keep one",
			"--stepbytes 4: from 8 to 67108864 these are 16777215 sizes, more than 10000: take a larger step, or --stepfactor",
		},
		"gorun bench allreduce --dtype complex": {"--dtype complex: not one of float32, float64, float16, bfloat16, int8, " +
			"uint8, int32, uint32, int64, uint64"},
		"gorun bench allreduce --op xor": {"--op xor: not one of sum, prod, max, min, avg, band, bor, bxor"},
		"gorun bench allreduce --op band": {"--op band works on the bits of integers, not on float32: add --dtype " +
			"int32, for instance"},
		"gorun bench allreduce --root 1":       {"--root 1: allreduce has no root; leave it out"},
		"gorun bench broadcast --op sum":       {"--op sum: broadcast reduces nothing; leave it out"},
		"gorun bench allreduce --backend gloo": {"--backend gloo: not one of auto, cpu, nccl"},
		"gorun bench allreduce -g 2 --backend cpu": {
			"-g 2 counts GPUs, which --backend cpu has none of: use -np",
		},
		"gorun bench allreduce -g 2 --nproc-per-node auto": {"-g 2 does not go with --nproc-per-node auto: give the number " +
			"of ranks"},
		"gorun bench allreduce --trials 0": {"--trials 0: not a number from 1 on"},
		"gorun bench allreduce -c 2":       {"-c 2: not one of 0, 1"},
		"gorun bench allreduce --compute 0": {"--compute 0: not a time above 0; write 12ms " +
			"or 0.5 (seconds)"},
		"gorun bench allreduce --json --csv": {"--json and --csv contradict each other: both want standard " +
			"output"},
		"gorun bench allreduce --csv --svg -": {"--csv and --svg - contradict each other: both want standard " +
			"output"},
		"gorun bench barrier --svg x --predict 5": {
			"--predict 5: a barrier has no size; leave it out", "--svg: a barrier moves nothing whose bandwidth could be drawn",
		},
		"gorun bench barrier -e 8 -f 2 --check": {
			"-e 8: a barrier has no size; leave it out", "-f 2: a barrier has no size; leave it out",
			"--check: a barrier has no result to check; leave it out",
		},
		"gorun bench allreduce -b 16M -e 16M --predict 25MiB": {
			"--predict 25MiB: one size, 16777216 bytes, makes no model: give a smallest and a largest, -b and -e, that " +
				"are apart",
		},
		"gorun bench allreduce -b 8 -e 15 --predict 25M": {"--predict 25M: one size, 8 bytes, makes no model: give a " +
			"smallest and a largest, -b and -e, that are apart"},
		"gorun bench allreduce -b 8 -e 9 -i 2 --predict 25M": {
			"--predict 25M: one size, 8 bytes, makes no model: give a smallest and a largest, -b and -e, that are apart",
		},
		"gorun bench allreduce -np 1 --predict 25M": {"--predict 25M: one rank sends nothing of which a model could be " +
			"made: add -np 2 or more"},
		"gorun bench allreduce --predict x": {"--predict x: " + size},
		"gorun bench broadcast -r 1": {"-r 1: use --root 1; gorun's own option for files of output is " +
			"--redirects"},
		"gorun bench broadcast -r 0": {"-r 0: use --root 0; gorun's own option for files of output is " +
			"--redirects"},
		"gorun bench broadcast -t 2": {"-t 2: use -np 2, as ranks are processes here; gorun's own option " +
			"for files of output is --tee"},
		"gorun bench all_reduce_perf -np 2 -n 20": {"-n 20: contradicts -np 2; both are numbers of ranks: nccl-tests' " +
			"iterations are --iters 20"},
		"gorun bench all_reduce_perf -n20 -np 2": {"-np 2: contradicts -n20; both are numbers of ranks: nccl-tests' " +
			"iterations are --iters 20"},
		"gorun bench broadcast -np 2 --root 5": {"--root 5: the last of 2 ranks is rank 1"},
		"gorun bench p2p -np 1":                {"p2p goes between two ranks, and there is one: add -np 2"},
		"gorun bench allreduce --json /x.json": {"--json takes no file: write --json > /x.json"},
		"gorun bench allreduce -m 2": {"unknown option -m: gorun has it, gorun bench does not; call gorun " +
			"for it"},
		"gorun bench allreduce -z 0 --check": {"unknown option -z"},
		"gorun bench allreduce --check 1": {"1: not an operation; there are allreduce, reduce, broadcast, " +
			"allgather, reducescatter, gather, scatter, alltoall, sendrecv, p2p, barrier"},
		"gorun bench allreduce -b 0":               {"-b 0: " + size},
		"gorun bench allreduce --time-per-size 0":  {"--time-per-size 0: not a time above 0; write 12ms or 0.5 (seconds)"},
		"gorun bench allreduce --time-per-size 1x": {"--time-per-size 1x: not a time above 0; write 12ms or 0.5 (seconds)"},
		"gorun bench allreduce --compute 1x":       {"--compute 1x: not a time above 0; write 12ms or 0.5 (seconds)"},
		"gorun bench allreduce --link-bandwidth 25G": {
			"--link-bandwidth 25G: bytes or bits a second, and how many? Write 25GB/s (10^9 bytes) or 25Gb/s (10^9 bits)",
		},
		"gorun bench allreduce --module":  {"unknown option --module: gorun has it, gorun bench does not; call gorun for it"},
		"gorun bench allreduce --maxbyte": {"unknown option --maxbyte: did you mean --maxbytes?"},
		"gorun bench-rank": {"gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a " +
			"program of that name"},
	})
}

// A lower-case b means bits. Prefixes without i are decimal.
func TestLinkBandwidths(t *testing.T) {
	for value, want := range map[string]float64{
		"25GB": 25e9, "25 GB/s": 25e9, "25GBps": 25e9, "1GiB": 1 << 30, "1.5TiB/s": 1.5 * (1 << 40), "500kB/s": 500e3,
		"1e3MB/s": 1e9, "8B": 8,
		"200Gb": 25e9, "200Gbit": 25e9, "200Gbps": 25e9, "200Gbit/s": 25e9, "200gbps": 25e9, "200Gbits/s": 25e9,
		"8Gib": 1 << 30, "8b": 1,
	} {
		got, err := parseLink(value)
		require.NoError(t, err, value)
		require.InEpsilon(t, want, got, 1e-12, value)
	}
	for _, value := range []string{"", "GB", "0GB", "-1GB", "x", "nan", "25", "25G", "25GHz", "25GB/m", "1.2.3GB"} {
		_, err := parseLink(value)
		require.Error(t, err, value)
	}
}

// Operations have the names of MPI, NCCL and nccl-tests.
func TestOperationNames(t *testing.T) {
	for typed, want := range map[string]string{
		"MPI_Allreduce": "allreduce", "mpi_allreduce": "allreduce", "MPI_Bcast": "broadcast", "MPI_Allgather": "allgather",
		"MPI_Alltoall":             "alltoall",
		"MPI_Reduce_scatter_block": "reducescatter", "reduce_scatter_block": "reducescatter",
		"Reduce_Scatter": "reducescatter", "MPI_Sendrecv": "sendrecv",
		"MPI_Barrier": "barrier", "alltoall_perf": "alltoall", "all_gather_perf": "allgather", "bcast": "broadcast",
	} {
		require.Equal(t, want, mustBe[*benchOptions](t, "gorun bench "+typed).Operation)
	}
}

// gorun notes that -n means iterations in nccl-tests.
func TestIterations(t *testing.T) {
	require.Equal(t,
		[]string{"-n 20 is the number of ranks, as everywhere in gorun; nccl-tests' iterations are --iters 20"},
		mustBe[*benchOptions](t, "gorun bench all_reduce_perf -n 20").Notes)
	require.Empty(t, mustBe[*benchOptions](t, "gorun bench all_reduce_perf -np 20").Notes)
	require.Empty(t, mustBe[*benchOptions](t, "gorun bench allreduce -n 20").Notes)
}

// p2p over several hosts runs one rank on each, unless an option sets the number.
func TestBenchP2PHasOneRankPerHost(t *testing.T) {
	for line, want := range map[string]job.Count{
		"gorun bench p2p -H h1,h2": {
			Kind: job.CountFixed, N: 1, From: "gorun bench p2p's default on several hosts",
		},
		"gorun bench p2p":                    {Kind: job.CountAuto, From: benchDefault},
		"gorun bench allreduce -H h1,h2":     {Kind: job.CountAuto, From: benchDefault},
		"gorun bench p2p -H h1:2,h2:2 -np 4": {},
	} {
		require.Equal(t, want, mustBe[*benchOptions](t, line).Spec.PerNode, line)
	}
}

func fixedCount(n int, from string) job.Count {
	return job.Count{Kind: job.CountFixed, N: n, From: from}
}

// gorun bench runs as many ranks as the allocation has tasks. If it has no number of tasks, there is one rank per
// GPU or CPU.
func TestBenchInAllocation(t *testing.T) {
	o := mustBe[*benchOptions](t, "gorun bench allreduce -np 4", allocation...)
	require.Equal(t, job.CountUnset, o.Spec.PerNode.Kind)
	require.Len(t, o.Spec.Hosts, 4)
	require.Equal(t, job.CountAuto, mustBe[*benchOptions](t, "gorun bench allreduce", "SLURM_JOB_ID=17",
		"SLURM_JOB_NODELIST=n[1-4]", "SLURM_TASKS_PER_NODE=1(x4)").Spec.PerNode.Kind)
}

// perftestPrinted replaces perftest's programs. Its first client finds no listener yet.
const perftestPrinted = `#!/bin/sh
echo "$(hostname) ${0##*/} $*" >> %[1]s/ran
case $2 in bad*) echo "Unable to open file descriptor"; echo "Failed to modify QP to RTR" >&2; exit 1 ;; esac
for last; do :; done
case $last in
10.*) if mkdir %[1]s/refused 2>/dev/null; then echo "Couldn't connect to $last:18515" >&2; exit 1; fi ;;
esac
case $0 in
*_lat) echo ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]'
	echo ' 2       1000          0.98           4.37         1.02     	       1.03' ;;
*) echo ' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]'
	echo ' 65536      20000            97.64              96.00  		   0.186217' ;;
esac
`

// rdmaPorts makes a /sys/class with RDMA devices of one port each, in addition to this host's interfaces.
func rdmaPorts(t *testing.T, set *testhosts.Set, host string, devices ...string) {
	class := t.TempDir()
	for _, device := range devices {
		port := filepath.Join(class, "infiniband", device, "ports", "1")
		require.NoError(t, os.MkdirAll(port, 0o755))
		for name, text := range map[string]string{
			"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (2X HDR)",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(port, name), []byte(text+"\n"), 0o644))
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(class, "net"), 0o755))
	for _, name := range []string{"eth0", "rail1"} {
		require.NoError(t, os.Symlink("../../devices/virtual/net/"+name, filepath.Join(class, "net", name)))
	}
	require.NoError(t, set.Mount(host, "--bind", class, "/sys/class"))
}

// gorun bench p2p measures each pair of interfaces of two hosts. It starts perftest on both to measure RDMA writes.
func TestBenchMeasuresPathsBetweenHosts(t *testing.T) {
	if !bench.Linked {
		return // the other build has no collectives
	}
	set := testhosts.Up(t, testhosts.Config{Hosts: 2, PrivateHome: true})
	dir := t.TempDir()
	for _, program := range []string{"ib_write_bw", "ib_write_lat"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), fmt.Appendf(nil, perftestPrinted, dir), 0o755))
	}
	for i, host := range set.Hosts() {
		rail := testhosts.Interface{Name: "rail1", Addresses: []string{fmt.Sprintf("10.99.0.%d/24", i+1)}, Bridge: "rail1"}
		require.NoError(t, set.AddInterface(host, rail))
		rdmaPorts(t, set, host, "bad_0", fmt.Sprint("mlx5_", i))
	}
	cmd := onHead(set, ownGorun(t), set.SSHConfig(), "bench", "p2p", "-H", "h1,h2", "-b", "8", "-e", "64K", "-f", "8192",
		"--trials", "3", "--time-per-size", "10ms", "--json", "-x", "PATH")
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	require.NoError(t, checkDocument(out))
	var report bench.Report
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	require.Equal(t, 2, report.Ranks, "one on each host")
	var names []string
	for _, p := range report.Paths {
		names = append(names, fmt.Sprintf("%s > %s by %s", p.From, p.To, p.By))
		if p.From == "h1 bad_0" {
			require.Equal(t, "ib_write_lat: exit status 1: Failed to modify QP to RTR", p.Error)
			continue
		}
		require.Empty(t, p.Error, "%+v", p)
		require.Positive(t, p.Latency, "%+v", p)
		require.Positive(t, p.Forth, "%+v", p)
		require.Positive(t, p.Back, "%+v", p)
	}
	require.Equal(t, []string{
		"h1 > h2 by comm", fmt.Sprintf("h1 eth0 %s > h2 eth0 %s by tcp", set.Address("h1"), set.Address("h2")),
		"h1 rail1 10.99.0.1 > h2 rail1 10.99.0.2 by tcp", "h1 bad_0 > h2 bad_0 by ib_write_bw",
		"h1 mlx5_0 > h2 mlx5_1 by ib_write_bw",
	}, names)
	tcp, rdma := report.Paths[2], report.Paths[4]
	require.Positive(t, tcp.ForthMany)
	require.Positive(t, tcp.BackMany)
	require.Equal(t, 4, tcp.Streams)
	require.Equal(t, []float64{12.5, 1.02, 12, 12}, []float64{rdma.Link, rdma.Latency, rdma.Forth, rdma.Back})
	ran, err := os.ReadFile(filepath.Join(dir, "ran"))
	require.NoError(t, err)
	for _, line := range []string{
		`h2 ib_write_lat -d mlx5_1 -i 1 -p \d+ -F -s 2 -n 1000`,
		`h1 ib_write_lat -d mlx5_0 -i 1 -p \d+ -F -s 2 -n 1000 ` + set.Address("h2"),
		`h1 ib_write_bw -d mlx5_0 -i 1 -p \d+ -F -s 65536 -n 20000 --report_gbits ` + set.Address("h2"),
		`h2 ib_write_bw -d mlx5_1 -i 1 -p \d+ -F -s 65536 -n 20000 --report_gbits ` + set.Address("h1"),
	} {
		require.Regexp(t, `(?m)^`+line+`$`, string(ran))
	}
}

// The command line accepts exactly the operations of package bench.
func TestBenchNames(t *testing.T) {
	require.ElementsMatch(t, bench.Operations(), benchOperations)
	require.ElementsMatch(t, bench.DTypes(), benchDTypes)
	require.ElementsMatch(t, bench.Reductions(), benchReductions)
}

// Without cgo, gorun names the missing program, or reports the problem with it.
func TestWithCollectives(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	beside := worker.Program{Beside: filepath.Join(dir, "gorun")}
	_, err := findCollectives(beside)
	require.EqualError(t, err, "this gorun was built without cgo and has no collectives, and gorun-gpu is not in "+
		dir+" or PATH")

	program := filepath.Join(dir, worker.Name)
	for script, want := range map[string]string{
		"echo gorun v0-other": `gorun-gpu is "gorun v0-other", this is version ` + version.String() +
			": install both together",
		"echo":                           `gorun-gpu is "", this is version`,
		"exit 3":                         "gorun-gpu version: exit status 3",
		"echo gorun " + version.String(): "",
	} {
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		path, err := findCollectives(beside)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, program, path)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// Without GPUs there is one error with a hint.
func TestWithoutGPUs(t *testing.T) {
	unset := func(string) string { return "" }
	none := func(string) bool { return false }
	require.NoError(t, checkDrivers("auto", unset, none))
	require.NoError(t, checkDrivers("nccl", unset, func(path string) bool { return path == "/dev/kfd" }))
	require.NoError(t, checkDrivers("nccl", func(string) string { return "libfake.so" }, none))
	require.ErrorContains(t, checkDrivers("nccl", unset, none), "use --backend cpu, and -np instead of -g")
}
