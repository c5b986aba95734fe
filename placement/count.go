package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Counts are the numbers of ranks that a request results in.
type Counts struct {
	// PerNode are the numbers of ranks on the machines, in the order of the machines.
	PerNode []int
	// Total is their sum.
	Total int
	// Reason explains the number of ranks in one line: "4 ranks: one per GPU (4 GPUs)".
	Reason string
	// Notes are sentences for the user about the numbers.
	Notes []string
}

// Count decides how many ranks each machine gets. If no number is requested, it is one per slot if
// slots are given, else one per GPU, else one per node.
//
// An error names the option and what the machine lacks; it reports all wrong numbers of the request
// together.
func Count(req Request, machines []Machine) (Counts, error) {
	if err := req.check(machines); err != nil {
		return Counts{}, err
	}
	if req.Counts != nil {
		return Counts{PerNode: req.Counts, Total: total(req.Counts), Reason: req.ranksOption()}, nil
	}
	counts, err := req.perNode(machines)
	if err != nil {
		return Counts{}, err
	}
	if req.Ranks > 0 {
		counts, err = req.limit(counts)
	}
	if err == nil {
		err = req.checkSlots(counts)
	}
	counts.Total = total(counts.PerNode)
	if err == nil && counts.Total > maxNumber {
		err = fmt.Errorf("%s: %d ranks exceed the limit of %d per job", counts.Reason, counts.Total, maxNumber)
	}
	counts.Reason = plural(counts.Total, "rank") + ": " + counts.Reason
	return counts, err
}

func total(perNode []int) (ranks int) {
	for _, n := range perNode {
		ranks += n
	}
	return ranks
}

func (r Request) check(machines []Machine) error {
	var errs []error
	if len(machines) == 0 {
		errs = append(errs, errors.New("the job has no nodes"))
	}
	if r.Ranks < 0 {
		errs = append(errs, fmt.Errorf("%s: request at least one rank", r.ranksOption()))
	}
	if r.PerNode.Kind == PerNodeFixed && r.PerNode.N < 1 {
		errs = append(errs, fmt.Errorf("%s: request at least one rank per node", r.perNodeOption()))
	}
	return errors.Join(errs...)
}

// ranksOption returns the requested total as the user wrote it.
func (r Request) ranksOption() string {
	return cmp.Or(r.RanksFrom, fmt.Sprintf("-np %d", r.Ranks))
}

func countEach(machines []Machine, reason string, count func(node int, m Machine) (int, error)) (Counts, error) {
	counts := Counts{Reason: reason}
	for node, m := range machines {
		n, err := count(node, m)
		if err != nil {
			return Counts{}, err
		}
		counts.PerNode = append(counts.PerNode, n)
	}
	return counts, nil
}

func fixed(n int) func(int, Machine) (int, error) {
	return func(int, Machine) (int, error) { return n, nil }
}

// perNode counts ranks without regard to a requested total.
func (r Request) perNode(machines []Machine) (Counts, error) {
	switch r.PerNode.Kind {
	case PerNodeFixed:
		return countEach(machines, r.perNodeOptionOn(len(machines)), fixed(r.PerNode.N))
	case PerNodeGPU:
		return r.perGPU(machines, r.noGPU)
	case PerNodeCPU:
		return r.perCPU(machines, "")
	case PerNodeCore:
		return r.perCore(machines)
	case PerNodeAuto:
		if why, none := r.withoutGPU(machines); none {
			return r.perCPU(machines, "; "+why)
		}
		return r.perGPU(machines, fixed(1))
	}
	return r.defaultPerNode(machines)
}

// defaultPerNode counts ranks if no number per node is given.
func (r Request) defaultPerNode(machines []Machine) (Counts, error) {
	switch {
	case r.MapBy.PPR > 0:
		return r.perObject(machines)
	case r.hasSlots():
		return countEach(machines, "one per slot"+inParentheses(r.SlotsFrom), func(node int, _ Machine) (int, error) {
			return r.slots(node), nil
		})
	case r.Ranks > 0:
		return countEach(machines, "one per node", fixed(1))
	}
	if why, none := r.withoutGPU(machines); none {
		return countEach(machines, "one per node"+inParentheses(why), fixed(1))
	}
	return r.perGPU(machines, fixed(1))
}

// perObject counts N ranks for each object of ppr:N:OBJECT.
func (r Request) perObject(machines []Machine) (Counts, error) {
	return countEach(machines, r.MapBy.String(), func(node int, m Machine) (int, error) {
		if m.Topology == nil {
			return 0, fmt.Errorf("%s: the topology of %s is unknown", r.MapBy, r.nodeName(node))
		}
		gpus, _ := r.gpus(m)
		targets, err := newTree(r.nodeName(node), m).targets(r.MapBy, gpus, r.GPUsPerRank)
		return r.MapBy.PPR * len(targets), err
	})
}

