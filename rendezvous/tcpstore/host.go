package tcpstore

import (
	"fmt"
	"net/netip"

	"gorun/rendezvous"
)

// host is what the peers of one address take together; those on this host are one, whatever their addresses.
type host struct {
	at     netip.Addr // the zero one for this host
	open   int        // connections
	held   int64      // bytes that these hold; see conn.holds
	stored rendezvous.Account
}

// size is what it takes of the store's memory.
func (h *host) size() int64 { return h.held + h.stored.Size() }

// place is where a peer's share is counted.
func place(peer netip.Addr, local bool) netip.Addr {
	if local {
		return netip.Addr{}
	}
	return peer
}

// hostAt returns the host for a new connection.
func (l *loop) hostAt(at netip.Addr) *host {
	h := l.hosts[at]
	if h == nil {
		h = &host{at: at}
		l.hosts[at] = h
	}
	return h
}

// forgetHost drops a host that takes nothing any more.
func (l *loop) forgetHost(h *host) {
	if h.open == 0 && h.size() == 0 {
		delete(l.hosts, h.at)
	}
}

// bounded reports whether a host has a share only. This host has not, unless all its users may come: else its peers are
// this user's and root's own.
func (l *loop) bounded(at netip.Addr) bool { return at.IsValid() || l.cfg.AllowLocalUsers }

// share is what one host may take of something that there is a limit for: as much as it leaves free, so that whoever
// takes all that it can leaves as much to others, and an equal part in any case.
func (l *loop) share(limit, free int64) int64 {
	return max(free, limit/int64(len(l.hosts)+1))
}

// crowds says why a host may have no further connection, nil if it may.
func (l *loop) crowds(at netip.Addr) error {
	h := l.hosts[at]
	if h == nil || !l.bounded(at) {
		return nil
	}
	limit := int64(l.cfg.Limits.Connections)
	if most := l.share(limit, limit-int64(l.open)); int64(h.open) >= most {
		return fmt.Errorf("%d connections of this host are open, and the share of one host is %d of %d", h.open, most, limit)
	}
	return nil
}

// overfull says why a connection by which the store grew has to go, nil if it may stay.
func (l *loop) overfull(h *host) error {
	limit, total := l.cfg.Limits.Memory, l.held+l.engine.Size()
	if total > limit {
		return fmt.Errorf("the store is full: %d bytes; at most %d are allowed", total, limit)
	}
	if !l.bounded(h.at) {
		return nil
	}
	if most := l.share(limit, limit-total); h.size() > most {
		return fmt.Errorf("this host takes %d bytes of the store, and the share of one host is %d of %d", h.size(), most,
			limit)
	}
	return nil
}
