package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/job"
)

// torchrun's ports where none is given: of its static rendezvous, and of c10d.
const (
	staticPort = 29500
	c10dPort   = 29400
)

// completionIndex is what Kubernetes gives the pods of an indexed Job: 0, 1, …
const completionIndex = "JOB_COMPLETION_INDEX"

// nodeRankWish is --node-rank.
type nodeRankWish struct {
	rank int
	from string // "": not given
}

// setNodes takes N and torchrun's MIN:MAX.
func (p *Line) setNodes(a Arg) error {
	low, high, ranged := strings.Cut(a.Value, ":")
	if !ranged {
		high = low
	}
	least, err := ParseRanks(low)
	if err != nil {
		return err
	}
	most, err := ParseRanks(high)
	switch {
	case err != nil:
		return err
	case most < least:
		return fmt.Errorf("%d nodes at most are fewer than %d at least", most, least)
	case most > least:
		return fmt.Errorf("elastic jobs, with %d to %d nodes: not yet; give a fixed number, --nnodes %d", least, most, most)
	}
	p.Spec.NumNodes, p.nodesFrom = least, a.From
	return nil
}

func (p *Line) setNodeRank(a Arg) (err error) {
	p.nodeRank = nodeRankWish{from: a.From}
	p.nodeRank.rank, err = ParseAtLeast(a.Value, 0)
	return err
}

// joins reports whether this process is one of several that somebody else starts.
func (p *Line) joins() bool {
	several := p.Spec.NumNodes > 1 || p.tasks() != nil
	return several && !p.hostsGiven() && !p.engine.hosts && !p.standalone
}

// finishNodes settles which nodes the job has: the hosts that were named, those
// that join each other, or this one.
func (p *Line) finishNodes() {
	switch t := p.tasks(); {
	case p.joins() && t != nil:
		p.finishTasks(t)
		return
	case p.joins():
		p.finishJoin()
		return
	case p.standalone && p.Spec.NumNodes > 1:
		p.problem("--standalone is one node, and %s are %d: keep one of them", p.nodesFrom, p.Spec.NumNodes)
	case p.nodeRank.rank > 0 && p.hostsGiven():
		p.problem("%s is for nodes that are started one by one, and gorun starts those of %s itself: keep one "+
			"of them", p.nodeRank.from, p.hostsFrom())
	case p.nodeRank.rank > 0:
		p.problem("%s: there is one node; for more, each started by itself, add --nnodes N --master-addr ADDR "+
			"--master-port PORT", p.nodeRank.from)
	}
	if found := p.engine.found; found != nil && found.Task != nil && !p.hostsGiven() {
		p.engineCPUs()
	}
	if p.conf.isHost == hostNo {
		p.problem("%s: is_host: gorun hosts the store of this job; leave it out", p.conf.from)
	}
	for _, from := range []string{p.tokenFile.From, p.insecure} {
		if from != "" && !isVariable(from) {
			p.Note(from +
				" has no effect: it is for nodes that join each other by --nnodes and --master-addr or --rdzv-endpoint")
		}
	}
}

// finishJoin makes the wish of one node that joins others.
func (p *Line) finishJoin() {
	spec := &p.Spec
	j := &job.JoinSpec{
		NumNodes: spec.NumNodes, ID: spec.RunID, Host: p.local.addr,
		Timeout: p.conf.joinTimeout(p.backend), From: p.nodesFrom,
	}
	if found := p.engine.found; found != nil && found.Task != nil { // one step for each node
		j.Munge, j.MungeSocket = found.Task.Munge, found.Task.MungeSocket
	}
	p.joinRank(j)
	p.joinPlace(j)
	p.joinSecret(j)
	spec.Join = j
	p.joinCounts()
}

