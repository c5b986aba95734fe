package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// cpuMachine returns a machine with n CPUs and a quota.
func cpuMachine(n int, quota float64) Machine {
	mask := make([]uint64, n/64+1)
	for cpu := range n {
		mask[cpu/64] |= 1 << (cpu % 64)
	}
	return Machine{CPUs: CPUSetOf(mask), Quota: quota}
}

func TestUsableCPUsAndThreads(t *testing.T) {
	tests := []struct {
		name    string
		machine Machine
		usable  int
		reason  string
		threads map[int]int // by ranks on the node
	}{
		{"not asked", Machine{}, 0, "0 CPUs", map[int]int{1: 0, 4: 0}},
		{"one CPU", cpuMachine(1, 0), 1, "1 CPU", map[int]int{1: 1, 2: 1}},
		{"eight CPUs", cpuMachine(8, 0), 8, "8 CPUs", map[int]int{0: 0, 1: 8, 3: 2, 8: 1, 9: 1}},
		{"quota", cpuMachine(8, 1.5), 1, "1.5 of 8 CPUs by cgroup quota", map[int]int{1: 1, 2: 1}},
		{"quota below one CPU", cpuMachine(8, 0.2), 1, "0.2 of 8 CPUs by cgroup quota", map[int]int{1: 1}},
		{"quota above the CPUs", cpuMachine(2, 16), 2, "2 CPUs", map[int]int{1: 2, 2: 1}},
		{
			"quota is shared before it is rounded", cpuMachine(8, 5.5), 5, "5.5 of 8 CPUs by cgroup quota",
			map[int]int{1: 5, 2: 2},
		},
		{"large", cpuMachine(224, 0), 224, "224 CPUs", map[int]int{8: 28}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.usable, test.machine.UsableCPUs())
			assert.Equal(t, test.reason, test.machine.CPUReason())
			for ranks, want := range test.threads {
				assert.Equal(t, want, ThreadsPerRank(test.machine, ranks), "%d ranks", ranks)
			}
		})
	}
}
