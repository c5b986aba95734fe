package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Counts are the numbers of ranks that a request comes to.
type Counts struct {
	// PerNode are the ranks on each machine, in the machines' order.
	PerNode []int
	// Total is their sum.
	Total int
	// Reason says in one line how many ranks there are and why: "4 ranks: one per
	// GPU (4 GPUs)".
	Reason string
	// Notes are allNotes that the user should see, one sentence each.
	Notes []string
}

// Count decides how many ranks each machine gets. With no number wished for it
// is one per slot where slots are given, else one per GPU, else one per node.
//
// An error names the option and what the machine lacks; all wrong numbers of the
// request are reported together.
func Count(req Request, machines []Machine) (Counts, error) {
	if err := req.check(machines); err != nil {
		return Counts{}, err
	}
	if req.Counts != nil {
		return req.decided(), nil
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
	for _, n := range counts.PerNode {
		counts.Total += n
	}
	if err == nil && counts.Total > maxNumber {
		err = fmt.Errorf("%s: %d ranks are more than the %d that a job may have", counts.Reason, counts.Total, maxNumber)
	}
	counts.Reason = plural(counts.Total, "rank") + ": " + counts.Reason
	return counts, err
}

// decided is a count that was made before.
func (r Request) decided() Counts {
	counts := Counts{PerNode: r.Counts, Reason: r.ranksOption()}
	for _, n := range r.Counts {
		counts.Total += n
	}
	return counts
}

func (r Request) check(machines []Machine) error {
	var errs []error
	if len(machines) == 0 {
		errs = append(errs, errors.New("no node to place ranks on"))
	}
	if r.Ranks < 0 {
		errs = append(errs, fmt.Errorf("%s: a job has at least one rank", r.ranksOption()))
	}
	if r.PerNode.Kind == PerNodeFixed && r.PerNode.N < 1 {
		errs = append(errs, fmt.Errorf("%s: a node gets at least one rank", r.perNodeOption()))
	}
	return errors.Join(errs...)
}

// ranksOption is the wished total as the user wrote it.
func (r Request) ranksOption() string {
	return cmp.Or(r.RanksFrom, fmt.Sprintf("-np %d", r.Ranks))
}

// countEach counts the ranks of each machine.
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

// always counts the same number on each machine.
func always(n int) func(int, Machine) (int, error) {
	return func(int, Machine) (int, error) { return n, nil }
}

// perNode counts without regard to a wished total.
func (r Request) perNode(machines []Machine) (Counts, error) {
	switch r.PerNode.Kind {
	case PerNodeFixed:
		return countEach(machines, r.perNodeOptionOn(len(machines)), always(r.PerNode.N))
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
		return r.perGPU(machines, always(1))
	}
	return r.unasked(machines)
}

// unasked counts where the user gave no number per node.
func (r Request) unasked(machines []Machine) (Counts, error) {
	switch {
	case r.MapBy.PPR > 0:
		return r.perObject(machines)
	case r.hasSlots():
		return countEach(machines, "one per slot"+inParentheses(r.SlotsFrom), func(node int, _ Machine) (int, error) {
			return r.slots(node), nil
		})
	case r.Ranks > 0:
		return countEach(machines, "one per node", always(1))
	}
	if why, none := r.withoutGPU(machines); none {
		return countEach(machines, "one per node"+inParentheses(why), always(1))
	}
	return r.perGPU(machines, always(1))
}

// perObject counts N ranks for each object of ppr:N:OBJECT.
func (r Request) perObject(machines []Machine) (Counts, error) {
	return countEach(machines, r.MapBy.String(), func(node int, m Machine) (int, error) {
		if m.Topology == nil {
			return 0, fmt.Errorf("%s: the topology of %s is not known", r.MapBy, r.nodeName(node))
		}
		gpus, _ := r.gpus(m)
		targets, err := newTree(r.nodeName(node), m).targets(r.MapBy, gpus, r.GPUsPerRank)
		return r.MapBy.PPR * len(targets), err
	})
}

// perNodeOptionOn is the wish for each of several nodes.
func (r Request) perNodeOptionOn(nodes int) string {
	if nodes > 1 {
		return fmt.Sprintf("%s on %d nodes", r.perNodeOption(), nodes)
	}
	return r.perNodeOption()
}

// perCPU counts one rank per usable CPU.
func (r Request) perCPU(machines []Machine, more string) (Counts, error) {
	found := machines[0].CPUReason()
	if len(machines) > 1 {
		found = fmt.Sprintf("%d nodes", len(machines))
	}
	return countEach(machines, "one per usable CPU"+inParentheses(found+more), func(node int, m Machine) (int, error) {
		n := m.UsableCPUs()
		if n == 0 {
			return 0, fmt.Errorf("%s: the usable CPUs of %s are not known; give a number", r.perNodeOption(), r.nodeName(node))
		}
		return n, nil
	})
}

// perCore counts one rank per usable core, and no more than a quota keeps busy.
func (r Request) perCore(machines []Machine) (Counts, error) {
	for node, m := range machines {
		if m.Topology == nil {
			return r.perCPU(machines, "; the cores of "+r.nodeName(node)+" are not known")
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

// perGPU counts one rank per visible GPU; without answers for a node that has none.
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

// gpusFound says how many GPUs are counted: "4 GPUs", or "2 of 8 GPUs,
// CUDA_VISIBLE_DEVICES=0,1".
func (r Request) gpusFound(machines []Machine, gpus int) string {
	if len(machines) > 1 {
		return fmt.Sprintf("%s on %d nodes", plural(gpus, "GPU"), len(machines))
	}
	chosen, remark := r.gpus(machines[0])
	if remark == "" {
		return plural(len(chosen), "GPU")
	}
	return fmt.Sprintf("%d of %s, %s", len(chosen), plural(len(machines[0].GPUs), "GPU"), remark)
}

// withoutGPU reports whether no machine has a visible GPU, and why.
func (r Request) withoutGPU(machines []Machine) (why string, none bool) {
	for _, m := range machines {
		gpus, remark := r.gpus(m)
		if len(gpus) > 0 {
			return "", false
		}
		if remark != "" {
			why = remark
		}
	}
	if why == "" {
		why = "no GPU found"
	}
	return why, true
}

// noGPU refuses a node without GPUs, where torchrun says "Cuda is not available.".
func (r Request) noGPU(node int, m Machine) (int, error) {
	why, where := "none found", "here"
	if len(r.Hosts) > 1 {
		where = "on " + r.nodeName(node)
	}
	if _, remark := r.gpus(m); remark != "" {
		why = remark
	} else if len(m.Notes) > 0 {
		why = strings.Join(m.Notes, "; ")
	}
	return 0, fmt.Errorf("%s: no GPU is usable %s (%s); give a number, cpu or auto", r.perNodeOption(), where, why)
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// limit fits the numbers per node to the wished total: nodes are filled in their
// order; what is left over goes round, which a number per node forbids, and so do
// slots of several nodes unless they may be oversubscribed.
func (r Request) limit(room Counts) (Counts, error) {
	capacity := 0
	for _, n := range room.PerNode {
		capacity += n
	}
	nodes, wish := len(room.PerNode), r.capacityOption()
	switch {
	case r.Ranks <= capacity:
	case wish != "":
		return Counts{}, fmt.Errorf("%s is more than %s allows: %s on %s", r.ranksOption(), wish, plural(capacity, "rank"),
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
	if err := r.goRound(left, counts.PerNode); err != nil {
		return Counts{}, err
	}
	if wish == "" {
		counts.Notes = r.slotNotes(capacity, counts.PerNode)
	}
	return counts, nil
}

// goRound gives each node one more rank after the other, up to what it takes at most.
func (r Request) goRound(left int, perNode []int) error {
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

// ranksInstead is the wished total as the user writes it, with another number.
func (r Request) ranksInstead(n int) string {
	option, isOption := strings.CutSuffix(r.ranksOption(), fmt.Sprint(r.Ranks))
	if last := len(option) - 1; !isOption || last < 0 || option[last] != ' ' && option[last] != '=' ||
		strings.Contains(option, ",") {
		option = "-np "
	}
	return option + fmt.Sprint(n)
}

// slotsLimit reports whether nodes take no more ranks than they have slots. On one
// node a number of slots is what a rank count is without -np, and no more.
func (r Request) slotsLimit(nodes int) bool {
	return nodes > 1 && r.hasSlots() && !r.Oversubscribe && !r.MapBy.Oversubscribe
}

// checkSlots refuses more ranks on a node than it may take.
func (r Request) checkSlots(counts Counts) error {
	limited, reason := r.slotsLimit(len(counts.PerNode)), counts.Reason
	if r.PerNode.From != "" { // the reason of a number that was found is no subject
		reason = r.perNodeOptionOn(len(counts.PerNode))
	}
	for node, n := range counts.PerNode {
		if most := r.maxSlots(node); most > 0 && n > most {
			return fmt.Errorf("%s: %s max-slots=%d of %s allows%s", reason, areMore(n, "rank"), most, r.nodeName(node),
				inParentheses(r.SlotsFrom))
		}
		if limited && node < len(r.Slots) && r.Slots[node] > 0 && n > r.Slots[node] {
			return fmt.Errorf("%s: %s the %s of %s%s: --oversubscribe allows that", reason, areMore(n, "rank"),
				plural(r.Slots[node], "slot"), r.nodeName(node), inParentheses(r.SlotsFrom))
		}
	}
	return nil
}

// balance gives each node one rank after the other while there is room and returns
// how many ranks are left.
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

// capacityOption is the wish that limits the ranks on a node; "" if there is none.
func (r Request) capacityOption() string {
	counted := r.PerNode.Kind == PerNodeCPU || r.PerNode.Kind == PerNodeCore // room that was found, which ranks may share
	switch {
	case r.PerNode.Kind != PerNodeUnset && !(counted && r.Oversubscribe):
		return r.perNodeOption()
	case r.MapBy.PPR > 0:
		return r.MapBy.String()
	}
	return ""
}

// perNodeOption writes the wish per node as the user did: "--nproc-per-node 2".
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

// slotNotes allNotes on ranks and slots that do not fit. mpirun refuses to start
// more ranks than slots; on a laptop or in a container that is a nuisance.
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
