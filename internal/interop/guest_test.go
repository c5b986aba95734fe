package interop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/interop/guest"
	"gorun/internal/testneeds"
	"gorun/placement"
)

// boot starts the guest with cases and returns what came of each, and what it said of itself.
func boot(t *testing.T, cases []guest.Case) (machine string, all []guest.Outcome) {
	t.Helper()
	qemu, kernel := testneeds.Guest(t)
	dir := t.TempDir()
	archive, results := filepath.Join(dir, "archive"), filepath.Join(dir, "results")
	require.NoError(t, os.WriteFile(archive, disk(t, dir, cases), 0o600))

	got := job{argv: append([]string{qemu}, guest.Arguments(kernel, archive, results)...)}.run(t)
	text, err := os.ReadFile(results)
	require.NoError(t, err, "exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	for line := range strings.Lines(string(text)) {
		var one guest.Outcome
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all = append(all, one)
	}
	require.Len(t, all, 1+len(cases), "exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	return all[0].Stdout, all[1:]
}

// disk is the archive that the guest has as its disk.
func disk(t *testing.T, dir string, cases []guest.Case) []byte {
	t.Helper()
	text, err := json.Marshal(cases)
	require.NoError(t, err)
	files := []guest.File{{Name: guest.CasesFile, Mode: syscall.S_IFREG | 0o644, Text: text}}
	for _, name := range []string{"dev", "proc", "sys", "tmp"} {
		files = append(files, guest.File{Name: name, Mode: syscall.S_IFDIR | 0o755})
	}
	files = append(files, guest.File{Name: "dev/console", Mode: syscall.S_IFCHR | 0o600, Major: 5, Minor: 1})
	for name, source := range map[string]string{"gorun": "cmd/gorun", "init": "internal/interop/guest/boot"} {
		path := filepath.Join(dir, name)
		build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags=-s -w", "-o", path, "gorun/"+source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		said, err := build.CombinedOutput()
		require.NoError(t, err, "%s", said)
		program, err := os.ReadFile(path)
		require.NoError(t, err)
		files = append(files, guest.File{Name: name, Mode: syscall.S_IFREG | 0o755, Text: program})
	}
	return guest.Archive(files)
}

// guestCase is a command line for the guest and where its ranks have to be.
type guestCase struct {
	words  string
	group  map[string]string
	sealed bool     // /sys is read-only
	cpus   []string // of each rank
	policy []string // for memory, as the kernel writes it
	memory string   // NUMA nodes that the cpuset allows, "": all
	// threads is OMP_NUM_THREADS of each rank.
	threads string
}

// The nodes of the guest have CPUs 0 and 2, 1 and 3, 4 and 5, 6 and 7; the first two make one socket.
var (
	ownNodes   = []string{"0,2", "1,3", "4-5", "6-7"}
	everywhere = []string{"0-7", "0-7", "0-7", "0-7"}
	preferring = []string{"prefer:0", "prefer:1", "prefer:2", "prefer:3"}
	unset      = []string{"default", "default", "default", "default"}
)

var guestCases = []guestCase{
	{words: "-n 4", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4", sealed: true, cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by numa", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by ppr:2:socket", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by socket:pe=2 --rank-by fill", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by socket:pe=2", cpus: []string{"0,2", "4-5", "1,3", "6-7"}, policy: []string{"prefer:0", "prefer:2", "prefer:1", "prefer:3"}, threads: "2"},
	{words: "-n 4 --bind-to core", cpus: []string{"0", "2", "1", "3"}, policy: []string{"prefer:0", "prefer:0", "prefer:1", "prefer:1"}, threads: "1"},
	{
		words: "-n 4 --map-by socket", cpus: []string{"0-3", "4-7", "0-3", "4-7"}, threads: "2",
		policy: []string{"prefer (many):0-1", "prefer (many):2-3", "prefer (many):0-1", "prefer (many):2-3"},
	},
	{words: "-n 4 --bind-mem bind", cpus: ownNodes, policy: []string{"bind:0", "bind:1", "bind:2", "bind:3"}, threads: "2"},
	{words: "-n 4 --bind-mem none", cpus: ownNodes, policy: unset, threads: "2"},
	{words: "-n 2 --bind-mem interleave", cpus: []string{"0-3", "4-7"}, policy: []string{"interleave:0-1", "interleave:2-3"}, threads: "4"},
	{words: "-n 4 --bind-to none", cpus: everywhere, policy: unset, threads: "2"},
	{words: "-n 1", cpus: everywhere[:1], policy: unset[:1], threads: "8"},
	{
		words: "-n 2", group: map[string]string{"cpuset.cpus": "2-5", "cpu.max": "100000 100000"},
		cpus: []string{"2-3", "4-5"}, policy: []string{"prefer (many):0-1", "prefer:2"}, threads: "1",
	},
	{
		words: "-n 4", group: map[string]string{"cpuset.mems": "0-1"}, memory: "0-1",
		cpus: ownNodes, policy: []string{"prefer:0", "prefer:1", "default", "default"}, threads: "2",
	},
}

// On a machine with several NUMA nodes ranks run, and have their memory, where plan and test say.
func TestRanksAndTheirMemoryOnFourNUMANodes(t *testing.T) {
	var asked []guest.Case
	for _, c := range guestCases {
		asked = append(asked, guest.Case{Words: strings.Fields(c.words), Group: c.group, ReadOnly: c.sealed})
	}
	machine, came := boot(t, asked)
	t.Run("machine", func(t *testing.T) { checkGuest(t, machine) })
	for i, c := range guestCases {
		t.Run(c.words, func(t *testing.T) { c.check(t, came[i]) })
	}
}

// checkGuest compares what `gorun topo --json` said in the guest with how it was made.
func checkGuest(t *testing.T, text string) {
	var got struct{ Machine placement.Machine }
	require.NoError(t, json.Unmarshal([]byte(text), &got), text)
	require.NotNil(t, got.Machine.Topology, text)
	require.Len(t, got.Machine.Topology.Nodes, 4)
	for number, node := range got.Machine.Topology.Nodes {
		assert.Equal(t, ownNodes[number], node.CPUs.String())
		assert.Equal(t, guest.Distances()[number], node.Distances)
		assert.Positive(t, node.Memory)
	}
	for _, cpu := range got.Machine.Topology.CPUs {
		assert.Equal(t, cpu.ID/4, cpu.Package)
	}
}

func (c guestCase) check(t *testing.T, came guest.Outcome) {
	require.Empty(t, came.Error, came.Stderr)
	assert.Empty(t, came.Stderr)
	cpus, policies, threads := ofPlan(t, came.Plan, "0-7")
	assert.Equal(t, c.cpus, cpus, "plan")
	assert.Equal(t, c.policy, policies, "plan")
	assert.Equal(t, slices.Repeat([]string{c.threads}, len(c.cpus)), threads, "plan")

	seen := map[string]guest.Rank{}
	for line := range strings.Lines(came.Stdout) {
		var r guest.Rank
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		seen[r.Rank] = r
	}
	require.Len(t, seen, len(c.cpus))
	for i, cpus := range c.cpus {
		r := seen[fmt.Sprint(i)]
		assert.Equal(t, cpus, r.CPUs, "rank %d", i)
		assert.Equal(t, c.policy[i], r.Policy, "rank %d", i)
		assert.Equal(t, c.threads, r.Threads, "rank %d", i)
		assert.Subset(t, c.pages(t, i, list(t, cpus)...), r.Home, "rank %d at home", i)
		if r.AwayCPU >= 0 {
			assert.Equal(t, c.pages(t, i, r.AwayCPU), r.Away, "rank %d on CPU %d", i, r.AwayCPU)
		}
	}
}

// ofPlan is what `gorun --dry-run --json` said of CPUs, memory policy and OMP_NUM_THREADS of each rank. A rank that is not bound
// has all CPUs that are allowed.
func ofPlan(t *testing.T, text, allowed string) (cpus, policies, threads []string) {
	t.Helper()
	type variable struct{ N, V string }
	var plan struct {
		Ranks []struct {
			CPUs, Memories string
			Policy         int `json:"memory_policy"`
			Environment    []variable
		}
		Environment []variable
	}
	require.NoError(t, json.Unmarshal([]byte(text), &plan), text)
	names := map[int]string{1: "prefer:", 2: "bind:", 3: "interleave:", 5: "prefer (many):", 0: "default"}
	for _, r := range plan.Ranks {
		cpus, policies = append(cpus, cmp.Or(r.CPUs, allowed)), append(policies, names[r.Policy]+r.Memories)
		for _, v := range slices.Concat(plan.Environment, r.Environment) {
			if v.N == "OMP_NUM_THREADS" {
				threads = append(threads, v.V)
			}
		}
	}
	return cpus, policies, threads
}

// pages are the NUMA nodes on which memory of a rank may lie if it is touched from one of these CPUs: the nearest that its policy
// and the cpuset allow, or all of an interleaving.
func (c guestCase) pages(t *testing.T, rank int, from ...int) (nodes []int) {
	t.Helper()
	policy, text, _ := strings.Cut(c.policy[rank], ":")
	if text == "" {
		text = cmp.Or(c.memory, "0-3")
	}
	allowed := list(t, text)
	if policy == "interleave" {
		return allowed
	}
	for _, cpu := range from {
		here := slices.IndexFunc(ownNodes, func(cpus string) bool { return slices.Contains(list(t, cpus), cpu) })
		nodes = append(nodes, slices.MinFunc(allowed, func(a, b int) int {
			return guest.Distances()[here][a] - guest.Distances()[here][b]
		}))
	}
	return nodes
}
