package pmix

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// What every rank knows of its world from the beginning, by PMIx's keys. They are of the
// job, of a node, of a program or of a rank, and have a place each in the answer to REQ.

// jobInfo serves REQ.
func (s *Server) jobInfo(q *request, _ *decoder) func() status {
	n := q.space
	dirs, err := s.directories.of(n, q.who.Rank)
	topology := s.topologyToBegin(q.conn)
	return func() status {
		if err != nil {
			// Open MPI's ranks then use /tmp.
			s.say(q.who, "gorun: "+err.Error())
		}
		reply := n.jobReply
		if reply == nil || dirs == "" {
			reply = n.newJobReply(n.world.Ranks[q.who.Rank].Host, dirs)
		}
		if dirs != "" {
			n.jobReply = reply
		}
		q.reply(reply, topology)
		return replied
	}
}

// topologyToBegin is a group {kval} with this machine's topology for clients of libpmix 5 and later, as far as it is
// known: their PMIx_Init looks for it in what they have got by then, and discovers it else. Earlier ones ask when
// they need it.
func (s *Server) topologyToBegin(c *conn) []byte {
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

// newJobReply is the answer to REQ, alike for all ranks of a world on this node that have
// directories: group {name of the world}, and group {kval} for each item.
func (n *namespace) newJobReply(host int, dirs string) []byte {
	var e encoder
	e.oneString(n.world.Name)
	e.kvals(n.jobInfos()...)
	if dirs != "" {
		e.kvals(attr("pmix.tmpdir", dirs), attr("pmix.nsdir", n.dir(dirs)))
	}
	e.kvals(n.hostInfos(host)...)
	e.kvals(attr("pmix.mblob", n.hostMap()))
	for app := range n.world.Apps {
		e.kvals(attr("pmix.app.arr", n.appInfos(app)))
	}
	for rank := range n.world.Ranks {
		e.kvals(attr("pmix.pblob", n.rankBlob(rank, dirs)))
	}
	return e.b
}

// rankBlob is what is known of a rank: group {rank}, and group {kval} for each item.
func (n *namespace) rankBlob(rank int, dirs string) []byte {
	var e encoder
	e.group(1)
	e.uint32(uint32(rank))
	e.kvals(n.rankInfos(rank)...)
	if _, here := slices.BinarySearch(n.local, rank); here && dirs != "" {
		e.kvals(attr("pmix.pdir", n.rankDir(dirs, rank)))
	}
	return e.b
}

// everything is an answer to GET with all that is known of a world by those who are not of
// it: group {status}, and a group {byte object} for the world and for each rank.
func (n *namespace) everything() []byte {
	if n.all != nil {
		return n.all
	}
	var e encoder
	e.oneStatus(statusSuccess)
	infos := n.jobInfos()
	for host := range n.world.Hosts {
		infos = append(infos, attr("pmix.node.arr", n.nodeArray(host)))
	}
	for app := range n.world.Apps {
		infos = append(infos, attr("pmix.app.arr", n.appInfos(app)))
	}
	e.oneData(n.wildcard(), encodeKvals(infos...))
	for rank := range n.world.Ranks {
		e.oneData(proc{n.world.Name, uint32(rank)}, encodeKvals(n.rankInfos(rank)...))
	}
	n.all = e.b
	return n.all
}

// wildcard is the whole world.
func (n *namespace) wildcard() proc { return proc{n.world.Name, rankWildcard} }

// jobInfos are of the world as a whole.
func (n *namespace) jobInfos() []info {
	w := n.world
	infos := []info{
		attr("pmix.job.size", uint32(len(w.Ranks))),
		attr("pmix.max.size", uint32(len(w.Ranks))),
		attr("pmix.univ.size", uint32(max(w.Universe, len(w.Ranks)))),
		attr("pmix.jobid", w.Name),
		attr("pmix.num.nodes", uint32(len(w.Hosts))),
		attr("pmix.job.napps", uint32(len(w.Apps))),
		attr("pmix.nlist", strings.Join(w.Hosts, ",")),
		attr("pmix.tdir.rmclean", true),
		attr("OMPI_APP_SIZES", n.appNumbers(func(app int) int { return len(n.byApp[app]) })),
		attr("OMPI_FIRST_RANKS", n.appNumbers(n.firstRank)),
	}
	if len(w.Ranks) > 0 {
		infos = append(infos, attr("pmix.offset", procRank(w.Ranks[0].Job)))
	}
	for _, policy := range [][2]string{{"pmix.mapby", w.MapBy}, {"pmix.rankby", w.RankBy}, {"pmix.bindto", w.BindTo}} {
		if policy[1] != "" {
			infos = append(infos, attr(policy[0], policy[1]))
		}
	}
	return append(infos, n.parentInfos()...)
}

// parentInfos say who spawned a world.
func (n *namespace) parentInfos() []info {
	if n.world.Parent == (world.Proc{}) {
		return nil
	}
	return []info{
		attr("pmix.parent", fromWorld(n.world.Parent)),
		attr("pmix.spawned", true),
	}
}

// hostInfos are of the host on which a rank runs.
func (n *namespace) hostInfos(host int) []info {
	peers := n.byHost[host]
	local := make([]proc, len(peers))
	for i, rank := range peers {
		local[i] = proc{n.world.Name, uint32(rank)}
	}
	infos := []info{
		attr("pmix.lprocs", local),
		attr("pmix.local.size", uint32(len(peers))),
		attr("pmix.node.size", uint32(len(peers))),
		attr("pmix.lpeers", rankList(peers)),
		attr("pmix.lldr", procRank(peers[0])),
	}
	if len(peers) > runtime.NumCPU() {
		// Ranks that wait give up their CPU.
		infos = append(infos, attr("pmix.ndosub", true))
	}
	return infos
}

// nodeArray is what others are told of a host.
func (n *namespace) nodeArray(host int) []info {
	peers := n.byHost[host]
	return []info{
		attr("pmix.hname", n.world.Hosts[host]),
		attr("pmix.nodeid", uint32(host)),
		attr("pmix.local.size", uint32(len(peers))),
		attr("pmix.lpeers", rankList(peers)),
	}
}

// hostMap says who is where: group {number of hosts}, and for each group {kval}, the host's
// name and its ranks, "0,1".
func (n *namespace) hostMap() []byte {
	var e encoder
	e.oneSize(len(n.world.Hosts))
	for host, name := range n.world.Hosts {
		e.kvals(attr(name, rankList(n.byHost[host])))
	}
	return e.b
}

// appInfos are of a program.
func (n *namespace) appInfos(app int) []info {
	a := n.world.Apps[app]
	infos := []info{
		attr("pmix.appnum", uint32(app)),
		attr("pmix.app.size", uint32(len(n.byApp[app]))),
		attr("pmix.aldr", procRank(n.firstRank(app))),
		attr("pmix.app.argv", strings.Join(a.Argv, " ")),
	}
	if dir, err := filepath.Abs(a.Dir); err == nil { // "" is this node's own
		infos = append(infos, attr(keyWorkDir, dir))
	}
	return infos
}

// rankInfos are of one rank.
func (n *namespace) rankInfos(rank int) []info {
	r := n.world.Ranks[rank]
	infos := []info{
		attr("pmix.lrank", uint16(r.LocalRank)),
		attr("pmix.nrank", uint16(r.NodeRank)),
		attr("pmix.nodeid", uint32(r.Host)),
		attr("pmix.appnum", uint32(r.App)),
		attr("pmix.grank", procRank(r.Job)),
		attr("pmix.apprank", procRank(n.appRank[rank])),
		attr("pmix.hname", n.world.Hosts[r.Host]),
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

// firstRank is the lowest rank of a program.
func (n *namespace) firstRank(app int) int {
	if ranks := n.byApp[app]; len(ranks) > 0 {
		return ranks[0]
	}
	return 0
}

// appNumbers lists a number of each program, with blanks between them.
func (n *namespace) appNumbers(number func(app int) int) string {
	numbers := make([]int, len(n.world.Apps))
	for app := range numbers {
		numbers[app] = number(app)
	}
	return strings.ReplaceAll(rankList(numbers), ",", " ")
}
