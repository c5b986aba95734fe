package gather

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/reach/join"
)

// nodeName returns an agent's node for messages.
func nodeName(h *join.Hello) string { return printable.Text(printable.Short(cmp.Or(h.NodeID, h.Host))) }

// find returns the index of a node by its exact name, or by a name that is unique without its
// domain, or -1.
func find(nodes []string, name string) int {
	if i := slices.Index(nodes, name); i >= 0 {
		return i
	}
	same := func(node string) bool { return hosts.SameName(node, name) }
	i := slices.IndexFunc(nodes, same)
	if i >= 0 && slices.ContainsFunc(nodes[i+1:], same) {
		return -1
	}
	return i
}

// scontrolLimit delays only an error message.
const scontrolLimit = 2 * time.Second

// hintNodes is the hint for nodes on which Slurm refuses a step: some are down in an allocation
// with --no-kill, or are not part of the allocation.
func hintNodes(cfg *Config) string {
	list := hosts.NodeList(cfg.Nodes)
	if down := downNodes(cfg); len(down) > 0 {
		return fmt.Sprintf("add `--exclude %s` to leave out nodes of the allocation that are down", hosts.NodeList(down))
	}
	return fmt.Sprintf("run `sinfo -N -n %s` to see whether a node is down, and add `--exclude NODE` to leave it out; "+
		"compare SLURM_JOB_NODELIST with the nodes of the job: `scontrol show job`", list)
}

// downNodes queries Slurm for the nodes that are down; nil if it does not answer.
func downNodes(cfg *Config) []string {
	path, err := exec.LookPath("scontrol")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), scontrolLimit)
	defer cancel()
	cmd := child.CommandContext(ctx, path, "show", "node", "--oneliner", strings.Join(cfg.Nodes, ","))
	cmd.Env, cmd.WaitDelay = environ(cfg), scontrolLimit
	out, _ := cmd.Output() // scontrol fails for an unknown node, after it has printed the others
	return parseDown(string(out))
}

// parseDown reads the output of `scontrol show node --oneliner`, which has one line for each node:
// NodeName=n2 ... State=DOWN*+NO_RESPOND ...
func parseDown(text string) (down []string) {
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
