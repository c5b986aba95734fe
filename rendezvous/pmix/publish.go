package pmix

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// PUBLISH, LOOKUP and UNPUBLISH: names that ranks share. The head keeps them (exchange.Names), so that all worlds of
// the job see them. Open MPI needs them for MPI_Publish_name and for each MPI_Comm_accept, MPI_Comm_connect and
// MPI_Comm_spawn: both roots publish their names under "PORT:accept" and "PORT:connect", to be removed at the first
// read, and wait for the other's.
//
//	PUBLISH    group{uint32 uid} infos
//	LOOKUP     group{uint32 uid} group{size keys} keys × group{string} infos
//	UNPUBLISH  like LOOKUP; no keys: all of the caller's
//
// Infos are group{size n} and, if n > 0, group{n × info}. The reply to PUBLISH and UNPUBLISH is a status; that to
// LOOKUP a status and, if it is success, group{size n} group{n × pdata}. It is the same in PMIx 3.2 to 6.1.

// Attributes of these requests. Every other attribute of PUBLISH is data.
const (
	keyRange       = "pmix.range"
	keyPersistence = "pmix.persist"
	keyWait        = "pmix.wait"
)

// Values of keyPersistence, which says when a name is removed (pmix_persistence_t).
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
		names := s.namesOf(infos, q.proc)
		if len(names) == 0 {
			return statusBadParameter
		}
		s.cfg.Exchange.Publish(names, q.replyName)
		return replied
	}
}

// replyName replies to a request that changes names.
func (q *request) replyName(err error) { q.status(nameStatus(err)) }

// namesOf returns the names in a PUBLISH. Without a range the whole job sees them, without a persistence they end with
// the caller's world.
func (s *Server) namesOf(infos []info, by world.Proc) (names []exchange.Name) {
	space, lifetime := spaceAll, exchange.LifetimeWorld
	for _, i := range infos {
		n, _ := i.value.integer()
		switch i.key {
		case keyRange:
			space = s.spaceOf(dataRange(n), by)
		case keyPersistence:
			lifetime = lifetimeOf(n)
		case keyTimeout:
		default:
			var e encoder
			e.value(i.value)
			names = append(names, exchange.Name{Name: i.key, Value: e.b, Owner: by})
		}
	}
	for i := range names {
		names[i].Space, names[i].Lifetime, names[i].WorldSize = space, lifetime, len(s.spaces[by.World].Ranks)
	}
	return names
}

func lifetimeOf(persistence int64) exchange.Lifetime {
	switch persistence {
	case persistFirstRead:
		return exchange.LifetimeFirstRead
	case persistProc:
		return exchange.LifetimeOwner
	case persistApp:
		return exchange.LifetimeWorld
	case persistIndefinitely, persistSession:
	}
	return exchange.LifetimeJob // a job is a session
}

// spaceAll is for names that the whole job sees, spaceGlobal for those that other jobs might see, too. The same job
// sees both, but they may have the same keys.
const (
	spaceAll    = "pmix"
	spaceGlobal = "pmix/global"
)

// spaceOf returns the space for a range. Names for the resource manager or for a list of ranks are for the session.
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

// spacesOf returns the spaces that a rank sees, the narrowest first.
func (s *Server) spacesOf(by world.Proc) (spaces []string) {
	for _, to := range []dataRange{rangeProcLocal, rangeNamespace, rangeLocal, rangeSession, rangeGlobal} {
		spaces = append(spaces, s.spaceOf(to, by))
	}
	return spaces
}

// nameStatus returns the status for an error of names.
func nameStatus(err error) status {
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
	return statusError
}

// maxKeys bounds the keys of one request. MPI libraries send one.
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
		wanted := exchange.Query{Spaces: s.spacesOf(q.proc), Names: keys, Need: need, By: q.proc, Wait: wait}
		s.cfg.Exchange.Lookup(wanted, func(found []exchange.Name, err error) {
			q.reply(lookupReply(found, need, wait != 0, err))
		})
		return replied
	}
}

// readWait returns how long a lookup waits (0 for not at all, negative for ever), and for how many of its keys.
// keyWait is a number of keys, 0 for all of them, or a flag as from Open MPI.
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

// distinct drops repeated keys.
func distinct(keys []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(keys, func(key string) bool {
		before := seen[key]
		seen[key] = true
		return before
	})
}

// lookupAnswer encodes what was found. Clients ignore it with any other status than success, except those that
// know partial success.
func lookupReply(found []exchange.Name, need int, waits bool, err error) []byte {
	code := statusSuccess
	if len(found) < need {
		code = statusPartialSuccess
		if len(found) == 0 {
			code = nameStatus(err)
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
			e.pdata(n.Owner, n.Name, publishedValue(n))
		}
	}
	return e.b
}

// publishedValue returns the value of a name: its bytes unless PMIx published it.
func publishedValue(n exchange.Name) value {
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
		spaces := s.spacesOf(q.proc)
		if n, ok := integerOf(infos, keyRange); ok {
			spaces = []string{s.spaceOf(dataRange(n), q.proc)}
		}
		if len(keys) > maxKeys {
			return statusOutOfResource
		}
		s.cfg.Exchange.Unpublish(spaces, keys, q.proc, q.replyName)
		return replied
	}
}
