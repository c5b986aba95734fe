package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// engineState is --engine and what the search for a resource manager found.
type engineState struct {
	wanted   optionValue[string]
	searched bool
	found    *engine.Found // nil: none
	hosts    bool          // the job runs on the engine's hosts
}

func parseEngine(value string) (string, error) {
	if err := OneOf(value, engine.Names()...); err != nil {
		return engine.None, err // nothing to search for
	}
	return value, nil
}

// findEngine looks for the resource manager whose job this is.
func (p *Line) findEngine() {
	wanted := p.engine.wanted
	torchrunAlone := p.dialect.strict && p.Spec.NumNodes <= 1 // would not ask for other nodes
	if p.engine.searched || p.standalone || wanted.from == "" && torchrunAlone {
		return
	}
	p.engine.searched = true
	found, err := engine.Find(engine.World{
		Lookup: p.around.Lookup, ReadFile: p.around.ReadFile, IsThisHost: p.around.IsThisHost, LookPath: p.around.LookPath,
		Output: p.around.Output, IsUnknown: p.around.IsUnknown,
	}, wanted.value)
	switch {
	case err != nil && wanted.from != "":
		p.problem("%s: %w", wanted.from, err)
	case err != nil && p.hostsGiven(): // stale variables do not matter then
		p.verbose("%v", err)
	case err != nil:
		p.Problem(err)
	case found != nil:
		p.engine.found, p.Spec.Scheduler = found, found.Scheduler
		p.refuseInLauncher(found)
		p.verbose("%s: %s", found.Job, found.Why)
		if t := found.Task; t != nil && t.NumTasks == 1 {
			p.verbose("%s: this step has one task, so the job has this host alone", found.Job)
		}
	}
}