// perNodeOptionOn is perNodeOption for each of several nodes.
func (r Request) perNodeOptionOn(nodes int) string {
	if nodes > 1 {
		return fmt.Sprintf("%s on %d nodes", r.perNodeOption(), nodes)
	}
	return r.perNodeOption()
}

func (r Request) perCPU(machines []Machine, more string) (Counts, error) {
	found := machines[0].CPUReason()
	if len(machines) > 1 {
		found = fmt.Sprintf("%d nodes", len(machines))
	}
	return countEach(machines, "one per usable CPU"+inParentheses(found+more), func(node int, m Machine) (int, error) {
		n := m.UsableCPUs()
		if n == 0 {
			return 0, fmt.Errorf("%s: the usable CPUs of %s are unknown; give a number", r.perNodeOption(), r.nodeName(node))
		}
		return n, nil
	})
}

// perCore counts one rank per usable core, but no more than a quota keeps busy.
func (r Request) perCore(machines []Machine) (Counts, error) {
	for node, m := range machines {
		if m.Topology == nil {
			return r.perCPU(machines, "; the cores of "+r.nodeName(node)+" are unknown")
		}
	}
	return countEach(machines, "one per core", func(node int, m Machine) (int, error) {
		cores := len(newTree(r.nodeName(node), m).cores)
		if usable := m.UsableCPUs(); usable > 0 {
			cores = min(cores, usable)
		}
		return max(1, cores), nil
	})
}

// perGPU counts one rank per visible GPU, and calls without for a node that has none.
func (r Request) perGPU(machines []Machine, without func(node int, m Machine) (int, error)) (Counts, error) {
	gpus, reason := 0, "one per GPU"
	if r.GPUsPerRank > 1 {
		reason = fmt.Sprintf("one per %d GPUs", r.GPUsPerRank)
	}
	counts, err := countEach(machines, reason, func(node int, m Machine) (int, error) {
		chosen, _ := r.gpus(m)
		gpus += len(chosen)
		if n := len(chosen) / max(1, r.GPUsPerRank); n > 0 {
			return n, nil
		}
		return without(node, m)
	})
	counts.Reason += inParentheses(r.gpusFound(machines, gpus))
	return counts, err
}

// gpusFound describes the counted GPUs: "4 GPUs", or "2 of 8 GPUs, CUDA_VISIBLE_DEVICES=0,1".
func (r Request) gpusFound(machines []Machine, gpus int) string {
	if len(machines) > 1 {
		return fmt.Sprintf("%s on %d nodes", plural(gpus, "GPU"), len(machines))
	}
	chosen, note := r.gpus(machines[0])
	if note == "" {
		return plural(len(chosen), "GPU")
	}
	return fmt.Sprintf("%d of %s, %s", len(chosen), plural(len(machines[0].GPUs), "GPU"), note)
}

func (r Request) withoutGPU(machines []Machine) (why string, none bool) {
	for _, m := range machines {
		gpus, note := r.gpus(m)
		if len(gpus) > 0 {
			return "", false
		}
		if note != "" {
			why = note
		}
	}
	if why == "" {
		why = "no GPU found"
	}
	return why, true
}

