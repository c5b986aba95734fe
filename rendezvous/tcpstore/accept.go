package tcpstore

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// accept accepts new connections, after all events have been handled.
func (l *loop) accept() {
	l.restartAccepting()
	for range batch {
		if !l.acceptReady || l.full() {
			return
		}
		fd, peer, err := acceptFrom(l.listener)
		switch err {
		case 0:
			if peer.Local = l.server.addr; peer.Local.Addr().IsUnspecified() {
				peer.Local, _ = boundTo(fd)
			}
			l.admit(fd, peer)
		case unix.EAGAIN:
			l.acceptReady = false
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			l.stopAccepting(err.Error(), err == unix.EMFILE)
		default: // the peer is gone already, or a signal came
		}
	}
	l.acceptReady = false // epoll reports it again
}

// fullPause is how long new connections stay in the kernel's queue when there is no room, and how long a connection
// may then take for its greeting.
const fullPause = time.Second

// full reports whether no connection can be accepted. A connection without a greeting for fullPause is closed for a
// new one.
func (l *loop) full() bool {
	if l.open < l.cfg.Limits.Connections {
		return false
	}
	if !l.somebodyComes() {
		l.acceptReady = false
		return true
	}
	if l.dropOldest() {
		l.closePending()
		return false
	}
	l.stopAccepting("that is the limit", l.cfg.Limits.Connections == connectionsFor(descriptors()))
	return true
}

// dropOldest closes the oldest connection without a greeting if it has had fullPause for it.
func (l *loop) dropOldest() bool {
	first := l.oldestUngreeted()
	if first == nil || !time.Now().Add(l.cfg.Limits.Greeting-fullPause).After(first.until) {
		return false
	}
	l.fail(first, faultFull, fmt.Errorf("no greeting from a store client, and there are %d connections", l.open))
	return true
}

func (l *loop) somebodyComes() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.listener), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// stopAccepting leaves new connections to the kernel's queue for fullPause, since epoll would report them in each
// turn. It logs that only the second time, when all those that come together are in the queue and can be counted.
func (l *loop) stopAccepting(why string, files bool) {
	if l.wasFull {
		l.complaints.log(complaint{kind: faultFull}, "the store cannot accept more connections now: %s",
			l.describeQueue(why, files))
	}
	l.wasFull = true
	l.acceptReady = false
	if l.watch(unix.EPOLL_CTL_MOD, l.listener, 0) == nil {
		// Until then a connection may end, or another part of this process may close descriptors.
		l.acceptAgain = time.Now().Add(fullPause)
	}
}

// describeQueue describes how many connections there are and wait; files says that descriptors are missing, and adds
// how many are needed.
func (l *loop) describeQueue(why string, files bool) string {
	waiting := 0
	if info, err := unix.GetsockoptTCPInfo(l.listener, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		waiting = int(info.Unacked) // of a listening socket: the length of its queue
	}
	text := fmt.Sprintf("%d connections are open (%s), and %d are waiting", l.open, why, waiting)
	if files {
		text += fmt.Sprintf("; raise the hard limit of open files (ulimit -Hn) from %d to at least %d",
			descriptors(), descriptorsFor(l.open+waiting))
	}
	return text
}

func (l *loop) restartAccepting() {
	if l.acceptAgain.IsZero() || time.Now().Before(l.acceptAgain) {
		return
	}
	if l.watch(unix.EPOLL_CTL_MOD, l.listener, unix.EPOLLIN) == nil {
		l.acceptAgain = time.Time{}
	}
}

