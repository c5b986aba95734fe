// Package table holds the meaning of a rendezvous store's operations: keys,
// counters, queues, and who waits for which. Every door to the store leads
// here, so that all of them agree.
//
// The rules are those of PyTorch's TCPStore server (libuv, 2.15) where programs
// can see them; where that server surprises, this one does what its clients
// expect, and says so.
package table

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNotANumber is wrapped by errors about a counter whose value is no decimal
// number of 64 bits.
var ErrNotANumber = errors.New("not a decimal number of 64 bits")

// Table is the content of a store. It is not safe for concurrent use: a door
// owns it, or guards it with a lock. Values that it is given and that it returns
// are shared, and must not be changed.
type Table struct {
	values map[string][]byte
	queues map[string][][]byte
	waits  map[string][]*Wait // by key, in the order of their arrival
}

// New returns an empty table.
func New() *Table {
	return &Table{values: map[string][]byte{}, queues: map[string][][]byte{}, waits: map[string][]*Wait{}}
}

// Wait is somebody who waits for keys. Done is called once, when the last key
// that was missing has appeared; not after Cancel.
type Wait struct {
	Done    func()
	keys    []string // still registered for, with repetitions
	missing int
}

// Set stores a value.
func (t *Table) Set(key string, value []byte) {
	t.values[key] = value
	t.appeared(key)
}

// Get returns a value. Queues have no values.
func (t *Table) Get(key []byte) (value []byte, ok bool) {
	value, ok = t.values[string(key)]
	return value, ok
}

// Add adds to a decimal counter, which starts at 0, and returns the sum. It
// wraps as 64-bit integers do. Text behind the number is dropped, as C's stoll
// does; a value that does not begin with one is an error, and stays.
func (t *Table) Add(key string, delta int64) (int64, error) {
	sum, err := t.count(key, delta)
	if err == nil {
		t.appeared(key)
	}
	return sum, err
}

func (t *Table) count(key string, delta int64) (int64, error) {
	value, ok := t.values[key]
	n := int64(0)
	if ok {
		var err error
		if n, err = parseCounter(value); err != nil {
			return 0, fmt.Errorf("add to key %q: %w", key, err)
		}
	}
	n += delta
	t.values[key] = strconv.AppendInt(nil, n, 10)
	return n, nil
}

// parseCounter reads a number as C's stoll: blanks, a sign, digits, anything.
func parseCounter(value []byte) (int64, error) {
	text := strings.TrimLeft(string(value), " \t\n\v\f\r")
	end := 0
	if end < len(text) && (text[0] == '-' || text[0] == '+') {
		end++
	}
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil {
		return 0, ErrNotANumber
	}
	return n, nil
}

// CompareSet stores desired if the key has the value expected, or if it is
// missing and expected is empty, and returns the value in force. For a missing
// key and an expectation, nothing is stored and the answer is the expectation:
// torchelastic relies on that lie.
func (t *Table) CompareSet(key string, expected, desired []byte) []byte {
	value, ok := t.values[key]
	switch {
	case !ok && len(expected) > 0:
		return expected
	case ok && string(value) != string(expected):
		return value
	}
	t.Set(key, desired)
	return desired
}

// Append adds to the end of a value, which begins empty.
func (t *Table) Append(key string, more []byte) {
	value := t.values[key]
	t.Set(key, append(slices.Clip(value), more...)) // who holds the old value keeps it
}

// Delete removes a key and reports whether it was there. It touches no queue and
// wakes nobody.
func (t *Table) Delete(key string) bool {
	_, ok := t.values[key]
	delete(t.values, key)
	return ok
}

// Has reports whether a key has a value or a queue with something in it.
func (t *Table) Has(key []byte) bool {
	if _, ok := t.values[string(key)]; ok {
		return true
	}
	return len(t.queues[string(key)]) > 0
}

// NumKeys returns the number of keys, queues not counted.
func (t *Table) NumKeys() int { return len(t.values) }

// Keys returns the keys, queues not listed, in no order.
func (t *Table) Keys() []string {
	keys := make([]string, 0, len(t.values))
	for key := range t.values {
		keys = append(keys, key)
	}
	return keys
}

// Push puts a value at the end of a queue and wakes one who waits for it.
func (t *Table) Push(key string, value []byte) {
	t.queues[key] = append(t.queues[key], value)
	if waits := t.waits[key]; len(waits) > 0 {
		t.release(waits[0], key)
	}
}

// Pop takes the first value of a queue; before is the queue's length until then.
func (t *Table) Pop(key string) (value []byte, before int) {
	queue := t.queues[key]
	switch len(queue) {
	case 0:
		return nil, 0
	case 1:
		delete(t.queues, key)
	default:
		t.queues[key] = queue[1:]
	}
	return queue[0], len(queue)
}

// QueueLen returns the length of a queue.
func (t *Table) QueueLen(key []byte) int { return len(t.queues[string(key)]) }

// Await registers w for the keys that are missing and reports whether none is.
// A key that appears and is deleted again before the others came counts as come.
func (t *Table) Await(keys []string, w *Wait) (done bool) {
	for _, key := range keys {
		if !t.Has([]byte(key)) {
			t.register(w, key)
		}
	}
	return w.missing == 0
}

func (t *Table) register(w *Wait, key string) {
	w.missing++
	w.keys = append(w.keys, key)
	if !slices.Contains(t.waits[key], w) {
		t.waits[key] = append(t.waits[key], w)
	}
}

// Arrive counts an arrival at a barrier for size. It reports whether the barrier
// is open; if not, w waits until it is, or until somebody sets the key. A barrier
// stays open once it is.
func (t *Table) Arrive(key string, size int64, w *Wait) (open bool, err error) {
	n, err := t.count(key, 1)
	if err != nil {
		return false, err
	}
	if n >= size {
		t.appeared(key)
		return true, nil
	}
	t.register(w, key)
	return false, nil
}

// Cancel ends a wait.
func (t *Table) Cancel(w *Wait) {
	for _, key := range w.keys {
		t.forget(w, key)
	}
	w.keys, w.missing = nil, 0
}

// Waiting calls visit for each key that somebody waits for, with their number.
func (t *Table) Waiting(visit func(key string, waits int)) {
	for key, waits := range t.waits {
		visit(key, len(waits))
	}
}

// appeared wakes everybody who waits for a key.
func (t *Table) appeared(key string) {
	for waits := t.waits[key]; len(waits) > 0; waits = t.waits[key] {
		t.release(waits[0], key)
	}
}

// release takes a key from what w waits for.
func (t *Table) release(w *Wait, key string) {
	t.forget(w, key)
	before := len(w.keys)
	w.keys = slices.DeleteFunc(w.keys, func(k string) bool { return k == key })
	w.missing -= before - len(w.keys)
	if w.missing == 0 {
		w.Done()
	}
}

func (t *Table) forget(w *Wait, key string) {
	waits := slices.DeleteFunc(t.waits[key], func(other *Wait) bool { return other == w })
	if len(waits) == 0 {
		delete(t.waits, key)
		return
	}
	t.waits[key] = waits
}
