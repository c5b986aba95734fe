package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// gpuRequest is a number of GPUs in srun's options: "2", "a100:2", "gpu:a100:2".
type gpuRequest struct {
	kind string // "" for any
	n    int
}

// parseGPUs parses a request for one kind of GPU.
func parseGPUs(text string) (request gpuRequest, ok bool) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "gres/"), "gpu:")
	kind, number, found := strings.Cut(text, ":")
	if !found {
		kind, number = "", kind
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return gpuRequest{kind, int(n)}, err == nil && n > 0
}

// gres returns srun's option for n GPUs on each node.
func (r gpuRequest) gres(n int) string {
	if r.kind != "" {
		return fmt.Sprintf("--gres=gpu:%s:%d", r.kind, n)
	}
	return fmt.Sprintf("--gres=gpu:%d", n)
}

// gpus returns srun options that give the step of agents all GPUs of the job. A step without a request has (Slurm
// 22.05): with --gpus-per-node and --gres, all of them; with --gpus-per-task, those of one task, because a node has one
// agent; with --gpus N, the job's total, only some. --gres with the right number has all, and a higher one is refused,
// so a lower one is used if the number is uncertain.
func (s *slurm) gpus(p part, names []string) []string {
	if request, each := s.gpusPerTask(p); each {
		least := 0
		for i, node := range p.nodes {
			if slices.Contains(names, node) && (least == 0 || p.onNode(i) < least) {
				least = p.onNode(i)
			}
		}
		return []string{request.gres(request.n * max(least, 1))}
	}
	request, total := parseGPUs(s.get("SLURM_GPUS" + p.suffix))
	if !total || s.get("SLURM_GPUS_PER_NODE"+p.suffix) != "" {
		return nil
	}
	if n, known := s.evenGPUs(p, request); known {
		return []string{request.gres(n)}
	}
	if len(names) < len(p.nodes) { // some of the nodes have less than the total
		return []string{request.gres(1)}
	}
	return nil
}

// gpusPerTask returns the GPUs requested for each task.
func (s *slurm) gpusPerTask(p part) (gpuRequest, bool) {
	if request, ok := parseGPUs(s.get("SLURM_GPUS_PER_TASK" + p.suffix)); ok {
		return request, true
	}
	for _, item := range strings.Split(s.get("SLURM_TRES_PER_TASK"+p.suffix), ",") { // Slurm 23.11
		if item, found := strings.CutPrefix(item, "gres/gpu"); found {
			return parseGPUs(strings.Replace(strings.TrimLeft(item, ":="), "=", ":", 1))
		}
	}
	return gpuRequest{}, false
}

// evenGPUs returns each node's number of a total, if it is certain: there is one node, or this node's number proves it.
func (s *slurm) evenGPUs(p part, total gpuRequest) (n int, known bool) {
	if len(p.nodes) == 1 {
		return total.n, true
	}
	here, ok := (&reader{World: s.World}).optional("SLURM_GPUS_ON_NODE")
	return here, ok && here*len(p.nodes) == total.n && p.suffix == ""
}

// gpusPerNode returns the number of GPUs of each node, 0 if it is uncertain. --gres, which no variable repeats,
// requests the same number on all.
func (s *slurm) gpusPerNode() int {
	request, ok := parseGPUs(s.get("SLURM_GPUS_PER_NODE"))
	switch here, _ := (&reader{World: s.World}).optional("SLURM_GPUS_ON_NODE"); {
	case len(s.found.Hosts) == 1,
		!ok && len(s.parts) == 1 && s.get("SLURM_GPUS")+s.get("SLURM_GPUS_PER_TASK") == "":
		return max(here, request.n)
	default:
		return request.n
	}
}

// noteGPUs notes if agents may see fewer GPUs than the job has.
func (s *slurm) noteGPUs() {
	for _, p := range s.parts {
		request, total := parseGPUs(s.get("SLURM_GPUS" + p.suffix))
		_, each := s.gpusPerTask(p)
		perNode := s.get("SLURM_GPUS_PER_NODE"+p.suffix) != ""
		if total && !each && !perNode {
			_, known := s.evenGPUs(p, request)
			total = !known
		}
		uneven := each && (len(slices.Compact(slices.Clone(p.tasks))) > 1 || len(s.parts) > 1)
		if perNode || !uneven && (each || !total) {
			continue
		}
		s.found.Notes = append(s.found.Notes, "the job requested GPUs by --gpus or --gpus-per-task, from which "+
			"Slurm does not tell how many each node has: ranks may see fewer; use --gpus-per-node N to get all of them")
		return
	}
}
