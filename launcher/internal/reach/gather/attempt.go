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

// attempt is one run of the command, with its own port and token.
type attempt struct {
	cfg              *Config
	token            []byte
	head             *join.Head
	command          *command
	removeInvitation func()
	refused          chan error // why an agent that proved the token was turned away; ends the attempt

	mu      sync.Mutex
	arrived []bool // by node
}

func newAttempt(cfg *Config, broadcast bool, report func(message)) (*attempt, error) {
	a := &attempt{
		cfg: cfg, token: make([]byte, 32), refused: make(chan error, 1), arrived: make([]bool, len(cfg.Nodes)),
	}
	rand.Read(a.token) // never fails
	var err error
	a.head, err = join.Listen(context.Background(), join.Config{
		Secret: a.token, Timeout: 2 * cfg.Timeout, // cfg.Timeout ends the attempt first
		Self:       join.Hello{Version: cfg.Version, NumNodes: cfg.numNodes()},
		AssignRank: a.assignRank, OnChange: a.setArrived,
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
		return nil, err
	}
	return a, nil
}

// numNodes counts the agents and the head, which is node 0.
func (c *Config) numNodes() int { return len(c.Nodes) + 1 }

// wait returns the agents' connections by node, or errEnded, errRefused, the cause of ctx or an
// *Error about an agent that was turned away.
func (a *attempt) wait(ctx context.Context) ([]net.Conn, error) {
	complete, cause := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		select {
		case err = <-a.refused:
		case <-a.command.failed:
			err = errRefused
		case <-a.command.finished:
			err = errEnded
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-complete:
		}
		_ = a.head.Close()
		cause <- err
	}()
	members, err := a.head.Wait(context.Background())
	close(complete)
	closed := <-cause
	if err != nil {
		return nil, cmp.Or(closed, err)
	}
	a.removeInvitation()
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
		a.mu.Lock()
		defer a.mu.Unlock()
		for node, arrived := range a.arrived {
			if !arrived {
				e.Missing = append(e.Missing, node)
			}
		}
		return e
	case errEnded, errRefused:
		return a.command.explain(a.cfg)
	}
	return &Error{Text: printable.Text(err.Error())}
}

// close disconnects all agents whose connections wait has not returned.
func (a *attempt) close() {
	_ = a.head.Close()
	a.removeInvitation()
}

// assignRank returns the rank that package join gives an agent: its node's index plus 1.
func (a *attempt) assignRank(h *join.Hello) (rank int, refusal string) {
	node, name := find(a.cfg.Nodes, cmp.Or(h.NodeID, h.Host)), nodeName(h)
	a.mu.Lock()
	defer a.mu.Unlock()
	var e *Error
	switch {
	case h.Version != a.cfg.Version:
		e = &Error{
			Text: fmt.Sprintf("gorun on %s is version %s, this one is %s", name,
				printable.Text(printable.Short(h.Version)), a.cfg.Version), broadcastHelps: true,
			Hint: "install the same gorun at the same path on all hosts",
		}
	case node < 0:
		e = &Error{Text: fmt.Sprintf("an agent connected from %s, which is not a host of this job", name)}
	case a.arrived[node]:
		e = &Error{Text: fmt.Sprintf("two agents connected from %s", name)}
	default:
		return node + 1, ""
	}
	select {
	case a.refused <- e:
	default:
	}
	return 0, e.Text
}

func (a *attempt) setArrived(rank int, arrived bool) {
	a.mu.Lock()
	a.arrived[rank-1] = arrived
	a.mu.Unlock()
	a.cfg.Arrived(rank-1, arrived)
}
