package dialect

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// finishTasks makes the wish of one of several processes that an engine started: a node,
// where each has a host to itself; else a rank. What options say of how they meet counts
// more than what the engine says.
func (p *Line) finishTasks(t *engine.Task) {
	spec, found := &p.Spec, p.engine.found
	each := p.eachIsNode(t)
	if n := spec.NumNodes; n > 0 && n != t.NumNodes && !each {
		p.problem("%s contradicts step %s, whose tasks are on %d nodes (%s): leave it out; --standalone makes a "+
			"job of each task, and --engine none knows of no step", p.nodesFrom, t.Step, t.NumNodes, found.From)
		return
	}
	if spec.RunID == "" {
		spec.RunID = found.Engine + "-" + t.Step
	}
	j := &job.JoinSpec{
		NumNodes: t.NumNodes, NodeRank: t.Node, ID: spec.RunID, NodeID: t.NodeID, Host: p.local.addr, HostsExist: true,
		EngineSignals: t.Signals, Munge: t.Munge, MungeSocket: t.MungeSocket,
		Timeout: p.conf.joinTimeout(p.backend), From: joinWords(p.nodesFrom, found.From),
	}
	spec.Join = j
	p.engineCPUs()
	switch {
	case each:
		j.NumNodes = t.NumTasks
		p.stepPlace(j, t)
		if p.joinRank(j); j.NodeRank < 0 {
			j.Ports = nil // which is for nodes that know their rank
		}
		p.joinCounts()
	case t.OnePerNode():
		p.stepPlace(j, t)
		p.stepRank(j, t)
		p.joinCounts()
	default:
		if t.NumNodes == 1 { // each knows by the kernel whose process the other is
			alone := *t
			alone.Addr = "localhost"
			t = &alone
		}
		p.stepPlace(j, t)
		p.seat(j, t)
	}
	spec.NumNodes = j.NumNodes
	p.joinSecret(j)
}

// eachIsNode reports whether each of several tasks on a host is meant as a node, as
// torchrun has it of whoever starts it: their number says so.
func (p *Line) eachIsNode(t *engine.Task) bool {
	return !t.OnePerNode() && p.Spec.NumNodes == t.NumTasks && p.meetsByOptions()
}

// stepPlace is where the nodes meet: at the step's first node, and at ports that no other
// step has, as far as nobody says otherwise.
func (p *Line) stepPlace(j *job.JoinSpec, t *engine.Task) {
	p.takePlace(j)
	if j.Addr == "" {
		j.Addr = t.Addr
	}
	if j.Addr == "" {
		p.problem("%s does not say where its first node is: add --master-addr ADDR, an address of that node",
			p.engine.found.Job)
	}
	if j.Port == 0 {
		ports := stepPorts(p.Spec.RunID)
		j.Port, j.Ports = ports[0], ports[1:]
	}
}

// The ports at which the nodes of a step meet: below those that the kernel gives to
// connections (32768 and up), and above those of services.
const (
	firstStepPort = 20000
	numStepPorts  = 12000
	stepPortTries = 8
	stepPortLeap  = 997 // has no divisor in common with their number
)

// stepPorts are the same ones for the same id, and others for most others.
func stepPorts(id string) []int {
	h := fnv.New32a()
	h.Write([]byte(id))
	ports := make([]int, stepPortTries)
	for i := range ports {
		ports[i] = firstStepPort + int((uint64(h.Sum32())+uint64(i)*stepPortLeap)%numStepPorts)
	}
	return ports
}

// stepRank numbers the nodes as the engine does, but for the one that the endpoint names:
// it is node 0, because node 0 listens there.
func (p *Line) stepRank(j *job.JoinSpec, t *engine.Task) {
	head := p.nodeNamed(j.Addr)
	if j.Addr == t.Addr { // which may be no name
		head = 0
	}
	if p.nodeRank.from != "" {
		p.checkStepRank(t, head)
		p.joinRank(j)
		return
	}
	from := fmt.Sprintf("node %d of step %s", t.Node, t.Step)
	switch {
	case head < 0: // an address, or another name
		p.remark(fmt.Sprintf("%s: %s is no node's name in %s: the node that has this address is node 0",
			p.engine.found.Job, j.Addr, p.engine.found.From))
		if p.joinRank(j); j.NodeRank < 0 {
			j.Ports = nil
		}
		return
	case head > 0:
		p.remark(fmt.Sprintf("%s: %s is node %d of the step, and node 0 of this job, because the nodes meet there",
			p.engine.found.Job, j.Addr, head))
	}
	rank := t.Node
	switch {
	case rank == head:
		rank = 0
	case rank < head:
		rank++
	}
	p.nodeRank = nodeRankWish{rank, from}
	p.joinRank(j)
}

