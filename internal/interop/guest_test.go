package interop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/interop/guest"
	"gorun/internal/testneeds"
	"gorun/placement"
)

const (
	bootLimit = "240"
	timedOut  = 124 // exit code of timeout(1)
)

// boot starts a guest with cases. It returns the topology that gorun reports and the outcome of each case.
func boot(t *testing.T, machine guest.Machine, cases []guest.Case) (topology string, all []guest.Outcome) {
	t.Helper()
	qemu, kernel := testneeds.Guest(t)
	dir := t.TempDir()
	archive, results := filepath.Join(dir, "archive"), filepath.Join(dir, "results")
	require.NoError(t, os.WriteFile(archive, disk(t, cases), 0o600))

	// Emulated processors sometimes wait for each other before the kernel prints anything. A second start works.
	command := append([]string{"timeout", bootLimit, qemu}, machine.Arguments(kernel, archive, results)...)
	got := job{argv: command}.run(t)
	if got.code == timedOut && got.stdout == "" {
		got = job{argv: command}.run(t)
	}
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

// disk is the archive that serves as the guest's disk.
func disk(t *testing.T, cases []guest.Case) []byte {
	t.Helper()
	text, err := json.Marshal(cases)
	require.NoError(t, err)
	files := []guest.File{{Name: guest.CasesFile, Mode: syscall.S_IFREG | 0o644, Text: text}}
	for _, name := range []string{"dev", "proc", "sys", "tmp"} {
		files = append(files, guest.File{Name: name, Mode: syscall.S_IFDIR | 0o755})
	}
	files = append(files, guest.File{Name: "dev/console", Mode: syscall.S_IFCHR | 0o600, Major: 5, Minor: 1})
	programs, err := guestPrograms()
	require.NoError(t, err)
	return guest.Archive(append(files, programs...))
}

// guestPrograms builds the programs of each guest: gorun and the first process.
var guestPrograms = sync.OnceValues(func() (files []guest.File, err error) {
	for name, source := range map[string]string{"gorun": "../../cmd/gorun", "init": "./guest/boot"} {
		path := built("guest-" + name)
		build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags=-s -w", "-o", path, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", source, err, said)
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, guest.File{Name: name, Mode: syscall.S_IFREG | 0o755, Text: program})
	}
	return files, nil
})

// guestCase is a command line for a guest and the expected placement of its ranks.
type guestCase struct {
	words   string
	group   map[string]string
	sealed  bool     // /sys is read-only
	cpus    []string // one per rank
	policy  []string // memory policy, in the kernel's format
	memory  []int    // NUMA nodes that the cpuset allows, nil: all
	threads string   // OMP_NUM_THREADS of each rank
	note    string   // on standard error
}

// CPUs and policies of [guest.FourNodes].
var (
	ownNodes   = []string{"0,2", "1,3", "4-5", "6-7"}
	preferring = []string{"prefer:0", "prefer:1", "prefer:2", "prefer:3"}
	unbound    = []string{"0-7", "0-7", "0-7", "0-7"}
	unset      = []string{"default", "default", "default", "default"}
)

