package bench

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// manyStreams is the number of connections measured together, in addition to a single one.
	manyStreams = 4
	// dialLimit is the timeout for a connection. streamLimit is the timeout for a stream beyond its duration.
	dialLimit   = 3 * time.Second
	streamLimit = 10 * time.Second
	// longestStream limits the duration that a peer may request.
	longestStream = time.Minute
	// streamPiece is the size of one write.
	streamPiece = 256 << 10
)

// The first byte of a connection, its purpose.
const (
	opEcho   = 'e' // the server returns each byte
	opSink   = 's' // bytes until the end of the stream; then 16 bytes: their number, and the nanoseconds that they took
	opSource = 'g' // bytes for a duration in nanoseconds
)

// header is the start of a connection: a secret shared in the group, the purpose, and the duration.
//
//	dialer                                   listener
//	secret(32) op(1) nanoseconds(8, big) →
type header struct {
	Secret [32]byte
	Op     byte
	Time   int64
}

// streamServer serves the TCP paths on the other host.
type streamServer struct {
	secret    [32]byte
	listeners []net.Listener
	busy      sync.WaitGroup
}

// serveStreams makes rank far listen on each of its addresses. It sends the ports and the secret to the paths
// of rank 0.
func (b *bench) serveStreams(ctx context.Context, far int, paths []Path) (*streamServer, error) {
	s := &streamServer{}
	type offer struct {
		Secret []byte
		Ports  map[string]uint16
	}
	mine := offer{Ports: map[string]uint16{}}
	if b.group.Rank() == far {
		if _, err := rand.Read(s.secret[:]); err != nil {
			return nil, err
		}
		mine.Secret = s.secret[:]
		for _, p := range paths {
			if at := p.ends[1]; at.Interface != "" && mine.Ports[at.String()] == 0 {
				mine.Ports[at.String()] = s.listen(ctx, at)
			}
		}
	}
	var all []offer
	if err := share(ctx, b.group, mine, &all); err != nil {
		s.close()
		return nil, err
	}
	copy(b.secret[:], all[far].Secret)
	for i := range paths {
		p := &paths[i]
		if p.ends[1].Port = all[far].Ports[p.ends[1].String()]; p.ends[1].Interface != "" && p.ends[1].Port == 0 {
			p.Error = "no port could be opened at " + p.To
		}
	}
	return s, nil
}

// listen listens on a free port at an address; 0 means that it failed.
func (s *streamServer) listen(ctx context.Context, at address) uint16 {
	config := net.ListenConfig{Control: onInterface(at.Interface)}
	ln, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(at.Prefix.Addr(), 0).String())
	if err != nil {
		return 0
	}
	s.listeners = append(s.listeners, ln)
	s.busy.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.busy.Go(func() {
				defer conn.Close()
				_ = s.serve(conn) // the client sees the error, too
			})
		}
	})
	return ln.Addr().(*net.TCPAddr).AddrPort().Port()
}

func (s *streamServer) close() {
	for _, ln := range s.listeners {
		_ = ln.Close()
	}
	s.busy.Wait()
}

// serve serves a connection if the client has the secret. It does not answer other clients.
func (s *streamServer) serve(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(dialLimit))
	var h header
	if err := binary.Read(conn, binary.BigEndian, &h); err != nil {
		return err
	}
	lasts := time.Duration(h.Time)
	if subtle.ConstantTimeCompare(h.Secret[:], s.secret[:]) != 1 || lasts < 0 || lasts > longestStream {
		return errors.New("not of this measurement")
	}
	_ = conn.SetDeadline(time.Now().Add(lasts + streamLimit))
	switch h.Op {
	case opEcho:
		return echo(conn)
	case opSink:
		bytes, took := drain(conn)
		return binary.Write(conn, binary.BigEndian, [2]int64{bytes, int64(took)})
	case opSource:
		return pour(conn, lasts)
	}
	return errors.New("no such purpose")
}

func echo(conn net.Conn) error {
	var one [1]byte
	for {
		if _, err := conn.Read(one[:]); err != nil {
			return err
		}
		if _, err := conn.Write(one[:]); err != nil {
			return err
		}
	}
}

