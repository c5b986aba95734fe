package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findSlurm reads what Slurm says of its job, as salloc, sbatch and srun set it. The
// variables are those of srun(1) and sbatch(1) of Slurm 22.05; older names of the same
// are taken, too.
func findSlurm(r *reader) *Found {
	_, id := r.first("SLURM_JOB_ID", "SLURM_JOBID")
	if id == "" {
		return nil
	}
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return r.fail("SLURM_JOB_ID=%s: not the number of a job", id)
	}
	s := &slurm{reader: r, found: &Found{Job: "Slurm job " + id, JobID: id}}
	if array, task := r.get("SLURM_ARRAY_JOB_ID"), r.get("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		s.found.Job = "Slurm job " + array + "_" + task
	}
	s.found.CPUsPerRank, _ = s.optional("SLURM_CPUS_PER_TASK")
	if s.isStep() {
		s.readStep()
	} else {
		s.readAllocation()
	}
	s.found.Why = strings.Join(s.why, "; ")
	return s.found
}

// slurm reads one job.
type slurm struct {
	*reader
	found *Found
	parts []part // of a heterogeneous job, in order; else one
	why   []string
	// foreign says that SLURM_STEP_* are there and are not this job's: who calls sbatch
	// or salloc within a step hands its own on.
	foreign bool
}

// part is a component of a job: nodes of the same kind.
type part struct {
	suffix string // of the component's variables
	nodes  []string
	tasks  []int // of each node; nil: not said, or not a number of ranks
	open   bool  // tasks are launchers, not ranks
}

// onNode is the number of tasks on one of the nodes, 1 where nothing is said.
func (p *part) onNode(i int) int {
	if p.tasks == nil {
		return 1
	}
	return p.tasks[i]
}

// readAllocation reads the nodes of the whole job.
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
	s.wayIn()
}

// readParts finds the components and their nodes.
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
		if s.err != nil { // there may be a million of them
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

// readTasks finds out how many ranks the nodes of a component are meant to take.
// SLURM_TASKS_PER_NODE is always set; where nobody asked for tasks it counts CPUs, or
// nothing.
func (s *slurm) readTasks(p *part) {
	if s.isInteractive() && !s.preserved(p) {
		// Numbers of tasks are those of the interactive step, which has one.
		s.why = append(s.why, "the interactive step, which says nothing of the job's tasks")
		s.tasksOfCPUs(p)
		return
	}
	name := "SLURM_TASKS_PER_NODE" + p.suffix
	tasks := s.counts(name, len(p.nodes))
	total, counted := s.optional("SLURM_NTASKS"+p.suffix, "SLURM_NPROCS"+p.suffix)
	// Within a step of another job its numbers are handed on, and say nothing of this one.
	counted = counted && (total == sum(tasks) || !s.foreign) || s.get("SLURM_NTASKS_PER_NODE"+p.suffix) != "" && !s.foreign
	if !counted || tasks == nil {
		s.why = append(s.why, "nobody asked for tasks: "+name+" counts no ranks")
		s.tasksOfCPUs(p)
		return
	}
	s.slotsFrom(name)
	if total > 0 && total < sum(tasks) { // --ntasks-per-node is then the most that a node may have
		cutTo(tasks, total)
		s.why = append(s.why, fmt.Sprintf("of which SLURM_NTASKS%s=%d count", p.suffix, total))
	}
	p.tasks = tasks
}

// preserved reports whether the interactive step has the numbers of the job's tasks, as
// with srun's --preserve-env, which is among Slurm's default InteractiveStepOptions: they
// then count more than its own one task on one node.
func (s *slurm) preserved(p *part) bool {
	perhaps := &reader{World: s.World}
	tasks := perhaps.counts("SLURM_TASKS_PER_NODE"+p.suffix, len(p.nodes))
	total, counted := perhaps.optional("SLURM_NTASKS"+p.suffix, "SLURM_NPROCS"+p.suffix)
	return perhaps.err == nil && counted && total > 1 && total == sum(tasks)
}

// tasksOfCPUs divides a node's CPUs by those that a task is meant to have, if the user
// said how many that are.
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

// slotsFrom notes which variable says how many ranks the nodes of a component take.
func (s *slurm) slotsFrom(name string) {
	from := name + "=" + s.get(name)
	s.why = append(s.why, from)
	s.found.SlotsFrom = strings.TrimSpace(s.found.SlotsFrom + " " + from)
}

// gpuVariables say that a job has GPUs, on whatever node.
var gpuVariables = []string{
	"SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET",
	"SLURM_GPUS",
	"SLURM_STEP_GPUS", "SLURM_GRES", "SLURM_TRES_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_GPU",
	"SLURM_NTASKS_PER_GPU",
}

// openSlots leaves the number of ranks open where each node has one task, and GPUs or
// --ntasks-per-node=1: who writes that for torchrun means one launcher a node, and a rank
// per GPU. (salloc says nothing of GPUs that came by --gres.)
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

// hosts are the nodes of all components, in order; one that is in several has the sum
// of its tasks.
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