var onFourNodes = []guestCase{
	{words: "-n 4", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4", sealed: true, cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by numa", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by ppr:2:socket", cpus: ownNodes, policy: preferring, threads: "2"},
	{words: "-n 4 --map-by socket:pe=2 --rank-by fill", cpus: ownNodes, policy: preferring, threads: "2"},
	{
		words: "-n 4 --map-by socket:pe=2", cpus: []string{"0,2", "4-5", "1,3", "6-7"}, threads: "2",
		policy: []string{"prefer:0", "prefer:2", "prefer:1", "prefer:3"},
	},
	{
		words: "-n 4 --bind-to core", cpus: []string{"0", "2", "1", "3"}, threads: "1",
		policy: []string{"prefer:0", "prefer:0", "prefer:1", "prefer:1"},
	},
	{
		words: "-n 4 --map-by socket", cpus: []string{"0-3", "4-7", "0-3", "4-7"}, threads: "2",
		policy: []string{"prefer (many):0-1", "prefer (many):2-3", "prefer (many):0-1", "prefer (many):2-3"},
	},
	{
		words: "-n 4 --bind-mem bind", cpus: ownNodes, policy: []string{"bind:0", "bind:1", "bind:2", "bind:3"},
		threads: "2",
	},
	{words: "-n 4 --bind-mem none", cpus: ownNodes, policy: unset, threads: "2"},
	{
		words: "-n 2 --bind-mem interleave", cpus: []string{"0-3", "4-7"},
		policy: []string{"interleave:0-1", "interleave:2-3"}, threads: "4",
	},
	{words: "-n 1 --bind-mem interleave", cpus: unbound[:1], policy: []string{"interleave:0-3"}, threads: "8"},
	{words: "-n 4 --bind-to none", cpus: unbound, policy: unset, threads: "2"},
	{words: "-n 1", cpus: unbound[:1], policy: unset[:1], threads: "8"},
	{
		words: "-n 2", group: map[string]string{"cpuset.cpus": "2-5", "cpu.max": "100000 100000"},
		cpus: []string{"2-3", "4-5"}, policy: []string{"prefer (many):0-1", "prefer:2"}, threads: "1",
	},
	{
		words: "-n 4", group: map[string]string{"cpuset.mems": "0-1"}, memory: []int{0, 1},
		cpus: ownNodes, policy: []string{"prefer:0", "prefer:1", "default", "default"}, threads: "2",
	},
}

// CPUs of [guest.TwoThreads].
var (
	cores = []string{"0-1", "2-3", "4-5", "6-7"}
	pairs = []string{"prefer:0", "prefer:0", "prefer:1", "prefer:1"}
)

var onTwoThreads = []guestCase{
	{words: "-n 2", cpus: []string{"0-3", "4-7"}, policy: preferring[:2], threads: "4"},
	{words: "-n 4", cpus: cores, policy: pairs, threads: "2"},
	{words: "-n 4 --bind-to core", cpus: cores, policy: pairs, threads: "2"},
	{
		words: "-n 4 --map-by numa --bind-to core", cpus: []string{"0-1", "4-5", "2-3", "6-7"}, threads: "2",
		policy: []string{"prefer:0", "prefer:1", "prefer:0", "prefer:1"},
	},
	{
		words: "-n 4 --bind-to hwthread", cpus: []string{"0", "1", "2", "3"}, policy: slices.Repeat(preferring[:1], 4),
		threads: "1",
	},
	{words: "-n 2 --cpus-per-rank 3", cpus: []string{"0-3", "4-7"}, policy: preferring[:2], threads: "4"},
}

var onPatchy = []guestCase{
	{
		words: "-n 3", cpus: []string{"0,2", "1,3", "4,6"}, policy: []string{"prefer:0", "default", "prefer:2"},
		threads: "2",
	},
	{
		words: "-n 3 --map-by numa", cpus: []string{"0,2", "1,3", "4,6"},
		policy: []string{"prefer:0", "default", "prefer:2"}, threads: "2",
	},
	{
		words: "-n 3 --bind-mem bind", cpus: []string{"0,2", "1,3", "4,6"},
		policy: []string{"bind:0", "default", "bind:2"}, threads: "2",
		note: "gorun: --bind-mem bind has no effect on 1 rank, rank 1 first: the NUMA nodes of the CPUs have no memory " +
			"that may be used\n",
	},
	{
		words: "-n 6 --bind-to core", cpus: []string{"0", "2", "1", "3", "4", "6"}, threads: "1",
		policy: []string{"prefer:0", "prefer:0", "default", "default", "prefer:2", "prefer:2"},
	},
}

// On machines with several NUMA nodes the CPUs and memory of ranks match the plan and the test. A machine takes a
// quarter of a minute of CPU time: `make soak` boots all of them, otherwise a random one boots.
func TestRanksAndTheirMemoryOnSeveralNUMANodes(t *testing.T) {
	machines := map[string]struct {
		guest.Machine
		cases             []guestCase
		isolated, offline string
	}{
		"four nodes":  {guest.FourNodes, onFourNodes, "", ""},
		"two threads": {guest.TwoThreads, onTwoThreads, "", ""},
		"patchy":      {guest.Patchy, onPatchy, "5", "7"},
	}
	names := slices.Sorted(maps.Keys(machines))
	testneeds.Rand(t).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:testneeds.Count(1, len(names))] {
		m := machines[name]
		t.Run(name, func(t *testing.T) {
			var asked []guest.Case
			for _, c := range m.cases {
				asked = append(asked, guest.Case{Words: strings.Fields(c.words), Group: c.group, ReadOnly: c.sealed})
			}
			topology, came := boot(t, m.Machine, asked)
			t.Run("topology", func(t *testing.T) { checkTopology(t, m.Machine, topology, m.isolated, m.offline) })
			for i, c := range m.cases {
				t.Run(c.words, func(t *testing.T) { c.check(t, m.Machine, came[i]) })
			}
		})
	}
}

