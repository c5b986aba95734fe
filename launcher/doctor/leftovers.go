package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

func leftoverChecks() []Check {
	return []Check{
		{
			ID: "leftover-processes", Group: "leftovers",
			What: "processes of jobs of gorun whose launcher is gone",
			Why:  "They hold GPUs, ports and memory that the next job wants.",
			Run: each(func(h *Host) []Finding {
				if len(h.Leftovers) == 0 {
					return nil
				}
				var words, pids []string
				for _, p := range h.Leftovers {
					words = append(words, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
					if len(pids) < 64 {
						pids = append(pids, fmt.Sprint(p.PID))
					}
				}
				return []Finding{{
					Severity: Warning, Text: plural(len(words), "process is", "processes are") + " left of dead jobs: " +
						listed(words), Evidence: "GORUN_JOB in /proc/*/environ, and no launcher above them",
					Fix: "kill " + strings.Join(pids, " "),
				}}
			}),
		},
		{
			ID: "leftover-shm", Group: "leftovers",
			What: "files in /dev/shm of NCCL, PyTorch and MPI that no process has mapped",
			Why:  "They take memory until the next boot, and a full /dev/shm has ranks die by SIGBUS.",
			Run:  each(leftoverShm),
		},
	}
}

func leftoverShm(h *Host) []Finding {
	const much = 64 << 20
	if len(h.ShmFiles) == 0 {
		return nil
	}
	var size int64
	var names []string
	for _, f := range h.ShmFiles {
		size += f.Size
		names = append(names, f.Name)
	}
	slices.Sort(names)
	f := Finding{
		Severity: Note, Text: fmt.Sprintf("%s in /dev/shm of dead programs: %s", counted(len(names), "file"),
			listed(names)), Evidence: bytes(size) + ", mapped by no process",
		Fix: "rm " + removable(names),
	}
	full := size >= much || h.Shm != nil && h.Shm.Total > 0 && size*10 >= h.Shm.Total
	if full && h.Container == "" { // of a container's neighbours, which may share it, nobody can tell
		f.Severity = Warning
	}
	return []Finding{f}
}

// removable are the files by name, quoted for a shell.
func removable(names []string) (text string) {
	const many = 20
	for i, name := range names[:min(len(names), many)] {
		if i > 0 {
			text += " "
		}
		text += "/dev/shm/" + shellwords.Quote(name)
	}
	return text
}
