package engine

import (
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// Numbers of steps that are no steps of a user's (slurm.h, SLURM_INTERACTIVE_STEP and
// others): from firstReserved on; interactiveStep is the shell that salloc starts on
// the first node where the site has it so.
const (
	firstReserved   = 0xfffffff0
	interactiveStep = 0xfffffffa
)

// isStep reports whether srun started this process, as one task of a step. A batch
// script has a SLURM_PROCID, too, but no step.
func (s *slurm) isStep() bool {
	number, ok := s.step()
	if !ok || number >= firstReserved {
		return false
	}
	s.foreign = s.isForeign()
	return !s.foreign
}

func (s *slurm) isInteractive() bool {
	number, ok := s.step()
	return ok && number == interactiveStep
}

func (s *slurm) step() (number uint64, ok bool) {
	_, text := s.first("SLURM_STEP_ID", "SLURM_STEPID")
	number, err := strconv.ParseUint(text, 10, 32)
	return number, err == nil
}

// isForeign reports whether the step is one of another job: sbatch and salloc hand on
// what they found, and set SLURM_TASKS_PER_NODE and SLURM_NNODES anew, which srun sets
// to the step's own.
func (s *slurm) isForeign() bool {
	for own, step := range map[string]string{
		"SLURM_TASKS_PER_NODE": "SLURM_STEP_TASKS_PER_NODE",
		"SLURM_NNODES":         "SLURM_STEP_NUM_NODES",
	} {
		a, b := s.get(own), s.get(step)
		if a != "" && b != "" && a != b {
			return true
		}
	}
	return false
}

// readStep reads this process's place in its step, whose nodes are the hosts.
func (s *slurm) readStep() {
	_, id := s.first("SLURM_STEP_ID", "SLURM_STEPID")
	s.why = append(s.why, "SLURM_JOB_ID="+s.found.JobID+" SLURM_STEP_ID="+id)
	name, list := s.first("SLURM_STEP_NODELIST", "SLURM_NODELIST")
	nodes := s.expand(name, list)
	tasks, tasksName := s.stepTasks(len(nodes))
	if s.err != nil {
		return
	}
	if nodes, tasks = s.byComponent(nodes, tasks); s.err != nil {
		return
	}
	task := &Task{
		NumTasks: sum(tasks), NumNodes: len(nodes), NodeID: s.get("SLURMD_NODENAME"),
		Addr: s.address(nodes[0]), Step: s.found.JobID + "." + id, Signals: true,
		Munge: true, MungeSocket: s.mungeSocket(),
	}
	task.Node = s.below("SLURM_NODEID", task.NumNodes, "nodes in the step")
	task.LocalTasks = tasks[task.Node]
	task.Rank = s.below("SLURM_PROCID", task.NumTasks, "tasks in the step")
	task.LocalRank = s.below("SLURM_LOCALID", task.LocalTasks, "tasks of the step on this node")
	if !task.OnePerNode() && strings.HasPrefix(s.get("SLURM_DISTRIBUTION"), "arbitrary") {
		task.Addr = s.firstOfFile(nodes)
	}
	if task.Rank != 0 { // task 0 dials nobody
		task.Addr = s.known(task.Addr)
	}
	s.found.Task, s.found.From = task, name+"="+list
	s.why = append(s.why, tasksName+"="+s.get(tasksName))
	for i, node := range nodes {
		s.found.Hosts = append(s.found.Hosts, hosts.Host{Name: node, Slots: tasks[i], From: s.found.From})
	}
}

// below reads a number of this task's, of which there are so many from 0 on.
func (s *slurm) below(name string, limit int, what string) int {
	n, ok := s.optional(name)
	switch {
	case !ok:
		s.fail("%s is not set, and SLURM_STEP_ID is", name)
	case n >= limit:
		s.fail("%s=%d: there are %d %s, numbered from 0", name, n, limit, what)
		return 0
	}
	return n
}

// byComponent puts a step's nodes, and their tasks, into the order of SLURM_NODEID. That
// is the one of the lists but where a step spans components of a heterogeneous job: srun
// (22.05) sorts those lists by the nodes' names, and numbers nodes by components, in
// whatever order --het-group names them.
func (s *slurm) byComponent(nodes []string, tasks []int) (ordered []string, theirs []int) {
	if s.get("SLURM_HET_SIZE") == "" {
		return nodes, tasks
	}
	s.readParts()
	for _, p := range s.parts {
		for _, node := range p.nodes {
			if i := slices.Index(nodes, node); i >= 0 {
				ordered, theirs = append(ordered, node), append(theirs, tasks[i])
			}
		}
	}
	const instead = "without srun, gorun in the allocation starts ranks on the nodes of all components"
	if len(ordered) != len(nodes) {
		s.fail("SLURM_STEP_NODELIST=%s: these are not nodes that SLURM_JOB_NODELIST_HET_GROUP_0 and "+
			"the others name, each once: %s", s.get("SLURM_STEP_NODELIST"), instead)
	}
	id, _ := s.optional("SLURM_NODEID")
	if name := s.get("SLURMD_NODENAME"); name != "" && id < len(ordered) && ordered[id] != name {
		s.fail("SLURM_NODEID=%d is %s, and by its heterogeneous job's components %s: %s", id, name, ordered[id], instead)
	}
	return ordered, theirs
}

// address is how a node is reached: by its name, unless Slurm has another address for it,
// as in clouds: SLURM_NODE_ALIASES=name:address:hostname,... with IPv6 in brackets.
func (s *slurm) address(node string) string {
	for _, entry := range strings.Split(s.get("SLURM_NODE_ALIASES"), ",") {
		rest, found := strings.CutPrefix(entry, node+":")
		if !found {
			continue
		}
		if inner, ok := strings.CutPrefix(rest, "["); ok {
			rest, _, _ = strings.Cut(inner, "]")
			return rest
		}
		address, _, _ := strings.Cut(rest, ":")
		return address
	}
	return node
}

// known is a node's address, or its name if that can be resolved. Where it cannot, Slurm
// itself has an address of it: NodeAddr, which is the name as a rule.
func (s *slurm) known(node string) string {
	if node == "" || s.IsUnknown == nil || s.Output == nil || !s.IsUnknown(node) {
		return node
	}
	if _, err := s.LookPath("scontrol"); err != nil {
		return node
	}
	out, err := s.Output("scontrol", "show", "node", "--oneliner", node)
	if err != nil {
		return node // the name may be resolved yet; who dials it says why not
	}
	for _, word := range strings.Fields(string(out)) {
		if address, found := strings.CutPrefix(word, "NodeAddr="); found && address != "" && address != node {
			s.why = append(s.why, node+" is not resolved here, NodeAddr="+address)
			return address
		}
	}
	return node
}

// firstOfFile is the node of task 0 where a file of the user's deals tasks to nodes, a
// name for each, while the nodes are numbered in their own order. "": it cannot be read.
func (s *slurm) firstOfFile(nodes []string) string {
	content, err := s.ReadFile(s.get("SLURM_HOSTFILE"))
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		name, _, _ := strings.Cut(strings.TrimSpace(line), ",")
		name, _, _ = strings.Cut(name, "*") // n1*2 is n1 twice
		if names, err := hosts.Expand(name); name != "" && err == nil && slices.Contains(nodes, names[0]) {
			return s.address(names[0])
		}
		if name != "" {
			return ""
		}
	}
	return ""
}