// joinRank: without a number, which torchrun's static rendezvous takes for 0 on
// every node, the owner of the address is node 0 and the others are numbered. As in
// torchrun, is_host says nothing beside --node-rank, but with c10d it is the stronger one.
func (p *Line) joinRank(j *job.JoinSpec) {
	wish := p.nodeRank
	if wish.from == "" {
		wish = p.completionIndex()
	}
	if p.conf.isHost == hostYes && (wish.from == "" || p.backend == "c10d") {
		wish = nodeRankWish{0, p.conf.from}
	}
	if p.conf.isHost == hostNo && (wish.from == "" || wish.rank == 0 && p.backend == "c10d") {
		wish = nodeRankWish{-1, p.conf.from}
	}
	switch {
	case wish.from == "":
		j.NodeRank = -1
		return
	case wish.rank >= j.NumNodes:
		p.problem("%s: the last of %d nodes (%s) is node %d", wish.from, j.NumNodes, p.nodesFrom, j.NumNodes-1)
	}
	j.NodeRank, j.NeverNode0 = wish.rank, wish.rank < 0
	if wish.from != p.conf.from {
		j.From = joinWords(j.From, wish.from)
	}
}

// completionIndex is the number of this pod in an indexed Job of Kubernetes.
func (p *Line) completionIndex() (w nodeRankWish) {
	value, _ := p.around.Lookup(completionIndex)
	if value == "" {
		return w
	}
	w.from = completionIndex + "=" + value
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		p.problem("%s: not a number from 0 on; say by --node-rank which node this is", w.from)
	}
	w.rank = int(n)
	return w
}

// takePlace moves to the join where, for a node alone, the store would listen; from says
// what named that.
func (p *Line) takePlace(j *job.JoinSpec) (from string) {
	store := &p.Spec.Store
	j.Addr, j.Port, from = store.Addr, store.Port, store.From
	if j.Addr == "" && from == "" {
		from = p.placeOfEnvironment(j)
	}
	j.From = joinWords(j.From, from)
	store.Addr, store.Port, store.From = "", 0, ""
	return from
}

// joinPlace is where nodes meet that somebody starts one by one.
func (p *Line) joinPlace(j *job.JoinSpec) {
	from := p.takePlace(j)
	switch {
	case j.Addr == "":
		p.problem("%s: where do the nodes meet? Add --master-addr ADDR and --master-port PORT, or "+
			"--rdzv-endpoint ADDR:PORT, the same for each of them and an address of node 0; or name the hosts by -H, and "+
			"gorun starts the other nodes", p.nodesFrom)
	case j.Port == 0 && p.freePort:
		p.problem("%s: port 0 is a free one, which the other nodes could not know: write another", from)
	case j.Port == 0 && p.backend == "c10d" && p.endpoint.addrFrom != "":
		j.Port = c10dPort
	case j.Port == 0:
		j.Port = staticPort
	}
}

// placeOfEnvironment takes MASTER_ADDR and MASTER_PORT as manifests set them; those
// that an outer launcher left are none.
func (p *Line) placeOfEnvironment(j *job.JoinSpec) (from string) {
	for _, outer := range []string{"GORUN_JOB", "TORCHELASTIC_RUN_ID"} {
		if _, found := p.around.Lookup(outer); found {
			return ""
		}
	}
	addr, _ := p.around.Lookup("MASTER_ADDR")
	if addr == "" {
		return ""
	}
	var err error
	from = "MASTER_ADDR=" + addr
	if j.Addr, err = parseAddr(addr); err != nil {
		p.problem("%s: %w", from, err)
	}
	if port, _ := p.around.Lookup("MASTER_PORT"); port != "" {
		if j.Port, err = ParsePort(port); err != nil {
			p.problem("MASTER_PORT=%s: %w", port, err)
		}
		p.freePort = err == nil && j.Port == 0
		from = joinWords(from, "MASTER_PORT="+port)
	}
	return from
}

// hasPort reports whether an endpoint that was read names its port, if only 0.
func hasPort(endpoint string) bool {
	at := strings.LastIndexByte(endpoint, ':')
	return at > 0 && at+1 < len(endpoint) && (strings.Count(endpoint, ":") == 1 || endpoint[at-1] == ']')
}