// drain reads to the end of a stream. It returns the number of bytes, and the time from the first bytes to the
// last.
func drain(conn net.Conn) (bytes int64, took time.Duration) {
	piece := make([]byte, streamPiece)
	var begun time.Time
	for {
		n, err := conn.Read(piece)
		if bytes == 0 {
			begun = time.Now()
		}
		bytes += int64(n)
		if err != nil {
			return bytes, time.Since(begun)
		}
	}
}

// pour writes for a given time.
func pour(conn net.Conn, lasts time.Duration) error {
	piece := make([]byte, streamPiece)
	for begun := time.Now(); time.Since(begun) < lasts; {
		if _, err := conn.Write(piece); err != nil {
			return err
		}
	}
	return conn.(*net.TCPConn).CloseWrite()
}

// measureTCP measures a path from rank 0. Rank far serves it, and other ranks take no part.
func (b *bench) measureTCP(ctx context.Context, p *Path) (err error) {
	p.Streams = manyStreams
	if b.group.Rank() != 0 {
		return nil
	}
	if p.Latency, err = b.roundTrips(ctx, p); err != nil {
		return err
	}
	for _, flow := range []struct {
		op      byte
		streams int
		into    *float64
	}{
		{opSink, 1, &p.Forth},
		{opSource, 1, &p.Back},
		{opSink, manyStreams, &p.ForthMany},
		{opSource, manyStreams, &p.BackMany},
	} {
		if *flow.into, err = b.streams(ctx, p, flow.op, flow.streams); err != nil {
			return err
		}
	}
	return nil
}

// dial opens a connection on a path.
func (b *bench) dial(ctx context.Context, p *Path, op byte) (net.Conn, error) {
	from, to := p.ends[0].Prefix.Addr(), p.ends[1]
	own := net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	d := net.Dialer{Timeout: dialLimit, LocalAddr: own, Control: onInterface(p.ends[0].Interface)}
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(to.Prefix.Addr(), to.Port).String())
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(b.PerSize + streamLimit))
	if err := binary.Write(conn, binary.BigEndian, header{b.secret, op, int64(b.PerSize)}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// roundTrips returns half the median round trip of single bytes, in microseconds.
func (b *bench) roundTrips(ctx context.Context, p *Path) (microseconds float64, err error) {
	conn, err := b.dial(ctx, p, opEcho)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var times []float64
	var one [1]byte
	for begun := time.Now(); len(times) < 10 || len(times) < 1000 && time.Since(begun) < b.PerSize; {
		sent := time.Now()
		if _, err := conn.Write(one[:]); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, one[:]); err != nil {
			return 0, err
		}
		times = append(times, time.Since(sent).Seconds()*1e6/2)
	}
	return timesOf(times, 1).Median, nil
}

// streams returns the bandwidth of several connections together, measured by their receivers, in 1e9 bytes/s.
func (b *bench) streams(ctx context.Context, p *Path, op byte, n int) (gigabytes float64, err error) {
	conns := make([]net.Conn, n)
	for i := range conns {
		if conns[i], err = b.dial(ctx, p, op); err != nil {
			return 0, err
		}
		defer conns[i].Close()
	}
	counts, errs := make([][2]int64, n), make([]error, n)
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			if op == opSource {
				bytes, took := drain(conn)
				counts[i] = [2]int64{bytes, int64(took)}
				return
			}
			if errs[i] = pour(conn, b.PerSize); errs[i] == nil {
				errs[i] = binary.Read(conn, binary.BigEndian, &counts[i])
			}
		})
	}
	all.Wait()
	bytes, longest := int64(0), int64(1)
	for _, c := range counts {
		bytes, longest = bytes+c[0], max(longest, c[1])
	}
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("%d streams: %w", n, err)
	}
	return float64(bytes) / float64(longest), nil
}

// onInterface binds a socket to an interface. If two interfaces are in one network, the kernel would use the
// first one for both. Kernels that reserve this for root use their routes.
func onInterface(name string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.BindToDevice(int(fd), name) })
	}
}

// ownAddresses returns the addresses of this host that others may reach, IPv4 first.
func ownAddresses() (list []address) {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		found, _ := i.Addrs()
		for _, a := range found {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && prefix.Addr().IsGlobalUnicast() {
				list = append(list, address{Interface: i.Name, Prefix: prefix})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y address) int { return x.Prefix.Addr().BitLen() - y.Prefix.Addr().BitLen() })
	return list
}
