package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

func orphanChecks() []Check {
	return []Check{
		{
			"leftover-processes", "leftovers",
			"processes of gorun jobs whose launcher has ended",
			"They hold GPUs, ports and memory that the next job needs.",
			each(func(h *Host, r report) {
				const most = 64
				var words, pids []string
				for _, p := range h.Orphans {
					words, pids = append(words, fmt.Sprintf("%s (pid %d)", p.Name, p.PID)), append(pids, fmt.Sprint(p.PID))
				}
				r.list(Warning, words, "orphan of dead jobs", "orphans of dead jobs",
					"GORUN_JOB in /proc/*/environ, and no launcher above them",
					"kill "+strings.Join(pids[:min(most, len(pids))], " "))
			}),
		},
		{
			"leftover-shm", "leftovers",
			"files in /dev/shm of NCCL, PyTorch and MPI that no process has mapped",
			"They use memory until the next boot, and if /dev/shm is full, ranks die of SIGBUS.",
			each(orphanShm),
		},
	}
}

func orphanShm(h *Host, r report) {
	const much, most = 64 << 20, 20
	var size int64
	var names, paths []string
	for _, f := range h.ShmFiles {
		size += f.Size
		names = append(names, f.Name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), most)] {
		paths = append(paths, "/dev/shm/"+shellwords.Quote(name))
	}
	large := size >= much || h.Shm != nil && h.Shm.Total > 0 && size*10 >= h.Shm.Total
	// A container may share /dev/shm with others, whose processes it cannot see.
	r.list(warningIf(large && h.Container == ""), names, "file in /dev/shm of dead programs",
		"files in /dev/shm of dead programs", Size(size)+", mapped by no process", "rm "+strings.Join(paths, " "))
}
