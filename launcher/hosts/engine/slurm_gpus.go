package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// gpuWish is a number of GPUs as srun's options have it: "2", "a100:2", "gpu:a100:2".
type gpuWish struct {
	kind string // "" for any
	n    int
}

// parseGPUs reads one; lists of several kinds are not taken.
func parseGPUs(text string) (w gpuWish, ok bool) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "gres/"), "gpu:")
	kind, number, found := strings.Cut(text, ":")
	if !found {
		kind, number = "", kind
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return gpuWish{kind, int(n)}, err == nil && n > 0
}

// gres is srun's option for so many GPUs on each node.
func (w gpuWish) gres(n int) string {
	if w.kind != "" {
		return fmt.Sprintf("--gres=gpu:%s:%d", w.kind, n)
	}
	return fmt.Sprintf("--gres=gpu:%d", n)
}

// gpus are words by which the step of agents has all GPUs of the job on each node. A step
// that asks for none has what the job was asked for (measured with Slurm 22.05): with
// --gpus-per-node and --gres all of them; but with --gpus-per-task those of one task,
// whatever the environment says, since a node has one agent; and with --gpus N, the job's
// total, some of them. --gres with the right number has all, and with a higher one the
// step is refused: so where a number is not known to be right a lower one is taken.
func (s *slurm) gpus(p part, names []string) []string {
	if wish, each := s.gpusPerTask(p); each {
		least := 0
		for i, node := range p.nodes {
			if slices.Contains(names, node) && (least == 0 || p.onNode(i) < least) {
				least = p.onNode(i)
			}
		}
		return []string{wish.gres(wish.n * max(least, 1))}
	}
	wish, total := parseGPUs(s.get("SLURM_GPUS" + p.suffix))
	if !total || s.get("SLURM_GPUS_PER_NODE"+p.suffix) != "" {
		return nil
	}
	if n, known := s.evenGPUs(p, wish); known {
		return []string{wish.gres(n)}
	}
	if len(names) < len(p.nodes) { // the total is more than some of the nodes have
		return []string{wish.gres(1)}
	}
	return nil
}

// gpusPerTask is what the job was asked to give each of its tasks.
func (s *slurm) gpusPerTask(p part) (gpuWish, bool) {
	if wish, ok := parseGPUs(s.get("SLURM_GPUS_PER_TASK" + p.suffix)); ok {
		return wish, true
	}
	for _, item := range strings.Split(s.get("SLURM_TRES_PER_TASK"+p.suffix), ",") { // Slurm 23.11
		if item, found := strings.CutPrefix(item, "gres/gpu"); found {
			return parseGPUs(strings.Replace(strings.TrimLeft(item, ":="), "=", ":", 1))
		}
	}
	return gpuWish{}, false
}

// evenGPUs is each node's number of a total, where all have the same for certain: there
// is one node, or this one's share makes it so.
func (s *slurm) evenGPUs(p part, total gpuWish) (n int, known bool) {
	if len(p.nodes) == 1 {
		return total.n, true
	}
	here, ok := (&reader{World: s.World}).optional("SLURM_GPUS_ON_NODE")
	return here, ok && here*len(p.nodes) == total.n && p.suffix == ""
}

// noteGPUs says where agents may see fewer GPUs than the job has.
func (s *slurm) noteGPUs() {
	for _, p := range s.parts {
		wish, total := parseGPUs(s.get("SLURM_GPUS" + p.suffix))
		_, each := s.gpusPerTask(p)
		perNode := s.get("SLURM_GPUS_PER_NODE"+p.suffix) != ""
		if total && !each && !perNode {
			_, known := s.evenGPUs(p, wish)
			total = !known
		}
		uneven := each && (len(slices.Compact(slices.Clone(p.tasks))) > 1 || len(s.parts) > 1)
		if perNode || !uneven && (each || !total) {
			continue
		}
		s.found.Notes = append(s.found.Notes, "the job's GPUs were asked for by --gpus or --gpus-per-task, from which "+
			"Slurm does not tell how many each node has: ranks may see fewer; --gpus-per-node N gives all of them")
		return
	}
}
