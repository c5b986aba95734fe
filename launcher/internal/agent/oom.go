package agent

import (
	"fmt"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
)

// explainOOM adds evidence and a hint to the exit of a rank that the kernel killed for lack of memory.
func (j *job) explainOOM(e *spec.Exit, ranks int) {
	if kill, ok := j.oom.Killed(e.PID); ok {
		e.OOM, e.Hint = describeOOM(kill, ranks)
	}
}

// describeOOM returns what was exhausted, and a hint.
func describeOOM(kill process.OOMKill, ranks int) (text, hint string) {
	if kill.Limit == 0 {
		return kill.Evidence, ""
	}
	size := binarySize(kill.Limit)
	text, hint = "limit "+size, "lower `--nproc-per-node` or raise the limit"
	if kill.Host {
		size = "this host's " + size
		text, hint = size, "lower `--nproc-per-node`"
	}
	text += " (" + kill.Evidence + ")"
	if ranks == 1 {
		return text, "give the job more memory: the program needs more than " + size
	}
	return text, fmt.Sprintf("%s: %d ranks share %s", hint, ranks, size)
}

func binarySize(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
