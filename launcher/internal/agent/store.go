package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/tcpstore"
)

// store is the rendezvous store that this node serves, and the port that it
// keeps for rank 0 where rank 0 hosts one of its own.
type store struct {
	server   *tcpstore.Server
	reserved *tcpstore.Reservation
	shared   SharedPort
}

// Door is a port to which others come, too: it tells store clients from them, and hands
// them over.
type SharedPort interface {
	// Addr is where it is.
	Addr() netip.AddrPort
	// ServeStore hands over store clients that connect from now on; nil refuses them.
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

// open binds the store's sockets before any rank exists, so that no rank can
// come too early and nobody else can take the port.
func (a *Agent) open(o wire.Open) error {
	if a.job != nil && a.job.cleanedUp.Load() {
		a.store.close() // the next attempt begins with an empty one
		a.store = store{}
	}
	opened, err := a.listen(o)
	if err != nil {
		opened = portError(err)
	}
	return a.link.Send(&opened)
}

// listen opens our own store, and for rank 0, perhaps after it, the port that
// the ranks' MASTER_PORT names.
func (a *Agent) listen(o wire.Open) (opened wire.Opened, err error) {
	host, err := address(o.Addr)
	if err != nil {
		return opened, err
	}
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
		a.store.close() // it was opened before the program's port was known
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

// openServer opens our own store, at the door where there is one.
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

// lookupLimit is how long a name server may take to find the address that the
// user named.
const lookupLimit = 5 * time.Second

// address is what the user named as an address: itself, loopback for localhost
// without asking anybody, else what its name means on this node. Ranks get the
// address, so none of them has to look it up again.
func address(name string) (string, error) {
	if name == "localhost" {
		return "127.0.0.1", nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return "", fmt.Errorf("find the address of %s: %w", name, err)
	}
	return found[0].Unmap().String(), nil
}

// portError says who has the port that the user named.
func portError(err error) wire.Opened {
	var taken *tcpstore.PortTakenError
	if !errors.As(err, &taken) {
		return wire.Opened{Error: err.Error()}
	}
	return wire.Opened{Error: taken.Explain(), Hint: "name another port, or none: gorun then takes a free one"}
}

// notice sends a line to the user.
func (a *Agent) notice(format string, args ...any) {
	_ = a.link.Send(&wire.Notice{Text: fmt.Sprintf(format, args...)}) // the head may be gone
}
