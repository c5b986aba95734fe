package gather

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/hosts"
)

// maxExplanations is the number of the command's messages in an error.
const maxExplanations = 3

// explain returns why the command ended, or why its agents will not connect.
func (c *command) explain(cfg *Config) *Error {
	messages := c.log.all()
	slices.SortStableFunc(messages, func(a, b message) int { return a.rank() - b.rank() })
	e := &Error{Text: c.summary()}
	for i, text := range merged(messages) {
		if i == maxExplanations {
			break
		}
		e.Text += [...]string{": ", "; "}[min(i, 1)] + text
	}
	for _, m := range messages {
		if e.Hint == "" {
			e.Hint = hint(m, cfg, c.name)
		}
		e.broadcastHelps = e.broadcastHelps || m.kind == programMissing
		e.overlapUnknown = e.overlapUnknown || m.kind == overlapUnknown
	}
	return e
}

// merged returns the texts, one for equal messages about several nodes.
func merged(messages []message) (texts []string) {
	nodes, done := map[string][]string{}, map[string]bool{}
	for _, m := range messages {
		if m.node != "" && !slices.Contains(nodes[m.core], m.node) {
			nodes[m.core] = append(nodes[m.core], m.node)
		}
	}
	for _, m := range messages {
		text := m.text
		if names := nodes[m.core]; len(names) > 1 {
			text = hosts.NodeList(names) + ": " + m.core
		}
		if !done[m.core] {
			texts = append(texts, text)
		}
		done[m.core] = true
	}
	return texts
}

// rank orders messages: the lower, the better it explains why agents are missing.
func (m *message) rank() int {
	switch {
	case m.kind == agentExited || m.kind == cancelled:
		return 4
	case m.kind != other:
		return 1
	case strings.Contains(m.text, "error: ") || strings.Contains(m.text, "gorun: "):
		return 2
	}
	return 3
}

func (c *command) summary() string {
	select {
	case <-c.finished:
		return fmt.Sprintf("%s ended before all agents connected (%s)", c.name, c.exitStatus())
	default:
		return c.name + " did not start all agents"
	}
}

// exitStatus describes how the command ended. It must have ended.
func (c *command) exitStatus() string {
	exit, failed := errors.AsType[*exec.ExitError](c.Err)
	if !failed {
		return "exit code 0"
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit code %d", exit.ExitCode())
}

func hint(m message, cfg *Config, command string) string {
	switch m.kind {
	case programMissing:
		return fmt.Sprintf("install %s where all nodes see it: it is missing on %s, or differs there", cfg.Agent[0],
			cmp.Or(m.node, "a node"))
	case nodeUnavailable:
		if m.node != "" {
			return fmt.Sprintf("add `--exclude %s` to leave out that node", m.node)
		}
		if cfg.Start.Engine != "slurm" {
			return "add `--exclude HOST` to leave out the host"
		}
		return "run `sinfo -R` to find the node, and add `--exclude NODE` to leave it out"
	case stepRefused:
		return fmt.Sprintf("run `squeue -s`: another %s of this job may hold its CPUs or GPUs", command)
	case nodesRefused:
		return hintNodes(cfg)
	case jobGone:
		return "leave the shell of the ended allocation, and get a new one with `salloc` or `sbatch`"
	}
	return ""
}
