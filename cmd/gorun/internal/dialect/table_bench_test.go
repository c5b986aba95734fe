package dialect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// plainBench is what gorun bench allreduce wishes for.
func plainBench() BenchWish {
	return BenchWish{
		Operation: "allreduce", DType: "float32", Op: "sum", Backend: "auto", Begin: 8, End: 64 << 20, Factor: 2, Warmup: 5, PerSize: 100 * time.Millisecond,
	}
}

func TestBench(t *testing.T) {
	for line, change := range map[string]func(*BenchWish){
		"gorun bench allreduce":                                      func(*BenchWish) {},
		"gorun bench -np 2 all_reduce_perf -b 8 -e 64M -f 2":         func(*BenchWish) {},
		"gorun bench --operation AllReduce --world-size 2":           func(*BenchWish) {},
		"gorun bench allreduce -np 2 --operation all-reduce":         func(*BenchWish) {},
		"gorun bench allreduce -b 4K -e 1G -f 4":                     func(w *BenchWish) { w.Begin, w.End, w.Factor = 4<<10, 1<<30, 4 },
		"gorun bench allreduce --minbytes 1K --maxbytes 4K -i 512":   func(w *BenchWish) { w.Begin, w.End, w.Factor, w.Step = 1<<10, 4<<10, 0, 512 },
		"gorun bench allreduce --max-size 4":                         func(w *BenchWish) { w.Begin, w.End = 4, 4 },
		"gorun bench allreduce -b 1G":                                func(w *BenchWish) { w.Begin, w.End = 1<<30, 1<<30 },
		"gorun bench allreduce -d half -o max --trials 7 -w 0 -c 1":  func(w *BenchWish) { w.DType, w.Op, w.Trials, w.Warmup, w.Check = "float16", "max", 7, 0, true },
		"gorun bench allreduce --dtype torch.bfloat16 --check":       func(w *BenchWish) { w.DType, w.Check = "bfloat16", true },
		"gorun bench allreduce --dtype int32 --op bxor -np 2":        func(w *BenchWish) { w.DType, w.Op = "int32", "bxor" },
		"gorun bench bcast --root 1":                                 func(w *BenchWish) { w.Operation, w.Op, w.Root = "broadcast", "", 1 },
		"gorun bench barrier":                                        func(w *BenchWish) { w.Operation, w.Op = "barrier", "" },
		"gorun bench allreduce --compute 12ms --predict 1.3GB --csv": func(w *BenchWish) { w.Compute, w.Predict, w.CSV = 12*time.Millisecond, 1_300_000_000, true },
		"gorun bench allreduce --predict 25M --svg - --json=false":   func(w *BenchWish) { w.Predict, w.SVG = 25<<20, "-" },
		"gorun bench allreduce --link-bandwidth 25GB/s --json":       func(w *BenchWish) { w.Link, w.JSON = 25e9, true },
		"gorun bench allreduce --json --dry-run":                     func(*BenchWish) {},
		"gorun bench allreduce --backend cpu --time-per-size 1":      func(w *BenchWish) { w.Backend, w.PerSize = "cpu", time.Second },
		"gorun bench allreduce -g 8":                                 func(w *BenchWish) { w.Backend = "nccl" },
	} {
		t.Run(line, func(t *testing.T) {
			want, got := plainBench(), mustParse(t, line)
			change(&want)
			require.Equal(t, want, *got.Bench)
			require.Same(t, Bench, got.Dialect)
			require.Empty(t, got.Notes)
			require.Len(t, got.Spec.Apps, 1)
			require.Empty(t, got.Spec.Apps[0].Program, "left to who starts it")
			require.Equal(t, job.LabelNever, got.Spec.Output.Label)
		})
	}
}

