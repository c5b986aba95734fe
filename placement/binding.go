package placement

import (
	"cmp"
	"fmt"
)

// binder binds the assignments of a node one after the other, as Open MPI 4 does.
type binder struct {
	tree    *tree
	wish    BindTo
	option  string // in the user's words
	kind    Object
	objects []CPUSet
	room    []int // what each object has for ranks: cores or hardware threads
	bound   []int // ranks that are bound to each object
	cpus    int   // that each rank gets
	// strict says that a lack is an error; otherwise nobody is bound.
	strict bool
}

// errFull says that there is not enough room and nobody is to be bound.
type errFull struct{ error }

// bind binds assignments to objects of a kind. Where ranks were mapped to the same
// kind they stay where they are, or go to the nearest of their kind with room
// left; otherwise each takes the object with the fewest ranks that meets its
// locale, and as many of its followers as it needs CPUs.
func (t *tree) bind(on *mapping, m MapBy, wish BindTo) error {
	if len(wish.Lists) > 0 {
		return t.bindLists(on, wish)
	}
	b, err := t.newBinder(m, wish)
	if err != nil {
		return err
	}
	for j := range on.assignments {
		s := &on.assignments[j]
		if b.kind == m.Object && b.cpus <= 1 && m.Count <= 1 {
			err = b.inPlace(s)
		} else {
			err = b.below(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) newBinder(m MapBy, wish BindTo) (*binder, error) {
	b := &binder{tree: t, wish: wish, kind: wish.Object, strict: wish.Given, cpus: max(m.PE, wish.Count)}
	b.wish.OverloadAllowed = wish.OverloadAllowed || m.Oversubscribe
	b.option = wish.String()
	if !wish.Given {
		b.kind, b.option = m.Object, m.String()
		b.wish.Count, b.cpus = m.Count, max(b.cpus, m.Count)
	}
	threads := b.kind == ByThread || m.Object == ByThread && m.PPR == 0 || m.Threads // as Open MPI 4 counts
	if m.PE > 0 {
		unit := ByCore
		if threads {
			unit = ByThread
		}
		if wish.Given && wish.Object != unit {
			return nil, fmt.Errorf("%s: pe=%d binds ranks to %ss: it does not go with %s", m, m.PE, nouns[unit], wish)
		}
		b.kind, b.strict = unit, true
	}
	var err error
	if b.objects, err = t.partObjects(b.kind, b.option); err != nil {
		return nil, err
	}
	for _, set := range b.objects {
		b.room = append(b.room, t.units(set, threads))
	}
	b.bound = make([]int, len(b.objects))
	return b, t.checkPE(m, threads)
}

// checkPE refuses ranks that want more CPUs than an object has to which they are
// mapped.
func (t *tree) checkPE(m MapBy, threads bool) error {
	if m.PE <= 1 {
		return nil
	}
	unit := "cores"
	if threads {
		unit = "hardware threads"
	}
	for i, set := range t.objects(m.Object) {
		if n := t.units(set, threads); n < m.PE {
			return fmt.Errorf("%s: pe=%d is more than the %d %s of %s %d of %s", m, m.PE, n, unit,
				nouns[cmp.Or(m.Object, ByBoard)], i, t.name)
		}
	}
	return nil
}

// inPlace binds a rank to the object to which it was mapped, or where that is
// full to the next one to the right, then to the left, that is not.
func (b *binder) inPlace(s *assignment) error {
	at := s.object
	if b.bound[at] >= b.room[at] {
		if free := b.free(at); free >= 0 {
			at = free
		} else if !b.wish.OverloadAllowed {
			return b.full(at)
		}
	}
	b.bound[at]++
	s.cpus = b.objects[at]
	return nil
}

// free returns the nearest object with room, to the right first, or -1.
func (b *binder) free(from int) int {
	for i := from + 1; i < len(b.objects); i++ {
		if b.bound[i] < b.room[i] {
			return i
		}
	}
	for i := from - 1; i >= 0; i-- {
		if b.bound[i] < b.room[i] {
			return i
		}
	}
	return -1
}

// below binds a rank to the emptiest object that meets its locale (of larger ones the
// first) and to its followers, until it has its CPUs.
func (b *binder) below(s *assignment) error {
	at := -1
	for i, set := range b.objects {
		if set.Intersects(s.locale) && (at < 0 || b.bound[i] < b.bound[at] && set.SubsetOf(s.locale)) {
			at = i
		}
	}
	for have, taken := 0, 0; at >= 0 && (taken == 0 || have < b.cpus); at, taken = at+1, taken+1 {
		if at == len(b.objects) {
			return b.full(at - 1)
		}
		b.bound[at]++
		if b.bound[at] > b.room[at] && !b.wish.OverloadAllowed {
			return b.full(at)
		}
		s.cpus = s.cpus.Union(b.objects[at])
		have += b.step(at)
	}
	return nil
}

// step is what one object counts for: with Hydra's "numa:2" one of two, with pe=2
// its cores.
func (b *binder) step(at int) int {
	if b.wish.Count > 0 {
		return 1
	}
	return b.room[at]
}

// full says that an object has no room for another rank, and the ways out in whole: they
// are of --bind-to, whichever option asked for the binding.
func (b *binder) full(at int) error {
	each := ""
	if b.cpus > 1 {
		each = fmt.Sprintf(" with %d CPUs each", b.cpus)
	}
	err := fmt.Errorf("%s: more ranks%s than room on %s: %s %d has room for %d; use fewer ranks, or --bind-to "+
		"%s:overload-allowed, or --bind-to none",
		b.option, each, b.tree.name, nouns[b.kind], at, b.room[at], b.kind)
	if b.strict {
		return err
	}
	return errFull{err}
}

// bindLists binds each rank to its own list of CPUs.
func (t *tree) bindLists(on *mapping, wish BindTo) error {
	for j := range on.assignments {
		list := wish.Lists[j%len(wish.Lists)]
		if missing := list.Without(t.machine.CPUs); missing.Len() > 0 {
			return fmt.Errorf("%s: the CPUs %s are not allowed on %s; allowed are %s", wish, missing, t.name, t.machine.CPUs)
		}
		on.assignments[j].cpus = list
	}
	return nil
}