// otherLaunchers start programs on the hosts of an engine's job themselves. Their ranks have these variables. srun
// --mpi=pmi2 also sets PMI_RANK, so Hydra is known by a third one.
var otherLaunchers = []struct{ name, rank, size, also string }{
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
	{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
}

// refuseInLauncher refuses to be one of several ranks of another launcher: each would use all hosts, or wait for nodes
// that never come. Options that name hosts, or a meeting point, allow it.
func (p *Line) refuseInLauncher(found *engine.Found) {
	if p.hostsGiven() || p.meetsByOptions() {
		return
	}
	world := p.variable("GORUN_JOB_WORLD") // set in a gorun rank, which has these variables, too
	for _, l := range otherLaunchers {
		rank, err := strconv.Atoi(p.variable(l.rank))
		size, sizeErr := strconv.Atoi(p.variable(l.size))
		_, is := p.around.Lookup(l.also)
		ours := found.Task != nil && found.Task.Rank == rank && found.Task.NumTasks == size // jsrun sets them as well
		if err != nil || sizeErr != nil || size < 2 || !is || ours || world == fmt.Sprintf("%d/%d", rank, size) {
			continue
		}
		p.problem("this gorun is rank %d of %d of %s (%s=%d): in %s gorun starts all ranks by itself, so leave "+
			"%s out; --engine none starts a job in each rank",
			rank, size, l.name, l.rank, rank, found.Job, l.name)
		return
	}
}

// engineTask returns this process's task, or nil if no engine started it.
func (p *Line) engineTask() *engine.Task {
	if p.engine.found == nil {
		return nil
	}
	return p.engine.found.Task
}

// tasks returns this process's task if the engine started several.
func (p *Line) tasks() *engine.Task {
	if t := p.engineTask(); t != nil && t.NumTasks > 1 {
		return t
	}
	return nil
}

// isAllocation reports whether an engine gave this process hosts on which to start others.
func (p *Line) isAllocation() bool { return p.engine.found != nil && p.engine.found.Task == nil }

// meetsByOptions reports whether options make this one of several nodes and say where they meet.
func (p *Line) meetsByOptions() bool {
	return p.Spec.NumNodes > 1 && cmp.Or(p.nodeRank.from, p.endpoint.from, p.masterAddr.from) != ""
}

// useAllocation runs the job on the hosts of the allocation, unless options say otherwise.
func (p *Line) useAllocation() {
	found := p.engine.found
	switch {
	case p.isAllocation() && p.meetsByOptions():
		p.note("%s: %s says that gorun is started on each node; without it gorun starts all nodes of the job itself",
			found.Job, joinWords(p.nodesFrom, cmp.Or(p.nodeRank.from, p.endpoint.from, p.masterAddr.from)))
	case p.isAllocation() && p.nodeRank.value <= 0:
		p.useEngineHosts(slices.Clone(found.Hosts), found.From)
	}
}

// chooseFromEngine reports whether all named hosts are the engine's. If so, it reaches them through the
// engine, with the given numbers of slots.
func (p *Line) chooseFromEngine(named []hosts.Host, from string) bool {
	if t := p.tasks(); t != nil {
		p.problem("%s: each of the %d tasks of step %s would start a job on these hosts: start gorun once (srun "+
			"-n1 %s ...), or leave the hosts out", from, t.NumTasks, t.Step, p.dialect.Name)
		return true
	}
	found := p.engine.found
	if found == nil {
		return false
	}
	wanted := slices.Clone(named)
	for i := range wanted {
		wanted[i].Name = p.engineName(wanted[i].Name, found.Hosts)
	}
	if p.noteOutside(wanted) || found.Task != nil {
		return false
	}
	chosen, err := hosts.Select(found.Hosts, hosts.Merge(wanted))
	if err != nil || slices.ContainsFunc(named, func(h hosts.Host) bool { return h.User != "" || h.Port != 0 }) {
		p.verbose("%s: with users or ports in %s, gorun reaches all hosts over SSH", found.Job, from)
		return false
	}
	if p.someAppsOpen() {
		p.moreHosts = true
		chosen, from = slices.Clone(found.Hosts), found.From
	}
	p.useEngineHosts(chosen, from)
	return true
}

// noteOutside reports whether some of the named hosts are not the engine's, and notes that one such host means SSH for
// all.
func (p *Line) noteOutside(wanted []hosts.Host) bool {
	found := p.engine.found
	var outside []string
	for _, h := range wanted {
		if hostNamed(found.Hosts, h.Name) < 0 && (found.Task == nil || !p.isHere(h.Name)) {
			outside = append(outside, h.Name)
		}
	}
	if outside == nil {
		return false
	}
	are, of := "is", found.Job
	if len(outside) > 1 {
		are = "are"
	}
	if found.Task != nil {
		of = "step " + found.Task.Step
	}
	p.note("%s %s not among the nodes of %s (%s): gorun reaches all hosts over SSH", hosts.NodeList(outside), are,
		of, hosts.NodeList(hosts.Names(found.Hosts)))
	return true
}

// engineName returns the engine's name of a host that the user may name differently: with or without its domain, in
// capitals, or as this host. Other names stay.
func (p *Line) engineName(name string, all []hosts.Host) string {
	if !p.isAllocation() {
		return name
	}
	at := hostNamed(all, name)
	if at < 0 && p.isHere(name) {
		own, _ := p.around.Lookup("SLURMD_NODENAME") // in a batch script
		at = slices.IndexFunc(all, func(h hosts.Host) bool { return h.Name == own || p.isHere(h.Name) })
	}
	if at < 0 {
		return name
	}
	return all[at].Name
}

// useEngineHosts runs the job on some of the engine's hosts, and sets how agents get there.
func (p *Line) useEngineHosts(all []hosts.Host, from string) {
	found, spec := p.engine.found, &p.Spec
	p.engine.hosts = true
	p.useEngineCPUs()
	for _, note := range found.Notes {
		p.hint("%s: %s", found.Job, note)
	}
	all = p.firstHosts(p.exclude(all, from), from)
	start := found.Start(all)
	switch ssh := cmp.Or(p.reach.commandFrom, p.reach.configFrom); {
	case ssh != "":
		p.verbose("%s: gorun reaches its hosts over SSH (%s)", found.Job, ssh)
		start = engine.Start{Engine: start.Engine, Job: start.Job}
	case start.Once != nil:
		p.verbose("%s: agents are started by %s", found.Job, strings.Join(start.Once, " "))
	case start.PerHost != nil:
		spec.Reach.Command = start.PerHost
		p.verbose("%s: hosts are reached by %s", found.Job, strings.Join(start.PerHost, " "))
	default:
		p.verbose("%s: gorun reaches its hosts over SSH", found.Job)
	}
	if start.Once == nil {
		all = p.mergeHere(all)
	}
	spec.Reach.Engine = &start
	spec.Hosts, spec.HostsFrom = all, from
	if from == found.From { // all of the engine's
		spec.SlotsFrom = found.SlotsFrom
	}
	p.checkMaxSlots(all)
	perNode := &spec.PerNode
	if perNode.Kind == job.CountGPU || perNode.Kind == job.CountUnset && p.numRanks() == 0 && hasNoSlots(all[0]) {
		if p.Offline && found.GPUsPerNode > 0 {
			*perNode = job.Count{Kind: job.CountFixed, N: found.GPUsPerNode, From: "one per GPU of " + found.Job}
		}
	}
}

// useEngineCPUs limits ranks' threads to the CPUs that the user asked the engine to give each task, unless an option
// sets the CPUs of a rank.
func (p *Line) useEngineCPUs() {
	found, spec := p.engine.found, &p.Spec
	if found.CPUsPerRank == 0 || spec.Place.CPUsPerRank > 0 || spec.Place.MapBy.PE > 0 {
		return
	}
	spec.CPUsPerRank, spec.CPUsFrom = found.CPUsPerRank, "--cpus-per-task of the Slurm job"
	if found.Engine != "slurm" {
		spec.CPUsFrom = fmt.Sprintf("%s asks for %d CPUs for each task", found.Job, found.CPUsPerRank)
	}
}
