package rendezvous

import "strconv"

// Waiter is a client that may wait in an [Engine], such as a connection of a server. It can be in one wait at a time.
// The zero Waiter with a Wake function is ready for use. A Waiter must not be copied.
type Waiter struct {
	// Wake is called when a wait begun by [Engine.Wait] or [Engine.Arrive] ends, by the operation that ends it. It must
	// not call the Engine.
	Wake func()
	// Account counts the memory of the waits; nil is unlimited.
	Account *Account

	missing int     // missing keys, 0 if it does not wait
	places  []place // one for each missing key
	offer   *entry  // the queue whose Push ended the last wait, until Pop or PassOn
}

// place is a Waiter's place among those of an entry. A key that is listed twice has two places.
type place struct {
	waiter     *Waiter
	entry      *entry // nil once the key exists
	prev, next *place
}

// keepPlaces bounds the places that a Waiter keeps allocated for its next wait.
const keepPlaces = 16

// Waiting reports whether w waits.
func (w *Waiter) Waiting() bool { return w.missing > 0 }

// Missing yields the names that w waits for, each as often as it was listed.
func (w *Waiter) Missing(yield func(name string) bool) {
	for i := range w.places {
		if en := w.places[i].entry; en != nil && !yield(en.name) {
			return
		}
	}
}

// Wait reports whether all keys exist; a queue counts as a key while it is not empty. If not, w waits for the missing
// ones and is woken when each has existed. A key that is deleted again meanwhile does not become missing again.
func (e *Engine) Wait(w *Waiter, keys ...[]byte) bool {
	missing := 0
	for _, key := range keys {
		if !e.Check(key) {
			missing++
		}
	}
	if missing == 0 {
		return true
	}
	w.prepare(missing)
	for _, key := range keys {
		if !e.Check(key) {
			e.addPlace(w, e.entry(key))
		}
	}
	return false
}

// Arrive counts w at the barrier key and reports whether world clients have arrived. If so it wakes the others; if not,
// w waits. The count is an ordinary key: a full barrier stays full, and Set or Add on its key release it. If the value
// is not a number, Arrive changes nothing and returns a [*NotNumberError].
func (e *Engine) Arrive(w *Waiter, key []byte, world int64) (full bool, err error) {
	count, err := e.sum(key, 1)
	if err != nil {
		return false, err
	}
	en := e.entry(key)
	e.replace(en, strconv.AppendInt(nil, count, 10))
	e.steps++
	if count >= world {
		e.wakeAll(en)
		return true, nil
	}
	w.prepare(1)
	e.addPlace(w, en)
	return false, nil
}

// Cancel ends the wait of w without waking it, and passes on a queue's value like [Engine.PassOn].
func (e *Engine) Cancel(w *Waiter) {
	w.missing = 0
	for i := range w.places {
		if en := w.places[i].entry; en != nil {
			e.removePlace(&w.places[i])
			e.release(en)
		}
	}
	w.resetPlaces()
	e.PassOn(w)
}

// PassOn wakes another waiter if w was woken by [Engine.Push] and has not called [Engine.Pop]. Call it before w does
// anything else: Push wakes only one waiter, and if that one has died or its cancellation crossed the wake-up, the
// value would stay in the queue while others wait for it. PyTorch's server loses such a wake-up.
func (e *Engine) PassOn(w *Waiter) {
	en := w.offer
	w.offer = nil
	if en != nil && len(en.queue) > 0 {
		en.wakeOne(e)
	}
}

// prepare allocates n places, whose addresses must not change.
func (w *Waiter) prepare(n int) {
	if w.missing > 0 {
		panic("rendezvous: a Waiter waits twice")
	}
	if cap(w.places) < n {
		w.places = make([]place, 0, n)
	}
}

// resetPlaces drops the places after a wait.
func (w *Waiter) resetPlaces() {
	w.places = w.places[:0]
	if cap(w.places) > keepPlaces {
		w.places = nil
	}
}

// addPlace makes w the last waiter of an entry.
func (e *Engine) addPlace(w *Waiter, en *entry) {
	w.places = append(w.places, place{waiter: w, entry: en, prev: en.last})
	p := &w.places[len(w.places)-1]
	if en.last == nil {
		en.first = p
	} else {
		en.last.next = p
	}
	en.last = p
	w.missing++
	e.pay(w.Account, placeSize)
}

// removePlace removes a place from its entry.
func (e *Engine) removePlace(p *place) {
	en := p.entry
	if p.prev == nil {
		en.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		en.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	*p = place{waiter: p.waiter}
	e.pay(p.waiter.Account, -placeSize)
}

// satisfy removes the first place of an entry. If that ends the wait of its Waiter, it wakes and returns it.
func (en *entry) satisfy(e *Engine) (woken *Waiter) {
	w := en.first.waiter
	e.removePlace(en.first)
	if w.missing--; w.missing > 0 {
		return nil
	}
	e.steps++
	w.resetPlaces()
	w.Wake()
	return w
}

// wakeAll satisfies all waiters of an entry.
func (e *Engine) wakeAll(en *entry) {
	for en.first != nil {
		en.satisfy(e)
	}
}

// wakeOne satisfies waiters of a queue until the wait of one of them ends. PyTorch's server keeps that one among the
// waiters, so that the next push wakes it from whatever it waits for by then.
func (en *entry) wakeOne(e *Engine) {
	for en.first != nil {
		if woken := en.satisfy(e); woken != nil {
			woken.offer = en
			return
		}
	}
}