// joinCounts: a node that joins says its own number of ranks, not the job's.
func (p *Line) joinCounts() {
	spec := &p.Spec
	if len(spec.Apps) > 1 {
		p.problem("several programs do not go with nodes that join each other: name the hosts by -H, and gorun " +
			"starts the other nodes")
		return
	}
	ranks, nodes := spec.Apps[0].NumRanks, spec.Join.NumNodes
	switch {
	case ranks == 0:
		return
	case spec.PerNode.Kind == job.CountFixed && spec.PerNode.N*nodes == ranks: // both say the same
	case spec.PerNode.Kind != job.CountUnset:
		p.problem("%s and %s with %s both give the number of ranks: keep one", p.ranksFrom, spec.PerNode.From,
			p.nodesFrom)
	default:
		p.problem("%s is for a gorun that starts all nodes; of %d nodes that are started one by one each says "+
			"how many ranks it has: use %s", p.ranksFrom, nodes, perNodeInstead(ranks, nodes))
	}
	spec.Apps[0].NumRanks, spec.RanksFrom = 0, ""
}

// perNodeInstead is the option that gives each node its part of the ranks.
func perNodeInstead(ranks, nodes int) string {
	if nodes > 0 && ranks%nodes == 0 {
		return fmt.Sprintf("--nproc-per-node %d", ranks/nodes)
	}
	return fmt.Sprintf("--nproc-per-node N (%d ranks cannot be divided evenly)", ranks)
}

// hostWish is is_host of --rdzv-conf.
type hostWish uint8

const (
	hostOpen hostWish = iota
	hostYes
	hostNo
)

// rdzvConf is what of --rdzv-conf matters: how long nodes wait for each other, by
// the name that each of torchrun's backends has for it, and who hosts the store.
type rdzvConf struct {
	static, c10d time.Duration
	isHost       hostWish
	from         string
}

// joinTimeout is that of the backend, or else the one that was given.
func (c rdzvConf) joinTimeout(backend string) time.Duration {
	if backend == "c10d" && c.c10d > 0 || c.static == 0 {
		return c.c10d
	}
	return c.static
}

// rdzvKeys are the keys of --rdzv-conf that have no effect: gorun has no second
// phase of joining, and heartbeats of its own.
var rdzvKeys = []string{
	"last_call_timeout", "close_timeout", "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt",
	"read_timeout", "cas_backoff_max_seconds",
}

// setRdzvConf reads KEY=VALUE,....
func (p *Line) setRdzvConf(a Arg) error {
	p.conf = rdzvConf{from: a.From}
	if a.Value == "" {
		return nil
	}
	for _, pair := range strings.Split(unquoted(a.Value), ",") {
		key, value, _ := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); key == "" || value == "" {
			return fmt.Errorf("%q is not key=value", pair)
		}
		known, err := p.conf.set(key, value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if !known {
			p.Note(fmt.Sprintf("%s: %s is no key of torchrun's own rendezvous, and has no effect", a.From, key))
		}
	}
	return nil
}

// unquoted is a value without the quotes around it that a file of arguments, which no shell
// reads, leaves there.
func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '\'' || value[0] == '"') {
		return value[1 : n-1]
	}
	return value
}

// set takes a key up, and reports whether torchrun has one of that name, as it takes any.
func (c *rdzvConf) set(key, value string) (known bool, err error) {
	switch key {
	case "timeout":
		c.static, err = within(time.Second, maxJoinTimeout)(value)
	case "join_timeout":
		c.c10d, err = within(time.Second, maxJoinTimeout)(value)
	case "is_host":
		var on bool
		on, err = parseSwitch(value)
		switch {
		case on:
			c.isHost = hostYes
		case err == nil:
			c.isHost = hostNo
		}
	case "store_type":
		if strings.ToLower(value) != "tcp" {
			err = errors.New("gorun's store is TCP; leave it out")
		}
	default:
		return slices.Contains(rdzvKeys, key), nil
	}
	return true, err
}

// maxJoinTimeout is longer than any queue.
const maxJoinTimeout = 30 * 24 * time.Hour
