package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
)

// engineWish is --engine, and what was found.
type engineWish struct {
	name, from string
	looked     bool
	found      *engine.Found
	hosts      bool // the job's hosts are the engine's
}

func (p *Line) setEngine(a Arg) error {
	err := OneOf(a.Value, engine.Names()...)
	if err == nil {
		p.engine.name, p.engine.from = a.Value, a.From
	}
	return err
}

// findEngine looks for the resource manager in whose job this is.
func (p *Line) findEngine() {
	if p.engine.looked || p.standalone || p.engine.from == "" && p.torchrunAlone() {
		return
	}
	p.engine.looked = true
	found, err := engine.Find(engine.World{
		Lookup: p.around.Lookup, ReadFile: p.around.ReadFile, IsThisHost: p.around.IsThisHost, LookPath: p.around.LookPath,
		Output: p.around.Output, IsUnknown: p.around.IsUnknown,
	}, p.engine.name)
	switch {
	case err != nil && p.engine.from != "":
		p.problem("%s: %w", p.engine.from, err)
		return
	case err != nil && p.hostsGiven(): // variables that were left behind matter to nobody who names hosts
		p.remark(err.Error())
		return
	case err != nil:
		p.Problem(err)
		return
	}
	p.engine.found = found
	if found == nil {
		return
	}
	p.refuseInLauncher(found)
	p.remark(found.Job + ": " + found.Why)
	if t := found.Task; t != nil && t.NumTasks == 1 {
		p.remark(found.Job + ": this step has one task, so the job has this host alone")
	}
}