// stepTasks are the tasks of each node. A step says the numbers of its own; those of
// the job stand under the older names.
func (s *slurm) stepTasks(nodes int) (tasks []int, name string) {
	name, list := s.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
	totals := []string{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}
	tasks = s.counts(name, nodes)
	total, ok := s.optional(totals...)
	switch {
	case tasks == nil:
		s.fail("SLURM_STEP_TASKS_PER_NODE is not set, and SLURM_STEP_ID is")
	case ok && total != sum(tasks):
		totalName, text := s.first(totals...)
		s.fail("%s=%s contradicts %s=%s", name, list, totalName, text)
	case slices.Contains(tasks, 0):
		s.fail("%s=%s: a node without a task", name, list)
	}
	return tasks, name
}

// mungeSocket is where Slurm itself comes to MUNGE: AuthInfo in slurm.conf(5).
func (s *slurm) mungeSocket() string {
	file := s.get("SLURM_CONF")
	if file == "" {
		file = "/etc/slurm/slurm.conf"
	}
	content, err := s.ReadFile(file)
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(line, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "AuthInfo") {
			continue
		}
		for _, option := range strings.Split(strings.TrimSpace(value), ",") {
			if socket, found := strings.CutPrefix(option, "socket="); found {
				return socket
			}
		}
	}
	return ""
}