// Where and how the ranks run is said as for every job.
func TestBenchIsAJob(t *testing.T) {
	spec := mustParse(t, "gorun bench allreduce").Spec
	require.Equal(t, job.Count{Kind: job.CountAuto, From: "gorun bench's default"}, spec.PerNode)
	spec = mustParse(t, "gorun bench allreduce -n4 --bind-to core -x A=1 --timeout 5 --label always").Spec
	require.Equal(t, 4, spec.Apps[0].NumRanks)
	require.Equal(t, "-n4", spec.RanksFrom)
	require.NotZero(t, spec.Place.BindTo)
	require.Equal(t, []job.Export{{Name: "A", Value: "1", HasValue: true}}, spec.Exports)
	require.Equal(t, 5*time.Second, spec.Timeout)
	require.Equal(t, job.LabelAlways, spec.Output.Label)
	require.Equal(t, DryRun, mustParse(t, "gorun bench allreduce --dry-run").Action)
	spec = mustParse(t, "gorun bench allreduce -np 2 -g 4").Spec
	require.Equal(t, 8, spec.Apps[0].NumRanks, "a process has one GPU")
	require.Equal(t, "-np 2 -g 4", spec.RanksFrom)
	spec = mustParse(t, "gorun bench allreduce --nproc-per-node 2 -g 4").Spec
	require.Equal(t, 8, spec.Apps[0].NumRanks)
	require.Equal(t, job.CountUnset, spec.PerNode.Kind)
	got := mustParse(t, "gorun -n 2 bench allreduce")
	require.Nil(t, got.Bench, "a program of that name")
	require.Equal(t, "bench", got.Spec.Apps[0].Program)
}

func TestBenchProblems(t *testing.T) {
	const size = "not a size; write 1000000 (bytes), 64K, 64M or 4G"
	for line, want := range map[string][]string{
		"gorun bench":                            {"which operation? Write gorun bench allreduce, or one of reduce, broadcast, allgather, reducescatter, gather, scatter, alltoall, sendrecv, p2p, barrier"},
		"gorun bench frob":                       {"frob: not an operation; there are allreduce, reduce, broadcast, allgather, reducescatter, gather, scatter, alltoall, sendrecv, p2p, barrier"},
		"gorun bench allreduce barrier":          {"barrier: one operation at a time: there is allreduce already"},
		"gorun bench allreduce -b 8M -e 4K":      {"-b 8M is more than -e 4K: the smallest size comes first"},
		"gorun bench allreduce -b x -e 1.5 -f 1": {"-b x: " + size, "-e 1.5: " + size, "-f 1: not a number from 2 on"},
		"gorun bench allreduce -f 2 -i 4":        {"--stepfactor and --stepbytes contradict each other: keep one", "--stepbytes 4: from 8 to 67108864 these are 16777215 sizes, more than 10000: take a larger step, or --stepfactor"},
		"gorun bench allreduce --dtype complex":  {"--dtype complex: not one of float32, float64, float16, bfloat16, int8, uint8, int32, uint32, int64, uint64"},
		"gorun bench allreduce --op xor":         {"--op xor: not one of sum, prod, max, min, avg, band, bor, bxor"},
		"gorun bench allreduce --op band":        {"--op band works on the bits of integers, not on float32: add --dtype int32, for instance"},
		"gorun bench allreduce --root 1":         {"--root 1: allreduce has no root; leave it out"},
		"gorun bench broadcast --op sum":         {"--op sum: broadcast reduces nothing; leave it out"},
		"gorun bench allreduce --backend gloo":   {"--backend gloo: not one of auto, cpu, nccl"},
		"gorun bench allreduce -g 2 --backend cpu": {
			"-g 2 counts GPUs, which --backend cpu has none of: use -np",
		},
		"gorun bench allreduce -g 2 --nproc-per-node auto": {"-g 2 does not go with --nproc-per-node auto: give the number of ranks"},
		"gorun bench allreduce --trials 0":                 {"--trials 0: not a number from 1 on"},
		"gorun bench allreduce -c 2":                       {"-c 2: not one of 0, 1"},
		"gorun bench allreduce --compute 0":                {"--compute 0: a step needs some time to compute; write 12ms or 0.5 (seconds)"},
		"gorun bench allreduce --json --csv":               {"--json and --csv contradict each other: both want standard output"},
		"gorun bench allreduce --csv --svg -":              {"--csv and --svg - contradict each other: both want standard output"},
		"gorun bench barrier --svg x --predict 5": {
			"--svg: a barrier moves nothing whose bandwidth could be drawn", "--predict: a barrier has no size",
		},
		"gorun bench allreduce --module":  {"unknown option --module: gorun has it, gorun bench does not; call gorun for it"},
		"gorun bench allreduce --maxbyte": {"unknown option --maxbyte: did you mean --maxbytes?"},
		"gorun bench-rank":                {"gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a program of that name"},
	} {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
}
