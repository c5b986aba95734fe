package gather

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/join"
)

// attempt is one start of the command, with a port and a token of its own.
type attempt struct {
	cfg     *Config
	token   []byte
	head    *join.Head
	command *command
	remove  func()     // the invitation's file
	refused chan error // why an agent that has proved the token is not wanted: the job cannot begin then

	mu   sync.Mutex
	here []bool // by node
}

// newAttempt listens and starts the command.
func newAttempt(cfg *Config, bring bool, hear func(Word)) (*attempt, error) {
	a := &attempt{
		cfg: cfg, token: make([]byte, 32), remove: func() {}, refused: make(chan error, 1),
		here: make([]bool, len(cfg.Nodes)),
	}
	rand.Read(a.token) // never fails
	var err error
	a.head, err = join.Listen(context.Background(), join.Config{
		Secret: a.token, Timeout: 2 * cfg.Timeout, // its own limit comes first
		Self:       join.Hello{Version: cfg.Version, NumNodes: cfg.numNodes()},
		AssignRank: a.place, OnChange: a.came,
	})
	if err != nil {
		return nil, err
	}
	invitation := &Invitation{
		Protocol: join.Protocol, Version: cfg.Version, Token: a.token, Addrs: cfg.Addrs, Port: int(a.head.Addr().Port()),
		NumNodes: cfg.numNodes(), NodeIDs: cfg.Start.NodeIDs, Signals: cfg.Start.Signals, Within: cfg.Timeout,
	}
	if a.command, a.remove, err = startCommand(cfg, invitation, bring, hear); err != nil {
		_ = a.head.Close()
		return nil, err
	}
	return a, nil
}

// numNodes counts the agents, and the head as node 0.
func (c *Config) numNodes() int { return len(c.Nodes) + 1 }

// wait waits until all have come, or it is known that they will not.
func (a *attempt) wait(ctx context.Context) ([]net.Conn, error) {
	over, why := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		select {
		case err = <-a.refused:
		case <-a.command.hopeless:
			err = errHopeless
		case <-a.command.heard:
			err = errEnded
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-over:
		}
		_ = a.head.Close()
		why <- err
	}()
	members, err := a.head.Wait(context.Background())
	close(over)
	ended := <-why
	if err != nil {
		return nil, cmp.Or(ended, err)
	}
	a.remove()
	conns := make([]net.Conn, len(members))
	for i, m := range members {
		conns[i] = m.Conn
	}
	return conns, nil
}

var (
	errEnded    = errors.New("the command has ended")
	errHopeless = errors.New("the command says that it will not be")
)

// explain says in words for the user why agents did not come.
func (a *attempt) explain(err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errLate):
		late := &Error{Text: fmt.Sprintf("no agent has come within %s", a.cfg.Timeout)}
		if said := a.command.said.telling(); said != "" {
			late.Text += ": " + said
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for node, here := range a.here {
			if !here {
				late.Missing = append(late.Missing, node)
			}
		}
		return late
	case errors.Is(err, errEnded), errors.Is(err, errHopeless):
		return a.command.explain(a.cfg)
	}
	return &Error{Text: printable.Text(err.Error())}
}

// close ends the attempt; agents that have come end, too, unless they were handed out.
func (a *attempt) close() {
	_ = a.head.Close()
	a.remove()
}

// place finds the node of an agent, or says why it is not wanted.
func (a *attempt) place(h *join.Hello) (rank int, refusal string) {
	node, name := find(a.cfg.Nodes, cmp.Or(h.NodeID, h.Host)), nodeName(h)
	a.mu.Lock()
	defer a.mu.Unlock()
	var why *Error
	switch {
	case h.Version != a.cfg.Version:
		why = &Error{
			Text: fmt.Sprintf("gorun on %s is version %s, this one is %s", name,
				printable.Text(printable.Short(h.Version)), a.cfg.Version), again: true,
			Hint: "put the same gorun at the same place on all hosts",
		}
	case node < 0:
		why = &Error{Text: fmt.Sprintf("an agent came from %s, which is none of the job's hosts", name)}
	case a.here[node]:
		why = &Error{Text: fmt.Sprintf("two agents came from %s", name)}
	default:
		return node + 1, ""
	}
	select {
	case a.refused <- why:
	default:
	}
	return 0, why.Text
}

// came notes that an agent has come, or went away before all had.
func (a *attempt) came(rank int, here bool) {
	a.mu.Lock()
	a.here[rank-1] = here
	a.mu.Unlock()
	a.cfg.Came(rank-1, here)
}

// nodeName is how messages call the node of an agent.
func nodeName(h *join.Hello) string { return printable.Text(printable.Short(cmp.Or(h.NodeID, h.Host))) }
