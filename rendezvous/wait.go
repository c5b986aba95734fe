package rendezvous

import "strconv"

// Waiter is one of those who use an [Engine] and may wait there, such as a connection of a server. It waits for one
// thing at a time. The zero Waiter with a Wake function is ready for use; it must not be copied.
type Waiter struct {
	// Wake is called once for each [Engine.Wait] and [Engine.Arrive] that returned false, as soon as nothing is missing
	// any more, by the operation that ended the wait. It must not call the Engine.
	Wake func()
	// Account pays for what it waits for; nil: nobody's.
	Account *Account

	missing int     // keys that have not come yet; 0: does not wait
	places  []place // where it stands in line, one for each missing key
	offer   *entry  // the queue whose push ended the last wait, until it popped or did something else
}

// place is where a Waiter stands in line for one entry. A key that is listed twice makes two places.
type place struct {
	waiter     *Waiter
	entry      *entry // nil once it has left the line
	prev, next *place
}

// keepPlaces is how many places a Waiter keeps for its next wait; a wait for more keys than that is rare and pays
// again.
const keepPlaces = 16

// Waiting reports whether w waits for something.
func (w *Waiter) Waiting() bool { return w.missing > 0 }

// Missing yields what w waits for, as often as it listed it.
func (w *Waiter) Missing(yield func(name string) bool) {
	for i := range w.places {
		if en := w.places[i].entry; en != nil && !yield(en.name) {
			return
		}
	}
}

// Wait reports whether all keys exist, or queues of those names hold something. If not, w waits for those that are
// missing, each as often as it is listed, and is woken when the last has come. A key that is deleted after it came is
// not missing again.
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
			e.line(w, e.entry(key))
		}
	}
	return false
}

// Arrive counts w at the barrier key and reports whether world parties have arrived, in which case all that wait for
// key are woken; if not, w waits. The count is an ordinary key, so that a barrier is full for good and that Set or Add
// on its key release it. The error is a [*NotNumberError].
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
	e.line(w, en)
	return false, nil
}

// Leave ends what w waits for without waking it, and passes on what a queue offered it.
func (e *Engine) Leave(w *Waiter) {
	w.missing = 0
	for i := range w.places {
		if en := w.places[i].entry; en != nil {
			e.unline(&w.places[i])
			e.release(en)
		}
	}
	w.forget()
	e.Lapse(w)
}

// Lapse is to be called for a party that does anything but pop after it was woken by a push. A push wakes one party
// only; if that one gave up meanwhile (its cancellation crossed the wake-up, or it died), somebody else has to be woken
// for the value, else it would lie in the queue while others wait for it. PyTorch's server loses such a wake-up.
func (e *Engine) Lapse(w *Waiter) {
	en := w.offer
	w.offer = nil
	if en != nil && len(en.queue) > 0 {
		en.wakeOne(e)
	}
}

// Offered reports whether w's last wait was ended by a push and w has neither popped nor passed that on yet.
func (w *Waiter) Offered() bool { return w.offer != nil }

// prepare makes room for n places, whose addresses then stay.
func (w *Waiter) prepare(n int) {
	if w.missing > 0 {
		panic("rendezvous: a Waiter that waits was made to wait again")
	}
	if cap(w.places) < n {
		w.places = make([]place, 0, n)
	}
}

// forget drops the places after a wait has ended.
func (w *Waiter) forget() {
	w.places = w.places[:0]
	if cap(w.places) > keepPlaces {
		w.places = nil
	}
}

// line puts w at the end of the line of an entry.
func (e *Engine) line(w *Waiter, en *entry) {
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

// unline takes a place out of its line.
func (e *Engine) unline(p *place) {
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

// pass takes the first place out of the line, tells its Waiter that the key has come, and reports whether that ended
// its wait.
func (en *entry) pass(e *Engine) (woken *Waiter) {
	w := en.first.waiter
	e.unline(en.first)
	if w.missing--; w.missing > 0 {
		return nil
	}
	e.steps++
	w.forget()
	w.Wake()
	return w
}

// wakeAll tells everybody in line that the key has come.
func (e *Engine) wakeAll(en *entry) {
	for en.first != nil {
		en.pass(e)
	}
}

// wakeOne tells those in line that something is in the queue until one of them has nothing else to wait for: that one
// is woken and stands in no line any more. (PyTorch's server leaves it in line, where the next push wakes it from
// whatever it waits for by then.)
func (en *entry) wakeOne(e *Engine) {
	for en.first != nil {
		if woken := en.pass(e); woken != nil {
			woken.offer = en
			return
		}
	}
}