// checkStepRank refuses a number that this node cannot have: node 0 is the one at which
// the others meet, and no other. --node-rank 0 on all of them, for want of a variable or
// with one that another shell has expanded, would have each wait for the rest.
func (p *Line) checkStepRank(t *engine.Task, head int) {
	all := p.engine.found.Hosts
	if head < 0 || max(head, t.Node) >= len(all) || (p.nodeRank.rank == 0) == (t.Node == head) {
		return
	}
	here, meet := all[t.Node].Name, all[head].Name
	text := fmt.Sprintf("this is %s, where the nodes of step %s meet, and so node 0", here, t.Step)
	if t.Node != head {
		text = fmt.Sprintf("the nodes of step %s meet at %s, which is node 0, and this is %s", t.Step, meet, here)
	}
	p.problem("%s: %s: leave --node-rank out, and each node has its number of the step", p.nodeRank.from, text)
}

// nodeNamed is the number of the step's node with this name, -1 if there is none.
func (p *Line) nodeNamed(addr string) int { return hostNamed(p.engine.found.Hosts, addr) }

// hostNamed is the place of the host with this name, -1 if there is none: the one that
// has it to the letter, or else the first that it may mean.
func hostNamed(all []hosts.Host, addr string) int {
	if i := slices.IndexFunc(all, func(h hosts.Host) bool { return strings.EqualFold(h.Name, addr) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(all, func(h hosts.Host) bool { return hosts.SameName(h.Name, addr) })
}

// seat makes this process the rank that it is as a task.
func (p *Line) seat(j *job.JoinSpec, t *engine.Task) {
	if head := p.nodeNamed(j.Addr); head > 0 && t.Addr != "" {
		p.remark(fmt.Sprintf("%s: ranks meet at %s, where task 0 is, and not at %s", p.engine.found.Job, t.Addr, j.Addr))
		j.Addr = t.Addr
	}
	j.Task = &job.Task{
		Rank: t.Rank, NumRanks: t.NumTasks, LocalRank: t.LocalRank, LocalRanks: t.LocalTasks,
		Node: t.Node, NumNodes: t.NumNodes,
	}
	j.NodeRank, j.NumNodes = t.Rank, t.NumTasks
	p.seatCounts(t)
}

// oncePerNode is the line that starts gorun once on each of a step's nodes. In an
// allocation that asked for tasks srun starts all of those, unless -n says how many, and
// only warns that it does not honor --ntasks-per-node.
func (p *Line) oncePerNode(t *engine.Task) string {
	if p.engine.found.Engine != "slurm" {
		return "one task on each"
	}
	return fmt.Sprintf("srun -N%d -n%d --ntasks-per-node=1 %s ...", t.NumNodes, t.NumNodes, p.dialect.Name)
}

// seatCounts refuses numbers of ranks that are not the step's.
func (p *Line) seatCounts(t *engine.Task) {
	spec := &p.Spec
	instead := fmt.Sprintf("start gorun once per node (%s), and it starts ranks itself", p.oncePerNode(t))
	if len(spec.Apps) > 1 {
		p.problem("several programs do not go with a step that has several tasks on a node, each of which is one rank: %s",
			instead)
		return
	}
	perNode, total := spec.PerNode, spec.Apps[0].NumRanks
	has := fmt.Sprintf("step %s has %d tasks, %d of them on this node, and each is one rank", t.Step, t.NumTasks,
		t.LocalTasks)
	if total != 0 && total != t.NumTasks {
		p.problem("%s: %s: %s", p.ranksFrom, has, instead)
	}
	// All tasks have to refuse what one refuses, or the others would wait for it.
	even := perNode.N == t.LocalTasks && perNode.N*t.NumNodes == t.NumTasks
	if perNode.Kind != job.CountUnset && (perNode.Kind != job.CountFixed || !even && perNode.N != 1) {
		p.problem("%s: %s: %s", perNode.From, has, instead)
	}
	spec.Apps[0].NumRanks, spec.RanksFrom = 0, ""
	spec.PerNode = job.Count{Kind: job.CountFixed, N: 1, From: "step " + t.Step}
}
