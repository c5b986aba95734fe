package rendezvous_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous"
	"gorun/rendezvous/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) func() rendezvous.Store {
		m := &rendezvous.Memory{}
		return func() rendezvous.Store { return m }
	})
}

func TestMemoryTellsWhatIsNoNumber(t *testing.T) {
	m := &rendezvous.Memory{}
	require.NoError(t, m.Set(t.Context(), "k", []byte("x")))
	_, err := m.Add(t.Context(), "k", 1)
	assert.ErrorIs(t, err, rendezvous.ErrNotANumber)
	assert.ErrorIs(t, m.Barrier(t.Context(), "k", 2), rendezvous.ErrNotANumber)
}
