package pmix

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// What every rank knows of its world from the beginning, by PMIx's keys. They are of the
// job, of a node, of a program or of a rank, and have a place each in the answer to REQ.

// jobInfo serves REQ.
func (s *Server) jobInfo(q *request) error {
	n := q.conn.space
	dirs, err := s.directories.of(n, q.from().Rank)
	if err != nil {
		// Open MPI's ranks then use /tmp.
		s.cfg.Launcher.Say(q.from(), "gorun: "+err.Error())
	}
	topology := s.topologyToBegin(q.conn)
	s.lock()
	defer s.unlock()
	host := n.world.Ranks[q.from().Rank].Host
	if dirs.top == "" {
		q.reply(n.newJobReply(host, dirs), topology)
		return nil
	}
	if n.jobReply == nil {
		n.jobReply = n.newJobReply(host, dirs)
	}
	q.reply(n.jobReply, topology)
	return nil
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
	return appendKval(nil, kval{keyTopology, stringValue(xml)})
}

// newJobReply is the answer to REQ, alike for all ranks of a world on this node that have
// directories: group {name of the world}, and group {kval} for each item.
func (n *namespace) newJobReply(host int, dirs worldDirs) []byte {
	var e encoder
	e.oneString(n.world.Name)
	for _, i := range append(n.jobInfos(), dirs.infos()...) {
		e.oneKval(i.key, i.value)
	}
	for _, i := range n.hostInfos(host) {
		e.oneKval(i.key, i.value)
	}
	e.oneKval("pmix.mblob", bytesValue(n.hostMap()))
	for app := range n.world.Apps {
		e.oneKval("pmix.app.arr", infoArrayValue(n.appInfos(app)))
	}
	for rank := range n.world.Ranks {
		e.oneKval("pmix.pblob", bytesValue(n.rankBlob(rank, dirs)))
	}
	return e.b
}

// rankBlob is what is known of a rank: group {rank}, and group {kval} for each item.
func (n *namespace) rankBlob(rank int, dirs worldDirs) []byte {
	var e encoder
	e.group(1)
	e.uint32(uint32(rank))
	for _, i := range n.rankInfos(rank) {
		e.oneKval(i.key, i.value)
	}
	if dir, ok := dirs.rank[rank]; ok {
		e.oneKval("pmix.pdir", stringValue(dir))
	}
	return e.b
}

// everything is an answer to GET with all that is known of a world by those who are not of
// it: group {status}, and a group {byte object} for the world and for each rank.
func (n *namespace) everything() []byte {
	if n.all != nil {
		return n.all
	}
	var e, kvals encoder
	e.oneStatus(statusSuccess)
	for _, i := range n.jobInfos() {
		kvals.oneKval(i.key, i.value)
	}
	for host := range n.world.Hosts {
		kvals.oneKval("pmix.node.arr", infoArrayValue(n.nodeArray(host)))
	}
	for app := range n.world.Apps {
		kvals.oneKval("pmix.app.arr", infoArrayValue(n.appInfos(app)))
	}
	e.oneData(n.wildcard(), kvals.b)
	for rank := range n.world.Ranks {
		kvals = encoder{}
		for _, i := range n.rankInfos(rank) {
			kvals.oneKval(i.key, i.value)
		}
		e.oneData(proc{n.world.Name, uint32(rank)}, kvals.b)
	}
	n.all = e.b
	return n.all
}

// wildcard is the whole world.
func (n *namespace) wildcard() proc { return proc{n.world.Name, rankWildcard} }

