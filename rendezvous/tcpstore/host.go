package tcpstore

import (
	"fmt"
	"net/netip"

	"gorun/rendezvous"
)

// host is the usage of all peers with one address. All peers on this host count as one.
type host struct {
	at     netip.Addr // zero for this host
	open   int        // connections
	held   int64      // bytes that they hold, see conn.holds
	stored rendezvous.Account
}

// size returns the host's part of Limits.Memory.
func (h *host) size() int64 { return h.held + h.stored.Size() }

// place returns the address under which a peer is counted.
func place(peer netip.Addr, local bool) netip.Addr {
	if local {
		return netip.Addr{}
	}
	return peer
}

// hostAt returns the host of a new connection.
func (l *loop) hostAt(at netip.Addr) *host {
	h := l.hosts[at]
	if h == nil {
		h = &host{at: at}
		l.hosts[at] = h
	}
	return h
}

// forgetHost drops a host that uses nothing.
func (l *loop) forgetHost(h *host) {
	if h.open == 0 && h.size() == 0 {
		delete(l.hosts, h.at)
	}
}

// bounded reports whether a host is limited to its share. This host is not, as long as its peers are only this user's
// and root's.
func (l *loop) bounded(at netip.Addr) bool { return at.IsValid() || l.cfg.AllowLocalUsers }

// share returns how much of a limit one host may use: as much as it leaves free, so that a greedy host leaves as much
// to others, but at least an equal part.
func (l *loop) share(limit, free int64) int64 {
	return max(free, limit/int64(len(l.hosts)+1))
}

// checkHost returns why a host may have no further connection.
func (l *loop) checkHost(at netip.Addr) error {
	h := l.hosts[at]
	if h == nil || !l.bounded(at) {
		return nil
	}
	limit := int64(l.cfg.Limits.Connections)
	if most := l.share(limit, limit-int64(l.open)); int64(h.open) >= most {
		return fmt.Errorf("this host has %d open connections, and the limit for one host is %d of %d", h.open, most, limit)
	}
	return nil
}

// overfull returns why a connection that made the store grow has to go.
func (l *loop) overfull(h *host) error {
	limit, total := l.cfg.Limits.Memory, l.held+l.engine.Size()
	if total > limit {
		return fmt.Errorf("the store is full: %d bytes; at most %d are allowed", total, limit)
	}
	if !l.bounded(h.at) {
		return nil
	}
	if most := l.share(limit, limit-total); h.size() > most {
		return fmt.Errorf("this host stores %d bytes, and the limit for one host is %d of %d", h.size(), most,
			limit)
	}
	return nil
}
