package rendezvous

import (
	"bytes"
	"iter"
	"strconv"
)

// Engine is the store itself: keys, queues and those who wait, without locks, goroutines, clocks or sockets. Whoever
// serves a store owns an Engine and lets one goroutine at a time in.
//
// Arguments are copied where they are kept, so that they may lie in a buffer that is used again. Values that are
// returned belong to the Engine and never change: they may be held for as long as it takes to send them, but not be
// written to.
type Engine struct {
	entries map[string]*entry
	present int   // entries that are keys
	size    int64 // see Size
	steps   int64 // see Progress
	payer   *Account
}

// Account counts the memory that one party, or several together, take in an [Engine]: what they wrote last, pushed, or
// wait for.
type Account struct{ size int64 }

// Size is that memory in bytes, as [Engine.Size] counts.
func (a *Account) Size() int64 { return a.size }

// add does nothing for nil, which is nobody's account.
func (a *Account) add(n int64) {
	if a != nil {
		a.size += n
	}
}

// Charge has an account pay for what is written from now on; nil: nobody's. A key is paid for whole by who wrote it
// last.
func (e *Engine) Charge(a *Account) { e.payer = a }

// entry is what is known under one name. A key, a queue and those who wait for either of them share it, so that each
// operation looks it up once; it goes when none of them is left.
type entry struct {
	name    string
	value   []byte
	present bool     // there is a key of this name; value is its value
	payer   *Account // of the entry and its value
	queue   []queued // oldest first
	first   *place   // those who wait, in the order in which they came
	last    *place
}

// queued is a value in a queue.
type queued struct {
	value []byte
	payer *Account
}

// What things cost in memory beside their bytes, closely enough for Size.
const (
	entrySize  = 176 // an entry with its slot in the map
	queuedSize = 32  // a value in a queue
	placeSize  = 40  // a place in a line
)

// NewEngine returns an empty store.
func NewEngine() *Engine {
	return &Engine{entries: make(map[string]*entry)}
}

// Size is the memory that keys, values, queues and waiting parties take, in bytes, closely enough to hold a limit.
func (e *Engine) Size() int64 { return e.size }

// Progress counts what has brought those who meet here further: new keys, arrivals and other counts, values in queues,
// and waits that ended. What a watchdog does again and again, asking for keys and writing to one that exists, is no
// progress.
func (e *Engine) Progress() int64 { return e.steps }

// NumKeys counts the keys.
func (e *Engine) NumKeys() int { return e.present }

// Keys yields the keys in no particular order.
func (e *Engine) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, en := range e.entries {
			if en.present && !yield(name) {
				return
			}
		}
	}
}

// Set stores value under key and wakes those who wait for key.
func (e *Engine) Set(key, value []byte) {
	e.store(e.entry(key), bytes.Clone(value))
}

// Get returns the value of key and whether there is one.
func (e *Engine) Get(key []byte) (value []byte, ok bool) {
	en := e.entries[string(key)]
	if en == nil || !en.present {
		return nil, false
	}
	return en.value, true
}

// Check reports whether there is a key of that name, or something in the queue of that name.
func (e *Engine) Check(key []byte) bool {
	en := e.entries[string(key)]
	return en != nil && (en.present || len(en.queue) > 0)
}

// Add adds delta to the number stored under key and returns the sum, which wraps around. The error is a
// [*NotNumberError]; nothing has changed then.
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
// returns the value now in force. For a missing key and an expected value that is not empty it stores nothing and
// returns expected.
//
// PyTorch's libuv server wakes those who wait for the key in each case; here they are woken only if the key exists
// afterwards.
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

// Append adds value to the end of the value of key, an empty one where there is none, and wakes those who wait for key.
func (e *Engine) Append(key, value []byte) {
	en := e.entry(key)
	e.store(en, append(en.value, value...)) // values that were handed out end before the appended bytes
}

// Delete removes key and reports whether it existed. Those who wait for it go on waiting.
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

// Push puts value at the end of the queue and wakes the first of those who wait for it whose last missing key this is.
func (e *Engine) Push(queue, value []byte) {
	en := e.entry(queue)
	en.queue = append(en.queue, queued{bytes.Clone(value), e.payer})
	e.steps++
	e.pay(e.payer, int64(len(value))+queuedSize)
	en.wakeOne(e)
}

// Pop takes the oldest value from the queue for party w and reports whether there was one.
func (e *Engine) Pop(w *Waiter, queue []byte) (value []byte, ok bool) {
	en := e.entries[string(queue)]
	if w.offer != nil && w.offer == en {
		w.offer = nil
	}
	e.Lapse(w)
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

// Len counts what is in the queue.
func (e *Engine) Len(queue []byte) int {
	if en := e.entries[string(queue)]; en != nil {
		return len(en.queue)
	}
	return 0
}

// entry returns what is known under name, a new entry where that is nothing. The caller fills it or releases it.
func (e *Engine) entry(name []byte) *entry {
	en := e.entries[string(name)]
	if en == nil {
		en = &entry{name: string(name), payer: e.payer}
		e.entries[en.name] = en
		e.pay(en.payer, en.weight())
	}
	return en
}

// weight is what an entry and its value take.
func (en *entry) weight() int64 { return entrySize + int64(len(en.name)) + int64(len(en.value)) }

// pay counts n bytes more.
func (e *Engine) pay(a *Account, n int64) {
	e.size += n
	a.add(n)
}

// release drops an entry that has become empty.
func (e *Engine) release(en *entry) {
	if !en.present && len(en.queue) == 0 && en.first == nil {
		delete(e.entries, en.name)
		e.pay(en.payer, -en.weight())
	}
}

// store makes value, which is the Engine's own, the value of an entry and wakes those who wait for it.
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
