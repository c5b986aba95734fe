package engine

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// Reserved numbers of steps (slurm.h): interactiveStep is the shell of salloc on the first node.
const (
	firstReserved   = 0xfffffff0
	interactiveStep = 0xfffffffa
)

// isStep reports whether srun started this process as a task of a step.
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

// isForeign reports whether the step is another job's: sbatch and salloc pass its variables on, but set
// SLURM_TASKS_PER_NODE and SLURM_NNODES anew.
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

// readStep parses the step and this process's task in it. Its nodes are the hosts.
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
	if task.Rank != 0 { // task 0 dials no other
		task.Addr = s.known(task.Addr)
	}
	s.found.Task, s.found.From = task, name+"="+list
	s.why = append(s.why, tasksName+"="+s.get(tasksName))
	for i, node := range nodes {
		s.found.Hosts = append(s.found.Hosts, hosts.Host{Name: node, Slots: tasks[i], From: s.found.From})
	}
}

// below parses a number from 0 to limit-1.
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

// byComponent sorts a step's nodes and their tasks by SLURM_NODEID. In a step over components of a heterogeneous job,
// srun (22.05) sorts the lists by name, but numbers nodes by component, whatever the order in --het-group.
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
	const instead = "start gorun in the allocation without srun to use the nodes of all components"
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

// address returns a node's name, or the address that Slurm has for it in clouds:
// SLURM_NODE_ALIASES=name:address:hostname,... with IPv6 in brackets.
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

// known returns a node's name if it can be resolved, else Slurm's NodeAddr.
func (s *slurm) known(node string) string {
	if node == "" || s.IsUnknown == nil || s.Output == nil || !s.IsUnknown(node) {
		return node
	}
	if _, err := s.LookPath("scontrol"); err != nil {
		return node
	}
	out, err := s.Output("scontrol", "show", "node", "--oneliner", node)
	if err != nil {
		return node // dialling reports the cause
	}
	for _, word := range strings.Fields(string(out)) {
		if address, found := strings.CutPrefix(word, "NodeAddr="); found && address != "" && address != node {
			s.why = append(s.why, node+" is not resolved here, NodeAddr="+address)
			return address
		}
	}
	return node
}

// firstOfFile returns the node of task 0 if a file of the user's distributes the tasks; "": it cannot be read.
func (s *slurm) firstOfFile(nodes []string) string {
	content, err := s.ReadFile(s.get("SLURM_HOSTFILE"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
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

// stepTasks returns the tasks of each node. The older names have the job's numbers.
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

// mungeSocket returns the socket of MUNGE that Slurm uses: AuthInfo in slurm.conf(5).
func (s *slurm) mungeSocket() string {
	content, err := s.ReadFile(cmp.Or(s.get("SLURM_CONF"), "/etc/slurm/slurm.conf"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
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
