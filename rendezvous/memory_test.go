package rendezvous_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/rendezvous"
	"gorun/rendezvous/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) rendezvous.Store { return rendezvous.NewMemory() })
}

func TestPrefix(t *testing.T) {
	storetest.Run(t, func(t *testing.T) rendezvous.Store {
		whole := rendezvous.NewMemory()
		require.NoError(t, whole.Set(t.Context(), "outside", nil))
		return rendezvous.WithPrefix(rendezvous.WithPrefix(whole, "outer"), "inner")
	})
}

func TestPrefixNames(t *testing.T) {
	whole := rendezvous.NewMemory()
	inner := rendezvous.WithPrefix(rendezvous.WithPrefix(whole, "outer"), "pre")
	require.NoError(t, inner.Set(t.Context(), "x", []byte("v")))
	value, err := whole.Get(t.Context(), "outer/pre/x")
	require.NoError(t, err)
	require.Equal(t, "v", string(value))
}

func TestMemoryTellsWhatIsNoNumber(t *testing.T) {
	store := rendezvous.NewMemory()
	require.NoError(t, store.Set(t.Context(), "k", []byte("x")))
	_, err := store.Add(t.Context(), "k", 1)
	var wrong *rendezvous.NotNumberError
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, `"k" holds "x", which is not a number`)
	require.ErrorAs(t, store.Barrier(t.Context(), "k", 2), &wrong)
}
