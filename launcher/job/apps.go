package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// ownPlaces reports whether programs have hosts or places of their own.
func (s *Spec) ownPlaces() bool {
	return slices.ContainsFunc(s.Apps, func(a App) bool { return a.Hosts != nil || a.Place != nil })
}

// RunsOn reports whether ranks of the program may be on a host of the job.
func (a *App) RunsOn(f *Facts) bool {
	return a.Hosts == nil || slices.ContainsFunc(a.Hosts, func(h hosts.Host) bool {
		return h.Name == f.Host || h.Here && !f.Remote
	})
}

// placeOf is the wish for an app's ranks.
func (s *Spec) placeOf(app int) *PlacementSpec {
	if own := s.Apps[app].Place; own != nil {
		return own
	}
	return &s.Place
}

// appRequest is what the wish asks of placement for one of several programs.
func (s *Spec) appRequest(app int) placement.Request {
	r := s.Request()
	r.Others = nil
	r.Ranks, r.RanksFrom = s.Apps[app].NumRanks, fmt.Sprintf("-n %d of %s", s.Apps[app].NumRanks, s.Apps[app].Program)
	if wishes := strings.Split(s.RanksFrom, " : "); len(wishes) == len(s.Apps) {
		r.RanksFrom = wishes[app]
	}
	s.placeOf(app).apply(&r)
	r.Oversubscribe = s.Oversubscribe
	return r
}

// perApp places the ranks of several programs that have hosts or places of their own.
// Each takes the slots that those before it leave. Programs with one wish are placed
// together; the others take the CPUs that are left, as long as there are any.
func (s *Spec) perApp(machines []placement.Machine, names []string) (placement.Layout, error) {
	a := appLayout{
		spec: s, machines: machines, names: names, counts: make([][]int, len(s.Apps)),
		order: make([][]int, len(s.Apps)),
	}
	a.used = make([]int, len(machines))
	for app := range s.Apps {
		if err := a.count(app); err != nil {
			return placement.Layout{}, err
		}
	}
	var groups []*PlacementSpec
	for app := range s.Apps {
		if wish := s.placeOf(app); wish != &s.Place && !slices.Contains(groups, wish) {
			groups = append(groups, wish)
		}
	}
	seats := make(map[*PlacementSpec]*appSeats)
	for _, wish := range append(groups, &s.Place) { // who asks for places takes them first
		var err error
		if seats[wish], err = a.seat(wish); err != nil {
			return placement.Layout{}, err
		}
	}
	return a.join(seats), nil
}

// appLayout is what is known while programs are placed one after the other.
type appLayout struct {
	spec     *Spec
	machines []placement.Machine
	names    []string
	used     []int   // ranks on each machine so far
	counts   [][]int // of each program, ranks on each machine
	order    [][]int // of each program, the machine of each rank
	taken    []placement.CPUSet
	notes    []string
}

// appSeats are the places of programs with one wish: of each machine, in the order of its
// ranks.
type appSeats struct{ onNode [][]placement.Rank }

// count decides how many ranks of a program are on each machine, and in which order.
func (a *appLayout) count(app int) error {
	req, hosts := a.spec.appRequest(app), a.hostsOf(app)
	machines, names := make([]placement.Machine, len(hosts)), make([]string, len(hosts))
	slots, limits := make([]int, len(hosts)), make([]int, len(hosts))
	for i, h := range hosts {
		machines[i], names[i], slots[i] = a.machines[h.at], a.names[h.at], h.slots
		if h.at < len(req.MaxSlots) {
			limits[i] = req.MaxSlots[h.at]
		}
	}
	req.Slots, req.MaxSlots, req.Hosts = slots, limits, names
	layout, err := placement.Map(req, machines)
	if err != nil {
		return fmt.Errorf("%s: %w", a.spec.Apps[app].Program, err)
	}
	a.counts[app] = make([]int, len(a.machines))
	for i, n := range layout.PerNode {
		a.counts[app][hosts[i].at] = n
		a.used[hosts[i].at] += n
	}
	for _, r := range layout.Ranks {
		a.order[app] = append(a.order[app], hosts[r.Node].at)
	}
	return nil // remarks come when all are placed
}

// slotsAt is a host with the slots that are left there, 0: as many as one likes.
type slotsAt struct{ at, slots int }

