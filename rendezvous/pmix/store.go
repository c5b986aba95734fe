package pmix

import "gorun/rendezvous/exchange"

// maxStore is how much a rank may commit, in bytes, maxScope how much for ranks on its own host
// or for those on others: one answer between nodes must hold it. Open MPI's ranks commit some
// kilobytes.
const (
	maxStore = 64 << 20
	maxScope = exchange.MaxBlob - 4<<10
)

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
	// objects are the answers that were made last of home and away.
	objects [2]object
}

// object is what was committed, and as an answer holds it.
type object struct{ kvals, encoded []byte }

// object is kvals of that rank as an answer holds them. Of all that it has committed, for which
// many may ask, one is made.
func (t *store) object(of proc, kvals []byte) []byte {
	for i, all := range [...][]byte{t.home, t.away} {
		if !sameBytes(kvals, all) {
			continue
		}
		if o := &t.objects[i]; !sameBytes(kvals, o.kvals) {
			*o = object{kvals, encodeData(of, kvals)}
		}
		return t.objects[i].encoded
	}
	return encodeData(of, kvals)
}

// sameBytes reports whether two slices are the same bytes of memory, and any.
func sameBytes(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

func encodeData(of proc, kvals []byte) []byte {
	var e encoder
	e.oneData(of, kvals)
	return e.b
}

// add appends what a rank commits; false: there is no room for more.
func (t *store) add(to scope, kvals []byte) bool {
	home, away := len(t.home), len(t.away)
	if to != scopeRemote {
		home += len(kvals)
	}
	if to != scopeLocal {
		away += len(kvals)
	}
	if home > maxScope || away > maxScope || home+away > maxStore {
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
