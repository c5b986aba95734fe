package gather

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
)

// Config is what a head wants to have gathered.
type Config struct {
	// Start is how the engine starts agents; its Once is not nil.
	Start engine.Start
	// Agent is the program that Once starts on each node, with its words. Where the
	// invitation lies in a file that follows the last of them, behind a colon.
	Agent []string
	// Nodes are the names of the hosts, as the engine calls them.
	Nodes []string
	// Addrs are this host's addresses, the most plausible first.
	Addrs []netip.Addr
	// Environ is this process's environment.
	Environ []string
	// Dir is where a file may lie that the nodes see as well, for Start.ByFile.
	Dir string
	// Version is this gorun.
	Version string
	// Timeout bounds how long the agents may take.
	Timeout time.Duration
	// Came is called when a node's agent has come, and with false when it has to come
	// again. Detail gets lines for users who want to know more. They are called on several
	// goroutines.
	Came   func(node int, here bool)
	Detail func(text string)
	// Words hears of each word of the engine that the job should know.
	Words func(Word)
}

// Error is why agents did not come.
type Error struct {
	// Text and Hint are printable.
	Text, Hint string
	// Missing are the nodes whose agents did not come, where just some did not.
	Missing []int

	again bool // the program is not there, or is another: bringing it may help
	older bool // the command does not know an option that it can do without
}

func (e *Error) Error() string { return e.Text }

// Gathering are the agents of one job.
type Gathering struct {
	cfg     Config
	settled chan struct{} // closed when all have come, or it is known that they will not
	err     error         // then

	mu      sync.Mutex
	current *attempt
	conns   []net.Conn // by node, once settled
	closed  bool
	ending  Ending
	known   chan struct{} // closed when that says something
	knows   sync.Once
}

// Begin starts the command and returns at once.
func Begin(ctx context.Context, cfg Config) *Gathering {
	g := &Gathering{cfg: cfg, settled: make(chan struct{}), known: make(chan struct{})}
	go func() {
		defer close(g.settled)
		g.conns, g.err = g.gather(ctx)
	}()
	return g
}

// gather starts the command and, where gorun's program is missing on nodes to which the
// engine can bring it, once more.
func (g *Gathering) gather(ctx context.Context) ([]net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.Timeout, errLate)
	defer cancel()
	conns, err := g.try(ctx, false)
	var failed *Error
	if errors.As(err, &failed) && failed.older && slices.Contains(g.cfg.Start.Once, overlap) {
		g.cfg.Detail(g.cfg.Start.Command() + " is older than " + overlap + ": once more without it")
		g.cfg.Start.Once = slices.DeleteFunc(slices.Clone(g.cfg.Start.Once), func(word string) bool {
			return word == overlap
		})
		failed = nil
		conns, err = g.try(ctx, false)
	}
	if errors.As(err, &failed) && failed.again && len(g.cfg.Start.Bcast) > 0 {
		g.cfg.Detail(failed.Text + "; " + g.cfg.Start.Command() + " is asked to copy it there")
		for node := range g.cfg.Nodes {
			g.cfg.Came(node, false)
		}
		return g.try(ctx, true)
	}
	return conns, err
}

var errLate = errors.New("late")

// try is one start of the command. It stays, when all agents have come, until Close.
func (g *Gathering) try(ctx context.Context, bring bool) ([]net.Conn, error) {
	a, err := g.start(bring)
	if err != nil {
		return nil, err
	}
	conns, err := a.wait(ctx)
	if err != nil {
		a.close()
		a.command.end(0)
		return nil, a.explain(err)
	}
	return conns, nil
}

// start begins an attempt, which Close then finds.
func (g *Gathering) start(bring bool) (*attempt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, &Error{Text: "stopped"}
	}
	a, err := newAttempt(&g.cfg, bring, g.hear)
	if err != nil {
		return nil, &Error{Text: printable.Text(err.Error())}
	}
	g.current = a
	return a, nil
}

// Wait waits until all agents have come, and returns the stream to a node's.
func (g *Gathering) Wait(node int) (net.Conn, error) {
	<-g.settled
	if g.err != nil {
		return nil, g.err
	}
	return g.conns[node], nil
}

// command is the command of the last attempt, nil before the first.
func (g *Gathering) command() *command {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil {
		return nil
	}
	return g.current.command
}

// Said is what was last said of a node, "" for nothing: by the engine, or by the agent
// there.
func (g *Gathering) Said(node int) string {
	if c := g.command(); c != nil {
		return c.said.of(g.cfg.Nodes[node])
	}
	return ""
}

// HowEnded is how the command has ended, "" while it runs.
func (g *Gathering) HowEnded() string {
	c := g.command()
	if c == nil {
		return ""
	}
	select {
	case <-c.Program.Ended:
		return c.name + ", which had started the agents, has ended (" + c.state() + ")"
	default:
		return ""
	}
}

// hear notes what the engine says of the job.
func (g *Gathering) hear(w Word) {
	g.mu.Lock()
	if len(g.ending.Nodes) < len(g.cfg.Nodes) { // an agent's words look like the engine's, and may be many
		g.ending.add(w)
	}
	if g.ending.Kind.Ends() {
		g.knows.Do(func() { close(g.known) })
	}
	g.mu.Unlock()
	if w.Kind != Talk && g.cfg.Words != nil {
		g.cfg.Words(w)
	}
	text := w.Text
	if name := g.cfg.Start.Command() + ": "; !strings.HasPrefix(text, name) {
		text = name + text
	}
	g.cfg.Detail(text)
}

// Ending is what the engine has said so far about its ending the job.
func (g *Gathering) Ending() Ending {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ending
}

// AwaitEnding waits so long for the engine to say that it ends the job, or for the end of
// its command.
func (g *Gathering) AwaitEnding(limit time.Duration) {
	c := g.command()
	if c == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-g.known:
	case <-c.heard:
	case <-timer.C:
	}
}

// EndLimit is how long the command may take to end once all agents have, until it is
// asked to.
const EndLimit = 5 * time.Second

// Close waits for the end of the command, whose agents end since their connections have
// ended, and ends it where that takes long.
func (g *Gathering) Close() {
	g.mu.Lock()
	g.closed = true
	a := g.current
	g.mu.Unlock()
	if a != nil {
		a.close()
		a.command.end(EndLimit)
	}
	<-g.settled
}

// find tells which node an agent is on: one of exactly that name, or else the only one
// whose name is the same without its domain.
func find(nodes []string, name string) int {
	if i := slices.Index(nodes, name); i >= 0 {
		return i
	}
	found := -1
	for i, n := range nodes {
		if hosts.SameName(n, name) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