// jobInfos are of the world as a whole.
func (n *namespace) jobInfos() []info {
	w := n.world
	universe := w.Universe
	if universe < len(w.Ranks) {
		universe = len(w.Ranks)
	}
	infos := []info{
		{key: "pmix.job.size", value: uint32Value(len(w.Ranks))},
		{key: "pmix.max.size", value: uint32Value(len(w.Ranks))},
		{key: "pmix.univ.size", value: uint32Value(universe)},
		{key: "pmix.jobid", value: stringValue(w.Name)},
		{key: "pmix.num.nodes", value: uint32Value(len(w.Hosts))},
		{key: "pmix.job.napps", value: uint32Value(len(w.Apps))},
		{key: "pmix.nlist", value: stringValue(strings.Join(w.Hosts, ","))},
		{key: "pmix.tdir.rmclean", value: boolValue(true)},
		{key: "OMPI_APP_SIZES", value: stringValue(n.appNumbers(func(app int) int { return len(n.ranksOf(app)) }))},
		{key: "OMPI_FIRST_RANKS", value: stringValue(n.appNumbers(n.firstRank))},
	}
	if len(w.Ranks) > 0 {
		infos = append(infos, info{key: "pmix.offset", value: rankValue(uint32(w.Ranks[0].Job))})
	}
	for _, policy := range []kval{
		{"pmix.mapby", stringValue(w.MapBy)}, {"pmix.rankby", stringValue(w.RankBy)}, {"pmix.bindto", stringValue(w.BindTo)},
	} {
		if text, _ := policy.value.string(); text != "" {
			infos = append(infos, info{key: policy.key, value: policy.value})
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
		{key: "pmix.parent", value: procValue(fromWorld(n.world.Parent))},
		{key: "pmix.spawned", value: boolValue(true)},
	}
}

// hostInfos are of the host on which a rank runs.
func (n *namespace) hostInfos(host int) []info {
	peers := n.ranksOn(host)
	local := make([]proc, len(peers))
	for i, rank := range peers {
		local[i] = proc{n.world.Name, uint32(rank)}
	}
	infos := []info{
		{key: "pmix.lprocs", value: procArrayValue(local)},
		{key: "pmix.local.size", value: uint32Value(len(peers))},
		{key: "pmix.node.size", value: uint32Value(len(peers))},
		{key: "pmix.lpeers", value: stringValue(rankList(peers))},
		{key: "pmix.lldr", value: rankValue(uint32(peers[0]))},
	}
	if len(peers) > runtime.NumCPU() {
		// Ranks that wait give up their CPU.
		infos = append(infos, info{key: "pmix.ndosub", value: boolValue(true)})
	}
	return infos
}

// nodeArray is what others are told of a host.
func (n *namespace) nodeArray(host int) []info {
	peers := n.ranksOn(host)
	return []info{
		{key: "pmix.hname", value: stringValue(n.world.Hosts[host])},
		{key: "pmix.nodeid", value: uint32Value(host)},
		{key: "pmix.local.size", value: uint32Value(len(peers))},
		{key: "pmix.lpeers", value: stringValue(rankList(peers))},
	}
}

// hostMap says who is where: group {number of hosts}, and for each group {kval}, the host's
// name and its ranks, "0,1".
func (n *namespace) hostMap() []byte {
	var e encoder
	e.oneSize(len(n.world.Hosts))
	for host, name := range n.world.Hosts {
		e.oneKval(name, stringValue(rankList(n.ranksOn(host))))
	}
	return e.b
}

// appInfos are of a program.
func (n *namespace) appInfos(app int) []info {
	a := n.world.Apps[app]
	infos := []info{
		{key: "pmix.appnum", value: uint32Value(app)},
		{key: "pmix.app.size", value: uint32Value(len(n.ranksOf(app)))},
		{key: "pmix.aldr", value: rankValue(uint32(n.firstRank(app)))},
		{key: "pmix.app.argv", value: stringValue(strings.Join(a.Argv, " "))},
	}
	if dir, err := filepath.Abs(a.Dir); err == nil { // "" is this node's own
		infos = append(infos, info{key: keyWorkDir, value: stringValue(dir)})
	}
	return infos
}

// rankInfos are of one rank.
func (n *namespace) rankInfos(rank int) []info {
	r := n.world.Ranks[rank]
	infos := []info{
		{key: "pmix.lrank", value: uint16Value(r.LocalRank)},
		{key: "pmix.nrank", value: uint16Value(r.NodeRank)},
		{key: "pmix.nodeid", value: uint32Value(r.Host)},
		{key: "pmix.appnum", value: uint32Value(r.App)},
		{key: "pmix.grank", value: rankValue(uint32(r.Job))},
		{key: "pmix.apprank", value: rankValue(uint32(n.appRank[rank]))},
		{key: "pmix.hname", value: stringValue(n.world.Hosts[r.Host])},
		{key: "pmix.reinc", value: uint32Value(0)},
	}
	if r.CPUs != "" {
		infos = append(infos, info{key: "pmix.cpuset", value: stringValue("hwloc:" + r.CPUs)})
	}
	if r.Locality != "" {
		infos = append(infos, info{key: "pmix.locstr", value: stringValue(r.Locality)})
	}
	return append(infos, n.parentInfos()...)
}

// ranksOn and ranksOf are the ranks on a host and those of a program, in ascending order.
func (n *namespace) ranksOn(host int) []int { return n.byHost[host] }

func (n *namespace) ranksOf(app int) []int { return n.byApp[app] }

// firstRank is the lowest rank of a program.
func (n *namespace) firstRank(app int) int {
	if ranks := n.ranksOf(app); len(ranks) > 0 {
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
