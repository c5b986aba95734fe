package rendezvous

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// party is a Waiter that counts its wake-ups.
type party struct {
	Waiter
	woken int
}

func newParty() *party {
	p := &party{}
	p.Wake = func() { p.woken++ }
	return p
}

// waits makes a new party wait for keys, at least one of which is missing.
func waits(t *testing.T, e *Engine, keys ...string) *party {
	t.Helper()
	p := newParty()
	require.False(t, e.Wait(&p.Waiter, byteKeys(keys)...))
	require.True(t, p.Waiting())
	return p
}

// empty requires that the engine has no entries.
func empty(t *testing.T, e *Engine) {
	t.Helper()
	require.Empty(t, e.entries)
	require.Zero(t, e.Size())
	require.Zero(t, e.NumKeys())
}

func b(s string) []byte { return []byte(s) }

func byteKeys(keys []string) (list [][]byte) {
	for _, key := range keys {
		list = append(list, b(key))
	}
	return list
}

func TestWaitCountsKeysAsOftenAsListed(t *testing.T) {
	e := NewEngine()
	p := waits(t, e, "a", "b", "a")
	e.Set(b("a"), nil)
	require.Zero(t, p.woken)
	e.Set(b("a"), nil)
	e.Set(b("b"), nil)
	require.Equal(t, 1, p.woken)
	e.Set(b("a"), nil)
	require.Equal(t, 1, p.woken)
	require.True(t, e.Wait(&p.Waiter, b("a"), b("b")))
	require.True(t, e.Wait(&p.Waiter))
}

func TestDeletedKeyIsNotMissingAgain(t *testing.T) {
	e := NewEngine()
	p := waits(t, e, "a", "b")
	e.Set(b("a"), nil)
	require.True(t, e.Delete(b("a")))
	e.Set(b("b"), nil)
	require.Equal(t, 1, p.woken)
	e.Delete(b("b"))
	empty(t, e)
}

func TestLeaveForgets(t *testing.T) {
	e := NewEngine()
	p := waits(t, e, "a", "b", "a")
	q := waits(t, e, "a")
	e.Cancel(&p.Waiter)
	e.Cancel(&p.Waiter)
	e.Set(b("a"), nil)
	e.Set(b("b"), nil)
	require.Zero(t, p.woken)
	require.Equal(t, 1, q.woken)
	e.Delete(b("a"))
	e.Delete(b("b"))
	empty(t, e)
}

func TestCompareSetWakesOnlyForAKeyThatExists(t *testing.T) {
	e := NewEngine()
	p := waits(t, e, "k")
	require.Equal(t, "x", string(e.CompareSet(b("k"), b("x"), b("y"))))
	require.Zero(t, p.woken)
	require.Equal(t, "y", string(e.CompareSet(b("k"), nil, b("y"))))
	require.Equal(t, 1, p.woken)
}

func TestPushWakesOne(t *testing.T) {
	e := NewEngine()
	first, second := waits(t, e, "q"), waits(t, e, "q")
	e.Push(b("q"), b("1"))
	require.Equal(t, []int{1, 0}, []int{first.woken, second.woken})
	_, ok := e.Pop(&first.Waiter, b("q"))
	require.True(t, ok)
	require.Zero(t, second.woken)
	e.Push(b("q"), b("2"))
	require.Equal(t, []int{1, 1}, []int{first.woken, second.woken})
	_, ok = e.Pop(&second.Waiter, b("q"))
	require.True(t, ok)
	empty(t, e)
}

// The first waiter also waits for another key and cannot take the value, so the next waiter gets it.
func TestPushSkipsWaitersForMore(t *testing.T) {
	e := NewEngine()
	more, ready := waits(t, e, "q", "key"), waits(t, e, "q")
	e.Push(b("q"), nil)
	require.Equal(t, []int{0, 1}, []int{more.woken, ready.woken})
	e.Set(b("key"), nil)
	require.Equal(t, 1, more.woken)
}

// A waiter that Push woke is not woken by the next Push after its next wait.
func TestServedWaiterIsNotWokenAgain(t *testing.T) {
	e := NewEngine()
	p := waits(t, e, "q")
	e.Push(b("q"), nil)
	e.Pop(&p.Waiter, b("q"))
	require.False(t, e.Wait(&p.Waiter, b("elsewhere")))
	e.Push(b("q"), nil)
	require.Equal(t, 1, p.woken)
}

