package nvml

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

// merge adds the facts from a library to a machine.
func merge(m *placement.Machine, facts gpufacts.Facts) {
	m.Notes = append(m.Notes, gpufacts.Query{All: true}.Complete(m, facts, nil)...)
}

// With or without cgo, a machine without NVIDIA GPUs is unchanged.
func TestMachineWithoutNVIDIA(t *testing.T) {
	want, err := placement.Example("two-socket-amd")
	assert.NoError(t, err)
	got, _ := placement.Example("two-socket-amd")
	facts := Ask()
	facts.GPUs = nil // of the machine that runs the test
	merge(&got, facts)
	assert.Equal(t, want, got)
}
