// Package child starts the programs that this process needs for itself: one that stands
// for ssh, a proxy command, a resource manager's, the go command. A process that adopts the orphans of
// its ranks could not tell them from these: every child that neither is a rank nor was
// started here is such an orphan, and ends with the job.
package child

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"sync"
)

var (
	// starting is held, by many at once, around the system call that makes a child.
	starting sync.RWMutex

	mu   sync.Mutex
	pids = map[int]bool{} // of children that nobody has waited for yet
)

// Is reports whether pid is a child that was started here and not waited for yet. One
// that is just being started is waited for.
func Is(pid int) bool {
	starting.Lock()
	defer starting.Unlock()
	mu.Lock()
	defer mu.Unlock()
	return pids[pid]
}

// Cmd is an exec.Cmd. All of its methods that start the program are here.
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

// Output runs the program and returns its standard output. Unlike exec.Cmd.Output it
// keeps nothing of the standard error.
func (c *Cmd) Output() ([]byte, error) { return c.collect(io.Discard) }

// CombinedOutput is exec.Cmd.CombinedOutput.
func (c *Cmd) CombinedOutput() ([]byte, error) { return c.collect(nil) }

func (c *Cmd) collect(stderr io.Writer) ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, stderr
	if stderr == nil {
		c.Stderr = &out
	}
	err := c.Run()
	return out.Bytes(), err
}
