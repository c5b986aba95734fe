package cpu

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// links contains the sockets between the lowest rank of a host and the host's other ranks, its neighbours. They pass
// the memory and later the message that a rank leaves. If a socket ends without this message, its process has died.
//
// Names are abstract and random: they leave no file, and a process that does not know a name cannot connect. Both sides
// also check that the peer has the same user.
type links struct {
	report func(local, how int) // reports a lost rank

	listener *net.UnixListener
	peers    []*net.UnixConn // by local rank; a neighbour has only that of the lowest rank
	regions  chan *os.File   // memory that arrives after Join; closed when no more can arrive
	watchers sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// The messages after a neighbour's first one, which contains its local rank in four bytes.
const (
	sayMemory = 'M' // passes the memory's descriptor
	sayBye    = 'B' // the sender closes the group
)

// The reasons why a rank is lost.
const (
	goneDead = 1
	goneLeft = 2
)

func newLinks(report func(local, how int)) *links {
	return &links{report: report, regions: make(chan *os.File, 16)}
}

// socketPrefix is the start of the sockets' names; random hexadecimal digits follow.
const socketPrefix = "@gorun-comm-"

const socketBytes = 16

// isSocket reports whether name has the form that listen creates.
func isSocket(name string) bool {
	digits, found := strings.CutPrefix(name, socketPrefix)
	random, err := hex.DecodeString(digits)
	return found && err == nil && len(random) == socketBytes
}

// listen opens the socket for neighbours and returns its name.
func (l *links) listen() (string, error) {
	var random [socketBytes]byte
	rand.Read(random[:])
	name := socketPrefix + hex.EncodeToString(random[:])
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return "", err
	}
	l.listener = listener
	return name, nil
}

// segment creates the memory and sends it to the neighbours, or receives it from the lowest rank.
func (l *links) segment(ctx context.Context, cards []card, me, size int, prepare func([]byte)) ([]byte, error) {
	l.peers = make([]*net.UnixConn, len(cards))
	stop := context.AfterFunc(ctx, func() { l.interrupt() })
	defer stop()
	defer l.listener.Close()
	var memory []byte
	var err error
	if me == 0 {
		memory, err = l.lead(size, prepare)
	} else {
		memory, err = l.follow(ctx, cards[0].Socket, me, size)
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w, while the ranks of this host met", context.Cause(ctx))
	}
	return memory, err
}

// interrupt ends all waits.
func (l *links) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener.Close()
	for _, peer := range l.peers {
		if peer != nil {
			peer.SetDeadline(time.Unix(1, 0))
		}
	}
}

func (l *links) lead(size int, prepare func([]byte)) ([]byte, error) {
	file, err := anonymous(size)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	memory, err := mapped(file, size)
	if err != nil {
		return nil, err
	}
	prepare(memory)
	for range len(l.peers) - 1 {
		if err := l.admit(file); err != nil {
			return nil, errors.Join(err, unmap(memory))
		}
	}
	return memory, nil
}

// admit accepts one neighbour. It rejects other processes, which take up no neighbour's slot.
func (l *links) admit(file *os.File) error {
	for {
		conn, err := l.listener.AcceptUnix()
		if err != nil {
			return fmt.Errorf("waiting for the host's other ranks: %w", err)
		}
		var hello [4]byte
		if err = SameUser(conn); err == nil {
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, err = conn.Read(hello[:])
			conn.SetReadDeadline(time.Time{})
		}
		local := int(binary.LittleEndian.Uint32(hello[:]))
		if err != nil || local <= 0 || local >= len(l.peers) || !l.keep(local, conn) {
			conn.Close()
			continue
		}
		return hand(conn, file)
	}
}

// keep stores a neighbour's connection. It returns false if there is one already.
func (l *links) keep(local int, conn *net.UnixConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peers[local] != nil {
		return false
	}
	l.peers[local] = conn
	return true
}

// dial connects to the socket and retries if its backlog is full. Other users can see the name in /proc/net/unix. They
// can fill the backlog until the lowest rank starts to reject them.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socket})
		if !errors.Is(err, unix.EAGAIN) {
			return conn, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (l *links) follow(ctx context.Context, socket string, me, size int) ([]byte, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("the host's lowest rank cannot be reached: %w", err)
	}
	l.keep(0, conn)
	if err := ctx.Err(); err != nil { // interrupt may run before the connection exists
		return nil, err
	}
	if err := SameUser(conn); err != nil {
		return nil, err
	}
	if _, err := conn.Write(binary.LittleEndian.AppendUint32(nil, uint32(me))); err != nil {
		return nil, err
	}
	_, file, err := receive(conn)
	if err != nil {
		return nil, fmt.Errorf("the host's lowest rank gave no memory: %w", err)
	}
	defer file.Close()
	return mapped(file, size)
}

// SameUser returns an error if the peer process of a socket belongs to another user.
func SameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("SO_PEERCRED: %w", failed)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("process %d at the group's socket is user %d, not %d", peer.Pid, peer.Uid, os.Geteuid())
	}
	return nil
}

// hand sends the memory's file descriptor.
func hand(conn *net.UnixConn, file *os.File) error {
	_, _, err := conn.WriteMsgUnix([]byte{sayMemory}, unix.UnixRights(int(file.Fd())), nil)
	return err
}

// receive reads a message and its file descriptor, if any.
func receive(conn *net.UnixConn) (say byte, file *os.File, err error) {
	var text [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := conn.ReadMsgUnix(text[:], rights)
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, net.ErrClosed
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) == 0 {
		return text[0], nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return text[0], nil, err
	}
	unix.CloseOnExec(fds[0])
	return text[0], os.NewFile(uintptr(fds[0]), "gorun-comm"), nil
}

// watch reads every socket until it ends.
func (l *links) watch() {
	for local, peer := range l.peers {
		if peer != nil {
			l.watchers.Go(func() { l.follows(local, peer) })
		}
	}
}

func (l *links) follows(local int, peer *net.UnixConn) {
	if local == 0 {
		defer close(l.regions)
	}
	for {
		say, file, err := receive(peer)
		switch {
		case err != nil:
			l.lost(local, goneDead)
			return
		case say == sayBye:
			l.lost(local, goneLeft)
			return
		case say == sayMemory:
			l.regions <- file // nil if this process can have no more descriptors
		}
	}
}

// lost reports a lost rank unless this rank has left.
func (l *links) lost(local, how int) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if !closed {
		l.report(local, how)
	}
}

// close sends sayBye and closes the sockets.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if l.listener != nil {
		l.listener.Close()
	}
	for _, peer := range l.peers {
		if peer != nil {
			peer.SetWriteDeadline(time.Now().Add(time.Second))
			peer.Write([]byte{sayBye})
			peer.Close()
		}
	}
	l.watchers.Wait()
	for len(l.regions) > 0 {
		(<-l.regions).Close()
	}
}
