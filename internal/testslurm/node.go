package testslurm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startNode starts the slurmd of a node.
func (c *Cluster) startNode(node string) error {
	return c.startDaemon(node, "slurmd", "-D", "-N", node, "-f", c.ConfigFile())
}

// awaitNodes waits until nodes accept jobs.
func (c *Cluster) awaitNodes(nodes ...string) error {
	return c.until(strings.Join(nodes, ", ")+" ready", func() (bool, error) {
		for _, name := range append([]string{"slurmctld"}, nodes...) {
			if c.ended(name) {
				return false, fmt.Errorf("the daemon of %s has ended", name)
			}
		}
		out, err := c.run("sinfo", "-h", "-N", "-o", "%N %t", "-n", strings.Join(nodes, ","))
		if err != nil {
			return false, err
		}
		lines := strings.Split(out, "\n")
		return len(lines) == len(nodes) && !slices.ContainsFunc(lines, func(line string) bool {
			_, state, _ := strings.Cut(line, " ")
			return !slices.Contains([]string{"idle", "mix", "alloc", "comp"}, state)
		}), nil
	})
}

// KillNode kills the slurmd of a node with SIGKILL. Steps go on, and Slurm marks the node down after SlurmdTimeout, or
// after DownNode.
func (c *Cluster) KillNode(t testing.TB, node string) {
	t.Helper()
	c.killOn(t, node, func(p Process) bool { return p.program() == "slurmd" })
}

// CrashNode kills all processes of a node, as a loss of power does: slurmd, slurmstepds, batch scripts and ranks.
func (c *Cluster) CrashNode(t testing.TB, node string) {
	t.Helper()
	c.killOn(t, node, func(Process) bool { return true })
}

// killOn kills the processes of a node until none is left.
func (c *Cluster) killOn(t testing.TB, node string, which func(Process) bool) {
	t.Helper()
	require.NoError(t, c.until("kill "+node, func() (bool, error) {
		left, err := c.Processes()
		left = slices.DeleteFunc(left, func(p Process) bool { return p.Node != node || !which(p) })
		for _, p := range left {
			err = errors.Join(err, p.kill())
		}
		return len(left) == 0, err
	}))
}

// DownNode marks a node as down: its jobs end at once with NODE_FAIL, or are requeued.
func (c *Cluster) DownNode(t testing.TB, node string) {
	t.Helper()
	_, err := c.run("scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=test")
	require.NoError(t, err)
}

// RestartNode restarts the killed slurmd of a node, and waits until it accepts jobs.
func (c *Cluster) RestartNode(t testing.TB, node string) {
	t.Helper()
	require.NoError(t, c.until("the slurmd of "+node+" has ended", func() (bool, error) { return c.ended(node), nil }))
	require.NoError(t, c.startNode(node))
	require.NoError(t, c.until(node+" is no longer down", func() (bool, error) {
		state, err := c.run("sinfo", "-h", "-N", "-o", "%t", "-n", node)
		if err != nil || !strings.HasPrefix(state, "down") {
			return err == nil, err
		}
		// fails if the node has come back by itself meanwhile
		_, _ = c.run("scontrol", "update", "NodeName="+node, "State=RESUME")
		return false, nil
	}))
	require.NoError(t, c.awaitNodes(node))
}