// hostsOf are the hosts of a program with slots that are left; where none has any, all of
// them.
func (a *appLayout) hostsOf(app int) []slotsAt {
	var all, free []slotsAt
	for at, name := range a.names {
		slots, own := 0, a.spec.Apps[app].Hosts
		if at < len(a.spec.Hosts) {
			slots, name = a.spec.Hosts[at].Slots, a.spec.Hosts[at].Name
		}
		i := slices.IndexFunc(own, func(h hosts.Host) bool { return h.Name == name })
		if own != nil && i < 0 {
			continue
		}
		if i >= 0 && own[i].Slots > 0 {
			slots = min(own[i].Slots, cmp.Or(slots, own[i].Slots))
		}
		all = append(all, slotsAt{at, slots})
		left := slots
		if at < len(a.spec.Hosts) && a.spec.Hosts[at].Slots > 0 {
			left = min(slots, a.spec.Hosts[at].Slots-a.used[at])
		}
		if slots == 0 || left > 0 {
			free = append(free, slotsAt{at, left})
		}
	}
	if len(free) == 0 {
		return all
	}
	return free
}

// seat places all ranks of the programs with one wish.
func (a *appLayout) seat(wish *PlacementSpec) (*appSeats, error) {
	req, counts := a.spec.Request(), make([]int, len(a.machines))
	req.Ranks, req.Slots, req.MaxSlots, req.Others, req.Hosts = 0, nil, nil, nil, a.names
	for app := range a.spec.Apps {
		if a.spec.placeOf(app) != wish {
			continue
		}
		for node, n := range a.counts[app] {
			counts[node] += n
			req.Ranks += n
		}
	}
	seats := &appSeats{onNode: make([][]placement.Rank, len(a.machines))}
	if req.Ranks == 0 {
		return seats, nil
	}
	wish.apply(&req)
	req.Counts = counts
	layout, err := placement.Map(req, a.left())
	if err != nil {
		return nil, err
	}
	for _, r := range layout.Ranks {
		seats.onNode[r.Node] = append(seats.onNode[r.Node], r)
		a.taken = growTo(a.taken, len(a.machines))
		a.taken[r.Node] = a.taken[r.Node].Union(r.CPUs)
	}
	a.note(layout.Notes)
	return seats, nil
}

func growTo(sets []placement.CPUSet, n int) []placement.CPUSet {
	return append(sets, make([]placement.CPUSet, max(0, n-len(sets)))...)
}

// left are the machines without the CPUs to which ranks are bound already, as long as
// there are others.
func (a *appLayout) left() []placement.Machine {
	machines := slices.Clone(a.machines)
	for node, taken := range a.taken {
		if rest := machines[node].CPUs.Without(taken); rest.Len() > 0 {
			machines[node].CPUs = rest
		}
	}
	return machines
}

// note keeps remarks, each once.
func (a *appLayout) note(notes []string) {
	for _, n := range notes {
		if !slices.Contains(a.notes, n) {
			a.notes = append(a.notes, n)
		}
	}
}

// join numbers the ranks through the programs.
func (a *appLayout) join(seats map[*PlacementSpec]*appSeats) placement.Layout {
	layout := placement.Layout{Notes: a.notes, PerNode: make([]int, len(a.machines))}
	reasons := make([]string, 0, len(a.spec.Apps))
	for app := range a.spec.Apps {
		from := seats[a.spec.placeOf(app)]
		for _, node := range a.order[app] {
			r := from.onNode[node][0]
			from.onNode[node] = from.onNode[node][1:]
			r.LocalRank = layout.PerNode[node]
			layout.PerNode[node]++
			layout.Ranks = append(layout.Ranks, r)
		}
		reasons = append(reasons, fmt.Sprintf("%d of %s", a.spec.Apps[app].NumRanks, a.spec.Apps[app].Program))
	}
	layout.Reason = plural(len(layout.Ranks), "rank") + ": " + strings.Join(reasons, ", ")
	if slots := hosts.TotalSlots(a.spec.Hosts); slots > 0 && len(layout.Ranks) > slots {
		layout.Notes = append(layout.Notes, fmt.Sprintf("%s share %s%s", plural(len(layout.Ranks), "rank"),
			plural(slots, "slot"), inParentheses(a.spec.HostsFrom)))
	}
	layout.Share(a.spec.Request(), a.machines)
	return layout
}
