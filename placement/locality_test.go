package placement

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Localities from libpmix 4.2.2 with hwloc 2.9 on synthetic machines
// (PMIx_server_generate_locality_string under HWLOC_SYNTHETIC). Each line has a machine, a CPU set and
// its locality. "(indexes=…)" has the kernel's numbers of the hardware threads.
//
//go:embed testdata/pmix-locality-4.2.txt
var pmixLocalities string

func TestLocalityIsThatOfPMIx(t *testing.T) {
	for line := range strings.Lines(pmixLocalities) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, fields, 3)
		description, indexes, _ := strings.Cut(strings.TrimSuffix(fields[0], ")"), "(indexes=")
		m := synthetic(t, description)
		renumber(t, m.Topology, indexes)
		set, err := ParseCPUSet(fields[1])
		require.NoError(t, err)
		require.Equal(t, fields[2], Locality(m, set), "%s of %s", fields[1], fields[0])
	}
}

// renumber changes the numbers of the CPUs.
func renumber(t *testing.T, topology *Topology, indexes string) {
	if indexes == "" {
		return
	}
	for i, index := range strings.Split(indexes, ",") {
		id, err := strconv.Atoi(index)
		require.NoError(t, err)
		topology.CPUs[i].ID = id
	}
}

// On known machines, each rank bound to a part of the machine has a locality. Ranks with different
// CPUs have different localities.
func TestLocalityOfExamples(t *testing.T) {
	for _, name := range Examples() {
		m, err := Example(name)
		require.NoError(t, err)
		if m.Topology == nil || m.CPUs.Len() < 2 {
			continue
		}
		seen := make(map[string]bool)
		for cpu := range m.CPUs.All() {
			text := Locality(m, NewCPUSet(cpu))
			require.Regexp(t, `^SK\d+(:L3\d+)?(:L2\d+:L1\d+)?:CR\d+:HT\d+:NM\d+$`, text, name)
			require.False(t, seen[text], "%s: CPU %d", name, cpu)
			seen[text] = true
		}
	}
}

func TestLocalityOfNothing(t *testing.T) {
	require.Empty(t, Locality(Machine{}, NewCPUSet(1)))
	require.Empty(t, Locality(synthetic(t, "pack:1 core:2 pu:1"), CPUSet{}))
}
