package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// placesApps reports whether programs have hosts or places of their own.
func (s *Spec) placesApps() bool {
	return slices.ContainsFunc(s.Apps, func(a App) bool { return a.Hosts != nil || a.Place != nil })
}

// RunsOn reports whether ranks of the program may be on a host of the job.
func (a *App) RunsOn(f *Facts) bool {
	return a.Hosts == nil || slices.ContainsFunc(a.Hosts, func(h hosts.Host) bool {
		return h.Name == f.Host || h.Here && !f.Remote
	})
}

func (s *Spec) placeOf(app int) *PlacementSpec { return cmp.Or(s.Apps[app].Place, &s.Place) }

// appLayout places programs one after the other.
type appLayout struct {
	spec     *Spec
	machines []placement.Machine
	names    []string
	used     []int   // ranks on each machine so far
	counts   [][]int // by program, ranks on each machine
	order    [][]int // by program, the machine of each rank
	taken    []placement.CPUSet
	notes    []string
}

// placed are the ranks with one PlacementSpec, by machine and in their order.
type placed [][]placement.Rank

// placeApps places the ranks of several programs that have hosts or places of their own. Each takes the slots that
// those before it leave. Programs with a common PlacementSpec are placed together; those with Spec.Place come last and
// take the CPUs that are left, as long as there are any.
func (s *Spec) placeApps(machines []placement.Machine, names []string) (placement.Layout, error) {
	a := appLayout{
		spec: s, machines: machines, names: names, counts: make([][]int, len(s.Apps)),
		order: make([][]int, len(s.Apps)), used: make([]int, len(machines)), taken: make([]placement.CPUSet, len(machines)),
	}
	var places []*PlacementSpec
	for app := range s.Apps {
		if err := a.count(app); err != nil {
			return placement.Layout{}, err
		}
		if place := s.placeOf(app); place != &s.Place && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	ranks := make(map[*PlacementSpec]placed)
	for _, place := range append(places, &s.Place) {
		var err error
		if ranks[place], err = a.place(place); err != nil {
			return placement.Layout{}, err
		}
	}
	return a.join(ranks), nil
}

// count decides how many ranks of a program are on each machine, and in which order.
func (a *appLayout) count(app int) error {
	program := &a.spec.Apps[app]
	req, hosts := a.spec.request(a.spec.placeOf(app)), a.hostsOf(app)
	req.Ranks, req.RanksFrom = program.NumRanks, fmt.Sprintf("-n %d of %s", program.NumRanks, program.Program)
	if sources := strings.Split(a.spec.RanksFrom, " : "); len(sources) == len(a.spec.Apps) {
		req.RanksFrom = sources[app]
	}
	limits := req.MaxSlots
	req.Slots, req.MaxSlots = nil, nil
	var machines []placement.Machine
	for _, h := range hosts {
		machines, req.Hosts, req.Slots = append(machines, a.machines[h.at]), append(req.Hosts, a.names[h.at]),
			append(req.Slots, h.slots)
		limit := 0
		if h.at < len(limits) {
			limit = limits[h.at]
		}
		req.MaxSlots = append(req.MaxSlots, limit)
	}
	layout, err := placement.Map(req, machines)
	if err != nil {
		return fmt.Errorf("%s: %w", program.Program, err)
	}
	a.counts[app] = make([]int, len(a.machines))
	for i, n := range layout.PerNode {
		a.counts[app][hosts[i].at] = n
		a.used[hosts[i].at] += n
	}
	for _, r := range layout.Ranks {
		a.order[app] = append(a.order[app], hosts[r.Node].at)
	}
	return nil
}

// freeSlots is a host with the slots that are left there; 0: any number.
type freeSlots struct{ at, slots int }

// hostsOf returns the hosts of a program with slots left; all of them if none has any.
func (a *appLayout) hostsOf(app int) []freeSlots {
	var all, free []freeSlots
	for at, name := range a.names {
		total, own := 0, a.spec.Apps[app].Hosts
		if at < len(a.spec.Hosts) {
			total, name = a.spec.Hosts[at].Slots, a.spec.Hosts[at].Name
		}
		i := slices.IndexFunc(own, func(h hosts.Host) bool { return h.Name == name })
		if own != nil && i < 0 {
			continue
		}
		slots := total
		if i >= 0 && own[i].Slots > 0 {
			slots = min(own[i].Slots, cmp.Or(total, own[i].Slots))
		}
		all = append(all, freeSlots{at, slots})
		left := slots
		if total > 0 {
			left = min(slots, total-a.used[at])
		}
		if slots == 0 || left > 0 {
			free = append(free, freeSlots{at, left})
		}
	}
	if len(free) == 0 {
		return all
	}
	return free
}

// place places all ranks of the programs with a PlacementSpec.
func (a *appLayout) place(place *PlacementSpec) (placed, error) {
	ranks, req := make(placed, len(a.machines)), a.spec.request(place)
	req.Ranks, req.Slots, req.MaxSlots, req.Hosts = 0, nil, nil, a.names
	req.Counts = make([]int, len(a.machines))
	for app := range a.spec.Apps {
		if a.spec.placeOf(app) == place {
			for node, n := range a.counts[app] {
				req.Counts[node] += n
				req.Ranks += n
			}
		}
	}
	if req.Ranks == 0 {
		return ranks, nil
	}
	machines := slices.Clone(a.machines)
	for node, taken := range a.taken {
		if rest := machines[node].CPUs.Without(taken); rest.Len() > 0 {
			machines[node].CPUs = rest
		}
	}
	layout, err := placement.Map(req, machines)
	if err != nil {
		return nil, err
	}
	for _, r := range layout.Ranks {
		ranks[r.Node] = append(ranks[r.Node], r)
		a.taken[r.Node] = a.taken[r.Node].Union(r.CPUs)
	}
	for _, note := range layout.Notes {
		if !slices.Contains(a.notes, note) {
			a.notes = append(a.notes, note)
		}
	}
	return ranks, nil
}

// join numbers the ranks through the programs.
func (a *appLayout) join(ranks map[*PlacementSpec]placed) placement.Layout {
	layout := placement.Layout{Notes: a.notes, PerNode: make([]int, len(a.machines))}
	reasons := make([]string, 0, len(a.spec.Apps))
	for app, program := range a.spec.Apps {
		from := ranks[a.spec.placeOf(app)]
		for _, node := range a.order[app] {
			r := from[node][0]
			from[node] = from[node][1:]
			r.LocalRank = layout.PerNode[node]
			layout.PerNode[node]++
			layout.Ranks = append(layout.Ranks, r)
		}
		reasons = append(reasons, fmt.Sprintf("%d of %s", program.NumRanks, program.Program))
	}
	layout.Reason = plural(len(layout.Ranks), "rank") + ": " + strings.Join(reasons, ", ")
	if slots := hosts.TotalSlots(a.spec.Hosts); slots > 0 && len(layout.Ranks) > slots {
		layout.Notes = append(layout.Notes, fmt.Sprintf("%s share %s%s", plural(len(layout.Ranks), "rank"),
			plural(slots, "slot"), inParentheses(a.spec.HostsFrom)))
	}
	layout.Share(a.spec.Request(), a.machines)
	return layout
}
