package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findSlurm finds a job of Slurm, by the variables of salloc, sbatch and srun (22.05) and their older names.
func findSlurm(r *reader) *Found {
	_, id := r.first("SLURM_JOB_ID", "SLURM_JOBID")
	if id == "" {
		return nil
	}
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return r.fail("SLURM_JOB_ID=%s: not the number of a job", id)
	}
	s := &slurm{reader: r, found: &Found{JobID: id}, name: id}
	if array, task := r.get("SLURM_ARRAY_JOB_ID"), r.get("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		s.name = array + "_" + task
	}
	s.found.Job = "Slurm job " + s.name
	s.found.CPUsPerRank, _ = s.optional("SLURM_CPUS_PER_TASK")
	if s.isStep() {
		s.readStep()
	} else {
		s.readAllocation()
	}
	s.findScheduler()
	s.found.Why = strings.Join(s.why, "; ")
	return s.found
}

// slurm parses one job.
type slurm struct {
	*reader
	found *Found
	name  string // for scontrol, to which the number of an array's last task means all of its tasks
	parts []part // of a heterogeneous job, in order; else one
	why   []string
	// foreign reports that SLURM_STEP_* belong to another job: sbatch and salloc within a step pass them on.
	foreign bool
}

// part is a component of a job: nodes of the same kind.
type part struct {
	suffix string // of the component's variables
	nodes  []string
	tasks  []int // of each node; nil: unknown, or not a number of ranks
	open   bool  // tasks are launchers, not ranks
}

// onNode returns the number of tasks on a node, by default 1.
func (p *part) onNode(i int) int {
	if p.tasks == nil {
		return 1
	}
	return p.tasks[i]
}

// readAllocation parses the nodes of the whole job.
func (s *slurm) readAllocation() {
	s.why = append(s.why, "SLURM_JOB_ID="+s.found.JobID)
	s.readParts()
	var from []string
	for i := range s.parts {
		name, list := s.nodeList(s.parts[i].suffix)
		from = append(from, name+"="+list)
		s.readTasks(&s.parts[i])
	}
	s.found.From = strings.Join(from, " ")
	s.openSlots()
	s.found.Hosts = s.hosts()
	s.found.GPUsPerNode = s.gpusPerNode()
	s.setStart()
}

// readParts parses the components and their nodes.
func (s *slurm) readParts() {
	suffixes := []string{""}
	if groups, _ := s.optional("SLURM_HET_SIZE", "SLURM_PACK_SIZE"); groups > 0 {
		suffixes = nil
		for i := range groups {
			suffixes = append(suffixes, fmt.Sprintf("_HET_GROUP_%d", i))
		}
		s.why = append(s.why, fmt.Sprintf("a heterogeneous job of %d components", groups))
	}
	for _, suffix := range suffixes {
		nodes := s.expand(s.nodeList(suffix))
		if s.err != nil { // maybe a million times
			return
		}
		s.parts = append(s.parts, part{suffix: suffix, nodes: nodes})
	}
}

func (s *slurm) nodeList(suffix string) (name, list string) {
	return s.first("SLURM_JOB_NODELIST"+suffix, "SLURM_NODELIST"+suffix)
}

func (s *slurm) expand(name, list string) []string {
	if list == "" {
		s.fail("%s is not set, and SLURM_JOB_ID is", name)
		return nil
	}
	nodes, err := hosts.Expand(list)
	if err != nil {
		s.fail("%s=%s: %w", name, list, err)
	}
	return nodes
}

// readTasks parses the number of ranks for each node of a component. SLURM_TASKS_PER_NODE is always set; if the user
// requested no tasks, it counts CPUs, or nothing.
func (s *slurm) readTasks(p *part) {
	if s.isInteractive() && !s.preserved(p) {
		// SLURM_TASKS_PER_NODE is the interactive step's.
		s.why = append(s.why, "the interactive step, which does not describe the job's tasks")
		s.tasksOfCPUs(p)
		return
	}
	name := "SLURM_TASKS_PER_NODE" + p.suffix
	tasks := s.counts(name, len(p.nodes))
	total, counted := s.optional("SLURM_NTASKS"+p.suffix, "SLURM_NPROCS"+p.suffix)
	// In a step of another job the numbers are the other job's.
	counted = counted && (total == sum(tasks) || !s.foreign) || s.get("SLURM_NTASKS_PER_NODE"+p.suffix) != "" && !s.foreign
	if !counted || tasks == nil {
		s.why = append(s.why, "no tasks were requested: "+name+" counts no ranks")
		s.tasksOfCPUs(p)
		return
	}
	s.slotsFrom(name)
	if total > 0 && total < sum(tasks) { // --ntasks-per-node is the maximum then
		cutTo(tasks, total)
		s.why = append(s.why, fmt.Sprintf("of which SLURM_NTASKS%s=%d count", p.suffix, total))
	}
	p.tasks = tasks
}

