package gather

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts/engine"
)

// Config describes the agents to start. Its functions are called on several goroutines.
type Config struct {
	// Start is how the engine starts agents; Start.Once must not be nil.
	Start engine.Start
	// Agent is the agent's command line. With Start.ByFile, ":FILE" is appended to its last word.
	Agent []string
	// Nodes are the names of the hosts in the engine's spelling.
	Nodes []string
	// Addrs are this host's addresses, the most plausible first.
	Addrs []netip.Addr
	// Environ is this process's environment.
	Environ []string
	// Dir is a directory that all nodes see, for Start.ByFile.
	Dir string
	// Version is this gorun's.
	Version string
	// Timeout limits the wait for all agents.
	Timeout time.Duration
	// Arrived is called with true when a node's agent has connected, and with false when that
	// agent is gone or will be started again.
	Arrived func(node int, arrived bool)
	// Detail receives lines for a user who asked for details.
	Detail func(text string)
	// Ending is called whenever the engine reports that it ends the job.
	Ending func()
	// NodeFailed is called when the engine reports that a node has failed; nil: that ends the job.
	NodeFailed func(name string)
}

// Error is the reason why agents did not connect.
type Error struct {
	// Text and Hint are printable.
	Text, Hint string
	// Missing lists the nodes whose agents did not connect, if only some did.
	Missing []int

	broadcastHelps bool // gorun is missing on a node, or is another version
	overlapUnknown bool
}

func (e *Error) Error() string { return e.Text }

// Gathering is a set of agents that one command starts. Its methods may be called on any
// goroutine.
type Gathering struct {
	cfg     Config
	command *command    // of the last attempt
	stopped atomic.Bool // it is being ended, which it reports as the end of the job

	mu          sync.Mutex
	ending      ending
	endingKnown chan struct{}
}

// Start starts the command, and returns the agents' connections by node once all are connected. An error is an *Error.
// Close ends the command.
func Start(ctx context.Context, cfg Config) (*Gathering, []net.Conn, error) {
	g := &Gathering{cfg: cfg, endingKnown: make(chan struct{})}
	conns, err := g.gather(ctx)
	return g, conns, err
}

// gather runs the command, once more without --overlap for an old srun, and once more with a copy
// of gorun for nodes that lack it.
func (g *Gathering) gather(ctx context.Context) ([]net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.Timeout, errTimeout)
	defer cancel()
	conns, err := g.try(ctx, false)
	isOverlap := func(word string) bool { return word == overlap }
	failed, _ := errors.AsType[*Error](err)
	if failed != nil && failed.overlapUnknown && slices.ContainsFunc(g.cfg.Start.Once, isOverlap) {
		g.cfg.Detail(g.cfg.Start.Command() + " is older than " + overlap + ": trying without it")
		g.cfg.Start.Once = slices.DeleteFunc(slices.Clone(g.cfg.Start.Once), isOverlap)
		conns, err = g.try(ctx, false)
		failed, _ = errors.AsType[*Error](err)
	}
	if failed != nil && failed.broadcastHelps && len(g.cfg.Start.Bcast) > 0 {
		g.cfg.Detail(failed.Text + "; " + g.cfg.Start.Command() + " copies it there")
		for node := range g.cfg.Nodes {
			g.cfg.Arrived(node, false)
		}
		return g.try(ctx, true)
	}
	return conns, err
}

// try runs the command once. On success it keeps running until Close.
func (g *Gathering) try(ctx context.Context, broadcast bool) ([]net.Conn, error) {
	g.stopped.Store(false)
	a, err := newAttempt(ctx, &g.cfg, broadcast, g.receive)
	if err != nil {
		return nil, &Error{Text: printable.Text(err.Error())}
	}
	g.command = a.command
	conns, err := a.wait()
	if err != nil {
		g.stopped.Store(true)
		a.command.end(0)
		return nil, a.explain(err)
	}
	return conns, nil
}

// LastMessage returns the last message of the engine or of an agent about a node, "" for none.
func (g *Gathering) LastMessage(node int) string { return g.command.log.last(g.cfg.Nodes[node]) }

// ExitText describes how the command ended, "" while it runs.
func (g *Gathering) ExitText() string {
	select {
	case <-g.command.Ended:
		return g.command.name + ", which started the agents, has ended (" + g.command.exitStatus() + ")"
	default:
		return ""
	}
}

func (g *Gathering) receive(m message) {
	if node := m.failedNode(); node != "" && g.cfg.NodeFailed != nil {
		g.cfg.NodeFailed(node)
		m.kind = nodeUnavailable // and the job goes on
	}
	if g.stopped.Load() {
		m.kind = redundant
	}
	g.mu.Lock()
	known := g.ending.kind.endsJob()
	if len(g.ending.nodes) < len(g.cfg.Nodes) { // an agent can imitate the engine's messages, so bound them
		g.ending.add(m)
	}
	if !known && g.ending.kind.endsJob() {
		close(g.endingKnown)
	}
	g.mu.Unlock()
	if m.kind.endsJob() {
		g.cfg.Ending()
	}
	text := m.text
	if name := g.cfg.Start.Command() + ": "; !strings.HasPrefix(text, name) {
		text = name + text
	}
	g.cfg.Detail(text)
}

// Ending returns why the engine ends the job, such as "time limit", or "" if that is unknown. It
// waits up to limit for the engine to report it, but not past the end of the command.
func (g *Gathering) Ending(limit time.Duration) string {
	if limit > 0 {
		select {
		case <-g.endingKnown:
		case <-g.command.finished:
		case <-time.After(limit):
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ending.String()
}

// EndLimit is how long Close waits for the command to end by itself.
const EndLimit = 5 * time.Second

// Close waits for the command, which ends when the agents' connections are closed, and kills it
// after EndLimit.
func (g *Gathering) Close() {
	if g.command != nil { // it could be started
		g.command.end(EndLimit)
	}
}
