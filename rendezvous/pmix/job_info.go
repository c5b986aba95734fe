package pmix

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// What every rank knows of its world from the beginning, by PMIx's keys. In the reply to REQ, the keys of the job, of a
// node, of a program and of a rank have a place each.

// jobInfo serves REQ.
func (s *Server) jobInfo(q *request, _ *decoder) func() status {
	n := q.space
	dirs, err := s.directories.makeFor(n, q.proc.Rank)
	topology := s.initialTopology(q.conn)
	return func() status {
		if err != nil {
			// Open MPI's ranks use /tmp then.
			s.node.Say(q.proc, "gorun: "+err.Error())
		}
		reply := n.jobReply
		if reply == nil || dirs == "" {
			reply = n.newJobReply(n.Ranks[q.proc.Rank].Host, dirs)
		}
		if dirs != "" {
			n.jobReply = reply
		}
		q.reply(reply, topology)
		return replied
	}
}

// initialTopology returns a group {kval} with this machine's topology for clients of libpmix 5 and later. Their
// PMIx_Init looks for it in the reply to REQ, and otherwise discovers it itself. Earlier clients request it when they
// need it.
func (s *Server) initialTopology(c *conn) []byte {
	major, _, _ := strings.Cut(c.version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 5 || s.cfg.Topology == nil {
		return nil
	}
	xml, err := s.cfg.Topology()
	if err != nil {
		return nil
	}
	return encodeKvals(attr(keyTopology, xml))
}

// newJobReply returns the reply to REQ, which is the same for all ranks of a world on this node that have directories:
// group {name of the world}, and group {kval} for each item.
func (n *namespace) newJobReply(host int, dirs string) []byte {
	var e encoder
	e.oneString(n.Name)
	e.kvals(n.jobInfos()...)
	if dirs != "" {
		e.kvals(attr("pmix.tmpdir", dirs), attr("pmix.nsdir", n.dir(dirs)))
	}
	e.kvals(n.hostInfos(host)...)
	e.kvals(attr("pmix.mblob", n.hostMap()))
	for app := range n.Apps {
		e.kvals(attr("pmix.app.arr", n.appInfos(app)))
	}
	for rank := range n.Ranks {
		e.kvals(attr("pmix.pblob", n.rankBlob(rank, dirs)))
	}
	return e.b
}

// rankBlob encodes what is known of a rank: group {rank}, and group {kval} for each item.
func (n *namespace) rankBlob(rank int, dirs string) []byte {
	var e encoder
	e.group(1)
	e.uint32(uint32(rank))
	e.kvals(n.rankInfos(rank)...)
	if n.IsLocal(rank) && dirs != "" {
		e.kvals(attr("pmix.pdir", n.rankDir(dirs, rank)))
	}
	return e.b
}

// allInfos returns the reply to a GET by a rank of another world, with everything that is known of this one: group
// {status}, and a group {byte object} for the world and for each rank.
func (n *namespace) allInfos() []byte {
	if n.all != nil {
		return n.all
	}
	var e encoder
	e.oneStatus(statusSuccess)
	infos := n.jobInfos()
	for host := range n.Hosts {
		infos = append(infos, attr("pmix.node.arr", n.nodeArray(host)))
	}
	for app := range n.Apps {
		infos = append(infos, attr("pmix.app.arr", n.appInfos(app)))
	}
	e.oneData(n.wildcard(), encodeKvals(infos...))
	for rank := range n.Ranks {
		e.oneData(n.Proc(rank), encodeKvals(n.rankInfos(rank)...))
	}
	n.all = e.b
	return n.all
}

// jobInfos returns the attributes of a world.
func (n *namespace) jobInfos() []info {
	infos := []info{
		attr("pmix.job.size", uint32(len(n.Ranks))),
		attr("pmix.max.size", uint32(len(n.Ranks))),
		attr("pmix.univ.size", uint32(max(n.Universe, len(n.Ranks)))),
		attr("pmix.jobid", n.Name),
		attr("pmix.num.nodes", uint32(len(n.Hosts))),
		attr("pmix.job.napps", uint32(len(n.Apps))),
		attr("pmix.nlist", strings.Join(n.Hosts, ",")),
		attr("pmix.tdir.rmclean", true),
		attr("OMPI_APP_SIZES", n.appNumbers(func(app int) int { return len(n.byApp[app]) })),
		attr("OMPI_FIRST_RANKS", n.appNumbers(n.firstRank)),
	}
	if len(n.Ranks) > 0 {
		infos = append(infos, attr("pmix.offset", procRank(n.Ranks[0].Job)))
	}
	for _, policy := range [][2]string{{"pmix.mapby", n.MapBy}, {"pmix.rankby", n.RankBy}, {"pmix.bindto", n.BindTo}} {
		if policy[1] != "" {
			infos = append(infos, attr(policy[0], policy[1]))
		}
	}
	return append(infos, n.parentInfos()...)
}

// parentInfos returns the attributes of the rank that spawned the world.
func (n *namespace) parentInfos() []info {
	if n.Parent == (world.Proc{}) {
		return nil
	}
	return []info{
		attr("pmix.parent", n.Parent),
		attr("pmix.spawned", true),
	}
}

// hostInfos returns the attributes of a host for the ranks on it.
func (n *namespace) hostInfos(host int) []info {
	peers := n.ByHost[host]
	local := make([]world.Proc, len(peers))
	for i, rank := range peers {
		local[i] = n.Proc(rank)
	}
	infos := []info{
		attr("pmix.lprocs", local),
		attr("pmix.local.size", uint32(len(peers))),
		attr("pmix.node.size", uint32(len(peers))),
		attr("pmix.lpeers", rankList(peers)),
		attr("pmix.lldr", procRank(peers[0])),
	}
	if len(peers) > runtime.NumCPU() {
		// Waiting ranks yield their CPU.
		infos = append(infos, attr("pmix.ndosub", true))
	}
	return infos
}

// nodeArray returns the attributes of a host for ranks of other worlds.
func (n *namespace) nodeArray(host int) []info {
	peers := n.ByHost[host]
	return []info{
		attr("pmix.hname", n.Hosts[host]),
		attr("pmix.nodeid", uint32(host)),
		attr("pmix.local.size", uint32(len(peers))),
		attr("pmix.lpeers", rankList(peers)),
	}
}

// hostMap encodes the ranks of each host: group {number of hosts}, and for each group {kval}, its name and its ranks as
// "0,1".
func (n *namespace) hostMap() []byte {
	var e encoder
	e.oneSize(len(n.Hosts))
	for host, name := range n.Hosts {
		e.kvals(attr(name, rankList(n.ByHost[host])))
	}
	return e.b
}

// appInfos returns the attributes of a program.
func (n *namespace) appInfos(app int) []info {
	a := n.Apps[app]
	infos := []info{
		attr("pmix.appnum", uint32(app)),
		attr("pmix.app.size", uint32(len(n.byApp[app]))),
		attr("pmix.aldr", procRank(n.firstRank(app))),
		attr("pmix.app.argv", strings.Join(a.Argv, " ")),
	}
	if dir, err := filepath.Abs(a.Dir); err == nil { // "" is this node's directory
		infos = append(infos, attr(keyWorkDir, dir))
	}
	return infos
}

// rankInfos returns the attributes of a rank.
func (n *namespace) rankInfos(rank int) []info {
	r := n.Ranks[rank]
	infos := []info{
		attr("pmix.lrank", uint16(r.LocalRank)),
		attr("pmix.nrank", uint16(r.NodeRank)),
		attr("pmix.nodeid", uint32(r.Host)),
		attr("pmix.appnum", uint32(r.App)),
		attr("pmix.grank", procRank(r.Job)),
		attr("pmix.apprank", procRank(n.appRank[rank])),
		attr("pmix.hname", n.Hosts[r.Host]),
		attr("pmix.reinc", uint32(0)),
	}
	if r.CPUs != "" {
		infos = append(infos, attr("pmix.cpuset", "hwloc:"+r.CPUs))
	}
	if r.Locality != "" {
		infos = append(infos, attr("pmix.locstr", r.Locality))
	}
	return append(infos, n.parentInfos()...)
}

// firstRank returns the lowest rank of a program.
func (n *namespace) firstRank(app int) int {
	if ranks := n.byApp[app]; len(ranks) > 0 {
		return ranks[0]
	}
	return 0
}

// appNumbers lists a number of each program, separated by spaces.
func (n *namespace) appNumbers(number func(app int) int) string {
	numbers := make([]int, len(n.Apps))
	for app := range numbers {
		numbers[app] = number(app)
	}
	return strings.ReplaceAll(rankList(numbers), ",", " ")
}
