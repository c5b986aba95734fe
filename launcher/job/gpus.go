package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/env"
	"gorun/env/plan"
	"gorun/placement"
)

// isolates reports whether each rank sees its own GPUs alone. With a virtual local rank, device 0 has to be the rank's
// own if the job's GPUs are chosen.
func (s *Spec) isolates() bool {
	return s.Place.Isolate || s.VirtualLocalRank && s.Place.choosesGPUs()
}

func (w *PlacementSpec) choosesGPUs() bool { return w.GPUs.Free || len(w.GPUs.Indices) > 0 }

// withExports adds what -x sets.
func (s *Spec) withExports(environ []string) []string {
	environ = slices.Clip(environ)
	for _, e := range s.Exports {
		if e.HasValue {
			environ = append(environ, e.Name+"="+e.Value)
		}
	}
	return environ
}

// hasOwnGPUs reports whether the node's own environment says which GPUs ranks see: a resource manager gives each node
// different ones, and so does the user of a node that joins.
func (s *Spec) hasOwnGPUs(f *Facts) bool { return f.Joined || s.StartedByEngine() }

// gpuEnviron returns the environment that says which GPUs ranks see on a node.
func (s *Spec) gpuEnviron(f *Facts) []string {
	if s.hasOwnGPUs(f) {
		return s.withExports(f.Environ)
	}
	return s.withExports(s.Environ)
}

// visibleDevices returns the list of GPUs that ranks of a node see and the variable that has it; nil: all.
func (b *builder) visibleDevices(node int) (devices []string, name string) {
	environ := b.spec.gpuEnviron(&b.facts[node])
	for _, name := range []string{env.VarHIPVisibleDevices, env.VarCUDAVisibleDevices} { // the first one counts
		for _, entry := range slices.Backward(environ) {
			if list, ok := strings.CutPrefix(entry, name+"="); ok {
				if list != "" {
					return strings.Split(list, ","), name
				}
				break
			}
		}
	}
	return nil, ""
}

// device returns the GPU that a rank sees with --virtual-local-rank, as torchrun chooses it: the entry of its local
// rank in the list of visible devices, or that number itself without a list. A task may have been given one of its
// own.
func (b *builder) device(at placement.Rank) (string, error) {
	devices, name := b.visibleDevices(at.Node)
	switch {
	case devices == nil:
		return strconv.Itoa(at.LocalRank), nil
	case len(devices) == 1 && b.facts[at.Node].Task != nil:
		return strings.TrimSpace(devices[0]), nil
	case at.LocalRank >= len(devices):
		return "", fmt.Errorf("--virtual-local-rank: %s=%s has no device for local rank %d", name,
			strings.Join(devices, ","), at.LocalRank)
	}
	return strings.TrimSpace(devices[at.LocalRank]), nil
}

// gpuNotes is for programs that take the GPU of their local rank where each task was given another one. Where tasks
// share a GPU there is no choice. It is also for ranks that share a list of MIG instances.
func (b *builder) gpuNotes() []string {
	switch {
	case b.spec.VirtualLocalRank:
		return nil
	case !b.spec.isolates() && slices.ContainsFunc(b.layout.Ranks, func(r placement.Rank) bool {
		return r.LocalRank > 0 && len(r.GPUs) > 0 && strings.HasPrefix(r.GPUs[0].UUID, "MIG-")
	}):
		return []string{"CUDA shows a process only the first MIG instance of CUDA_VISIBLE_DEVICES: with " +
			"--virtual-local-rank each rank has its own, as device 0 (cuda:0)"}
	}
	first := make(map[int]string) // the GPU of a rank on each host
	for node, f := range b.facts {
		if f.Task == nil {
			continue
		}
		devices, name := b.visibleDevices(node)
		if len(devices) != 1 {
			continue
		}
		own := devices[0]
		if gpus := f.Machine.GPUs; len(gpus) == 1 { // a process that sees no other one may count from 0
			own += " " + gpus[0].PCI
		}
		if other, seen := first[f.Task.Node]; seen && other != own {
			return []string{fmt.Sprintf(
				"each rank sees one GPU (%s=%s for rank %d): that is its device 0 (cuda:0), not that of its LOCAL_RANK; with "+
					"--virtual-local-rank LOCAL_RANK is 0, too",
				name, devices[0], f.Task.Rank)}
		}
		first[f.Task.Node] = own
	}
	return nil
}

// gpuNames returns the indices of GPUs, or their UUIDs where an index names none: parts of a GPU, and GPUs that only
// the user knows.
func gpuNames(gpus []placement.GPU) string {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = strconv.Itoa(g.Index)
		if g.Index < 0 || strings.HasPrefix(g.UUID, "MIG-") {
			names[i] = g.UUID
		}
	}
	return strings.Join(names, ",")
}

// showGPUs sets the variables that hide GPUs, if the job's are chosen or each rank sees its own alone.
func (b *builder) showGPUs(in *plan.Inputs) {
	isolated := b.spec.isolates()
	if !isolated && !b.spec.Place.choosesGPUs() {
		return
	}
	req, byIndex := b.spec.Request(), false
	for i, r := range b.plan.Ranks {
		machine := b.facts[r.Node].Machine
		gpus := r.GPUs
		if !isolated {
			gpus = req.GPUsOf(machine)
		}
		vars, numbers := req.VisibilityOn(machine).Only(gpus, machine.GPUs)
		byIndex = byIndex || numbers
		in.Ranks[i].Visible = make(map[string]string, len(vars))
		for _, v := range vars {
			in.Ranks[i].Visible[v.Name] = v.Value
		}
	}
	what, how, from := "the job's GPUs", "by UUID", b.spec.Place.GPUs.String()
	if isolated {
		what = "the rank's own GPUs"
	}
	if b.spec.Place.Isolate {
		from = "--isolate-gpus"
	}
	if isolated && !b.spec.VirtualLocalRank {
		b.plan.Notes = append(b.plan.Notes,
			"--isolate-gpus: a rank's own GPU is its device 0 (cuda:0), not that of its LOCAL_RANK; with --virtual-local-rank "+
				"LOCAL_RANK is 0, too")
	}
	if byIndex {
		how = "by number, as no UUID is known"
		b.plan.Notes = append(b.plan.Notes,
			from+": GPUs are named by their numbers in the order of PCI addresses, since their UUIDs are unknown")
	}
	in.Isolated, in.VisibleWhy = isolated, fmt.Sprintf("%s, %s (%s)", what, how, from)
}