// otherLaunchers are those that start programs on the hosts of an engine's job by
// themselves, and the variables of their ranks: of Open MPI and of Hydra (MPICH, Intel
// MPI), whose PMI_RANK srun --mpi=pmi2 sets, too.
var otherLaunchers = []struct{ name, rank, size, only string }{
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
	{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
}

// refuseInLauncher refuses to be one of several ranks of another launcher's, each of which
// would take all hosts of the job, or wait for others that do not come. Options may say
// that they are nodes that meet, or name hosts.
func (p *Line) refuseInLauncher(found *engine.Found) {
	if p.hostsGiven() || p.meetsByOptions() {
		return
	}
	number := func(name string) int {
		value, _ := p.around.Lookup(name)
		n, err := strconv.Atoi(value)
		if err != nil {
			return -1
		}
		return n
	}
	world, _ := p.around.Lookup("GORUN_JOB_WORLD") // inside a rank of gorun's, which has their variables
	for _, l := range otherLaunchers {
		rank, size := number(l.rank), number(l.size)
		_, is := p.around.Lookup(l.only)
		ours := found.Task != nil && found.Task.Rank == rank && found.Task.NumTasks == size // jsrun sets them as well
		if rank < 0 || size < 2 || l.only != "" && !is || ours || world == fmt.Sprintf("%d/%d", rank, size) {
			continue
		}
		p.problem("this gorun is rank %d of %d of %s (%s=%d): in %s gorun starts all ranks by itself, so leave "+
			"%s out; --engine none starts a job in each rank",
			rank, size, l.name, l.rank, rank, found.Job, l.name)
		return
	}
}

// remark adds a note for those who ask for more.
func (p *Line) remark(text string) {
	if p.Verbose > 0 {
		p.Note(text)
	}
}

// torchrunAlone reports whether torchrun would start ranks on this host alone, and not
// ask who else is there.
func (p *Line) torchrunAlone() bool { return p.dialect.strict && p.Spec.NumNodes <= 1 }

// tasks are the places of the processes that an engine started, nil where it started
// this one alone, or none.
func (p *Line) tasks() *engine.Task {
	if p.engine.found == nil || p.engine.found.Task == nil || p.engine.found.Task.NumTasks == 1 {
		return nil
	}
	return p.engine.found.Task
}

// isAllocation reports whether an engine gave hosts to this process, to start the others
// on.
func (p *Line) isAllocation() bool { return p.engine.found != nil && p.engine.found.Task == nil }

// meetsByOptions reports whether options say that this is one of several nodes, and where
// those meet: somebody starts gorun on each of them.
func (p *Line) meetsByOptions() bool {
	return p.Spec.NumNodes > 1 && (p.nodeRank.from != "" || p.endpoint.addrFrom != "" || p.master.addrFrom != "")
}

// engineHosts has the ranks run on the hosts of the engine's job, if nobody says
// otherwise.
func (p *Line) engineHosts() {
	found := p.engine.found
	switch {
	case !p.isAllocation() || p.nodeRank.rank > 0 && !p.meetsByOptions():
		return
	case p.meetsByOptions():
		p.Note(fmt.Sprintf(
			"%s: %s says that gorun is started on each node; without it gorun starts all nodes of the job itself", found.Job,
			joinWords(p.nodesFrom, cmp.Or(p.nodeRank.from, p.endpoint.addrFrom, p.master.addrFrom))))
		return
	}
	p.takeEngineHosts(slices.Clone(found.Hosts), found.From)
}

// chosenFromEngine reports whether hosts that the user named are all the engine's, and
// has them reached by it; what is said of slots there counts.
func (p *Line) chosenFromEngine(named []hosts.Host, from string) bool {
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
	if p.outsideEngine(wanted) || found.Task != nil {
		return false
	}
	chosen, err := hosts.Select(found.Hosts, hosts.Merge(wanted))
	if err != nil || slices.ContainsFunc(named, func(h hosts.Host) bool { return h.User != "" || h.Port != 0 }) {
		p.remark(fmt.Sprintf("%s: with users or ports in %s all hosts are reached by SSH", found.Job, from))
		return false
	}
	if p.someAppsOpen() {
		p.mpi.moreHosts = true
		chosen, from = slices.Clone(found.Hosts), found.From
	}
	p.takeEngineHosts(chosen, from)
	return true
}

// outsideEngine reports whether some of the hosts that the user named are not the
// engine's, and says so: one of them has all reached by SSH.
func (p *Line) outsideEngine(wanted []hosts.Host) bool {
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
	p.Note(fmt.Sprintf("%s %s not among the nodes of %s (%s): all hosts are reached by SSH", hosts.Fold(outside), are,
		of, hosts.Fold(hosts.Names(found.Hosts))))
	return true
}

// engineName is what the engine calls a host that the user may call otherwise: with its
// domain or without, in capitals, or as this host. Others stay as they are.
func (p *Line) engineName(name string, all []hosts.Host) string {
	if !p.isAllocation() {
		return name
	}
	at := hostNamed(all, name)
	if at < 0 && p.isHere(name) {
		own, _ := p.around.Lookup("SLURMD_NODENAME") // in a batch script; else names tell
		at = slices.IndexFunc(all, func(h hosts.Host) bool { return h.Name == own || p.isHere(h.Name) })
	}
	if at < 0 {
		return name
	}
	return all[at].Name
}

// takeEngineHosts settles on which of the engine's hosts the job is, and how agents come
// there.
func (p *Line) takeEngineHosts(all []hosts.Host, from string) {
	found, spec := p.engine.found, &p.Spec
	p.engine.hosts = true
	p.engineCPUs()
	for _, note := range found.Notes {
		p.hint(found.Job + ": " + note)
	}
	all = p.firstHosts(p.exclude(all, from), from)
	start := found.Start(all)
	switch {
	case p.reach.command != "" || p.reach.config != "":
		p.remark(fmt.Sprintf("%s: its hosts are reached by SSH, as %s says", found.Job,
			cmp.Or(p.reach.command, p.reach.config)))
		start = engine.Start{Engine: start.Engine, Job: start.Job}
	case start.Once != nil:
		p.remark(fmt.Sprintf("%s: agents are started by %s", found.Job, strings.Join(start.Once, " ")))
	case start.PerHost != nil:
		spec.Reach.Command = start.PerHost
		p.remark(fmt.Sprintf("%s: hosts are reached by %s", found.Job, strings.Join(start.PerHost, " ")))
	default:
		p.remark(found.Job + ": its hosts are reached by SSH")
	}
	if start.Once == nil {
		all = p.mergeHere(all)
	}
	spec.Reach.Engine = &start
	spec.Hosts, spec.HostsFrom = all, from
	if from == found.From { // and nobody chose from them
		spec.SlotsFrom = found.SlotsFrom
	}
	p.checkMaxSlots(all)
}

// engineCPUs has ranks run no more threads than the engine was asked to give to each of
// its tasks, unless an option says how many CPUs a rank has.
func (p *Line) engineCPUs() {
	found, spec := p.engine.found, &p.Spec
	if found == nil || found.CPUsPerRank == 0 || spec.Place.CPUsPerRank > 0 || spec.Place.MapBy.PE > 0 {
		return
	}
	spec.CPUsPerRank, spec.CPUsFrom = found.CPUsPerRank, fmt.Sprintf("%s asks for %d CPUs for each task", found.Job,
		found.CPUsPerRank)
	if found.Engine == "slurm" {
		spec.CPUsFrom = "--cpus-per-task of the Slurm job"
	}
}
