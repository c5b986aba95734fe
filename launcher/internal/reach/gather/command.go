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

// command is the engine's command while it runs.
type command struct {
	*remote.Program // whose input is kept open: its end tells agents that the head is gone
	name            string
	said            said
	hear            func(Word)
	heard           chan struct{} // closed once its words were read, too
	hopeless        chan struct{} // closed when it said that an agent will not come
	once            sync.Once
}

// nameWord is the part of a word of engine.Start.Bcast in whose place a name comes that
// nobody can guess.
const nameWord = "{name}"

// startCommand starts the engine's command and tells it where the head is.
func startCommand(cfg *Config, i *Invitation, bring bool, hear func(Word)) (c *command, remove func(), err error) {
	words, agent := slices.Clone(cfg.Start.Once), slices.Clone(cfg.Agent)
	if bring {
		i.Brought = "gorun-" + rand.Text()
		for _, word := range cfg.Start.Bcast {
			words = append(words, strings.ReplaceAll(word, nameWord, i.Brought))
		}
	}
	line, err := i.line()
	if err != nil {
		return nil, nil, err
	}
	remove = func() {}
	if cfg.Start.ByFile {
		file := ""
		if file, remove, err = writeFile(cfg.Dir, line); err != nil {
			return nil, nil, fmt.Errorf("write the file by which agents find the head: %w", err)
		}
		agent[len(agent)-1] += ":" + file
		line = nil
	}
	c = &command{
		name: cfg.Start.Command(), hear: hear, heard: make(chan struct{}),
		hopeless: make(chan struct{}),
	}
	// srun may be waiting for resources when gorun is killed, and reads nothing then
	if c.Program, err = remote.StartMerged(append(words, agent...), environ(cfg)); err != nil {
		remove()
		return nil, nil, err
	}
	_, _ = c.In.Write(line) // a pipe holds it; a command that is gone says more than this error would
	go c.listen()
	return c, remove, nil
}

// environ is what the command sees.
func environ(cfg *Config) []string {
	list := slices.DeleteFunc(slices.Clone(cfg.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(cfg.Start.Drop, func(drop string) bool {
			prefix, several := strings.CutSuffix(drop, "*")
			return name == drop || several && strings.HasPrefix(name, prefix)
		}) || slices.ContainsFunc(cfg.Start.Set, func(set string) bool { return strings.HasPrefix(set, name+"=") })
	})
	return append(list, cfg.Start.Set...)
}

// keptWords is how long after its end something else may hold the command's output.
const keptWords = 200 * time.Millisecond

// listen reads what the command says, to its end.
func (c *command) listen() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReaderSize(c.Out, maxLine)
		for {
			line, err := lines.ReadSlice('\n')
			if len(line) > 0 {
				c.take(string(line))
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	<-c.Program.Ended
	timer := time.NewTimer(keptWords)
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
	}
	_ = c.Out.Close()
	<-read
	close(c.heard)
}

// take hears one line.
func (c *command) take(line string) {
	w := understand(line)
	if w.Text == "" || w.Kind == Needless {
		return
	}
	c.said.add(w)
	if w.Kind.hopeless() {
		c.once.Do(func() { time.AfterFunc(moreWords, func() { close(c.hopeless) }) })
	}
	c.hear(w)
}

// moreWords is how long a command that said that an agent will not come may go on to
// say why, or of which others.
const moreWords = 100 * time.Millisecond

// termLimit is how long the command has to end once it was asked to. srun does not where
// it waits for a node's daemon that is gone; of the job nothing is left by then.
const termLimit = time.Second

// over reports whether the command has ended.
func (c *command) over() bool {
	select {
	case <-c.heard:
		return true
	default:
		return false
	}
}

// end waits so long for the command's end, then asks it to end, and then kills it, with
// what it has started in its session's first group.
func (c *command) end(limit time.Duration) {
	for _, step := range []struct {
		signal syscall.Signal
		after  time.Duration
	}{{0, limit}, {syscall.SIGTERM, termLimit}, {syscall.SIGKILL, 0}} {
		if step.signal != 0 {
			c.Signal(step.signal)
		}
		timer := time.NewTimer(step.after)
		select {
		case <-c.heard:
			timer.Stop()
			_ = c.In.Close()
			return
		case <-timer.C:
		}
	}
	<-c.heard
	_ = c.In.Close()
}
