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

// resolveTask makes the spec of one of several processes that an engine started: a node, if each has its own host;
// else a rank. Rendezvous options override the engine.
func (p *Line) resolveTask(t *engine.Task) {
	spec, found := &p.Spec, p.engine.found
	// Several tasks on a host are nodes if --nnodes is their number: torchrun makes a node of each process.
	each := !t.OnePerNode() && p.Spec.NumNodes == t.NumTasks && p.meetsByOptions()
	if n := spec.NumNodes; n > 0 && n != t.NumNodes && !each {
		p.problem("%s contradicts step %s, whose tasks are on %d nodes (%s): leave it out; --standalone makes a "+
			"job of each task, and --engine none knows of no step", p.nodesFrom, t.Step, t.NumNodes, found.From)
		return
	}
	if spec.RunID == "" {
		spec.RunID = found.Engine + "-" + t.Step
	}
	j := &job.JoinSpec{
		NumNodes: t.NumNodes, NodeRank: t.Node, ID: spec.RunID, NodeID: t.NodeID, Host: p.localAddr.value, HostsExist: true,
		EngineSignals: t.Signals, Munge: t.Munge, MungeSocket: t.MungeSocket,
		Timeout: p.conf.joinTimeout(p.backend), From: joinWords(p.nodesFrom, found.From),
	}
	spec.Join = j
	p.useEngineCPUs()
	addr := t.Addr
	if !each && !t.OnePerNode() && t.NumNodes == 1 { // the kernel tells each whose process the other is
		addr = "localhost"
	}
	p.setTaskAddr(j, addr)
	switch {
	case each:
		j.NumNodes = t.NumTasks
		p.setUnnumberedRank(j)
		p.checkJoinCounts()
	case t.OnePerNode():
		p.setTaskNode(j, t)
		p.checkJoinCounts()
	default:
		if head := hostNamed(found.Hosts, j.Addr); head > 0 && addr != "" {
			p.verbose("%s: ranks meet at %s, where task 0 is, and not at %s", found.Job, addr, j.Addr)
			j.Addr = addr
		}
		j.Task = &job.Task{
			Rank: t.Rank, NumRanks: t.NumTasks, LocalRank: t.LocalRank, LocalRanks: t.LocalTasks,
			Node: t.Node, NumNodes: t.NumNodes,
		}
		j.NodeRank, j.NumNodes = t.Rank, t.NumTasks
		p.checkTaskCounts(t)
	}
	spec.NumNodes = j.NumNodes
	p.resolveToken(j)
}

// setTaskAddr sets where the nodes meet: by default at the step's first node, and at ports of this step alone.
func (p *Line) setTaskAddr(j *job.JoinSpec, addr string) {
	p.setJoinAddr(j)
	if j.Addr == "" {
		j.Addr = addr
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

// Ports at which the nodes of a step meet: below the kernel's ephemeral ones (from 32768), above services'.
const (
	firstStepPort = 20000
	numStepPorts  = 12000
	stepPortTries = 8
	stepPortLeap  = 997 // coprime to numStepPorts
)

// stepPorts returns the same ports for the same id, and others for most other ids.
func stepPorts(id string) []int {
	h := fnv.New32a()
	h.Write([]byte(id))
	ports := make([]int, stepPortTries)
	for i := range ports {
		ports[i] = firstStepPort + int((uint64(h.Sum32())+uint64(i)*stepPortLeap)%numStepPorts)
	}
	return ports
}

// setUnnumberedRank sets the number of this node, of which the engine knows nothing. Ports are for nodes with a number.
func (p *Line) setUnnumberedRank(j *job.JoinSpec) {
	if p.setJoinRank(j); j.NodeRank < 0 {
		j.Ports = nil
	}
}

// setTaskNode numbers the nodes as the engine does, except that the node where they meet is node 0.
func (p *Line) setTaskNode(j *job.JoinSpec, t *engine.Task) {
	found := p.engine.found
	head := hostNamed(found.Hosts, j.Addr)
	if j.Addr == t.Addr { // which may not be a name
		head = 0
	}
	if p.nodeRank.from != "" {
		p.checkTaskNode(t, head)
		p.setJoinRank(j)
		return
	}
	switch {
	case head < 0: // an address, or another name
		p.verbose("%s: %s is no node's name in %s: the node that has this address is node 0", found.Job, j.Addr, found.From)
		p.setUnnumberedRank(j)
		return
	case head > 0:
		p.verbose("%s: %s is node %d of the step, and node 0 of this job, because the nodes meet there",
			found.Job, j.Addr, head)
	}
	rank := t.Node
	switch {
	case rank == head:
		rank = 0
	case rank < head:
		rank++
	}
	p.nodeRank = optionValue[int]{rank, fmt.Sprintf("node %d of step %s", t.Node, t.Step)}
	p.setJoinRank(j)
}

// checkTaskNode refuses node 0 anywhere but where the nodes meet, and other numbers there. With --node-rank 0 on all
// nodes, such as from an unset variable, each would wait for the others.
func (p *Line) checkTaskNode(t *engine.Task, head int) {
	all := p.engine.found.Hosts
	if head < 0 || max(head, t.Node) >= len(all) || (p.nodeRank.value == 0) == (t.Node == head) {
		return
	}
	here, meet := all[t.Node].Name, all[head].Name
	text := fmt.Sprintf("this is %s, where the nodes of step %s meet, and so node 0", here, t.Step)
	if t.Node != head {
		text = fmt.Sprintf("the nodes of step %s meet at %s, which is node 0, and this is %s", t.Step, meet, here)
	}
	p.problem("%s: %s: leave --node-rank out, and each node has its number of the step", p.nodeRank.from, text)
}

// hostNamed returns the index of the host with exactly this name, else of the first that it may mean, else -1.
func hostNamed(all []hosts.Host, name string) int {
	if i := slices.IndexFunc(all, func(h hosts.Host) bool { return strings.EqualFold(h.Name, name) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(all, func(h hosts.Host) bool { return hosts.SameName(h.Name, name) })
}

// checkTaskCounts refuses numbers of ranks that are not the step's. All tasks have to refuse what one refuses, or the
// others would wait for it.
func (p *Line) checkTaskCounts(t *engine.Task) {
	spec := &p.Spec
	once := "one task on each"
	if p.engine.found.Engine == "slurm" { // without -n, srun starts all tasks that the allocation asked for
		once = fmt.Sprintf("srun -N%d -n%d --ntasks-per-node=1 %s ...", t.NumNodes, t.NumNodes, p.dialect.Name)
	}
	instead := fmt.Sprintf("start gorun once per node (%s), and it starts ranks itself", once)
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
	even := perNode.N == t.LocalTasks && perNode.N*t.NumNodes == t.NumTasks
	if perNode.Kind != job.CountUnset && (perNode.Kind != job.CountFixed || !even && perNode.N != 1) {
		p.problem("%s: %s: %s", perNode.From, has, instead)
	}
	spec.Apps[0].NumRanks, spec.RanksFrom = 0, ""
	spec.PerNode = job.Count{Kind: job.CountFixed, N: 1, From: "step " + t.Step}
}
