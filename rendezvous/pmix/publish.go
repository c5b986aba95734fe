package pmix

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// PUBLISH, LOOKUP and UNPUBLISH: names that one rank makes known to others. They live at
// the head (exchange.Publish), so that all worlds of the job see them. Open MPI needs them
// for MPI_Publish_name and for each MPI_Comm_accept, MPI_Comm_connect and MPI_Comm_spawn:
// both roots publish who they are under "PORT:accept" and "PORT:connect", to be forgotten
// at the first read, and wait for the other's.
//
//	PUBLISH    group{uint32 uid} infos
//	LOOKUP     group{uint32 uid} group{size keys} keys × group{string} infos
//	UNPUBLISH  like LOOKUP; no keys: all of the caller's
//
// Infos are group{size n} and, if n > 0, group{n × info}. PUBLISH and UNPUBLISH are answered
// by a status; LOOKUP by a status and, if that is success, group{size n} group{n × pdata}.
// The same in PMIx 3.2 to 6.1.

// Attributes of these requests; what else PUBLISH has is data.
const (
	keyRange       = "pmix.range"
	keyPersistence = "pmix.persist"
	keyWait        = "pmix.wait"
)

// persistence says when a name is forgotten (pmix_persistence_t).
const (
	persistIndefinitely = 0
	persistFirstRead    = 1
	persistProc         = 2
	persistApp          = 3
	persistSession      = 4
)

// publish serves PUBLISH.
func (s *Server) publish(q *request, d *decoder) func() status {
	d.oneUint32()
	infos := d.infoList()
	return func() status {
		names := s.namesOf(infos, q.who)
		if len(names) == 0 {
			return statusBadParameter
		}
		exchange.Publish(s.cfg.Plane, names, q.answerName)
		return replied
	}
}

// answerName answers what changes names.
func (q *request) answerName(err error) { q.status(nameStatus(err, statusError)) }

// namesOf are the names in a PUBLISH, among which others say where and until when they are known: without a range the
// whole job sees them, without a persistence they end with the world of the caller.
func (s *Server) namesOf(infos []info, by world.Proc) (names []exchange.Published) {
	space, keep := spaceAll, exchange.KeepWorld
	for _, i := range infos {
		n, _ := i.value.integer()
		switch i.key {
		case keyRange:
			space = s.spaceOf(dataRange(n), by)
		case keyPersistence:
			keep = keepOf(n)
		case keyTimeout:
		default:
			var e encoder
			e.value(i.value)
			names = append(names, exchange.Published{Name: i.key, Value: e.b, Owner: by})
		}
	}
	for i := range names {
		names[i].Space, names[i].Keep, names[i].WorldSize = space, keep, len(s.spaces[by.World].world.Ranks)
	}
	return names
}

func keepOf(persistence int64) exchange.Keep {
	switch persistence {
	case persistFirstRead:
		return exchange.KeepRead
	case persistProc:
		return exchange.KeepOwner
	case persistApp:
		return exchange.KeepWorld
	case persistIndefinitely, persistSession:
	}
	return exchange.KeepJob // a job is a session
}

// spaceAll is the space of names that the whole job may see, spaceGlobal of those that others
// might, too: there is no more than a job, but a key may be in both.
const (
	spaceAll    = "pmix"
	spaceGlobal = "pmix/global"
)

// spaceOf is where a range puts names. What is for the resource manager is for the session, and
// so is a range that lists ranks.
func (s *Server) spaceOf(to dataRange, by world.Proc) string {
	switch to {
	case rangeProcLocal:
		return fmt.Sprintf("pmix:%s:%d", by.World, by.Rank)
	case rangeNamespace:
		return "pmix:" + by.World
	case rangeLocal:
		return "pmix@" + s.hostName(by)
	case rangeGlobal:
		return spaceGlobal
	}
	return spaceAll
}

// spacesOf are those that a rank sees, the narrowest first.
func (s *Server) spacesOf(by world.Proc) (spaces []string) {
	for _, to := range []dataRange{rangeProcLocal, rangeNamespace, rangeLocal, rangeSession, rangeGlobal} {
		spaces = append(spaces, s.spaceOf(to, by))
	}
	return spaces
}

