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

// accept takes new connections, after the turns of all others.
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
		default: // the peer is gone already, or a signal came: the next one
		}
	}
	l.acceptReady = false // epoll says it again
}

// crowdPause is how long new connections are left to the kernel's queue when there is no room for them, and how long a
// connection that has not greeted keeps its place then: the greeting of a client is on its way.
const crowdPause = time.Second

// full reports whether no connection can be taken. Of those who should have greeted by now the first is given up for a
// new one.
func (l *loop) full() bool {
	if l.open < l.cfg.Limits.Connections {
		return false
	}
	if !l.somebodyComes() {
		l.acceptReady = false
		return true
	}
	if l.giveUpFirst() {
		l.bury()
		return false
	}
	l.stopAccepting("that is the limit", l.cfg.Limits.Connections == connectionsFor(descriptors()))
	return true
}

// giveUpFirst dooms the first of those who should have greeted by now, if there is one.
func (l *loop) giveUpFirst() bool {
	first := l.unknownFirst
	for first != nil && first.dead {
		first = first.after
	}
	if first == nil || !time.Now().Add(l.cfg.Limits.Greeting-crowdPause).After(first.until) {
		return false
	}
	l.fail(first, faultCrowd, fmt.Errorf("no greeting of a store client, and there are %d connections", l.open))
	return true
}

// somebodyComes reports whether the listener has a connection.
func (l *loop) somebodyComes() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.listener), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// stopAccepting leaves new connections to the kernel's queue for a while: they cannot be taken now, and epoll would
// name them in each turn. It is said when that was of no use: then those who come together are in the queue and can be
// counted.
func (l *loop) stopAccepting(why string, files bool) {
	if l.crowded {
		l.complaints.say(complaint{kind: faultCrowd}, "the store cannot take more connections at the moment: %s",
			l.crowd(why, files))
	}
	l.crowded = true
	l.acceptReady = false
	if l.watch(unix.EPOLL_CTL_MOD, l.listener, 0) == nil {
		// or when a connection is closed; others of this process close descriptors, too
		l.acceptAgain = time.Now().Add(crowdPause)
	}
}

// crowd says how many there are and how many want to be; files says that it is for want of descriptors, and then also
// how many of these they need.
func (l *loop) crowd(why string, files bool) string {
	waiting := 0
	if info, err := unix.GetsockoptTCPInfo(l.listener, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		waiting = int(info.Unacked) // of a socket that listens, the length of its queue
	}
	text := fmt.Sprintf("%d connections are open (%s), and %d wait", l.open, why, waiting)
	if files {
		text += fmt.Sprintf("; for so many the hard limit of open files (ulimit -Hn), which is %d, has to be at least %d",
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

// admit makes a connection of an accepted socket; nil if it is not accepted here.
func (l *loop) admit(fd int, peer peersocket.Ends) *conn {
	local, why := l.allowed(peer)
	if why != nil {
		unix.Close(fd)
		l.refuse(peer.Remote, why)
		return nil
	}
	at := place(peer.Remote.Addr(), local)
	if why := l.crowds(at); why != nil {
		unix.Close(fd)
		l.refused++
		l.complaints.say(complaint{peer: at, kind: faultShare}, "the store refused a connection from %v: %v",
			peer.Remote.Addr(), why)
		return nil
	}
	if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		unix.Close(fd)
		l.complaints.say(complaint{kind: faultCrowd}, "the store cannot take a connection: %v", err)
		return nil
	}
	c := &conn{fd: fd, peer: peer.Remote, watched: unix.EPOLLIN, until: time.Now().Add(l.cfg.Limits.Greeting)}
	c.waiter.Wake = func() { l.woken(c) }
	c.host = l.hostAt(at)
	c.host.open++
	c.waiter.Account = &c.host.stored
	for len(l.conns) <= fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = c
	l.open++
	l.meet(c)
	return c
}

// refuse says that a peer is not accepted, and how it would be: once for each user of this host, and for each other
// host.
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
	said := complaint{peer: peer.Addr(), kind: faultRefused}
	if local {
		said = complaint{id: uint32(user.uid), kind: faultUser}
	}
	l.complaints.say(said, "the store refused a connection from %v: %v%s", peer.Addr(), why, wayOut)
}

// errElsewhere is why a peer on another host is refused.
var errElsewhere = errors.New("it is neither on this host nor among the peers to accept")

// userError is why a peer on this host is refused. Where its user is not known, that is err, and uid is -1.
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
		return fmt.Sprintf("whose it is cannot be told (%v), and only %s may connect on this host", e.err, only)
	}
	return fmt.Sprintf("it is user %d's, and only %s may connect on this host", e.uid, only)
}

// AllowNetworks is a [Config.Allow] that accepts the addresses of some networks; IPv4 networks hold for peers that come
// by IPv6's notation of such an address, too. With no network it is nil, which accepts nobody from elsewhere.
func AllowNetworks(networks ...netip.Prefix) func(peer netip.Addr) bool {
	if len(networks) == 0 {
		return nil
	}
	return func(peer netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(peer.Unmap()) })
	}
}

// allowed says whether a peer is on this host, and why it is refused, nil if it is accepted. Others than those who come
// by loopback or by the address that they connected to are accepted as configured. This host's other addresses are
// among those, too, where they are a job's: so on this host the user decides, whatever address the peer has taken.
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

// meet puts a connection at the end of those that have not greeted.
func (l *loop) meet(c *conn) {
	c.before = l.unknownLast
	if c.before == nil {
		l.unknownFirst = c
	} else {
		c.before.after = c
	}
	l.unknownLast = c
}

// greet takes a connection out of those that have not greeted, if it is one of them.
func (l *loop) greet(c *conn) {
	if c.known {
		return
	}
	c.known = true
	if c.before == nil {
		l.unknownFirst = c.after
	} else {
		c.before.after = c.after
	}
	if c.after == nil {
		l.unknownLast = c.before
	} else {
		c.after.before = c.before
	}
	c.before, c.after = nil, nil
}