// preserved reports whether the interactive step has the variables of the job's tasks, because of srun's
// --preserve-env, which Slurm's default InteractiveStepOptions have.
func (s *slurm) preserved(p *part) bool {
	try := &reader{World: s.World}
	tasks := try.counts("SLURM_TASKS_PER_NODE"+p.suffix, len(p.nodes))
	total, counted := try.optional("SLURM_NTASKS"+p.suffix, "SLURM_NPROCS"+p.suffix)
	return try.err == nil && counted && total > 1 && total == sum(tasks)
}

// tasksOfCPUs divides a node's CPUs by the CPUs for each task, if the user requested a number.
func (s *slurm) tasksOfCPUs(p *part) {
	name := "SLURM_JOB_CPUS_PER_NODE" + p.suffix
	each := s.found.CPUsPerRank
	if each == 0 || s.foreign {
		return
	}
	if p.tasks = s.counts(name, len(p.nodes)); p.tasks == nil {
		return
	}
	for i := range p.tasks {
		p.tasks[i] = max(p.tasks[i]/each, 1)
	}
	s.slotsFrom(name)
	s.why[len(s.why)-1] += fmt.Sprintf(" with SLURM_CPUS_PER_TASK=%d", each)
}

// slotsFrom adds the source of a component's slots.
func (s *slurm) slotsFrom(name string) {
	from := name + "=" + s.get(name)
	s.why = append(s.why, from)
	s.found.SlotsFrom = strings.TrimSpace(s.found.SlotsFrom + " " + from)
}

// gpuVariables are set in jobs with GPUs.
var gpuVariables = []string{
	"SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET",
	"SLURM_GPUS",
	"SLURM_STEP_GPUS", "SLURM_GRES", "SLURM_TRES_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_GPU",
	"SLURM_NTASKS_PER_GPU",
}

// openSlots leaves the number of ranks open if each node has one task, and GPUs or --ntasks-per-node=1. That is how
// users request one torchrun for each node, with a rank for each GPU. salloc sets no variable for GPUs of --gres.
func (s *slurm) openSlots() {
	for _, p := range s.parts {
		if p.tasks == nil || slices.ContainsFunc(p.tasks, func(n int) bool { return n != 1 }) {
			return
		}
	}
	name, value := s.first(gpuVariables...)
	isTRES := name == "SLURM_GRES" || name == "SLURM_TRES_PER_TASK"
	if value == "" || isTRES && !strings.Contains(value, "gpu") {
		if name, value = "SLURM_NTASKS_PER_NODE", s.get("SLURM_NTASKS_PER_NODE"); value == "" {
			return
		}
	}
	for i := range s.parts {
		s.parts[i].open = true
	}
	s.why = append(s.why, fmt.Sprintf("one task on each node (%s=%s) is a launcher: a rank for each GPU, or one", name,
		value))
}

// hosts returns the nodes of all components in order, with the sum of their tasks.
func (s *slurm) hosts() []hosts.Host {
	var all []hosts.Host
	place := map[string]int{}
	for _, p := range s.parts {
		for i, node := range p.nodes {
			slots := 0
			if p.tasks != nil && !p.open {
				slots = p.tasks[i]
			}
			at, again := place[node]
			switch {
			case !again:
				place[node] = len(all)
				all = append(all, hosts.Host{Name: node, Slots: slots, From: s.found.From})
			case slots == 0 || all[at].Slots == 0:
				all[at].Slots = 0
			default:
				all[at].Slots += slots
			}
		}
	}
	return all
}
