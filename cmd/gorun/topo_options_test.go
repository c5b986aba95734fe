package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

func TestTopo(t *testing.T) {
	for line, want := range map[string]topoOptions{
		"gorun topo":                       {},
		"gorun topo --":                    {},
		"gorun topo --from d":              {from: "d"},
		"gorun topo --example=dgx-h100":    {example: "dgx-h100"},
		"gorun topo --save d":              {save: "d"},
		"gorun topo --svg -":               {svg: "-"},
		"gorun topo -n4":                   {ranks: 4, ranksFrom: "-n4"},
		"gorun topo --nproc_per_node auto": {perNode: job.Count{Kind: job.CountAuto, From: "--nproc_per_node auto"}},
		"gorun topo -np 2 --nproc-per-node 2": {
			ranks: 2, ranksFrom: "-np 2", perNode: job.Count{Kind: job.CountFixed, N: 2, From: "--nproc-per-node 2"},
		},
		"gorun topo --model-size 7.5GB":              {impact: true, modelSize: 7_500_000_000},
		"gorun topo --impact --model-size 1.5gib":    {impact: true, modelSize: 3 << 29},
		"gorun topo --model-size 500MB --impact":     {impact: true, modelSize: 500_000_000},
		"gorun topo --model-size 1000000":            {impact: true, modelSize: 1_000_000},
		"gorun topo --model-size=2TiB --example one": {impact: true, modelSize: 1 << 41, example: "one"},
	} {
		t.Run(line, func(t *testing.T) {
			require.Equal(t, want, topoOf(t, line))
		})
	}
	require.True(t, mustBe[*topoOptions](t, "gorun topo --json").JSON)
	require.Len(t, mustBe[*topoOptions](t, "gorun topo --rankfile ranks.txt").Spec.Place.RankFile.Lines, 2)
	require.Equal(t, topoOptions{ranks: 3, ranksFrom: "GORUN_NP=3"}, topoOf(t, "gorun topo", "GORUN_NP=3"))
}

func TestTopoProblems(t *testing.T) {
	const size = "not a size; write 7.5GB (10^9 bytes), 7GiB (2^30 bytes), 500MB or a number of bytes"
	requireProblems(t, map[string][]string{
		"gorun topo x": {"x: gorun topo takes no arguments; gorun ./topo starts a program of that " +
			"name"},
		"gorun topo --from a --example b": {"--from and --example contradict each other: both name the machine"},
		"gorun topo --save a --from b":    {"--save writes the files of this machine: leave out --from and --example"},
		"gorun topo --svg - --json":       {"--svg - and --json contradict each other: both want standard output"},
		"gorun topo --impact": {"--impact needs to know how much is reduced: add --model-size, such as " +
			"--model-size 7.5GB"},
		"gorun topo --impact --model-size huge": {"--model-size huge: " + size},
		"gorun topo --model-size 0":             {"--model-size 0: " + size},
		"gorun topo --model-size 1e30GB":        {"--model-size 1e30GB: " + size},
		"gorun topo --model-size -1GB":          {"--model-size -1GB: " + size},
		"gorun topo --model-size 0x10":          {"--model-size 0x10: " + size},
		"gorun topo --model-size NaN":           {"--model-size NaN: " + size},
		"gorun topo --rankfile none.txt":        {"--rankfile none.txt: file does not exist"},
		"gorun topo --rankfile odd.txt": {"--rankfile odd.txt: line 1: \"here:2 binding=rr\" is not of the form " +
			"`rank N=HOST slot=CORES`"},
		"gorun topo --map-by moon:pe=x --bind-to sun --gpus x --cpus-per-rank 0 --numa-binding all": {
			"--map-by moon:pe=x: unknown object \"moon\"; known are slot, node, gpu, nic, dist, package, socket, skt, numa, " +
				"l3cache, l2cache, core, l1cache, hwthread, thread",
			"--bind-to sun: unknown object \"sun\"; known are none, board, machine, package, socket, skt, numa, l3cache, " +
				"l2cache, core, l1cache, hwthread, thread",
			"--gpus x: \"x\" is no number or range of GPUs; known are numbers (2,4,7), ranges (0-3) and free",
			"--cpus-per-rank 0: not a number from 1 to 1048576",
			"--numa-binding all: unknown binding \"all\"; known are node, socket, exclusive, core-complex",
		},
		"gorun topo -n 0":                    {"-n 0: not a number from 1 to 1048576"},
		"gorun topo -n 3 --nproc-per-node 2": {"-n 3 contradicts --nproc-per-node 2, which makes 2 on one host"},
		"gorun topo --timeout 5": {"unknown option --timeout: gorun has it, gorun topo does not; call gorun " +
			"for it"},
	})
}

// topoOf are the options of a command line.
func topoOf(t *testing.T, line string, variables ...string) topoOptions {
	t.Helper()
	o := *mustBe[*topoOptions](t, line, variables...)
	o.call = nil
	return o
}