// noGPU rejects a node without GPUs, on which torchrun fails with "Cuda is not available.".
func (r Request) noGPU(node int, m Machine) (int, error) {
	why, where := "none found", "here"
	if len(r.Hosts) > 1 {
		where = "on " + r.nodeName(node)
	}
	if _, note := r.gpus(m); note != "" {
		why = note
	} else if len(m.Notes) > 0 {
		why = strings.Join(m.Notes, "; ")
	}
	return 0, fmt.Errorf("%s: no usable GPU %s (%s); give a number, cpu or auto", r.perNodeOption(), where, why)
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// limit fits the numbers per node to the requested total. Nodes are filled in order, and the
// remaining ranks go round-robin. A number per node forbids such a remainder, as do the slots of
// several nodes unless they may be oversubscribed.
func (r Request) limit(room Counts) (Counts, error) {
	capacity, nodes, option := total(room.PerNode), len(room.PerNode), r.capacityOption()
	switch {
	case r.Ranks <= capacity:
	case option != "":
		return Counts{}, fmt.Errorf("%s is more than %s allows: %s on %s", r.ranksOption(), option, plural(capacity, "rank"),
			plural(nodes, "node"))
	case r.slotsLimit(nodes):
		return Counts{}, fmt.Errorf("%s is more than the %s of %s%s: use %s or --oversubscribe", r.ranksOption(),
			plural(capacity, "slot"), plural(nodes, "node"), inParentheses(r.SlotsFrom), r.ranksInstead(capacity))
	}
	counts := Counts{PerNode: make([]int, nodes), Reason: r.ranksOption()}
	left := r.Ranks
	if r.MapBy.Object == ByNode && r.MapBy.PPR == 0 || r.MapBy.Span {
		left = balance(left, room.PerNode, counts.PerNode)
	}
	for node, n := range room.PerNode {
		more := min(n-counts.PerNode[node], left)
		counts.PerNode[node] += more
		left -= more
	}
	if err := r.distributeRest(left, counts.PerNode); err != nil {
		return Counts{}, err
	}
	if option == "" {
		counts.Notes = r.slotNotes(capacity, counts.PerNode)
	}
	return counts, nil
}

// distributeRest distributes the remaining ranks round-robin, up to the max-slots of each node.
func (r Request) distributeRest(left int, perNode []int) error {
	room := make([]int, len(perNode))
	for node := range room {
		room[node] = cmp.Or(r.maxSlots(node), math.MaxInt)
	}
	if left = balance(left, room, perNode); left == 0 {
		return nil
	}
	most := r.Ranks - left
	return fmt.Errorf("%s is more than the %s that max-slots allows on %s%s: use %s", r.ranksOption(),
		plural(most, "rank"), plural(len(perNode), "node"), inParentheses(r.SlotsFrom), r.ranksInstead(most))
}

// ranksInstead returns ranksOption with another number.
func (r Request) ranksInstead(n int) string {
	option, isOption := strings.CutSuffix(r.ranksOption(), fmt.Sprint(r.Ranks))
	if last := len(option) - 1; !isOption || last < 0 || option[last] != ' ' && option[last] != '=' ||
		strings.Contains(option, ",") {
		option = "-np "
	}
	return option + fmt.Sprint(n)
}

// slotsLimit reports whether slots limit the number of ranks on a node. On a single node, slots are
// only the default number of ranks.
func (r Request) slotsLimit(nodes int) bool {
	return nodes > 1 && r.hasSlots() && !r.Oversubscribe && !r.MapBy.Oversubscribe
}

// checkSlots rejects more ranks on a node than it accepts.
func (r Request) checkSlots(counts Counts) error {
	limited, reason := r.slotsLimit(len(counts.PerNode)), counts.Reason
	if r.PerNode.From != "" { // an error must name the option, not the reason for a counted number
		reason = r.perNodeOptionOn(len(counts.PerNode))
	}
	for node, n := range counts.PerNode {
		if most := r.maxSlots(node); most > 0 && n > most {
			return fmt.Errorf("%s: %s max-slots=%d of %s allows%s", reason, areMore(n), most, r.nodeName(node),
				inParentheses(r.SlotsFrom))
		}
		if limited && node < len(r.Slots) && r.Slots[node] > 0 && n > r.Slots[node] {
			return fmt.Errorf("%s: %s the %s of %s%s: --oversubscribe allows that", reason, areMore(n),
				plural(r.Slots[node], "slot"), r.nodeName(node), inParentheses(r.SlotsFrom))
		}
	}
	return nil
}

// balance distributes ranks round-robin while there is room and returns how many are left.
func balance(ranks int, room, perNode []int) int {
	for before := ranks + 1; ranks < before; {
		before = ranks
		for node := range perNode {
			if ranks > 0 && perNode[node] < room[node] {
				perNode[node]++
				ranks--
			}
		}
	}
	return ranks
}

// capacityOption returns the option that limits the ranks on a node, or "".
func (r Request) capacityOption() string {
	// Ranks may share a number of CPUs that gorun counted.
	counted := r.PerNode.Kind == PerNodeCPU || r.PerNode.Kind == PerNodeCore
	switch {
	case r.PerNode.Kind != PerNodeUnset && !(counted && r.Oversubscribe):
		return r.perNodeOption()
	case r.MapBy.PPR > 0:
		return r.MapBy.String()
	}
	return ""
}

// perNodeOption returns the number per node as the user wrote it: "--nproc-per-node 2".
func (r Request) perNodeOption() string {
	if r.PerNode.From != "" {
		return r.PerNode.From
	}
	word := "auto"
	switch r.PerNode.Kind {
	case PerNodeFixed:
		word = fmt.Sprint(r.PerNode.N)
	case PerNodeGPU:
		word = "gpu"
	case PerNodeCPU, PerNodeCore:
		word = "cpu"
	}
	return "--nproc-per-node " + word
}

// slotNotes returns notes about ranks and slots that do not match. mpirun refuses to start more
// ranks than slots, which is a nuisance on a laptop or in a container.
func (r Request) slotNotes(slots int, perNode []int) []string {
	switch {
	case !r.hasSlots():
		return nil
	case r.Ranks > slots:
		return []string{fmt.Sprintf("%s share %s%s", plural(r.Ranks, "rank"), plural(slots, "slot"),
			inParentheses(r.SlotsFrom))}
	case r.Ranks < slots && !r.SlotsAllotted:
		idle, stay := slots-r.Ranks, "stay"
		if idle == 1 {
			stay = "stays"
		}
		where := ""
		if len(perNode) > 1 && perNode[0] == r.Ranks && r.Ranks > 1 {
			where = ", all ranks are on " + r.nodeName(0)
		}
		return []string{fmt.Sprintf("%d of %s %s idle%s: did you mean %s?", idle, plural(slots, "slot"), stay, where,
			r.ranksInstead(slots))}
	}
	return nil
}