// nameStatus is the status for an error of the names; other if it is none of theirs.
func nameStatus(err error, other status) status {
	switch {
	case err == nil:
		return statusSuccess
	case errors.Is(err, exchange.ErrPublished):
		return statusExists // PMIx says -53 (duplicate key), which Open MPI calls an internal error
	case errors.Is(err, exchange.ErrNotPublished):
		return statusNotFound
	case errors.Is(err, exchange.ErrNotOwner):
		return statusNoPermissions
	case errors.Is(err, exchange.ErrTooMany), errors.Is(err, exchange.ErrTooManyWaits):
		return statusOutOfResource
	}
	return other
}

// maxKeys is how many keys one request may look up or forget; MPI libraries ask for one.
const maxKeys = 1 << 10

// lookup serves LOOKUP.
func (s *Server) lookup(q *request, d *decoder) func() status {
	d.oneUint32()
	keys, infos := d.stringList(), d.infoList()
	return func() status {
		switch {
		case len(keys) == 0:
			return statusBadParameter
		case len(keys) > maxKeys:
			return statusOutOfResource
		}
		keys = distinct(keys)
		wait, need := readWait(infos, len(keys))
		wanted := exchange.Wanted{Spaces: s.spacesOf(q.who), Names: keys, Need: need, By: q.who, Wait: wait}
		exchange.LookupSome(s.cfg.Plane, wanted, func(found []exchange.Published, err error) {
			q.reply(lookupAnswer(found, need, wait != 0, err))
		})
		return replied
	}
}

// readWait is how long a lookup waits (0: not at all; below 0: for ever), and for how many
// of its keys. "wait" is a number of keys, 0 for all of them, or a flag, as Open MPI has it.
func readWait(infos []info, keys int) (wait time.Duration, need int) {
	v, ok := find(infos, keyWait)
	if !ok || v.typ == typeBool && !v.isTrue() {
		return 0, keys
	}
	need = keys
	if n, ok := v.integer(); ok && v.typ != typeBool && n > 0 && n < int64(keys) {
		need = int(n)
	}
	seconds, _ := integerOf(infos, keyTimeout)
	if seconds <= 0 || seconds > 1<<31 {
		return -1, need
	}
	return time.Duration(seconds) * time.Second, need
}

// distinct is keys without those that were there before.
func distinct(keys []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(keys, func(key string) bool {
		before := seen[key]
		seen[key] = true
		return before
	})
}

// lookupAnswer tells what was found. Clients drop what comes with another status than success,
// but those that know of partial success see it.
func lookupAnswer(found []exchange.Published, need int, waits bool, err error) []byte {
	code := statusSuccess
	if len(found) < need {
		code = statusPartialSuccess
		if len(found) == 0 {
			code = nameStatus(err, statusError)
		}
		if waits && errors.Is(err, exchange.ErrNotPublished) {
			code = statusTimeout
		}
	}
	var e encoder
	e.oneStatus(code)
	if len(found) > 0 {
		e.oneSize(len(found))
		e.group(len(found))
		for _, n := range found {
			e.pdata(fromWorld(n.Owner), n.Name, publishedValue(n))
		}
	}
	return e.b
}

// publishedValue is what a name stands for; of one that PMIx did not publish, its bytes.
func publishedValue(n exchange.Published) value {
	d := decoder{b: n.Value}
	if v := d.value(); d.err == nil && !d.more() {
		return v
	}
	return valueOf(n.Value)
}

// unpublish serves UNPUBLISH.
func (s *Server) unpublish(q *request, d *decoder) func() status {
	d.oneUint32()
	keys, infos := d.stringList(), d.infoList()
	return func() status {
		spaces := s.spacesOf(q.who)
		if n, ok := integerOf(infos, keyRange); ok {
			spaces = []string{s.spaceOf(dataRange(n), q.who)}
		}
		if len(keys) > maxKeys {
			return statusOutOfResource
		}
		exchange.Unpublish(s.cfg.Plane, spaces, keys, q.who, q.answerName)
		return replied
	}
}
