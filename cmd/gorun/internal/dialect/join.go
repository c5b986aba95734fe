package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/job"
)

// torchrun's default ports: of its static rendezvous, and of c10d.
const (
	staticPort = 29500
	c10dPort   = 29400
)

// completionIndex numbers the pods of an indexed Job in Kubernetes from 0.
const completionIndex = "JOB_COMPLETION_INDEX"

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
		return fmt.Errorf("maximum %d is below minimum %d", most, least)
	case most > least:
		p.Spec.MinNodes, p.elasticFrom = least, a.From
	}
	p.Spec.NumNodes, p.nodesFrom = most, a.From
	return nil
}

// MayLoseNodes reports whether the job goes on without some of its hosts.
func (p *Line) MayLoseNodes() bool { return p.spares > 0 || p.Spec.MinNodes > 0 }

// joins reports whether this process is one of several nodes that are started one by one.
func (p *Line) joins() bool {
	several := p.Spec.NumNodes > 1 || p.tasks() != nil
	return several && !p.HasHosts() && !p.standalone
}

// resolveNodes settles which nodes the job has: named hosts, nodes that join each other, or this one.
func (p *Line) resolveNodes() {
	if p.standalone && p.Spec.MinNodes == 1 && p.spares == 0 {
		p.Spec.NumNodes, p.Spec.MinNodes = 1, 0
	}
	if p.MayLoseNodes() && !p.hostsGiven() && !p.engine.hosts && (p.spares > 0 || !p.joins() || p.tasks() != nil) {
		p.problem("%s: a job can do without nodes only if gorun starts them or they join: add -H or --hostfile, or leave it "+
			"out", p.elasticFrom)
		return
	}
	switch t := p.tasks(); {
	case p.joins() && t != nil:
		p.resolveTask(t)
		return
	case p.joins():
		p.resolveJoin()
		return
	case p.standalone && p.Spec.NumNodes > 1:
		p.problem("--standalone is one node, and %s are %d: keep one of them", p.nodesFrom, p.Spec.NumNodes)
	case p.nodeRank.value > 0 && p.hostsGiven():
		p.problem("%s is for nodes that are started one by one, and gorun starts those of %s itself: keep one "+
			"of them", p.nodeRank.from, hostsFrom(p.programs))
	case p.nodeRank.value > 0:
		p.problem("%s: there is one node; for more, each started by itself, add --nnodes N --master-addr ADDR "+
			"--master-port PORT", p.nodeRank.from)
	}
	if p.engineTask() != nil && !p.hostsGiven() {
		p.useEngineCPUs()
	}
	if p.conf.isHost == hostNo {
		p.problem("%s: is_host: gorun hosts the store of this job; leave it out", p.conf.from)
	}
	for _, from := range []string{p.tokenFile.From, p.insecureFrom} {
		if from != "" && !isVariable(from) {
			p.Note(from +
				" has no effect: it is for nodes that join each other by --nnodes and --master-addr or --rdzv-endpoint")
		}
	}
}

// resolveJoin makes the spec of one node that joins others.
func (p *Line) resolveJoin() {
	spec := &p.Spec
	j := &job.JoinSpec{
		NumNodes: spec.NumNodes, ID: spec.RunID, Host: p.localAddr.value,
		Timeout: p.conf.joinTimeout(p.backend), LastCall: p.conf.lastCall, From: p.nodesFrom,
	}
	if t := p.engineTask(); t != nil { // one step for each node
		j.Munge, j.MungeSocket = t.Munge, t.MungeSocket
	}
	p.setJoinRank(j)
	from := p.setJoinAddr(j)
	switch {
	case j.Addr == "":
		p.problem("%s: where do the nodes meet? Add --master-addr ADDR and --master-port PORT, or "+
			"--rdzv-endpoint ADDR:PORT, the same for each of them and an address of node 0; or name the hosts by -H, and "+
			"gorun starts the other nodes", p.nodesFrom)
	case j.Port == 0 && p.freePort:
		p.problem("%s: port 0 picks a random port, which the other nodes do not know: give a fixed one", from)
	case j.Port == 0 && p.backend == "c10d" && p.endpoint.from != "":
		j.Port = c10dPort
	case j.Port == 0:
		j.Port = staticPort
	}
	p.resolveToken(j)
	spec.Join = j
	spec.Grow = spec.Grow || spec.MinNodes > 0 && p.dialect.python // as torchrun does
	p.checkJoinCounts()
	if spec.Restarts.Max > 0 && !j.EngineSignals { // restarts wait for other nodes in place of lost ones
		spec.MinNodes = cmp.Or(spec.MinNodes, spec.NumNodes)
	}
}

// setJoinRank sets the number of this node. Without one, the owner of the address is node 0 and the others are
// numbered, while torchrun's static rendezvous makes every node 0. As in torchrun, --node-rank overrides is_host,
// except with c10d.
func (p *Line) setJoinRank(j *job.JoinSpec) {
	rank := p.nodeRank
	if value := p.variable(completionIndex); rank.from == "" && value != "" {
		rank.from = completionIndex + "=" + value
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			p.problem("%s: not a number from 0 on; say by --node-rank which node this is", rank.from)
		}
		rank.value = int(n)
	}
	if p.conf.isHost == hostYes && (rank.from == "" || p.backend == "c10d") {
		rank = optionValue[int]{0, p.conf.from}
	}
	if p.conf.isHost == hostNo && (rank.from == "" || rank.value == 0 && p.backend == "c10d") {
		rank = optionValue[int]{-1, p.conf.from}
	}
	switch {
	case rank.from == "":
		j.NodeRank = -1
		return
	case rank.value >= j.NumNodes:
		p.problem("%s: the last of %d nodes (%s) is node %d", rank.from, j.NumNodes, p.nodesFrom, j.NumNodes-1)
	}
	j.NodeRank, j.NeverNode0 = rank.value, rank.value < 0
	if rank.from != p.conf.from {
		j.From = joinWords(j.From, rank.from)
	}
}

