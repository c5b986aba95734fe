package dialect

import (
	"slices"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// slotRule is how a launcher counts slots where no number is given.
type slotRule uint8

const (
	// slotsOfGorun: one for each GPU, else one. More ranks than slots on several hosts are refused.
	slotsOfGorun slotRule = iota
	// slotsOfOpenMPI: one for each core, but one for each name behind -H.
	slotsOfOpenMPI
	// slotsOfHydra: one.
	slotsOfHydra
)

func hasNoSlots(h hosts.Host) bool { return h.Slots == 0 }

// resolveApps moves the exports of a single program to the job, and gives programs without a number of
// ranks one, as Hydra does.
func (p *Line) resolveApps() {
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

// withoutLocal leaves this host out under -nolocal.
func (p *Line) withoutLocal(all []hosts.Host, from string) []hosts.Host {
	if p.nolocalFrom == "" {
		return all
	}
	left := slices.DeleteFunc(slices.Clone(all), func(h hosts.Host) bool { return h.Here })
	if len(left) == 0 {
		p.problem("%s leaves none of the hosts of %s", p.nolocalFrom, from)
		return all
	}
	return left
}

// resolveSlots fills in the default numbers of slots and ranks of other launchers.
func (p *Line) resolveSlots() {
	spec := &p.Spec
	if p.nolocalFrom != "" && len(spec.Hosts) == 0 {
		p.problem("%s leaves out this host, and no other is named: add -H or --hostfile", p.nolocalFrom)
	}
	if p.dialect.slots == slotsOfGorun {
		return
	}
	if p.nooversubscribeFrom == "" && !spec.Place.MapBy.NoOversubscribe {
		spec.Oversubscribe = true
	}
	p.limitPerNode()
	p.openSlots()
	counted := spec.PerNode.Kind != job.CountUnset || spec.Place.MapBy.PPR > 0 || spec.Place.RankFile != nil ||
		len(spec.Apps) > 1 || spec.Apps[0].NumRanks > 0
	switch {
	case counted || len(spec.Hosts) > 0 || p.joins():
	case p.dialect.slots == slotsOfHydra:
		spec.PerNode = job.Count{Kind: job.CountFixed, N: 1, From: "mpiexec's default"}
	case p.threadsFrom != "":
		spec.PerNode = job.Count{Kind: job.CountCPU, From: p.threadsFrom}
	default:
		spec.PerNode = job.Count{Kind: job.CountCore, From: "mpirun's default"}
	}
}

// openSlots gives hosts without a number of slots one, or one for each core in Open MPI's host files.
func (p *Line) openSlots() {
	perCore := p.dialect.slots == slotsOfOpenMPI && anyHostFile(p.programs)
	all := slices.Clone(p.Spec.Hosts)
	for i := range all {
		switch h := &all[i]; {
		case h.Slots > 0 || h.CoreSlots:
		case perCore:
			h.CoreSlots = true
		default:
			h.Slots = 1
		}
	}
	p.Spec.Hosts = all
}

// limitPerNode turns -ppn beside -n into slots, of which Hydra allows fewer than ranks. Open MPI refuses more ranks,
// and so does gorun as mpirun.
func (p *Line) limitPerNode() {
	spec := &p.Spec
	several, each := len(spec.Apps) > 1, spec.PerNode
	switch {
	case p.perNodeFrom == "" || p.numRanks() == 0 || p.dialect.slots != slotsOfHydra && !several:
	case each.Kind != job.CountFixed && several:
		p.note("%s is ignored beside the numbers of several programs", p.perNodeFrom)
		spec.PerNode = job.Count{}
	case each.Kind == job.CountFixed:
		all := slices.Clone(spec.Hosts)
		for i := range all {
			all[i].Slots, all[i].CoreSlots = each.N, false
		}
		spec.PerNode, spec.Hosts, spec.SlotsFrom = job.Count{}, all, p.perNodeFrom
	}
}
