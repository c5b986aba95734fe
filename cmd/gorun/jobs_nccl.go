package main

import (
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/registry"
)

// ncclPatience is how long a job may take to say what NCCL says: its hosts have 10 seconds.
const ncclPatience = 15 * time.Second

// nccl prints what NCCL itself says of a job.
func (r *jobsRequest) nccl() error {
	n, err := askOne[registry.NCCL](r, ncclPatience, registry.Question{Ask: registry.AskNCCL})
	if err != nil {
		return err
	}
	if r.JSON || n.Error == "" {
		err = r.show(n, func() string { return strings.Join(ncclText(n), "\n") + "\n" })
	}
	if err == nil && n.Error != "" {
		return noJob("%s", printable.Text(n.Error))
	}
	return err
}

// ncclText are the lines for people.
func ncclText(n registry.NCCL) (lines []string) {
	for i, line := range n.Lines {
		if i > 0 {
			line = "  " + line
		}
		lines = append(lines, printable.Text(line))
	}
	for _, host := range n.Silent {
		lines = append(lines, "  host "+printable.Text(host)+" does not say what NCCL answers there")
	}
	return lines
}
