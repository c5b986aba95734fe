package rendezvous

import (
	"bytes"
	"iter"
	"strconv"
)

// Engine is a store: keys, queues and waiters, without locks, goroutines, clocks or sockets. It must not be used by
// several goroutines at once.
//
// The Engine copies arguments that it keeps, so that callers may reuse their buffers. Values that it returns are its
// own and never change: callers may keep them, but not write to them.
type Engine struct {
	entries map[string]*entry
	present int   // entries that are keys
	size    int64 // see Size
	steps   int64 // see Progress
	payer   *Account
}

// Account counts the memory that one client, or several together, use in an [Engine]. The zero Account is ready for
// use.
type Account struct{ size int64 }

// Size returns that memory in bytes, counted like [Engine.Size].
func (a *Account) Size() int64 { return a.size }

// add does nothing for a nil Account.
func (a *Account) add(n int64) {
	if a != nil {
		a.size += n
	}
}

// Charge counts what is written from now on in account a; nil is unlimited. A key counts as a whole in the account
// that was charged when it was last written.
func (e *Engine) Charge(a *Account) { e.payer = a }

// entry is the key, the queue and the waiters of one name, so that each operation needs one lookup. It is removed when
// it has none of them.
type entry struct {
	name    string
	value   []byte
	present bool     // the key exists; value is its value
	payer   *Account // of the entry and its value
	queue   []queued // oldest first
	first   *place   // of the waiters, in order of arrival
	last    *place
}

// queued is a value in a queue.
type queued struct {
	value []byte
	payer *Account
}

// Approximate memory of things beside their bytes.
const (
	entrySize  = 176 // an entry with its slot in the map
	queuedSize = 32  // a value in a queue
	placeSize  = 40  // a waiter's place
)

// NewEngine returns an empty store.
func NewEngine() *Engine {
	return &Engine{entries: make(map[string]*entry)}
}

// Size returns the memory of keys, values, queues and waiters in bytes, closely enough to enforce a limit.
func (e *Engine) Size() int64 { return e.size }

// Progress counts the operations that show progress of the job: new keys, additions, barrier arrivals, values pushed,
// and waits that ended. What a watchdog repeats, reading keys and overwriting one, does not count.
func (e *Engine) Progress() int64 { return e.steps }

// NumKeys returns the number of keys.
func (e *Engine) NumKeys() int { return e.present }

// Keys yields the keys in an unspecified order.
func (e *Engine) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, en := range e.entries {
			if en.present && !yield(name) {
				return
			}
		}
	}
}

// Set stores value under key and wakes waiters for key.
func (e *Engine) Set(key, value []byte) {
	e.store(e.entry(key), bytes.Clone(value))
}

// Get returns the value of key and whether the key exists.
func (e *Engine) Get(key []byte) (value []byte, ok bool) {
	en := e.entries[string(key)]
	if en == nil || !en.present {
		return nil, false
	}
	return en.value, true
}

// Check reports whether a key of that name exists, or a queue of that name is not empty.
func (e *Engine) Check(key []byte) bool {
	en := e.entries[string(key)]
	return en != nil && (en.present || len(en.queue) > 0)
}

// Add adds delta to the decimal number stored under key, 0 if none exists, and returns the sum, which wraps around.
// If the value is not a number, it changes nothing and returns a [*NotNumberError].
func (e *Engine) Add(key []byte, delta int64) (int64, error) {
	sum, err := e.sum(key, delta)
	if err == nil {
		e.steps++
		e.store(e.entry(key), strconv.AppendInt(nil, sum, 10))
	}
	return sum, err
}

func (e *Engine) sum(key []byte, delta int64) (int64, error) {
	value, ok := e.Get(key)
	if !ok {
		return delta, nil
	}
	n, ok := number(value)
	if !ok {
		return 0, &NotNumberError{Key: string(key), Value: value}
	}
	return n + delta, nil
}

