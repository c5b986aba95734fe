package job

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/env/plan"
	"gorun/placement"
)

// isolates reports whether each rank sees its own GPUs alone. A virtual local rank
// takes device 0, which has to be its own where the job's GPUs are chosen.
func (s *Spec) isolates() bool {
	return s.Place.Isolate || s.VirtualLocalRank && s.Place.choosesGPUs()
}

func (w PlacementSpec) choosesGPUs() bool { return w.GPUs.Free || len(w.GPUs.Indices) > 0 }

// gpuNames are the numbers of GPUs, or their UUIDs where a number does not name one:
// parts of a GPU, and GPUs of which only the user knows.
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

// showGPUs decides which GPUs ranks see: all that the user's own variables leave,
// unless the job's are chosen or each rank is to see its own.
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
	in.Isolated = isolated
	in.VisibleWhy = b.visibleWhy(isolated, byIndex)
	b.noteGPUs(isolated, byIndex)
}

// visibleWhy is the reason of the variables that show GPUs.
func (b *builder) visibleWhy(isolated, byIndex bool) string {
	why, from, how := "the job's GPUs", b.spec.Place.GPUs.String(), "by UUID"
	if isolated {
		why = "the rank's own GPUs"
	}
	if b.spec.Place.Isolate {
		from = "--isolate-gpus"
	}
	if byIndex {
		how = "by number, as no UUID is known"
	}
	return fmt.Sprintf("%s, %s (%s)", why, how, from)
}

// noteGPUs says what programs have to know that count GPUs themselves.
func (b *builder) noteGPUs(isolated, byIndex bool) {
	if isolated && !b.spec.VirtualLocalRank {
		b.plan.Notes = append(b.plan.Notes,
			"--isolate-gpus: a rank's own GPU is its device 0 (cuda:0), not that of its LOCAL_RANK; with --virtual-local-rank "+
				"LOCAL_RANK is 0, too")
	}
	if byIndex {
		from := b.spec.Place.GPUs.String()
		if b.spec.Place.Isolate {
			from = "--isolate-gpus"
		}
		b.plan.Notes = append(b.plan.Notes,
			from+": GPUs are named by their numbers in the order of PCI addresses, since their UUIDs are not known")
	}
}
