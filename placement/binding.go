package placement

import (
	"cmp"
	"fmt"
)

// binder binds the assignments of a node one after the other, as Open MPI 4 does.
type binder struct {
	tree    *tree
	bindTo  BindTo
	option  string // as the user wrote it
	kind    Object
	objects []CPUSet
	room    []int // cores or hardware threads of each object
	bound   []int // number of ranks bound to each object
	cpus    int   // per rank
	// strict makes a lack of room an error; otherwise no rank is bound.
	strict bool
}

// errFull reports that there is too little room, so no rank should be bound.
type errFull struct{ error }

// bind binds assignments to objects of a kind. Ranks that are mapped to the same kind keep their
// object, or get the nearest one with room. Other ranks get the object with the fewest ranks that
// intersects their locale, and as many of the following objects as they need CPUs.
func (t *tree) bind(on *mapping, m MapBy, bindTo BindTo) error {
	if len(bindTo.Lists) > 0 {
		return t.bindLists(on, bindTo)
	}
	b, err := t.newBinder(m, bindTo)
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

func (t *tree) newBinder(m MapBy, bindTo BindTo) (*binder, error) {
	b := &binder{tree: t, bindTo: bindTo, kind: bindTo.Object, strict: bindTo.Given, cpus: max(m.PE, bindTo.Count)}
	b.bindTo.OverloadAllowed = bindTo.OverloadAllowed || m.Oversubscribe
	b.option = bindTo.String()
	if !bindTo.Given {
		b.kind, b.option = m.Object, m.String()
		b.bindTo.Count, b.cpus = m.Count, max(b.cpus, m.Count)
	}
	threads := b.kind == ByThread || m.Object == ByThread && m.PPR == 0 || m.Threads // as in Open MPI 4
	if m.PE > 0 {
		unit := ByCore
		if threads {
			unit = ByThread
		}
		if bindTo.Given && bindTo.Object != unit {
			return nil, fmt.Errorf("%s: pe=%d binds ranks to %ss and contradicts %s", m, m.PE, nouns[unit], bindTo)
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

// checkPE rejects ranks that need more CPUs than the object that they are mapped to has.
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

// inPlace binds a rank to the object that it is mapped to. If that is full, it tries the objects to
// the right, then those to the left.
func (b *binder) inPlace(s *assignment) error {
	at := s.object
	if b.bound[at] >= b.room[at] {
		if free := b.free(at); free >= 0 {
			at = free
		} else if !b.bindTo.OverloadAllowed {
			return b.full(at)
		}
	}
	b.bound[at]++
	s.cpus = b.objects[at]
	return nil
}

// free returns the nearest object with room, those to the right first, or -1.
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

// below binds a rank to the emptiest object that intersects its locale (the first one, if objects
// are larger than the locale) and to the following objects, until the rank has its CPUs.
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
		if b.bound[at] > b.room[at] && !b.bindTo.OverloadAllowed {
			return b.full(at)
		}
		s.cpus = s.cpus.Union(b.objects[at])
		have += b.step(at)
	}
	return nil
}

// step returns how much one object counts towards b.cpus: 1 with Hydra's "numa:2", its cores with
// pe=2.
func (b *binder) step(at int) int {
	if b.bindTo.Count > 0 {
		return 1
	}
	return b.room[at]
}

// full reports that an object has no room for another rank. It suggests complete values of
// --bind-to, whichever option asked for the binding.
func (b *binder) full(at int) error {
	each := ""
	if b.cpus > 1 {
		each = fmt.Sprintf(" of %d CPUs each", b.cpus)
	}
	err := fmt.Errorf("%s: too few CPUs on %s for these ranks%s: %s %d takes %d; use fewer ranks, or --bind-to "+
		"%s:overload-allowed, or --bind-to none",
		b.option, b.tree.name, each, nouns[b.kind], at, b.room[at], b.kind)
	if b.strict {
		return err
	}
	return errFull{err}
}

// bindLists binds each rank to its own list of CPUs.
func (t *tree) bindLists(on *mapping, bindTo BindTo) error {
	for j := range on.assignments {
		list := bindTo.Lists[j%len(bindTo.Lists)]
		if missing := list.Without(t.machine.CPUs); missing.Len() > 0 {
			return fmt.Errorf("%s: CPUs %s are outside the allowed CPUs of %s (%s)", bindTo, missing, t.name, t.machine.CPUs)
		}
		on.assignments[j].cpus = list
	}
	return nil
}
