package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Setting is an environment variable.
type Setting struct{ Name, Value string }

// Only returns the variables that let a program see only gpus of a machine, in that order, as its
// devices 0, 1 and so on. The GPUs must be of one vendor; all are the machine's GPUs. Variables of
// v that select among the GPUs that remain are included, with adjusted numbers.
//
// GPUs are named by their UUIDs. byIndex reports that they are numbered instead, because UUIDs are
// not known or not unique (the partitions of an AMD GPU share one). Level Zero accepts only
// numbers.
//
// Sources: the CUDA programming guide, environment variables; ROCm, GPU isolation techniques; the
// specification of Level Zero, ZE_AFFINITY_MASK.
func (v Visibility) Only(gpus, all []GPU) (vars []Setting, byIndex bool) {
	if len(gpus) == 0 {
		return nil, false
	}
	list, byIndex := namesOf(gpus, all)
	switch gpus[0].Vendor {
	case NVIDIA:
		vars = append(vars, Setting{cudaVisible, list})
		if byIndex { // by default CUDA numbers the fastest GPU first
			vars = append(vars, Setting{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"})
		}
	case AMD:
		vars = append(vars, Setting{rocrVisible, list})
		for _, left := range []string{hipVisible, cudaVisible} {
			if _, set := v[left]; set {
				vars = append(vars, Setting{left, firstNumbers(len(gpus))})
			}
		}
	case Intel:
		vars = append(vars, Setting{zeVisible, list})
	}
	return vars, byIndex
}

// namesOf formats GPUs for a visibility variable. A list must not mix numbers and UUIDs.
func namesOf(gpus, all []GPU) (list string, byIndex bool) {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = g.UUID
		same := func(other GPU) bool { return other.UUID == g.UUID && other.Index != g.Index }
		byIndex = byIndex || g.UUID == "" || g.Vendor == Intel || slices.ContainsFunc(all, same)
	}
	if byIndex {
		for i, g := range gpus {
			if names[i] = strconv.Itoa(g.Index); g.Vendor == Intel && g.UUID != "" {
				names[i] = g.UUID // a tile
			}
		}
	}
	return strings.Join(names, ","), byIndex
}

// firstNumbers returns the numbers from 0 to n-1 as a list.
func firstNumbers(n int) string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i)
	}
	return strings.Join(numbers, ",")
}

// GPUsOf returns the GPUs of a machine that the job's ranks use, in order: the visible ones, or
// those chosen among them.
func (r Request) GPUsOf(m Machine) []GPU {
	gpus, _ := r.gpus(m)
	return gpus
}

const migPrefix = "MIG-"

// instances replaces divided GPUs by their MIG instances. A process sees only one instance, so a
// rank can have several of a GPU only if ranks are isolated.
func instances(gpus []GPU) []GPU {
	var list []GPU
	for _, g := range gpus {
		if len(g.MIG) == 0 {
			list = append(list, g)
		}
		for _, uuid := range g.MIG {
			list = append(list, instance(g, uuid))
		}
	}
	return list
}

// instance returns a MIG instance, which has the position of its GPU.
func instance(g GPU, uuid string) GPU {
	g.UUID, g.MIG, g.Memory = uuid, nil, 0
	return g
}

// checkIsolation rejects ranks that would see no GPU, and combinations that CUDA does not support.
func (r Request) checkIsolation(ranks []Rank, machines []Machine) error {
	if !r.Isolate {
		return nil
	}
	perNode := make([]int, len(machines))
	for _, rank := range ranks {
		perNode[rank.Node]++
	}
	for _, rank := range ranks {
		gpus, note := r.gpus(machines[rank.Node])
		isInstance := func(g GPU) bool { return strings.HasPrefix(g.UUID, migPrefix) }
		switch {
		case len(gpus) == 0:
			return fmt.Errorf("--isolate-gpus: %s has no GPU that ranks can see%s", r.nodeName(rank.Node),
				inParentheses(note))
		case len(rank.GPUs) == 0:
			return fmt.Errorf("--isolate-gpus: %s the %s of %s%s; with --map-by gpu ranks share them",
				areMore(perNode[rank.Node]), plural(len(gpus), "GPU"), r.nodeName(rank.Node), inParentheses(note))
		case len(rank.GPUs) > 1 && slices.ContainsFunc(rank.GPUs, isInstance):
			return fmt.Errorf("--gpus-per-rank %d: CUDA shows a process only one MIG instance: use --gpus-per-rank 1",
				r.GPUsPerRank)
		}
	}
	return nil
}