// admit serves an accepted socket. It returns nil if the peer is refused.
func (l *loop) admit(fd int, peer peersocket.Ends) *conn {
	local, why := l.allowed(peer)
	if why != nil {
		unix.Close(fd)
		l.refuse(peer.Remote, why)
		return nil
	}
	at := place(peer.Remote.Addr(), local)
	if why := l.checkHost(at); why != nil {
		unix.Close(fd)
		l.refused++
		l.complaints.log(complaint{peer: at, kind: faultShare}, "the store refused a connection from %v: %v",
			peer.Remote.Addr(), why)
		return nil
	}
	if err := l.watch(unix.EPOLL_CTL_ADD, fd, input); err != nil {
		unix.Close(fd)
		l.complaints.log(complaint{kind: faultFull}, "the store cannot accept a connection: %v", err)
		return nil
	}
	c := &conn{fd: fd, peer: peer.Remote, watched: input, until: time.Now().Add(l.cfg.Limits.Greeting)}
	c.waiter.Wake = func() { l.woken(c) }
	c.host = l.hostAt(at)
	c.host.open++
	c.waiter.Account = &c.host.stored
	for len(l.conns) <= fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = c
	l.open++
	c.ungreeted = l.ungreeted.PushBack(c)
	return c
}

// refuse logs that a peer is refused and how to accept it, once for each user of this host and for each other host.
func (l *loop) refuse(peer netip.AddrPort, why error) {
	l.refused++
	wayOut := ""
	user, local := why.(*userError)
	switch {
	case local && l.cfg.AllowLocalUsersOption != "":
		wayOut = fmt.Sprintf("; %s accepts every user of this host", l.cfg.AllowLocalUsersOption)
	case !local && l.cfg.AllowOption != "":
		wayOut = fmt.Sprintf("; %s %v accepts it", l.cfg.AllowOption, peer.Addr())
	}
	m := complaint{peer: peer.Addr(), kind: faultRefused}
	if local {
		m = complaint{id: uint32(user.uid), kind: faultUser}
	}
	l.complaints.log(m, "the store refused a connection from %v: %v%s", peer.Addr(), why, wayOut)
}

// errElsewhere is why a peer on another host is refused.
var errElsewhere = errors.New("it is not on this host, and its address is not allowed")

// userError refuses a peer on this host. If its user is unknown, err says why and uid is -1.
type userError struct {
	uid int
	err error
}

func (e *userError) Error() string {
	only := "root"
	if own := os.Geteuid(); own != 0 {
		only = fmt.Sprintf("user %d and root", own)
	}
	if e.err != nil {
		return fmt.Sprintf("its user is unknown (%v), and only %s may connect on this host", e.err, only)
	}
	return fmt.Sprintf("it belongs to user %d, and only %s may connect on this host", e.uid, only)
}

// AllowNetworks returns a [Config.Allow] that accepts peers with addresses in the given networks. IPv4 networks include
// IPv4-mapped IPv6 addresses. Without networks it is nil, which accepts no peers of other hosts.
func AllowNetworks(networks ...netip.Prefix) func(peer netip.Addr) bool {
	if len(networks) == 0 {
		return nil
	}
	return func(peer netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(peer.Unmap()) })
	}
}

// allowed reports whether a peer is on this host, and why it is refused. Loopback, and the address that the peer
// connected to, are this host's. Its other addresses have to be accepted like those of other hosts, and then the peer's
// user is checked all the same.
func (l *loop) allowed(peer peersocket.Ends) (local bool, why error) {
	at := peer.Remote.Addr()
	if local = at.IsLoopback() || at == peer.Local.Addr(); !local {
		if l.cfg.Allow == nil || !l.cfg.Allow(at) {
			return false, errElsewhere
		}
		var err error
		if local, err = l.peers.Local(at); err != nil && !l.cfg.AllowLocalUsers {
			return true, &userError{-1, err}
		}
	}
	if !local || l.cfg.AllowLocalUsers {
		return local, nil
	}
	owner, err := l.peers.Owner(peer)
	if err != nil {
		return true, &userError{-1, err}
	}
	if !owner.Trusted() {
		return true, &userError{uid: owner.UID}
	}
	return true, nil
}

// greeted removes a connection from those before their greeting.
func (l *loop) greeted(c *conn) {
	if c.ungreeted != nil {
		l.ungreeted.Remove(c.ungreeted)
		c.ungreeted = nil
	}
}

// oldestUngreeted returns the oldest connection before its greeting, nil if none exists.
func (l *loop) oldestUngreeted() *conn {
	if front := l.ungreeted.Front(); front != nil {
		return front.Value.(*conn)
	}
	return nil
}
