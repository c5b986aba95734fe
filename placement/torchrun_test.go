package placement

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// bindingCase is an input for PyTorch's own code, see testdata/numa_binding.py.
type bindingCase struct {
	Mode    NUMABinding            `json:"mode"`
	GPUs    []int                  `json:"gpus"`
	Allowed []int                  `json:"allowed"`
	CPUs    map[int]map[string]int `json:"cpus"`
	machine Machine
}

// newBindingCase returns the case of a machine with one rank per GPU.
func newBindingCase(m Machine, mode NUMABinding) bindingCase {
	c := bindingCase{Mode: mode, Allowed: slices.Collect(m.CPUs.All()), CPUs: make(map[int]map[string]int), machine: m}
	for _, cpu := range m.Topology.CPUs {
		c.CPUs[cpu.ID] = map[string]int{"core": cpu.Core, "cache": cpu.L3, "node": cpu.Node, "package": cpu.Package}
	}
	for _, gpu := range m.GPUs {
		c.GPUs = append(c.GPUs, gpu.Bus.Node)
	}
	return c
}

// plain reports whether torchrun supports a machine. All facts must be known, and each GPU's NUMA node
// must have an allowed CPU. torchrun does not support isolated CPUs.
func plain(m Machine) bool {
	t := newTree(numbered(0), m)
	for _, cpu := range m.Topology.CPUs {
		if cpu.Core < 0 || cpu.L3 < 0 || cpu.Package < 0 {
			return false
		}
	}
	for _, gpu := range m.GPUs {
		if t.nodeCPUs(gpu.Bus.Node).Len() == 0 {
			return false
		}
	}
	return len(m.GPUs) > 0 && m.Topology.Isolated.Len() == 0
}

func bindingCases(t *testing.T, random *rand.Rand, n int) []bindingCase {
	t.Helper()
	modes := []NUMABinding{NUMANodeBinding, NUMASocketBinding, NUMAExclusive, NUMACoreComplex}
	var cases []bindingCase
	for _, m := range sampleMachines(t) {
		for _, mode := range modes {
			if plain(m) {
				cases = append(cases, newBindingCase(m, mode))
			}
		}
	}
	for len(cases) < n {
		m, _ := randomMachine(t, random)
		m.Topology.Isolated = CPUSet{}
		if plain(m) {
			cases = append(cases, newBindingCase(m, modes[random.IntN(len(modes))]))
		}
	}
	return cases
}

// With one rank per GPU, --numa-binding binds like PyTorch's own code.
func TestNUMABindingAsTorchrun(t *testing.T) {
	python := testneeds.Torch(t)
	modules, err := filepath.Glob(filepath.Join(filepath.Dir(python), "..", "lib", "python3*", "site-packages", "torch",
		"numa", "binding.py"))
	require.NoError(t, err)
	require.Len(t, modules, 1)
	cases := bindingCases(t, testneeds.Rand(t), testneeds.Count(200, 20_000))
	input, err := json.Marshal(map[string]any{"module": modules[0], "cases": cases})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, "testdata/numa_binding.py")
	cmd.Stdin = bytes.NewReader(input)
	output, err := cmd.Output()
	require.NoError(t, err)
	var answers []any
	require.NoError(t, json.Unmarshal(output, &answers))
	require.Len(t, answers, len(cases))
	for i, c := range cases {
		layout, err := Map(Request{Ranks: len(c.GPUs), NUMABinding: c.Mode}, []Machine{c.machine})
		theirs, bound := answers[i].([]any)
		if !bound {
			require.Error(t, err, "case %d: torchrun says %v", i, answers[i])
			continue
		}
		require.NoError(t, err, "case %d", i)
		for rank, cpus := range theirs {
			require.Equal(t, cpus, layout.Ranks[rank].CPUs.String(), "case %d, %s, rank %d, GPUs at %v, allowed %s", i,
				c.Mode, rank, c.GPUs, c.machine.CPUs)
		}
	}
}
