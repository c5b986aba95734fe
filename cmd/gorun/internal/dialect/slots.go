package dialect

import (
	"slices"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// slotRule is what a launcher takes hosts without a number of slots for.
type slotRule uint8

const (
	// slotsOfGorun: what GPUs they have, else one; more ranks than slots of several hosts
	// are refused.
	slotsOfGorun slotRule = iota
	// slotsOfOpenMPI: their cores, but one each where they stand behind -H.
	slotsOfOpenMPI
	// slotsOfHydra: one.
	slotsOfHydra
)

// finishApps moves what one program alone has to the whole job, and gives programs without
// a number of ranks what mpiexec does.
func (p *Line) finishApps() {
	spec := &p.Spec
	if len(spec.Apps) == 1 {
		app := &spec.Apps[0]
		spec.Exports, app.Exports = append(spec.Exports, app.Exports...), nil
		return
	}
	for i := range spec.Apps {
		if p.dialect.slots == slotsOfHydra && spec.Apps[i].NumRanks == 0 {
			spec.Apps[i].NumRanks = 1
		}
	}
}

// amongHosts are those of a program's hosts that are the job's, by the names that they have
// there.
func (p *Line) amongHosts(own []hosts.Host) (found []hosts.Host) {
	for _, h := range own {
		at := slices.IndexFunc(p.Spec.Hosts, func(of hosts.Host) bool {
			return of.Name == h.Name || of.Name == p.engineName(h.Name, p.Spec.Hosts) || of.Here && p.isHere(h.Name)
		})
		if at < 0 {
			continue
		}
		slots := h.Slots
		h = p.Spec.Hosts[at]
		h.Slots = slots
		found = append(found, h)
	}
	return hosts.Merge(found)
}

// withoutLocal leaves this host out where -nolocal wants that.
func (p *Line) withoutLocal(all []hosts.Host, from string) []hosts.Host {
	if p.mpi.nolocal.From == "" {
		return all
	}
	left := slices.DeleteFunc(slices.Clone(all), func(h hosts.Host) bool { return h.Here })
	if len(left) == 0 {
		p.problem("%s leaves none of the hosts of %s", p.mpi.nolocal.From, from)
		return all
	}
	return left
}

// finishSlots fills in what the launcher by whose name gorun was called takes for granted.
func (p *Line) finishSlots() {
	spec := &p.Spec
	if p.mpi.nolocal.From != "" && len(spec.Hosts) == 0 {
		p.problem("%s leaves out this host, and no other is named: add -H or --hostfile", p.mpi.nolocal.From)
	}
	if p.dialect.slots == slotsOfGorun {
		return
	}
	if p.mpi.noOver.From == "" && !spec.Place.MapBy.NoOversubscribe {
		spec.Oversubscribe = true
	}
	p.limitPerNode()
	p.openSlots()
	counted := spec.PerNode.Kind != job.CountUnset || spec.Place.MapBy.PPR > 0 || spec.Place.RankFile != nil ||
		len(spec.Apps) > 1 || spec.Apps[0].NumRanks > 0
	if counted || len(spec.Hosts) > 0 || p.joins() {
		return
	}
	if p.dialect.slots == slotsOfHydra {
		spec.PerNode = job.Count{Kind: job.CountFixed, N: 1, From: "mpiexec's default"}
		return
	}
	spec.PerNode = job.Count{Kind: job.CountCore, From: "mpirun's default"}
	if p.mpi.threads.From != "" {
		spec.PerNode = job.Count{Kind: job.CountCPU, From: p.mpi.threads.From}
	}
}

// openSlots gives each host without a number of slots what every mpirun does: one, and
// those of Open MPI's host files as many as they have cores.
func (p *Line) openSlots() {
	all := slices.Clone(p.Spec.Hosts)
	for i := range all {
		switch h := &all[i]; {
		case h.Slots > 0 || h.CoreSlots:
		case p.dialect.slots == slotsOfOpenMPI &&
			slices.ContainsFunc(p.programs, func(of programGiven) bool { return of.hostFile.From != "" }):
			h.CoreSlots = true
		default:
			h.Slots = 1
		}
	}
	p.Spec.Hosts = all
}

// limitPerNode takes -ppn beside -n for what it is to Hydra: slots, of which there may be
// fewer than ranks. Open MPI refuses such ranks, and so does gorun called mpirun.
func (p *Line) limitPerNode() {
	spec := &p.Spec
	several := len(spec.Apps) > 1
	if p.mpi.perNode.From == "" || p.numRanks() == 0 || p.dialect.slots != slotsOfHydra && !several {
		return
	}
	if spec.PerNode.Kind != job.CountFixed { // how many that are is seen on the hosts
		if several {
			p.Note(p.mpi.perNode.From + " does not count beside the numbers of several programs")
			spec.PerNode = job.Count{}
		}
		return
	}
	each := spec.PerNode.N
	spec.PerNode = job.Count{}
	all := slices.Clone(spec.Hosts)
	for i := range all {
		all[i].Slots, all[i].CoreSlots = each, false
	}
	spec.Hosts, spec.SlotsFrom = all, p.mpi.perNode.From
}