func TestOfferIsPassedOn(t *testing.T) {
	for name, leave := range map[string]func(*Engine, *Waiter){
		"when its party leaves":               (*Engine).Cancel,
		"when its party does something else":  (*Engine).PassOn,
		"when its party pops something other": func(e *Engine, w *Waiter) { e.Pop(w, b("other")) },
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEngine()
			first, second := waits(t, e, "q"), waits(t, e, "q")
			e.Push(b("q"), b("v"))
			require.True(t, first.offer != nil)
			leave(e, &first.Waiter)
			require.False(t, first.offer != nil)
			require.Equal(t, 1, second.woken)
			value, ok := e.Pop(&second.Waiter, b("q"))
			require.True(t, ok)
			require.Equal(t, "v", string(value))
			empty(t, e)
		})
	}
}

func TestBarrierWakesWhoWaitForItsKeyOnlyWhenFull(t *testing.T) {
	e := NewEngine()
	watcher, first := waits(t, e, "b"), newParty()
	full, err := e.Arrive(&first.Waiter, b("b"), 2)
	require.NoError(t, err)
	require.False(t, full)
	require.Zero(t, watcher.woken)
	full, err = e.Arrive(&newParty().Waiter, b("b"), 2)
	require.NoError(t, err)
	require.True(t, full)
	require.Equal(t, []int{1, 1}, []int{watcher.woken, first.woken})
	count, _ := e.Get(b("b"))
	require.Equal(t, "2", string(count))
}

func TestSetReleasesABarrier(t *testing.T) {
	e := NewEngine()
	p := newParty()
	_, err := e.Arrive(&p.Waiter, b("b"), 9)
	require.NoError(t, err)
	e.Set(b("b"), nil)
	require.Equal(t, 1, p.woken)
	_, err = e.Arrive(&p.Waiter, b("b"), 9)
	require.Error(t, err, "an empty value is no count")
	require.False(t, p.Waiting())
}

func TestWhoGaveUpABarrierStaysCounted(t *testing.T) {
	e := NewEngine()
	p := newParty()
	_, err := e.Arrive(&p.Waiter, b("b"), 2)
	require.NoError(t, err)
	e.Cancel(&p.Waiter)
	full, err := e.Arrive(&p.Waiter, b("b"), 2)
	require.NoError(t, err)
	require.True(t, full)
	require.Zero(t, p.woken)
}

// Returned values never change, even if their keys are overwritten or deleted.
func TestValuesAreImmutable(t *testing.T) {
	e := NewEngine()
	given := b("one")
	e.Set(b("k"), given)
	given[0] = 'X'
	held, _ := e.Get(b("k"))
	e.Append(b("k"), b(" two"))
	longer, _ := e.Get(b("k"))
	e.Append(b("k"), b(" three"))
	e.Set(b("k"), b("four"))
	require.Equal(t, "one", string(held))
	require.Equal(t, "one two", string(longer))
}

func TestAddChangesNothingWhereThereIsNoNumber(t *testing.T) {
	e := NewEngine()
	e.Set(b("k"), b("x"))
	_, err := e.Add(b("k"), 1)
	require.EqualError(t, err, `"k" holds "x", which is not a number`)
	value, _ := e.Get(b("k"))
	require.Equal(t, "x", string(value))
}

// TestNothingIsLeft performs random operations and undoes them: no entries and no size remain, and no waiter is woken
// twice.
func TestNothingIsLeft(t *testing.T) {
	r := testneeds.Rand(t)
	e := NewEngine()
	parties := make([]*party, 20)
	for i := range parties {
		parties[i] = newParty()
	}
	for range testneeds.Count(20_000, 2_000_000) {
		play(t, e, r, parties[r.IntN(len(parties))])
	}
	for _, p := range parties {
		e.Cancel(&p.Waiter)
	}
	for i := range 8 {
		e.Delete(name(i))
		for ok := true; ok; {
			_, ok = e.Pop(&Waiter{}, name(i))
		}
	}
	empty(t, e)
}

func name(i int) []byte { return fmt.Appendf(nil, "k%d", i) }

func play(t *testing.T, e *Engine, r *rand.Rand, p *party) {
	key := name(r.IntN(8))
	switch r.IntN(8) {
	case 0:
		e.Set(key, b("1"))
	case 1:
		e.Append(key, b("2"))
	case 2:
		e.Delete(key)
	case 3:
		e.Push(key, b("3"))
	case 4:
		e.Pop(&p.Waiter, key)
	case 5:
		e.Cancel(&p.Waiter)
	default:
		if p.Waiting() {
			return
		}
		p.woken = 0
		if !e.Wait(&p.Waiter, key, name(r.IntN(8)), key) {
			require.Zero(t, p.woken)
		}
	}
	require.LessOrEqual(t, p.woken, 1)
}
