// Package child starts helper programs, such as ssh, a proxy command, a resource manager's command or the go command,
// and remembers their pids. A process that adopts its ranks' orphans needs that: every child that is neither a rank nor
// known here counts as an orphan, and is killed at the end of the job.
package child

import (
	"bytes"
	"context"
	"os/exec"
	"sync"
)

var (
	// starting is read-locked while a child is started.
	starting sync.RWMutex

	mu   sync.Mutex
	pids = map[int]bool{} // of children not waited for
)

// Is reports whether pid is a child that was started here and not waited for yet. It blocks while a child is being
// started.
func Is(pid int) bool {
	starting.Lock()
	defer starting.Unlock()
	mu.Lock()
	defer mu.Unlock()
	return pids[pid]
}

// Cmd is an exec.Cmd whose methods that start or await the program register its pid.
type Cmd struct{ *exec.Cmd }

// Command is exec.Command.
func Command(name string, words ...string) *Cmd { return &Cmd{exec.Command(name, words...)} }

// CommandContext is exec.CommandContext.
func CommandContext(ctx context.Context, name string, words ...string) *Cmd {
	return &Cmd{exec.CommandContext(ctx, name, words...)}
}

// Start is exec.Cmd.Start. Wait has to follow.
func (c *Cmd) Start() error {
	starting.RLock()
	defer starting.RUnlock()
	err := c.Cmd.Start()
	if err == nil {
		mu.Lock()
		pids[c.Process.Pid] = true
		mu.Unlock()
	}
	return err
}

// Wait is exec.Cmd.Wait.
func (c *Cmd) Wait() error {
	err := c.Cmd.Wait()
	if c.Process != nil {
		mu.Lock()
		defer mu.Unlock()
		delete(pids, c.Process.Pid)
	}
	return err
}

// Run is exec.Cmd.Run.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the program and returns its standard output. Unlike exec.Cmd.Output it discards standard error.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, nil
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput is exec.Cmd.CombinedOutput.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}
