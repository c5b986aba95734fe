//go:build cgo

package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanksOfAMachineShareItsCPUs(t *testing.T) {
	of := func(machine string, host string, cpus uint64) card {
		return card{Machine: machine, Host: host, CPUs: []uint64{cpus}}
	}
	for _, c := range []struct {
		name  string
		cards []card
		want  []bool
	}{
		{"one host", []card{of("m", "a", 3), of("m", "a", 3)}, []bool{false, false}},
		{
			"one host, more ranks than CPUs",
			[]card{of("m", "a", 3), of("m", "a", 3), of("m", "a", 3)},
			[]bool{true, true, true},
		},
		{
			"two containers that share CPUs",
			[]card{of("m", "a", 3), of("m", "a", 3), of("m", "b", 3), of("m", "b", 3)},
			[]bool{true, true, true, true},
		},
		{"two containers with CPUs of their own", []card{of("m", "a", 1), of("m", "b", 2)}, []bool{false, false}},
		{"two machines", []card{of("m", "a", 1), of("n", "b", 1), of("n", "c", 1)}, []bool{false, true, true}},
	} {
		for rank, want := range c.want {
			require.Equal(t, want, crowded(c.cards, rank), "%s: rank %d", c.name, rank)
		}
	}
}
