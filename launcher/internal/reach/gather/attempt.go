package gather

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/join"
)

// attempt is one run of the command, with its own port and token.
type attempt struct {
	cfg              *Config
	token            []byte
	head             *join.Head
	command          *command
	removeInvitation func()
	ctx              context.Context
	end              context.CancelCauseFunc // ends ctx, such as by an *Error about an agent that proved the token
	missing          []int                   // ranks without an agent at the end of ctx
}

func newAttempt(ctx context.Context, cfg *Config, broadcast bool, report func(message)) (*attempt, error) {
	a := &attempt{cfg: cfg, token: make([]byte, 32)}
	a.ctx, a.end = context.WithCancelCause(ctx)
	rand.Read(a.token) // never fails
	var err error
	a.head, err = join.Listen(context.Background(), join.Config{
		Secret: a.token, Timeout: 2 * cfg.Timeout, // cfg.Timeout ends the attempt first
		Self:       join.Hello{Version: cfg.Version, NumNodes: cfg.numNodes()},
		AssignRank: a.assignRank, OnChange: func(rank int, here bool) { cfg.Arrived(rank-1, here) },
	})
	if err != nil {
		return nil, err
	}
	invitation := &Invitation{
		Protocol: join.Protocol, Version: cfg.Version, Token: a.token, Addrs: cfg.Addrs, Port: int(a.head.Addr().Port()),
		NumNodes: cfg.numNodes(), NodeIDs: cfg.Start.NodeIDs, Signals: cfg.Start.Signals, Within: cfg.Timeout,
	}
	a.command, a.removeInvitation, err = startCommand(cfg, invitation, broadcast, report)
	if err != nil {
		_ = a.head.Close()
	}
	return a, err
}

// numNodes counts the agents and the head, which is node 0.
func (c *Config) numNodes() int { return len(c.Nodes) + 1 }

// wait returns the agents' connections by node, or errEnded, errRefused or the cause of ctx.
func (a *attempt) wait() ([]net.Conn, error) {
	defer a.removeInvitation()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-a.command.failed:
			a.end(errRefused)
		case <-a.command.finished:
			a.end(errEnded)
		case <-a.ctx.Done():
		}
		a.missing = a.head.Missing()
		_ = a.head.Close()
	}()
	members, err := a.head.Wait(context.Background())
	a.end(err)
	<-closed
	if err != nil {
		return nil, context.Cause(a.ctx)
	}
	conns := make([]net.Conn, len(members))
	for i, m := range members {
		conns[i] = m.Conn
	}
	return conns, nil
}

var (
	errEnded   = errors.New("the command has ended")
	errRefused = errors.New("the command reported that it cannot start an agent")
	errTimeout = errors.New("timeout")
)

// explain turns an error of wait into one for the user.
func (a *attempt) explain(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch err {
	case errTimeout:
		e := &Error{Text: fmt.Sprintf("no agent connected within %s", a.cfg.Timeout)}
		if text := a.command.log.mostTelling(); text != "" {
			e.Text += ": " + text
		}
		for _, rank := range a.missing {
			e.Missing = append(e.Missing, rank-1)
		}
		return e
	case errEnded, errRefused:
		return a.command.explain(a.cfg)
	}
	return &Error{Text: printable.Text(err.Error())}
}

// assignRank returns the rank that package join gives an agent: its node's index plus 1.
func (a *attempt) assignRank(h *join.Hello, here []*join.Member) (rank int, refusal string) {
	node, name := find(a.cfg.Nodes, cmp.Or(h.NodeID, h.Host)), nodeName(h)
	e := &Error{}
	switch {
	case h.Version != a.cfg.Version:
		e.Text = fmt.Sprintf("gorun on %s is version %s, this one is %s", name,
			printable.Text(printable.Short(h.Version)), a.cfg.Version)
		e.Hint, e.broadcastHelps = "install the same gorun at the same path on all hosts", true
	case node < 0:
		e.Text = fmt.Sprintf("an agent connected from %s, which is not a host of this job", name)
	case slices.ContainsFunc(here, func(m *join.Member) bool { return m.NodeRank == node+1 }):
		e.Text = fmt.Sprintf("two agents connected from %s", name)
	default:
		return node + 1, ""
	}
	a.end(e)
	return 0, e.Text
}
