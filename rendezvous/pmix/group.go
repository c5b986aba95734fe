package pmix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// GROUP CONSTRUCT and DESTRUCT: ranks that meet under a name, and get a number that no
// other group of the job has. Open MPI 5 makes each communicator from a group so
// (MPI_Comm_create_from_group, MPI_Intercomm_create_from_groups; with MPI sessions every
// one): it constructs a group, takes the number as the communicator's extended id, and
// destructs it at once. What it calls a communicator locally (an index, PMIX_GROUP_INFO
// with pmix.grp.lclid) each rank gives to the others.
//
//	CONSTRUCT  group{string name} procs infos
//	DESTRUCT   group{string name} [procs] infos    procs from 4.2.4 on
//	LEAVE      group{string name} infos
//
// procs are group{size n} and, if n > 0, group{n × proc}. The answer to CONSTRUCT has had
// three forms, after the status:
//
//	≤ 4.2.3       [group{size number}]
//	4.2.4 – 5.0   group{size n} group{n × proc} [group{size number}]
//	≥ 6.0         group{size n} group{n × proc} group{bool has} [group{size number}]
//	              group{size m} m × group{info}, each pmix.grp.info: an array of infos,
//	              the first pmix.procid, the rest what that rank gave
//
// Clients before 6 ask for what another rank gave by GET, with the group's number as a
// qualifier, and expect a kval pmix.qual.val: an array of the info and the qualifier. PMIx
// 3 has no groups. Invitations are events.

// Attributes of groups.
const (
	keyAssignNumber = "pmix.grp.actxid"
	keyGroupNumber  = "pmix.grp.ctxid"
	keyGroupInfo    = "pmix.grp.info"
	keyProcID       = "pmix.procid"
	keyQualified    = "pmix.qual.val"
	// groupKeys is how keys begin of which a rank tells the others in a group.
	groupKeys = "pmix.grp."
	// flagQualifier marks an info that narrows another down.
	flagQualifier = 8
)

const (
	// maxGroupName bounds a group's name, in bytes. PMIx's keys have at most 511.
	maxGroupName = 1024
	// maxSeats bounds the groups that a rank is in at the same time.
	maxSeats = 1 << 12
	// maxGiven bounds what is kept of what ranks gave to groups, in bytes: a hundred
	// thousand communicators of some ranks.
	maxGiven = 64 << 20
	// givenCost is what one entry takes besides, in bytes.
	givenCost = 128
)

// groups is what ranks gave to groups. The server's lock guards it.
type groups struct {
	// given are kvals by the group's number and rank. Communicators ask for them
	// long after their group was destructed: what goes is the oldest, when there is too much.
	given map[uint64]map[world.Proc][]byte
	// oldest are the numbers in given, oldest first, bytes is how much there is.
	oldest []uint64
	bytes  int
	// last is how many numbers this node has proposed.
	last uint64
}

func newGroups() groups { return groups{given: map[uint64]map[world.Proc][]byte{}} }

// leaveGroup has a rank be in a group no longer, and returns the members; nil: it was not in it.
func (m *member) leaveGroup(name string) []proc {
	members := m.groups[name]
	delete(m.groups, name)
	return members
}

// contribution is what one rank gives to a group.
type contribution struct {
	from  proc
	infos []info
}

// groupConstruct serves GROUP CONSTRUCT.
func (s *Server) groupConstruct(q *request, d *decoder) func() status {
	name, procs := d.oneString(), d.procList()
	q.infos = d.infoList()
	return func() status {
		switch {
		case len(name) > maxGroupName || len(procs) == 0:
			return statusBadParameter
		case len(q.member.groups) >= maxSeats:
			return statusOutOfResource
		}
		return s.meet(q, plan{
			kind:    "construct " + strconv.Quote(name),
			members: procs,
			timeout: timeoutOf(q.infos),
			blob:    s.offerGroup,
			done:    func(m *meeting, blobs [][]byte) { s.constructed(m, name, blobs) },
		})
	}
}

// offer is what one node brings to a group.
type offer struct {
	// number is the one that it proposes; wanted says whether a rank there asks for one.
	number uint64
	wanted bool
	// given is what its ranks give.
	given []contribution
}

// offerGroup is what this node brings: what its ranks give, and a number.
func (s *Server) offerGroup(m *meeting) []byte {
	s.groups.last++
	wanted := false
	var given encoder
	for _, from := range m.waiting() {
		infos := m.arrived[from].infos
		wanted = wanted || isTrue(infos, keyAssignNumber)
		for _, i := range infos {
			if list, ok := i.value.infos(); ok && i.key == keyGroupInfo {
				given.proc(fromWorld(from))
				given.infoList(withoutProcID(list))
			}
		}
	}
	var e encoder
	e.uint64(s.groups.last*maxNodes + uint64(s.cfg.Node))
	e.uint8(bit(wanted))
	return append(e.b, given.b...)
}

// maxNodes keeps the numbers apart that nodes propose. The first are above those that Open
// MPI has for its own, and numbers fit in 32 bits for long.
const maxNodes = 1 << 16

// withoutProcID is what a rank gives without its name, which clients from 6 on put first.
func withoutProcID(infos []info) []info {
	if len(infos) > 0 && infos[0].key == keyProcID {
		return infos[1:]
	}
	return infos
}