// setJoinAddr moves the store's address, or that of MASTER_ADDR, to the join, and returns its source.
func (p *Line) setJoinAddr(j *job.JoinSpec) (from string) {
	store := &p.Spec.Store
	j.Addr, j.Port, from = store.Addr, store.Port, store.From
	if j.Addr == "" && from == "" {
		from = p.setMasterFromVariables(j)
	}
	j.From = joinWords(j.From, from)
	store.Addr, store.Port, store.From = "", 0, ""
	return from
}

// setMasterFromVariables takes MASTER_ADDR and MASTER_PORT, which manifests set, unless an outer launcher set them.
func (p *Line) setMasterFromVariables(j *job.JoinSpec) (from string) {
	addr, port := p.variable("MASTER_ADDR"), p.variable("MASTER_PORT")
	if addr == "" || slices.ContainsFunc([]string{"GORUN_JOB", "TORCHELASTIC_RUN_ID"}, func(name string) bool {
		_, found := p.around.Lookup(name)
		return found
	}) {
		return ""
	}
	var err error
	from = "MASTER_ADDR=" + addr
	if j.Addr, err = parseAddr(addr); err != nil {
		p.problem("%s: %w", from, err)
	}
	if port != "" {
		if j.Port, err = ParsePort(port); err != nil {
			p.problem("MASTER_PORT=%s: %w", port, err)
		}
		p.freePort = err == nil && j.Port == 0
		from = joinWords(from, "MASTER_PORT="+port)
	}
	return from
}

// checkJoinCounts requires the number of ranks of this node, not of the job.
func (p *Line) checkJoinCounts() {
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
	case spec.PerNode.Kind == job.CountFixed && spec.PerNode.N*nodes == ranks:
	case spec.PerNode.Kind != job.CountUnset:
		p.problem("%s and %s with %s both give the number of ranks: keep one", p.ranksFrom, spec.PerNode.From,
			p.nodesFrom)
	default:
		each := ranks
		if spec.MinNodes == 0 && ranks%nodes == 0 {
			each /= nodes
		}
		p.problem("%s is for a gorun that starts all nodes; of %d nodes that are started one by one each says "+
			"how many ranks it has: use --nproc-per-node %d", p.ranksFrom, nodes, each)
	}
	spec.Apps[0].NumRanks, spec.RanksFrom = 0, ""
}

// isHost is the value of is_host in --rdzv-conf.
type isHost uint8

const (
	hostUnset isHost = iota
	hostYes
	hostNo
)

// rdzvConf holds the keys of --rdzv-conf that have an effect. Each of torchrun's backends has its own name for the time
// that nodes wait for each other.
type rdzvConf struct {
	static, c10d time.Duration // timeout, join_timeout
	lastCall     time.Duration
	isHost       isHost
	from         string
}

// joinTimeout returns the backend's timeout, or else the other one.
func (c rdzvConf) joinTimeout(backend string) time.Duration {
	if backend == "c10d" {
		return cmp.Or(c.c10d, c.static)
	}
	return cmp.Or(c.static, c.c10d)
}

// idleRdzvKeys are keys of --rdzv-conf without effect: gorun has its own heartbeats.
var idleRdzvKeys = []string{
	"close_timeout", "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt",
	"read_timeout", "cas_backoff_max_seconds",
}

// setRdzvConf reads KEY=VALUE,...
func (p *Line) setRdzvConf(a Arg) error {
	p.conf = rdzvConf{from: a.From}
	if a.Value == "" {
		return nil
	}
	value := a.Value
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '\'' || value[0] == '"') {
		value = value[1 : n-1] // from a file of arguments, which no shell has read
	}
	for _, pair := range strings.Split(value, ",") {
		key, value, _ := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); key == "" || value == "" {
			return fmt.Errorf("%q is not key=value", pair)
		}
		known, err := p.conf.set(key, value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if !known {
			p.note("%s: %s is not a key of torchrun's rendezvous and has no effect", a.From, key)
		}
	}
	return nil
}

// set sets one key, and reports whether torchrun's own backends have it.
func (c *rdzvConf) set(key, value string) (known bool, err error) {
	switch key {
	case "timeout":
		c.static, err = within(time.Second, maxJoinTimeout)(value)
	case "join_timeout":
		c.c10d, err = within(time.Second, maxJoinTimeout)(value)
	case "last_call_timeout":
		c.lastCall, err = within(time.Second, maxJoinTimeout)(value)
	case "is_host":
		var on bool
		if on, err = parseSwitch(value); on {
			c.isHost = hostYes
		} else if err == nil {
			c.isHost = hostNo
		}
	case "store_type":
		if !strings.EqualFold(value, "tcp") {
			err = errors.New("gorun's store is TCP; leave it out")
		}
	default:
		return slices.Contains(idleRdzvKeys, key), nil
	}
	return true, err
}

// maxJoinTimeout is longer than any job waits in a queue.
const maxJoinTimeout = 30 * 24 * time.Hour
