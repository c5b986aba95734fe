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

// groups are those that ranks of this node are in. The server's lock guards it.
type groups struct {
	// seats are the members of each group that a rank is in, by rank and name: groups of
	// others may have the same.
	seats map[world.Proc]map[string][]proc
	// given is what ranks gave to groups: kvals by number and rank. Communicators ask for it
	// long after their group was destructed: what goes is the oldest, when there is too much.
	given map[uint64]map[world.Proc][]byte
	// oldest are the numbers in given, oldest first, bytes is how much there is.
	oldest []uint64
	bytes  int
	// last is how many numbers this node has proposed.
	last uint64
}

func newGroups() groups {
	return groups{seats: map[world.Proc]map[string][]proc{}, given: map[uint64]map[world.Proc][]byte{}}
}

// join notes that a rank is in a group.
func (g *groups) join(p world.Proc, name string, members []proc) {
	if g.seats[p] == nil {
		g.seats[p] = map[string][]proc{}
	}
	g.seats[p][name] = members
}

// leave has a rank be in a group no longer, and returns the members; nil: it was not in it.
func (g *groups) leave(p world.Proc, name string) []proc {
	members := g.seats[p][name]
	delete(g.seats[p], name)
	return members
}

// contribution is what one rank gives to a group.
type contribution struct {
	from  proc
	infos []info
}

// groupConstruct serves GROUP CONSTRUCT.
func (s *Server) groupConstruct(q *request) error {
	c := readConstruct(q.body)
	if c.err != nil {
		return c.err
	}
	if len(c.name) > maxGroupName || len(c.procs) == 0 {
		q.status(statusBadParameter)
		return nil
	}
	s.lock()
	full := len(s.groups.seats[q.from()]) >= maxSeats
	s.unlock()
	if full {
		q.status(statusOutOfResource)
		return nil
	}
	s.meet(q, plan{
		kind:    "construct " + strconv.Quote(c.name),
		members: c.procs,
		timeout: timeoutOf(c.infos),
		blob:    s.offerGroup,
		done:    func(m *meeting, blobs [][]byte, err error) { s.constructed(m, c.name, blobs, err) },
	})
	return nil
}

// construct is a CONSTRUCT's body.
type construct struct {
	name  string
	procs []proc
	infos []info
	err   error
}

// readConstruct takes a copy of the body, which can so be read again.
func readConstruct(body decoder) construct {
	c := construct{name: body.oneString(), procs: body.procList(), infos: body.infoList()}
	c.err = body.err
	return c
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
		infos := readConstruct(m.arrived[from].body).infos
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
	e.b = append(e.b, valueOf(wanted).raw...)
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

// readOffer reads what offerGroup wrote.
func readOffer(blob []byte) (offer, error) {
	d := decoder{b: blob}
	o := offer{number: d.uint64(), wanted: d.uint8() != 0}
	for d.more() {
		o.given = append(o.given, contribution{d.proc(), d.infoList()})
	}
	return o, d.err
}

// mergeOffers is what all nodes bring; the number is what the first proposes.
func mergeOffers(blobs [][]byte) (offer, error) {
	var all offer
	for i, blob := range blobs {
		o, err := readOffer(blob)
		if err != nil {
			return all, err
		}
		if i == 0 {
			all.number = o.number
		}
		all.wanted = all.wanted || o.wanted
		all.given = append(all.given, o.given...)
	}
	return all, nil
}

// constructed ends a CONSTRUCT.
func (s *Server) constructed(m *meeting, name string, blobs [][]byte, err error) {
	all, bad := mergeOffers(blobs)
	if err != nil || bad != nil {
		m.answerStatus(statusError)
		return
	}
	members := s.formGroup(m, name, all)
	for _, q := range m.arrived {
		q.reply(constructAnswer(q.conn.version, members, all))
	}
}

// formGroup remembers a group, and returns its members, one by one.
func (s *Server) formGroup(m *meeting, name string, all offer) []proc {
	s.lock()
	defer s.unlock()
	who := fromWorlds(m.who)
	for p := range m.arrived {
		if _, member, ok := s.find(p); ok && !member.ended {
			s.groups.join(p, name, who)
		}
	}
	for _, c := range all.given {
		s.groups.give(all.number, c)
	}
	return s.each(who)
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
	v, has := find(infos, keyGroupNumber)
	if !has || !strings.HasPrefix(key, groupKeys) {
		return 0, false
	}
	n, ok := v.integer()
	return uint64(n), ok
}

// getGiven answers what a rank gave to a group. A client has one GET about a rank under way
// at a time and takes all that it waits for from the answer: what is known here of what the
// rank has committed is in it.
func (s *Server) getGiven(q *request, of proc, group uint64) {
	n, m, ok := s.find(of.toWorld())
	given, has := s.groups.given[group][of.toWorld()]
	if !ok || !has {
		q.status(statusNotFound)
		return
	}
	sameHost := n.world.Ranks[of.rank].Host == s.hostOf(n, q)
	q.replyData(of, slices.Concat(m.data.seen(sameHost), given))
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
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &has[0], &has[1], &has[2]); n == 0 {
		return false
	}
	for i, than := range [3]int{major, minor, release} {
		if has[i] != than {
			return has[i] < than
		}
	}
	return false
}

// groupDestruct serves GROUP DESTRUCT: all members come together once more.
func (s *Server) groupDestruct(q *request) error {
	name := q.body.oneString()
	if !isBefore(q.conn.version, 4, 2, 4) {
		q.body.procList()
	}
	infos := q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	members := s.groups.leave(q.from(), name)
	s.unlock()
	if members == nil {
		q.status(statusBadParameter)
		return nil
	}
	s.meet(q, plan{
		kind:    "destruct " + strconv.Quote(name),
		members: members,
		timeout: timeoutOf(infos),
		done:    func(m *meeting, _ [][]byte, err error) { m.answerStatus(outcome(err)) },
	})
	return nil
}

// groupLeave serves GROUP LEAVE. The others are not told: no MPI library leaves a group.
func (s *Server) groupLeave(q *request) error {
	name := q.body.oneString()
	q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	members := s.groups.leave(q.from(), name)
	s.unlock()
	if members == nil {
		q.status(statusNotFound)
		return nil
	}
	q.status(statusSuccess)
	return nil
}
