package pmix

// maxStore is how much a rank may commit, in bytes. Open MPI's ranks commit some kilobytes.
const maxStore = 64 << 20

// store is what a rank has committed: groups of one kval each, as it sent them, in that
// order. home is what ranks on the same host see, away what those on others do; both only
// grow. Of a rank that another node serves, away is a beginning of what it has there.
type store struct {
	committed  bool
	home, away []byte
	// era counts how often the rank has begun anew, with nothing committed.
	era uint32
	// sent is how much of away the other nodes of its world got by fences.
	sent int
}

// add appends what a rank commits; false: there is no room for more.
func (t *store) add(to scope, kvals []byte) bool {
	if len(t.home)+len(t.away)+len(kvals) > maxStore {
		return false
	}
	if to != scopeRemote {
		t.home = append(t.home, kvals...)
	}
	if to != scopeLocal {
		t.away = append(t.away, kvals...)
	}
	return true
}

// seen is what ranks on the same host see of it, or those on others.
func (t *store) seen(sameHost bool) []byte {
	if sameHost {
		return t.home
	}
	return t.away
}

// beginAnew is for a rank that begins again, after it has finalized: what it had committed
// counts no more.
func (t *store) beginAnew() { *t = store{era: t.era + 1} }

// learn takes over a part of what a rank of another node has committed for those away,
// and where it begins. What of it is known of that era is the same; one that begins later
// than what is known ends tells nothing.
func (t *store) learn(era uint32, offset int, part []byte) {
	if era < t.era {
		return
	}
	if era > t.era {
		t.era, t.away = era, nil
	}
	known := len(t.away) - offset
	if known >= 0 && known < len(part) && offset+len(part) <= maxStore {
		t.away = append(t.away, part[known:]...)
	}
}

// lookUp finds a key in groups of one kval each; the last one counts.
func lookUp(kvals []byte, key string) (value, bool) {
	var last value
	found := false
	d := decoder{b: kvals}
	for d.more() {
		d.one()
		k := d.kval()
		if d.err == nil && k.key == key {
			last, found = k.value, true
		}
	}
	return last, found
}
