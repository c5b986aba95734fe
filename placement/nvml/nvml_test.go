package nvml

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

// add adds to a machine what a library tells.
func add(m *placement.Machine, lib library) {
	m.Notes = append(m.Notes, gpufacts.Wish{All: true}.Complete(m, ask(lib), nil)...)
}

// With or without cgo, a machine without NVIDIA's GPUs stays as it is.
func TestMachineWithoutNVIDIA(t *testing.T) {
	want, err := placement.Example("two-socket-amd")
	assert.NoError(t, err)
	got, _ := placement.Example("two-socket-amd")
	add(&got, noLibrary{})
	assert.Equal(t, want, got)
}

// noLibrary is what a host without driver has.
type noLibrary struct{}

func (noLibrary) Open() error           { return errNotTold }
func (noLibrary) Close()                { panic("it is not open") }
func (noLibrary) Count() (int, error)   { panic("it is not open") }
func (noLibrary) GPU(int) (gpu, error)  { panic("it is not open") }
func (noLibrary) CUDA() (string, error) { panic("it is not open") }
