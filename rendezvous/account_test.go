package rendezvous

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// The accounts sum to the engine's size, and are zero when the engine is empty.
func TestAccountsAddUp(t *testing.T) {
	r := testneeds.Rand(t)
	e := NewEngine()
	accounts := make([]Account, 3)
	waiters := make([]Waiter, len(accounts))
	for i := range waiters {
		waiters[i] = Waiter{Wake: func() {}, Account: &accounts[i]}
	}
	keys := [][]byte{[]byte("a"), []byte("bb"), []byte("number")}
	for range testneeds.Count(5000, 100000) {
		i := r.IntN(len(accounts))
		e.Charge(&accounts[i])
		changeSome(e, &waiters[i], r, keys)
		requireSum(t, e, accounts)
	}
	for i := range waiters {
		e.Cancel(&waiters[i])
	}
	for _, key := range keys {
		e.Delete(key)
		for e.Len(key) > 0 {
			e.Pop(&waiters[0], key)
		}
	}
	require.Zero(t, e.Size())
	for i := range accounts {
		require.Zero(t, accounts[i].Size())
	}
}

func requireSum(t *testing.T, e *Engine, accounts []Account) {
	t.Helper()
	sum := int64(0)
	for i := range accounts {
		require.GreaterOrEqual(t, accounts[i].Size(), int64(0))
		sum += accounts[i].Size()
	}
	require.Equal(t, e.Size(), sum)
}

func changeSome(e *Engine, w *Waiter, r *rand.Rand, keys [][]byte) {
	key, value := keys[r.IntN(2)], make([]byte, r.IntN(100))
	switch r.IntN(9) {
	case 0:
		e.Set(key, value)
	case 1:
		e.Append(key, value)
	case 2:
		e.Delete(keys[r.IntN(len(keys))])
	case 3:
		e.Push(key, value)
	case 4:
		e.Pop(w, key)
	case 5:
		_, _ = e.Add(keys[2], 1)
	case 6:
		e.CompareSet(key, nil, value)
	case 7:
		e.Cancel(w)
	case 8:
		if !w.Waiting() {
			e.Wait(w, keys...)
		}
	}
}
