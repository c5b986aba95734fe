package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/job"
	"gorun/placement"
)

func TestTopo(t *testing.T) {
	for line, want := range map[string]topoOptions{
		"gorun topo":                       {},
		"gorun topo --":                    {},
		"gorun topo --from d":              {from: "d"},
		"gorun topo --example=dgx-h100":    {example: "dgx-h100"},
		"gorun topo --save d":              {save: "d"},
		"gorun topo --svg -":               {svg: "-"},
		"gorun topo -n4":                   {ranks: 4},
		"gorun topo --nproc_per_node auto": {perNode: job.Count{Kind: job.CountAuto, From: "--nproc_per_node auto"}},
		"gorun topo -np 2 --nproc-per-node 2": {
			ranks: 2, perNode: job.Count{Kind: job.CountFixed, N: 2, From: "--nproc-per-node 2"},
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
	require.Equal(t, "-n4", mustBe[*topoOptions](t, "gorun topo -n4").sources["np"])
	require.Equal(t, 3, topoOf(t, "gorun topo", "GORUN_NP=3").ranks)
	require.Equal(t, "GORUN_NP=3", mustBe[*topoOptions](t, "gorun topo", "GORUN_NP=3").sources["np"])
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
			"--map-by moon:pe=x: unknown object \"moon\"; known: slot, node, gpu, nic, dist, package, socket, skt, numa, " +
				"l3cache, l2cache, core, l1cache, hwthread, thread",
			"--bind-to sun: unknown object \"sun\"; known: none, board, machine, package, socket, skt, numa, l3cache, " +
				"l2cache, core, l1cache, hwthread, thread",
			"--gpus x: \"x\" is not a number or range of GPUs; use numbers (2,4,7), ranges (0-3) or free",
			"--cpus-per-rank 0: not a number from 1 to 1048576",
			"--numa-binding all: unknown binding \"all\"; known: node, socket, exclusive, core-complex",
		},
		"gorun topo -n 0":                    {"-n 0: not a number from 1 to 1048576"},
		"gorun topo -n 3 --nproc-per-node 2": {"-n 3 contradicts --nproc-per-node 2, which makes 2 on one host"},
		"gorun topo --timeout 5": {"unknown option --timeout: gorun has it, gorun topo does not; call gorun " +
			"for it"},
	})
}

// topoOf returns the options of a command line.
func topoOf(t *testing.T, line string, variables ...string) topoOptions {
	t.Helper()
	o := *mustBe[*topoOptions](t, line, variables...)
	o.commandLine = nil
	return o
}

//go:generate go test -run ^TestTopoDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write the pictures of docs/reference/topo.md again")

// ran returns the output of a command line that must succeed.
func ran(t *testing.T, words ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, gorun(words[0], words[1:], &stdout, &stderr), "%q: %s", words, stderr.String())
	require.Empty(t, stderr.String())
	return stdout.String()
}

// TestTopoDocs keeps the pictures of docs/reference/topo.md equal to the output of their commands. A picture that
// begins with "..." shows the output from the line that begins with its next word.
func TestTopoDocs(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("COLUMNS", "100")
	page := filepath.Join(testneeds.Repository(t), "docs", "reference", "topo.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := 0
	fresh := regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		command, shown, _ := strings.Cut(strings.TrimPrefix(block, "```console\n$ "), "\n")
		output := ran(t, strings.Fields(command)...)
		if rest, ok := strings.CutPrefix(shown, "...\n"); ok {
			begin := strings.Fields(rest)[0]
			at := strings.Index(output, "\n"+begin)
			require.Positive(t, at, "%s prints no line that begins with %s", command, begin)
			output = "...\n" + output[at+1:]
		}
		return "```console\n$ " + command + "\n" + output + "```"
	})
	require.Equal(t, 3, blocks)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, string(text), fresh, "docs/reference/topo.md is stale: make docs")
}

// gorun draws every example in the terminal's width and characters.
func TestTopoShowsEveryExample(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "80")
	for _, name := range placement.Examples() {
		for line := range strings.Lines(ran(t, "gorun", "topo", "--example", name, "-n", "4")) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, "%s: %s", name, line)
		}
		require.Contains(t, ran(t, "gorun", "topo", "--example", name, "--svg", "-"), "</svg>\n")
		require.NoError(t, checkDocument([]byte(ran(t, "gorun", "topo", "--example", name, "-n", "4", "--json"))), name)
	}
}

func TestNVLinkNote(t *testing.T) {
	m, err := placement.Example("pcie-8gpu")
	require.NoError(t, err)
	require.Len(t, withNVLinkNote(m).Notes, 1)
	m.GPUs = m.GPUs[:1]
	require.Empty(t, withNVLinkNote(m).Notes)
	m, err = placement.Example("mi300x")
	require.NoError(t, err)
	require.Empty(t, withNVLinkNote(m).Notes)
}

// A rankfile that gorun writes and reads back gives every rank the same CPUs.
func TestWrittenRankFileIsReadBack(t *testing.T) {
	dir := t.TempDir()
	type places struct {
		Ranks []struct{ CPUs, Memories string }
	}
	read := func(words ...string) (p places) {
		require.NoError(t, json.Unmarshal([]byte(ran(t, append(words, "--json")...)), &p))
		return p
	}
	for _, name := range placement.Examples() {
		if name == "one" { // its ranks are not bound
			continue
		}
		for i, query := range [][]string{
			{"-n", "2"},
			{"-n", "4", "--map-by", "core"},
			{"--map-by", "ppr:2:package"},
			{"-n", "4", "--cpus-per-rank", "2"},
		} {
			file := filepath.Join(dir, fmt.Sprint(name, i))
			words := append([]string{"gorun", "topo", "--example", name}, query...)
			require.Empty(t, ran(t, append(words, "--write-rankfile", file)...))
			require.Equal(t, read(words...), read("gorun", "topo", "--example", name, "--rankfile", file), "%q", words)
		}
	}
}
