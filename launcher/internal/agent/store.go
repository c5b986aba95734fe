package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/tcpstore"
)

// store is the rendezvous store that this node serves, and the port that it reserves for rank 0 if that hosts its own
// store. The agent's loop owns it.
type store struct {
	server   *tcpstore.Server
	reserved *tcpstore.Reservation
	shared   SharedPort // nil: the server has its own port
}

// SharedPort is a port with several services, which recognises store clients.
type SharedPort interface {
	Addr() netip.AddrPort
	// ServeStore passes store clients that connect from now on to take; nil refuses them.
	ServeStore(take func(c *net.TCPConn, first []byte) error) error
}

func (s *store) close() {
	if s.shared != nil {
		_ = s.shared.ServeStore(nil)
	}
	if s.server != nil {
		s.server.Close()
	}
	if s.reserved != nil {
		s.reserved.Close()
	}
}

// open handles an Open frame. It binds the store's sockets before any rank exists, so that no rank connects too
// early and no other process takes the port.
func (a *Agent) open(o wire.Open) error {
	if a.job != nil && a.job.cleanedUp.Load() {
		a.store.close() // the next attempt starts with an empty store
		a.store = store{}
	}
	opened, err := a.listen(o)
	if err != nil {
		opened = portError(err)
	}
	return a.link.Send(&opened)
}

// listen opens our store and, if rank 0 hosts one, reserves the ranks' MASTER_PORT.
func (a *Agent) listen(o wire.Open) (opened wire.Opened, err error) {
	found, err := probe.Lookup(context.Background(), o.Addr) // here, so that no rank has to
	if err != nil {
		return opened, err
	}
	host := found[0].String()
	own := tcpstore.Config{
		Host: host, Port: o.Port, Logf: a.notice, Allow: tcpstore.AllowNetworks(o.Allow...), AllowOption: "--allow-from",
		AllowLocalUsers: o.AllowLocalUsers, AllowLocalUsersOption: "--allow-local-users",
	}
	if o.Rank0 {
		own.Port = 0
		if a.store.reserved, err = tcpstore.Reserve(host, o.Port); err != nil {
			return opened, err
		}
	}
	if s := a.store.server; s != nil && own.Port != 0 && int(s.Addr().Port()) != own.Port {
		a.store.close() // opened before the program's port was known
		a.store = store{}
	}
	if a.store.server == nil {
		if err = a.openServer(own); err != nil {
			return opened, err
		}
	}
	addr := a.store.server.Addr()
	opened = wire.Opened{Opened: spec.Opened{Addr: addr.Addr().String(), Port: int(addr.Port()), Store: addr.String()}}
	if o.RAS {
		opened.RAS = rasPort()
	}
	if o.Rank0 {
		opened.Port = int(a.store.reserved.Addr().Port())
	}
	return opened, nil
}

// openServer opens our store, at the shared port if there is one.
func (a *Agent) openServer(cfg tcpstore.Config) (err error) {
	shared := a.cfg.SharedPort
	if shared == nil {
		a.store.server, err = tcpstore.Listen(cfg)
		return err
	}
	host, err := netip.ParseAddr(cfg.Host)
	if err != nil {
		return err
	}
	server, err := tcpstore.ListenNowhere(cfg, netip.AddrPortFrom(host, shared.Addr().Port()))
	if err != nil {
		return err
	}
	a.store.server, a.store.shared = server, shared
	return shared.ServeStore(server.Take)
}

// portError explains which process has the port.
func portError(err error) wire.Opened {
	var taken *tcpstore.PortTakenError
	if !errors.As(err, &taken) {
		return wire.Opened{Error: err.Error()}
	}
	return wire.Opened{Error: taken.Explain(), Hint: "name another port, or leave it out: gorun then takes a free one"}
}

// notice sends a line to show to the user.
func (a *Agent) notice(format string, args ...any) {
	_ = a.link.Send(&wire.Notice{Text: fmt.Sprintf(format, args...)}) // the head may be gone
}
