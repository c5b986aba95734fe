package pmix

import (
	"slices"

	"gorun/rendezvous/world"
)

// CONNECT and DISCONNECT: ranks of several worlds come together, after which each side
// knows the job-level data of the other. Open MPI does both halves of MPI_Comm_connect,
// MPI_Comm_accept and MPI_Comm_spawn so, naming all ranks of both communicators. (It has no
// use for DISCONNECT.)
//
//	CONNECT, DISCONNECT   group{size n} group{n × proc} infos
//
// From PMIx 6 on up to two groups {info} follow that the number of infos does not count:
// what this rank has committed, and its world's job-level data. The server has both.
//
// The answer is a status, and to CONNECT one group{byte object} for each world: what REQ
// says of it, group{string namespace} group{kval}….

// connect serves CONNECT.
func (s *Server) connect(q *request, d *decoder) func() status {
	return s.meetAll(q, d, plan{kind: "connect", blob: s.eras, done: s.connected})
}

// disconnect serves DISCONNECT.
func (s *Server) disconnect(q *request, d *decoder) func() status {
	return s.meetAll(q, d, plan{kind: "disconnect", done: succeed})
}

// meetAll serves requests that name who is to come.
func (s *Server) meetAll(q *request, d *decoder, p plan) func() status {
	p.members = d.procList()
	p.timeout = timeoutOf(d.infoList())
	return func() status {
		if len(p.members) == 0 {
			return statusBadParameter
		}
		return s.meet(q, p)
	}
}

// connected tells each who came of the others' worlds.
func (s *Server) connected(m *meeting, blobs [][]byte) {
	s.learnAll(m, blobs)
	told := tellings{}
	for p, q := range m.arrived {
		var e encoder
		e.oneStatus(statusSuccess)
		for _, name := range worldsOf(m.who) {
			if n := s.spaces[name]; n != q.space {
				e.oneBytes(told.of(n, slices.Index(n.world.Hosts, s.hostName(p))))
			}
		}
		q.reply(e.b)
	}
}

// tellings are what ranks of other worlds are told, by world and host: many of one CONNECT are
// told the same.
type tellings map[telling][]byte

type telling struct {
	space *namespace
	host  int
}

func (t tellings) of(n *namespace, host int) []byte {
	at := telling{n, host}
	if t[at] == nil {
		t[at] = n.toldOthers(host)
	}
	return t[at]
}

// toldOthers is a world's job-level data as ranks of other worlds get it that run on a host,
// given by its index among those of this world, -1 for none of them: what REQ says to the
// world's own, but for the directories.
func (n *namespace) toldOthers(host int) []byte {
	var e encoder
	e.oneString(n.world.Name)
	infos := n.jobInfos()
	if host >= 0 {
		infos = append(infos, n.hostInfos(host)...)
	}
	e.kvals(infos...)
	e.kvals(attr("pmix.mblob", n.hostMap()))
	for rank := range n.world.Ranks {
		e.kvals(attr("pmix.pblob", n.rankBlob(rank, "")))
	}
	return e.b
}

// worldsOf are the worlds of some ranks, which are in order.
func worldsOf(who []world.Proc) []string {
	var names []string
	for _, p := range who {
		names = append(names, p.World)
	}
	return slices.Compact(names)
}
