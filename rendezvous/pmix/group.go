package pmix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// GROUP CONSTRUCT and DESTRUCT: ranks meet under a name, and get a number that no other group of the job has. Open MPI
// 5 makes communicators this way (MPI_Comm_create_from_group, MPI_Intercomm_create_from_groups; with MPI sessions every
// one): it constructs a group, takes the number as the communicator's extended ID, and destructs the group at once.
// Each rank gives the others its local index of the communicator (PMIX_GROUP_INFO with pmix.grp.lclid).
//
//	CONSTRUCT  group{string name} procs infos
//	DESTRUCT   group{string name} [procs] infos    procs from 4.2.4 on
//	LEAVE      group{string name} infos
//
// procs are group{size n} and, if n > 0, group{n × proc}. The reply to CONSTRUCT has had three forms, after the
// status:
//
//	≤ 4.2.3       [group{size number}]
//	4.2.4 – 5.0   group{size n} group{n × proc} [group{size number}]
//	≥ 6.0         group{size n} group{n × proc} group{bool has} [group{size number}]
//	              group{size m} m × group{info}, each pmix.grp.info: an array of infos,
//	              the first pmix.procid, the rest what that rank gave
//
// Clients before 6 fetch what another rank gave by GET, with the group's number as a qualifier, and expect a kval
// pmix.qual.val: an array of the info and the qualifier. PMIx 3 has no groups. Invitations are events.

// Attributes of groups.
const (
	keyAssignNumber = "pmix.grp.actxid"
	keyGroupNumber  = "pmix.grp.ctxid"
	keyGroupInfo    = "pmix.grp.info"
	keyProcID       = "pmix.procid"
	keyQualified    = "pmix.qual.val"
	groupKeyPrefix  = "pmix.grp."
	// flagQualifier marks an info that qualifies another.
	flagQualifier = 8
)

const (
	// maxGroupName bounds a group's name, in bytes. PMIx's keys have at most 511.
	maxGroupName = 1024
	// maxGroups bounds the groups that a rank is in at the same time.
	maxGroups = 1 << 12
	// maxGroupData bounds what is kept of what ranks gave to groups, in bytes, which is enough for a hundred thousand
	// communicators of some ranks.
	maxGroupData = 64 << 20
	// groupDataCost is the overhead of one entry, in bytes.
	groupDataCost = 128
	// maxNodes separates the numbers that nodes propose. The first numbers exceed those of Open MPI's own
	// communicators, and numbers fit in 32 bits for long.
	maxNodes = 1 << 16
)

// groupData is what ranks gave to groups. The server's lock guards it.
type groupData struct {
	// kvals are by group number and rank. Communicators ask for them long after their group was destructed, so that only
	// the oldest are dropped when there are too many.
	kvals      map[uint64]map[world.Proc][]byte
	numbers    []uint64 // of kvals, oldest first
	bytes      int      // of kvals
	lastNumber uint64   // that this node proposed
}

// leaveGroup removes a rank from a group and returns the members, nil if it was not in it.
func (m *member) leaveGroup(name string) []world.Proc {
	members := m.groups[name]
	delete(m.groups, name)
	return members
}

// contribution is what one rank gives to a group.
type contribution struct {
	from  world.Proc
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
		case len(q.member.groups) >= maxGroups:
			return statusOutOfResource
		}
		return s.joinCollective(q, plan{
			kind:    "construct " + strconv.Quote(name),
			members: procs,
			timeout: timeoutOf(q.infos),
			blob:    s.groupOffer,
			done:    func(m *collective, blobs [][]byte) { s.constructed(m, name, blobs) },
		})
	}
}

// offer is what nodes bring to a group.
type offer struct {
	number        uint64 // that the first node proposes
	wanted        bool   // a rank wants a number
	contributions []contribution
}

// groupOffer encodes what this node brings.
func (s *Server) groupOffer(m *collective) []byte {
	s.groups.lastNumber++
	wanted := false
	var contributions encoder
	for _, p := range m.waiting() {
		infos := m.arrived[p].infos
		wanted = wanted || isTrue(infos, keyAssignNumber)
		for _, i := range infos {
			list, ok := i.value.infos()
			if !ok || i.key != keyGroupInfo {
				continue
			}
			if len(list) > 0 && list[0].key == keyProcID { // from 6 on clients put their name first
				list = list[1:]
			}
			contributions.proc(p)
			contributions.infoList(list)
		}
	}
	var e encoder
	e.uint64(s.groups.lastNumber*maxNodes + uint64(s.number()))
	e.uint8(bit(wanted))
	return append(e.b, contributions.b...)
}

