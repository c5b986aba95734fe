package main

import "time"

// The steps never change GPUs' settings. bash -e ignores a failing "! command" unless it is the last one.

// busy starts a background job on GPUs and waits until it computes.
const busy = `log=$(mktemp)
bin/gorun bench allreduce $GPUS -b 64M -e 64M --time-per-size 200s >$log 2>&1 &
job=$!
trap 'kill $job 2>/dev/null || :; wait $job || :; rm $log' EXIT
for i in $(seq 90); do
	kill -0 $job 2>/dev/null || { cat $log; exit 1; }
	[ -z "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader)" ] || break
	sleep 1
done
`

// steps are run in this order.
var steps = []step{
	{name: "The machine", commands: []string{"uname -a; bin/gorun version; bin/gorun-gpu version; nvidia-smi"}},
	{name: "Discovery: topo -m", commands: []string{"nvidia-smi topo -m", "bin/gorun topo"}, check: sameMatrix},
	{name: "Discovery: query", check: sameGPUs, commands: []string{
		"nvidia-smi --query-gpu=pci.bus_id,name,uuid,memory.total --format=csv,noheader", "bin/gorun topo --json",
	}},
	{name: "Notes of discovery", commands: []string{"bin/gorun topo --impact --model-size 7.5GB"}},
	{
		name: "MIG", check: sameParts,
		commands: []string{
			`nvidia-smi -L | grep -E '^ +MIG ' || { echo "no GPU is divided (MIG)"; exit 77; }`,
			"bin/gorun topo --json",
		},
	},
	{
		name: "--gpus free leaves out a GPU in use", needs: []string{"nccl"},
		commands: []string{"GPUS='-g 1 --gpus 0'\n" + busy + `used=$(nvidia-smi --query-compute-apps=gpu_uuid ` +
			`--format=csv,noheader | sort -u)
echo "in use: $used"
[ -n "$used" ] || { echo "nvidia-smi shows no processes here, as in a container without the host's PIDs"; exit 77; }
bin/gorun topo --json | grep -q '"used": true'
free=$(bin/gorun --gpus free -n 1 --label never printenv CUDA_VISIBLE_DEVICES 2>&1) || free="none: $free"
echo "free: $free"
if grep -qF "$used" <<<"$free"; then exit 1; fi
[ $N != 1 ] || grep -q none: <<<"$free"`},
	},
	{
		name: "Isolation shows each rank one GPU",
		commands: []string{`out=$(bin/gorun --isolate-gpus -n $N --label never printenv CUDA_VISIBLE_DEVICES)
echo "$out"; [ $(sort -u <<<"$out" | wc -l) = $N ]`},
		want: `(?m)^(GPU|MIG)-`,
	},
	{name: "CUDA counts one GPU in an isolated rank", needs: []string{"torch"}, commands: []string{
		`ask='import torch; print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid)'
out=$(bin/gorun --isolate-gpus -n $N --label never $PYTHON -c "$ask")
echo "$out"; [ $(grep -c '^1 ' <<<"$out") = $N ]; [ $(sort -u <<<"$out" | wc -l) = $N ]`,
	}},
	{name: "Doctor", commands: []string{"bin/gorun doctor || [ $? = 1 ]"}},
	{name: "comm's NCCL back end: one GPU, several, two groups, failures", needs: []string{"nccl"}, commands: []string{
		"test=$PWD/build/gpu/nccl.test; cd comm/internal/nccl && $test -test.run '^TestReal' -test.v",
	}, want: `--- PASS: TestRealGPU `},
	{name: "Every operation, checked", needs: []string{"nccl"}, limit: 15 * time.Minute, commands: []string{
		`for op in allreduce reduce broadcast allgather reducescatter gather scatter alltoall sendrecv barrier; do
check=--check; [ $op != barrier ] || check=
bin/gorun bench $op -g $N $check $([ $op = barrier ] || echo -b 8 -e 64M -f 8); done`,
	}, want: `back end nccl`},
	{name: "Every type and reduction, checked", needs: []string{"nccl"}, limit: 15 * time.Minute, commands: []string{
		`for type in float32 float64 float16 bfloat16 int8 uint8 int32 uint32 int64 uint64; do
for op in sum prod max min avg; do
bin/gorun bench allreduce -g $N --check -b 1K -e 1M -f 1024 --trials 5 -d $type -o $op; done; done`,
	}},
	{
		name: "Bandwidth: comm", needs: []string{"nccl"},
		commands: []string{"bin/gorun bench allreduce -g $N -b 8 -e 1G -f 8"},
	},
	{
		name: "Bandwidth: nccl-tests", needs: []string{"all_reduce_perf"},
		commands: []string{"all_reduce_perf -b 8 -e 1G -f 8 -g $N"},
	},
	{name: "Bandwidth: torch and comm, the same program", needs: []string{"torch", "nccl", "go"}, commands: []string{
		"bin/gorun -n $N $PYTHON examples/torch/dist_allreduce.py --backend nccl",
		"bin/gorun -n $N ./examples/dist_allreduce",
	}},
	{
		name: "Paths between GPUs, one by one", needs: []string{"nccl", "GPUs:2"}, limit: 15 * time.Minute,
		commands: []string{
			"bin/gorun bench p2p -g $N",
		}, want: `GPU0 .*GPU1 +nccl`,
	},
	{name: "Paths to the host's memory", needs: []string{"nccl", "GPUs:2"}, commands: []string{
		"bin/gorun bench p2p -g 2 -b 8 -e 64M -f 4096 -x NCCL_P2P_DISABLE=1",
	}, want: `GPU0 +copies`},
	{name: "Examples", needs: []string{"nccl", "go"}, limit: 20 * time.Minute, commands: []string{
		`for e in hello broadcast allreduce trainer overlap straggler reinit fragmentation bottleneck; do
echo "== $e"; timeout 300 bin/gorun -n $N ./examples/$e
done`,
	}},
	{name: "NCCL's log is understood", needs: []string{"nccl"}, commands: []string{
		"NCCL_DEBUG=INFO bin/gorun bench allreduce -v -g $N -b 8 -e 8 --trials 5 2>&1",
	}, want: `(?m)^gorun: .*NCCL \d+\.\d+`},
	{name: "gorun's settings make NCCL warn of nothing", needs: []string{"nccl"}, commands: []string{
		"bin/gorun lint", "bin/gorun --nproc-per-node gpu --dry-run true",
		`out=$(NCCL_DEBUG=WARN bin/gorun bench allreduce -g $N -b 8 -e 8 --trials 5 2>&1)
echo "$out"; ! grep 'NCCL WARN' <<<"$out"`,
	}},
	{name: "NCCL's own servers answer (RAS)", needs: []string{"nccl"}, commands: []string{
		"GPUS=\"-g $N\"\n" + busy + "for i in $(seq 30); do ! bin/gorun ps --nccl || exit 0; sleep 1; done; exit 1",
	}, want: `NCCL`},
	{name: "PyTorch's DDP over NCCL", needs: []string{"torch"}, commands: []string{
		"bin/gorun -n $N $PYTHON internal/gpucheck/testdata/ddp.py",
		"bin/gorun --isolate-gpus -n $N $PYTHON internal/gpucheck/testdata/ddp.py",
	}, want: `ddp: the ranks agree`},
}
