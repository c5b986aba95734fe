package gather

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/process/child"
)

// askLimit bounds how long Slurm may take to say how its nodes are; no job waits for it,
// but the user who is told why there is none.
const askLimit = 2 * time.Second

// hintNodes is what helps where Slurm does not start a step on these nodes: some of them
// are down, in an allocation that outlives that (--no-kill), or they are not its own.
func hintNodes(cfg *Config) string {
	list := hosts.Fold(cfg.Nodes)
	if down := downNodes(cfg); len(down) > 0 {
		names, are := hosts.Fold(down), "are"
		if len(down) == 1 {
			are = "is"
		}
		return fmt.Sprintf("%s of the allocation %s down: gorun --exclude %s … does without", names, are, names)
	}
	return fmt.Sprintf("a node may be down (sinfo -N -n %s says which; gorun --exclude NODE … does without it), or "+
		"not of this job, where somebody changed SLURM_JOB_NODELIST (scontrol show job says which are)", list)
}

// downNodes asks Slurm which of the nodes are down; none, where it does not say.
func downNodes(cfg *Config) []string {
	path, err := exec.LookPath("scontrol")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	cmd := child.CommandContext(ctx, path, "show", "node", "--oneliner", strings.Join(cfg.Nodes, ","))
	cmd.Env, cmd.WaitDelay = environ(cfg), askLimit
	out, _ := cmd.Output() // of a node that it does not know it says so, after the others
	return readDown(string(out))
}

// readDown finds the nodes that are down in what `scontrol show node --oneliner` prints,
// a line for each: NodeName=n2 ... State=DOWN*+NO_RESPOND ...
func readDown(text string) (down []string) {
	for line := range strings.Lines(text) {
		var name, state string
		for _, word := range strings.Fields(line) {
			if value, found := strings.CutPrefix(word, "NodeName="); found {
				name = value
			}
			if value, found := strings.CutPrefix(word, "State="); found && state == "" {
				state = value
			}
		}
		if name != "" && (strings.Contains(state, "DOWN") || strings.Contains(state, "FAIL")) {
			down = append(down, name)
		}
	}
	return down
}
