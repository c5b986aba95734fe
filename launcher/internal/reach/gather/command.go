package gather

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/reach/remote"
)

// command is the engine's running command. Its standard input stays open: end-of-file tells the
// agents that the head has exited.
type command struct {
	*remote.Program
	name     string
	log      log
	report   func(message)
	finished chan struct{} // closed once it has ended and its output has been read
	failed   chan struct{} // closed once it has reported that an agent will not start
	once     sync.Once     // closes failed
}

// namePlaceholder is replaced by the program's random name in engine.Start.Bcast.
const namePlaceholder = "{name}"

// startCommand starts the engine's command and passes it the invitation. broadcast has the engine
// copy gorun to the nodes first.
func startCommand(cfg *Config, i *Invitation, broadcast bool, report func(message)) (
	c *command, removeInvitation func(), err error,
) {
	words, agent := slices.Clone(cfg.Start.Once), slices.Clone(cfg.Agent)
	if broadcast {
		i.Brought = "gorun-" + rand.Text()
		for _, word := range cfg.Start.Bcast {
			words = append(words, strings.ReplaceAll(word, namePlaceholder, i.Brought))
		}
	}
	input, err := i.line()
	if err != nil {
		return nil, nil, err
	}
	removeInvitation = func() {}
	if cfg.Start.ByFile {
		var file string
		if file, removeInvitation, err = writeFile(cfg.Dir, input); err != nil {
			return nil, nil, fmt.Errorf("write the file with the launcher's address for agents: %w", err)
		}
		agent[len(agent)-1] += ":" + file
		input = nil
	}
	c = &command{
		name: cfg.Start.Command(), report: report, finished: make(chan struct{}), failed: make(chan struct{}),
	}
	// A guard ends it if gorun is killed: an srun that waits for resources reads no end-of-file.
	if c.Program, err = remote.StartMerged(append(words, agent...), environ(cfg)); err != nil {
		removeInvitation()
		return nil, nil, err
	}
	_, _ = c.In.Write(input) // fits into the pipe; if the command has ended, its exit says more than this error
	go c.readOutput()
	return c, removeInvitation, nil
}

// environ returns the command's environment.
func environ(cfg *Config) []string {
	list := slices.DeleteFunc(slices.Clone(cfg.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(cfg.Start.Drop, func(drop string) bool {
			prefix, isPattern := strings.CutSuffix(drop, "*")
			return name == drop || isPattern && strings.HasPrefix(name, prefix)
		}) || slices.ContainsFunc(cfg.Start.Set, func(set string) bool { return strings.HasPrefix(set, name+"=") })
	})
	return append(list, cfg.Start.Set...)
}

// outputGrace is how long readOutput waits after the command's end for processes that still hold
// its output open.
const outputGrace = 200 * time.Millisecond

func (c *command) readOutput() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReaderSize(c.Out, maxLine)
		for {
			line, err := lines.ReadSlice('\n')
			if len(line) > 0 {
				c.receive(string(line))
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	<-c.Program.Ended
	select {
	case <-read:
	case <-time.After(outputGrace):
	}
	_ = c.Out.Close()
	<-read
	close(c.finished)
}

func (c *command) receive(line string) {
	m := parse(line)
	if m.text == "" || m.kind == ignored {
		return
	}
	c.log.add(m)
	if m.kind.agentsMissing() {
		c.once.Do(func() { time.AfterFunc(failureGrace, func() { close(c.failed) }) })
	}
	c.report(m)
}

// failureGrace is how long a command that has reported a failure may add causes and other nodes.
const failureGrace = 100 * time.Millisecond

// termLimit is the time between SIGTERM and SIGKILL. srun ignores SIGTERM while it waits for a
// node whose daemon is gone; by then nothing of the job is left.
const termLimit = time.Second

// end waits up to limit for the command to end, then sends it SIGTERM and, after termLimit,
// SIGKILL. The signals reach its process group.
func (c *command) end(limit time.Duration) {
	defer c.In.Close()
	if c.finishes(limit) {
		return
	}
	c.Signal(syscall.SIGTERM)
	if !c.finishes(termLimit) {
		c.Signal(syscall.SIGKILL)
		<-c.finished
	}
}

func (c *command) finishes(limit time.Duration) bool {
	select {
	case <-c.finished:
		return true
	case <-time.After(limit):
		return false
	}
}