// merge adds what a node brings, as offerGroup wrote it; the number is what the first proposes.
func (o *offer) merge(blob []byte) error {
	d := decoder{b: blob}
	number := d.uint64()
	if o.number == 0 {
		o.number = number
	}
	o.wanted = d.uint8() != 0 || o.wanted
	for d.more() {
		o.given = append(o.given, contribution{d.proc(), d.infoList()})
	}
	return d.err
}

// constructed ends a CONSTRUCT: those who came are in a group from now on.
func (s *Server) constructed(m *meeting, name string, blobs [][]byte) {
	var all offer
	for _, blob := range blobs {
		if all.merge(blob) != nil {
			m.answerStatus(statusError)
			return
		}
	}
	who := fromWorlds(m.who)
	for p := range m.arrived {
		if _, member, ok := s.find(p); ok && !member.ended {
			if member.groups == nil {
				member.groups = map[string][]proc{}
			}
			member.groups[name] = who
		}
	}
	for _, c := range all.given {
		s.groups.give(all.number, c)
	}
	members := s.each(who)
	for _, q := range m.arrived {
		q.reply(constructAnswer(q.version, members, all))
	}
}

// give keeps what a rank gave to a group, as its members ask for it.
func (g *groups) give(number uint64, c contribution) {
	if g.given[number] == nil {
		g.given[number] = map[world.Proc][]byte{}
		g.oldest = append(g.oldest, number)
	}
	var e encoder
	for _, i := range c.infos {
		qualifier := info{keyGroupNumber, flagQualifier, valueOf(number)}
		e.kvals(attr(keyQualified, []info{i, qualifier}))
	}
	p := c.from.toWorld()
	if _, has := g.given[number][p]; !has {
		g.bytes += givenCost
	}
	g.given[number][p] = append(g.given[number][p], e.b...)
	g.bytes += len(e.b)
	for g.bytes > maxGiven && len(g.oldest) > 1 {
		g.forget(g.oldest[0])
		g.oldest = g.oldest[1:]
	}
}

// forget drops what was given to a group.
func (g *groups) forget(number uint64) {
	for _, kvals := range g.given[number] {
		g.bytes -= len(kvals) + givenCost
	}
	delete(g.given, number)
}

// groupOf is the group that a GET is about, for what a rank gave to it.
func groupOf(key string, infos []info) (number uint64, ok bool) {
	n, ok := integerOf(infos, keyGroupNumber)
	return uint64(n), ok && strings.HasPrefix(key, groupKeys)
}

// getGiven answers what a rank gave to a group. A client has one GET about a rank under way
// at a time and takes all that it waits for from the answer: what is known here of what the
// rank has committed is in it.
func (s *Server) getGiven(q *request, of proc, group uint64) status {
	n, m, ok := s.find(of.toWorld())
	given, has := s.groups.given[group][of.toWorld()]
	if !ok || !has {
		return statusNotFound
	}
	sameHost := n.world.Ranks[of.rank].Host == s.hostOf(n, q)
	return q.replyData(of, slices.Concat(m.data.seen(sameHost), given))
}

// constructAnswer is the answer in the form that a client's version knows.
func constructAnswer(version string, members []proc, all offer) []byte {
	var e encoder
	e.oneStatus(statusSuccess)
	oldest, newest := isBefore(version, 4, 2, 4), !isBefore(version, 6, 0, 0)
	if !oldest {
		e.procList(members)
	}
	if newest {
		e.group(1)
		e.b = append(e.b, valueOf(all.wanted).raw...)
	}
	if all.wanted {
		e.group(1)
		e.b = append(e.b, valueOf(all.number).raw...)
	}
	if newest {
		e.oneSize(len(all.given))
		for _, c := range all.given {
			given := append([]info{attr(keyProcID, c.from)}, c.infos...)
			e.group(1)
			e.info(attr(keyGroupInfo, given))
		}
	}
	return e.b
}

// isBefore reports whether a client's version ("4.2.2", "5.0.11rc1") is older than another.
// One that says nothing is taken for a new one.
func isBefore(version string, major, minor, release int) bool {
	var has [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &has[0], &has[1], &has[2])
	return n > 0 && slices.Compare(has[:], []int{major, minor, release}) < 0
}

// groupDestruct serves GROUP DESTRUCT: all members come together once more.
func (s *Server) groupDestruct(q *request, d *decoder) func() status {
	name := d.oneString()
	if !isBefore(q.version, 4, 2, 4) {
		d.procList()
	}
	timeout := timeoutOf(d.infoList())
	return func() status {
		members := q.member.leaveGroup(name)
		if members == nil {
			return statusBadParameter
		}
		return s.meet(q, plan{
			kind: "destruct " + strconv.Quote(name), members: members, timeout: timeout, done: succeed,
		})
	}
}

// groupLeave serves GROUP LEAVE. The others are not told: no MPI library leaves a group.
func (s *Server) groupLeave(q *request, d *decoder) func() status {
	name := d.oneString()
	d.infoList()
	return func() status {
		if q.member.leaveGroup(name) == nil {
			return statusNotFound
		}
		return statusSuccess
	}
}
