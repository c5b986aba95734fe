package pmix

import (
	"slices"

	"gorun/rendezvous/world"
)

// CONNECT and DISCONNECT: ranks of several worlds meet, after which each side knows the job-level data of the other.
// Open MPI uses CONNECT for both sides of MPI_Comm_connect, MPI_Comm_accept and MPI_Comm_spawn, naming all ranks of
// both communicators. It does not use DISCONNECT.
//
//	CONNECT, DISCONNECT   group{size n} group{n × proc} infos
//
// From PMIx 6 on up to two groups {info} follow that the number of infos does not count: what this rank has committed,
// and its world's job-level data. The server has both.
//
// The reply is a status and, to CONNECT, one group{byte object} for each other world, with what REQ replies about it:
// group{string namespace} group{kval}….

// connect serves CONNECT.
func (s *Server) connect(q *request, d *decoder) func() status {
	return s.joinMembers(q, d, plan{kind: "connect", blob: s.epochs, done: s.connected})
}

// disconnect serves DISCONNECT.
func (s *Server) disconnect(q *request, d *decoder) func() status {
	return s.joinMembers(q, d, plan{kind: "disconnect", done: succeed})
}

func (s *Server) joinMembers(q *request, d *decoder, p plan) func() status {
	p.members = d.procList()
	p.timeout = timeoutOf(d.infoList())
	return func() status {
		if len(p.members) == 0 {
			return statusBadParameter
		}
		return s.joinCollective(q, p)
	}
}

// connected replies the job-level data of the other worlds to each member.
func (s *Server) connected(m *collective, blobs [][]byte) {
	s.mergeAll(m, blobs)
	type view struct {
		space *namespace
		host  int
	}
	encoded := map[view][]byte{} // shared by the ranks of a host
	for p, q := range m.arrived {
		var e encoder
		e.oneStatus(statusSuccess)
		for _, name := range worldsOf(m.members) {
			n := s.spaces[name]
			if n == q.space {
				continue
			}
			v := view{n, slices.Index(n.Hosts, s.hostName(p))}
			if encoded[v] == nil {
				encoded[v] = n.infosForOthers(v.host)
			}
			e.oneBytes(encoded[v])
		}
		q.reply(e.b)
	}
}

// infosForOthers encodes the job-level data of a world for ranks of other worlds that run on one of its hosts, or on
// none of them if host is -1. It is what the reply to REQ has, without directories.
func (n *namespace) infosForOthers(host int) []byte {
	var e encoder
	e.oneString(n.Name)
	infos := n.jobInfos()
	if host >= 0 {
		infos = append(infos, n.hostInfos(host)...)
	}
	e.kvals(infos...)
	e.kvals(attr("pmix.mblob", n.hostMap()))
	for rank := range n.Ranks {
		e.kvals(attr("pmix.pblob", n.rankBlob(rank, "")))
	}
	return e.b
}

// worldsOf returns the worlds of ranks in canonical order.
func worldsOf(procs []world.Proc) []string {
	var names []string
	for _, p := range procs {
		names = append(names, p.World)
	}
	return slices.Compact(names)
}