// CompareSet stores desired if the value under key equals expected, where a missing key equals an empty value, and
// returns the value that key has then. If key is missing and expected is not empty, it stores nothing and returns
// expected.
//
// PyTorch's libuv server wakes waiters for the key in any case. Engine wakes them only if the key exists afterwards.
func (e *Engine) CompareSet(key, expected, desired []byte) []byte {
	present, ok := e.Get(key)
	switch {
	case !ok && len(expected) > 0:
		return bytes.Clone(expected)
	case ok && !bytes.Equal(present, expected):
		e.wakeAll(e.entries[string(key)])
		return present
	}
	en := e.entry(key)
	e.store(en, bytes.Clone(desired))
	return en.value
}

// Append appends value to that of key, creating the key if it is missing, and wakes waiters for key.
func (e *Engine) Append(key, value []byte) {
	en := e.entry(key)
	e.store(en, append(en.value, value...)) // earlier results end before the appended bytes
}

// Delete removes key and reports whether it existed. Waiters for it go on waiting.
func (e *Engine) Delete(key []byte) bool {
	en := e.entries[string(key)]
	if en == nil || !en.present {
		return false
	}
	e.pay(en.payer, -int64(len(en.value)))
	en.value, en.present = nil, false
	e.present--
	e.release(en)
	return true
}

// Push appends value to the queue and wakes the first waiter that has nothing else to wait for.
func (e *Engine) Push(queue, value []byte) {
	en := e.entry(queue)
	en.queue = append(en.queue, queued{bytes.Clone(value), e.payer})
	e.steps++
	e.pay(e.payer, int64(len(value))+queuedSize)
	en.wakeOne(e)
}

// Pop removes and returns the oldest value of the queue, on behalf of w, and reports whether there was one.
func (e *Engine) Pop(w *Waiter, queue []byte) (value []byte, ok bool) {
	en := e.entries[string(queue)]
	if w.offer != nil && w.offer == en {
		w.offer = nil
	}
	e.PassOn(w)
	if en == nil || len(en.queue) == 0 {
		return nil, false
	}
	value, payer := en.queue[0].value, en.queue[0].payer
	en.queue[0] = queued{}
	if en.queue = en.queue[1:]; len(en.queue) == 0 {
		en.queue = nil
	}
	e.pay(payer, -int64(len(value))-queuedSize)
	e.release(en)
	return value, true
}

// Len returns the number of values in the queue.
func (e *Engine) Len(queue []byte) int {
	if en := e.entries[string(queue)]; en != nil {
		return len(en.queue)
	}
	return 0
}

// entry returns the entry of a name, a new one if none exists. The caller must fill or release it.
func (e *Engine) entry(name []byte) *entry {
	en := e.entries[string(name)]
	if en == nil {
		en = &entry{name: string(name), payer: e.payer}
		e.entries[en.name] = en
		e.pay(en.payer, en.weight())
	}
	return en
}

// weight returns the memory of an entry and its value.
func (en *entry) weight() int64 { return entrySize + int64(len(en.name)) + int64(len(en.value)) }

// pay adds n bytes to the size and to an account.
func (e *Engine) pay(a *Account, n int64) {
	e.size += n
	a.add(n)
}

// release removes an entry that is empty.
func (e *Engine) release(en *entry) {
	if !en.present && len(en.queue) == 0 && en.first == nil {
		delete(e.entries, en.name)
		e.pay(en.payer, -en.weight())
	}
}

// store sets the value of an entry, which the Engine then owns, and wakes the waiters.
func (e *Engine) store(en *entry, value []byte) {
	e.replace(en, value)
	e.wakeAll(en)
}

func (e *Engine) replace(en *entry, value []byte) {
	e.pay(en.payer, -en.weight())
	en.value, en.payer = value, e.payer
	e.pay(en.payer, en.weight())
	if !en.present {
		en.present = true
		e.present++
		e.steps++
	}
}
