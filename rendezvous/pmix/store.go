package pmix

import (
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// maxStore bounds what a rank may commit, in bytes, and maxScope what it may commit for ranks on its own host or for
// those on others: one reply between nodes must hold that. Open MPI's ranks commit some kilobytes.
const (
	maxStore = 64 << 20
	maxScope = exchange.MaxBlob - 4<<10
)

// store is what a rank has committed: groups of one kval each, as it sent them and in that order. Ranks on the same
// host see local, those on others remote; both only grow. For a rank that another node serves, remote is a prefix of
// what it is there.
type store struct {
	committed     bool
	local, remote []byte
	epoch         uint32 // how often the rank has begun anew, with nothing committed
	shared        int    // bytes of remote that fences brought to the other nodes of its world
}

// add appends what a rank commits. It reports false if that exceeds a limit.
func (t *store) add(to scope, kvals []byte) bool {
	local, remote := len(t.local), len(t.remote)
	if to != scopeRemote {
		local += len(kvals)
	}
	if to != scopeLocal {
		remote += len(kvals)
	}
	if local > maxScope || remote > maxScope || local+remote > maxStore {
		return false
	}
	if to != scopeRemote {
		t.local = append(t.local, kvals...)
	}
	if to != scopeLocal {
		t.remote = append(t.remote, kvals...)
	}
	return true
}

// visible returns what ranks on the same host see, or those on others.
func (t *store) visible(sameHost bool) []byte {
	if sameHost {
		return t.local
	}
	return t.remote
}

// restart drops what a rank committed before it finalized and began again.
func (t *store) restart() { *t = store{epoch: t.epoch + 1} }

// merge adds a part, which begins at offset, of what a rank of another node has committed for other hosts. Within one
// epoch, what is known already is the same; a part beyond its end is ignored.
func (t *store) merge(epoch uint32, offset int, part []byte) {
	if epoch < t.epoch {
		return
	}
	if epoch > t.epoch {
		t.epoch, t.remote = epoch, nil
	}
	known := len(t.remote) - offset
	if known >= 0 && known < len(part) && offset+len(part) <= maxStore {
		t.remote = append(t.remote, part[known:]...)
	}
}

// encodeData returns kvals of a process as a group {byte object}.
func encodeData(of world.Proc, kvals []byte) []byte {
	var e encoder
	e.oneData(of, kvals)
	return e.b
}

// lookUp returns the last value of a key in groups of one kval each.
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
