package tcpstore

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// accept takes new connections, after the turns of all others.
func (l *loop) accept() {
	l.restartAccepting()
	for range batch {
		if !l.acceptReady || l.full() {
			return
		}
		fd, sa, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			l.admit(fd, addrPort(sa))
		case unix.EAGAIN:
			l.acceptReady = false
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			l.stopAccepting(err.Error(), err == unix.EMFILE)
		default: // the peer is gone already, or a signal came: the next one
		}
	}
	l.acceptReady = false // epoll says it again
}

// crowdPause is how long new connections are left to the kernel's queue when there is no room for them, and how long a connection that
// has not greeted keeps its place then: the greeting of a client is on its way.
const crowdPause = time.Second

// full reports whether no connection can be taken. Of those who should have greeted by now the first is given up for a new one.
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

// stopAccepting leaves new connections to the kernel's queue for a while: they cannot be taken now, and epoll would name them in
// each turn. It is said when that was of no use: then those who come together are in the queue and can be counted.
func (l *loop) stopAccepting(why string, files bool) {
	if l.crowded {
		l.complaints.say(netip.Addr{}, 0, faultCrowd, "the store cannot take more connections at the moment: %s", l.crowd(why, files))
	}
	l.crowded = true
	l.acceptReady = false
	if l.watch(unix.EPOLL_CTL_MOD, l.listener, 0) == nil {
		l.acceptAgain = time.Now().Add(crowdPause) // or when a connection is closed; others of this process close descriptors, too
	}
}

// crowd says how many there are and how many want to be; files says that it is for want of descriptors, and then also how many of
// these they need.
func (l *loop) crowd(why string, files bool) string {
	waiting := 0
	if info, err := unix.GetsockoptTCPInfo(l.listener, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		waiting = int(info.Unacked) // of a socket that listens, the length of its queue
	}
	text := fmt.Sprintf("%d connections are open (%s), and %d wait", l.open, why, waiting)
	if files {
		text += fmt.Sprintf("; for so many the hard limit of open files (ulimit -Hn), which is %d, has to be at least %d", descriptors(), descriptorsFor(l.open+waiting))
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
func (l *loop) admit(fd int, peer netip.AddrPort) *conn {
	if !l.allowed(fd, peer.Addr()) {
		unix.Close(fd)
		l.refuse(peer.Addr())
		return nil
	}
	if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		unix.Close(fd)
		l.complaints.say(netip.Addr{}, 0, faultCrowd, "the store cannot take a connection: %v", err)
		return nil
	}
	c := &conn{fd: fd, peer: peer, watched: unix.EPOLLIN, until: time.Now().Add(l.cfg.Limits.Greeting)}
	c.waiter.Wake = func() { l.woken(c) }
	for len(l.conns) <= fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = c
	l.open++
	l.meet(c)
	return c
}

// refuse says that a peer is not accepted, and how it would be.
func (l *loop) refuse(peer netip.Addr) {
	l.refused++
	wayOut := ""
	if l.cfg.AllowOption != "" {
		wayOut = fmt.Sprintf("; %s %v accepts it", l.cfg.AllowOption, peer)
	}
	l.complaints.say(peer, 0, faultRefused, "the store refused a connection from %v: it is neither on this host nor among the peers to accept%s", peer, wayOut)
}

// AllowNetworks is a [Config.Allow] that accepts the addresses of some networks; IPv4 networks hold for peers that come by IPv6's
// notation of such an address, too. With no network it is nil, which accepts nobody from elsewhere.
func AllowNetworks(networks ...netip.Prefix) func(peer netip.Addr) bool {
	if len(networks) == 0 {
		return nil
	}
	return func(peer netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(peer.Unmap()) })
	}
}

// allowed reports whether a peer is accepted: everybody on this host, which shows by its address being our own, and others as
// configured.
func (l *loop) allowed(fd int, peer netip.Addr) bool {
	if peer.IsLoopback() || l.cfg.Allow != nil && l.cfg.Allow(peer) {
		return true
	}
	own, err := boundTo(fd)
	return err == nil && own.Addr() == peer
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