// merge adds what a node brings.
func (o *offer) merge(blob []byte) error {
	d := decoder{b: blob}
	number := d.uint64()
	if o.number == 0 {
		o.number = number
	}
	o.wanted = d.uint8() != 0 || o.wanted
	for d.more() {
		o.contributions = append(o.contributions, contribution{d.proc(), d.infoList()})
	}
	return d.err
}

// constructed ends a CONSTRUCT: the members are in a group from now on.
func (s *Server) constructed(m *collective, name string, blobs [][]byte) {
	var all offer
	for i, blob := range blobs {
		known := len(all.contributions)
		forged := func(c contribution) bool { return !s.serves(m.nodes[i], c.from) }
		if all.merge(blob) != nil || slices.ContainsFunc(all.contributions[known:], forged) {
			m.replyStatus(statusError)
			return
		}
	}
	for p := range m.arrived {
		if _, member, ok := s.find(p); ok && !member.exited {
			member.groups[name] = m.members
		}
	}
	for _, c := range all.contributions {
		s.groups.add(all.number, c)
	}
	members := s.expand(m.members)
	for _, q := range m.arrived {
		q.reply(constructReply(q.version, members, all))
	}
}

// add keeps what a rank gave to a group, in the form in which members request it.
func (g *groupData) add(number uint64, c contribution) {
	if g.kvals[number] == nil {
		g.kvals[number] = map[world.Proc][]byte{}
		g.numbers = append(g.numbers, number)
	}
	var e encoder
	for _, i := range c.infos {
		qualifier := info{keyGroupNumber, flagQualifier, valueOf(number)}
		e.kvals(attr(keyQualified, []info{i, qualifier}))
	}
	if _, has := g.kvals[number][c.from]; !has {
		g.bytes += groupDataCost
	}
	g.kvals[number][c.from] = append(g.kvals[number][c.from], e.b...)
	g.bytes += len(e.b)
	for g.bytes > maxGroupData && len(g.numbers) > 1 {
		for _, kvals := range g.kvals[g.numbers[0]] {
			g.bytes -= len(kvals) + groupDataCost
		}
		delete(g.kvals, g.numbers[0])
		g.numbers = g.numbers[1:]
	}
}

// groupNumber returns the number of the group if a GET is about what a rank gave to one.
func groupNumber(key string, infos []info) (number uint64, ok bool) {
	n, ok := integerOf(infos, keyGroupNumber)
	return uint64(n), ok && strings.HasPrefix(key, groupKeyPrefix)
}

// getGroupData replies what a rank gave to a group. A client has one GET about a rank in progress and takes everything
// that it waits for from the reply, so that it includes what the rank has committed, as far as that is known here.
func (s *Server) getGroupData(q *request, of world.Proc, number uint64) status {
	n, m, ok := s.find(of)
	kvals, has := s.groups.kvals[number][of]
	if !ok || !has {
		return statusNotFound
	}
	return q.replyData(of, slices.Concat(m.data.visible(s.sameHost(n, of.Rank, q)), kvals))
}

// constructReply encodes the reply in the form of a client's version.
func constructReply(version string, members []world.Proc, all offer) []byte {
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
		e.oneSize(len(all.contributions))
		for _, c := range all.contributions {
			e.group(1)
			e.info(attr(keyGroupInfo, append([]info{attr(keyProcID, c.from)}, c.infos...)))
		}
	}
	return e.b
}

// isBefore reports whether a client's version, such as "4.2.2" or "5.0.11rc1", is older than another. One without
// numbers counts as new.
func isBefore(version string, major, minor, release int) bool {
	var has [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &has[0], &has[1], &has[2])
	return n > 0 && slices.Compare(has[:], []int{major, minor, release}) < 0
}

// groupDestruct serves GROUP DESTRUCT, in which all members meet once more.
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
		return s.joinCollective(q, plan{
			kind: "destruct " + strconv.Quote(name), members: members, timeout: timeout, done: succeed,
		})
	}
}

// groupLeave serves GROUP LEAVE. The other members are not notified: no MPI library leaves a group.
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