// checkTopology compares the output of `gorun topo --json` in a guest with the configuration of the machine.
func checkTopology(t *testing.T, machine guest.Machine, text, isolated, offline string) {
	var got struct{ Machine placement.Machine }
	require.NoError(t, json.Unmarshal([]byte(text), &got), text)
	topology := got.Machine.Topology
	require.NotNil(t, topology, text)
	require.Len(t, topology.Nodes, len(machine.Nodes))
	assert.Equal(t, isolated, topology.Isolated.String())
	assert.Equal(t, offline, topology.Offline.String())
	for number, made := range machine.Nodes {
		node := topology.Nodes[number]
		online := slices.DeleteFunc(slices.Clone(made.CPUs), func(cpu int) bool { return fmt.Sprint(cpu) == offline })
		assert.Equal(t, online, list(t, node.CPUs.String()), "NUMA node %d", number)
		assert.Equal(t, machine.Distances[number], node.Distances, "NUMA node %d", number)
		assert.Equal(t, made.MiB > 0, node.Memory > 0, "NUMA node %d", number)
	}
	cores := map[int][]int{}
	for _, cpu := range topology.CPUs {
		assert.Equal(t, machine.Socket(cpu.ID), cpu.Package, "CPU %d", cpu.ID)
		cores[cpu.Core] = append(cores[cpu.Core], cpu.ID)
	}
	for _, cpus := range cores {
		assert.Len(t, cpus, machine.Threads)
	}
}

func (c guestCase) check(t *testing.T, machine guest.Machine, came guest.Outcome) {
	require.Empty(t, came.Error, came.Stderr)
	assert.Equal(t, strings.Repeat(c.note, 2), came.Stderr, "of the plan and of the job")
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
		assert.Subset(t, c.pages(t, machine, i, list(t, cpus)...), r.Home, "rank %d at home", i)
		if r.AwayCPU >= 0 {
			assert.Equal(t, c.pages(t, machine, i, r.AwayCPU), r.Away, "rank %d on CPU %d", i, r.AwayCPU)
		}
	}
}

// ofPlan returns CPUs, memory policy and OMP_NUM_THREADS of each rank from the output of `gorun --dry-run --json`.
// An unbound rank has all allowed CPUs.
func ofPlan(t *testing.T, text, allowed string) (cpus, policies, threads []string) {
	t.Helper()
	type variable struct{ Name, Value string }
	var plan struct {
		Ranks []struct {
			CPUs        string
			Memories    string `json:"memory_nodes"`
			Policy      string `json:"memory_policy"`
			Environment []variable
		}
		Environment []variable
	}
	require.NoError(t, json.Unmarshal([]byte(text), &plan), text)
	for _, r := range plan.Ranks {
		policy := map[string]string{
			"preferred": "prefer:", "bind": "bind:", "interleave": "interleave:",
			"": "default",
		}[r.Policy]
		if policy == "prefer:" && strings.ContainsAny(r.Memories, ",-") {
			policy = "prefer (many):"
		}
		cpus, policies = append(cpus, cmp.Or(r.CPUs, allowed)), append(policies, policy+r.Memories)
		for _, v := range slices.Concat(plan.Environment, r.Environment) {
			if v.Name == "OMP_NUM_THREADS" {
				threads = append(threads, v.Value)
			}
		}
	}
	return cpus, policies, threads
}

// pages returns the NUMA nodes where memory of a rank may lie if one of these CPUs touches it. These are the
// nearest nodes that policy and cpuset allow, or all nodes of an interleaving policy.
func (c guestCase) pages(t *testing.T, machine guest.Machine, rank int, from ...int) (nodes []int) {
	t.Helper()
	policy, text, bound := strings.Cut(c.policy[rank], ":")
	allowed := c.memory
	if bound {
		allowed = list(t, text)
	}
	if policy == "interleave" {
		return allowed
	}
	for _, cpu := range from {
		nodes = append(nodes, machine.Nearest(cpu, allowed))
	}
	return nodes
}
