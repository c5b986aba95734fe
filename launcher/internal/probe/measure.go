package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Measured describes the quality of the path to a Target.
type Measured struct {
	Target int // index in the list that was measured
	// RTT is the shortest of several round trips of one byte; 0 if the node was not reached.
	RTT time.Duration
	// Segments counts the TCP segments sent with few in flight, which no queue on the path has to drop, and Resent the
	// ones among them that were lost.
	Segments, Resent int
	// Bytes arrived within Time over one connection that sent as fast as it could. FlowSegments and FlowResent count its
	// segments; a full queue drops some of them.
	Bytes                    int64
	Time                     time.Duration
	FlowSegments, FlowResent int
	// Packet is the size in bytes of the IP packets that TCP sends. If packets of that size vanish, Passes is the largest
	// size that arrived and Vanishes the smallest that did not; otherwise both are 0.
	Packet, Passes, Vanishes int
	// Problem says why the rest is missing.
	Problem string
}

// Bounds of a measurement: eight hosts take two seconds.
const (
	pings           = 8
	pingTime        = 250 * time.Millisecond // no further ping after it
	echoBytes       = 8 << 10                // of one message: a few segments
	maxEchoes       = 64
	minEchoes       = 4
	echoTime        = 60 * time.Millisecond
	lossTime        = 400 * time.Millisecond // instead of echoTime once something was lost
	minFlowTime     = 80 * time.Millisecond  // and at least some round trips
	maxFlowTime     = 400 * time.Millisecond
	maxFlowBytes    = 128 << 20
	openTimeout     = 3500 * time.Millisecond
	stallTimeout    = 900 * time.Millisecond // for one message: TCP resends twice within it
	arrivalTimeout  = 700 * time.Millisecond
	measuredTimeout = 10 * time.Second // of the measured peer
)

// After the handshake, a dialer sends commands: an operation and the number of bytes that follow.
const (
	opEcho   = 'e' // one byte comes back when all have arrived
	opFlow   = 'f' // bytes follow until the end
	opHeader = 1 + 4
)

// Measure measures the paths to the targets, one after the other; each takes about 150 ms.
func Measure(ctx context.Context, key []byte, targets []Target, own []Candidate) []Measured {
	all := make([]Measured, len(targets))
	for i, target := range targets {
		all[i] = measure(ctx, key, target, own)
		all[i].Target = i
	}
	return all
}

func measure(ctx context.Context, key []byte, target Target, own []Candidate) (m Measured) {
	for range 2 {
		if m.try(ctx, key, target, own) || ctx.Err() != nil {
			return m
		}
	}
	m.Problem = stalls
	return m
}

// try measures once. It returns false if data stalled and no packet size explains it: some of it was lost.
func (m *Measured) try(ctx context.Context, key []byte, target Target, own []Candidate) bool {
	conn, target, err := openAny(ctx, key, target.zoned(own))
	if err != nil {
		m.Problem = err.Error()
		return true
	}
	defer conn.drop()
	if err := conn.ping(m); err != nil {
		return false
	}
	m.Packet = conn.packetSize()
	switch err := conn.echoes(m); {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
		m.Passes, m.Vanishes = findLimit(ctx, key, target, m.Packet)
		if m.Passes > 0 {
			m.Segments, m.Resent = 0, 0
		}
		return m.Passes > 0
	case err != nil:
		m.Problem = problem(ctx, err)
	default:
		conn.flow(m)
	}
	return true
}

// connection is a TCP connection to a node that is measured.
type connection struct{ *net.TCPConn }

// openAny connects to the first target that can be reached, and returns that target.
func openAny(ctx context.Context, key []byte, targets []Target) (conn connection, t Target, err error) {
	err = errors.New(noRoute)
	for _, t = range targets {
		if conn, err = open(ctx, key, t, openTimeout, retries, 0); err == nil {
			break
		}
	}
	return conn, t, err
}

func open(ctx context.Context, key []byte, t Target, timeout time.Duration, retries []time.Duration, maxSegment int) (
	connection, error,
) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	conn, _, err := t.open(ctx, key, toMeasure, retries, maxSegment)
	if err != nil {
		return connection{}, errors.New(problem(ctx, err))
	}
	return connection{conn.(*net.TCPConn)}, nil
}

// drop closes the connection and discards unsent data: a slow path must not delay the caller.
func (c connection) drop() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// echo sends one message and waits until it has arrived.
func (c connection) echo(bytes int, timeout time.Duration) (took time.Duration, err error) {
	message := make([]byte, opHeader+bytes)
	message[0] = opEcho
	binary.LittleEndian.PutUint32(message[1:], uint32(bytes))
	start := time.Now()
	if err := c.SetDeadline(start.Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := c.Write(message); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(c, message[:1])
	return time.Since(start), err
}

// ping measures the shortest round trip.
func (c connection) ping(m *Measured) error {
	start := time.Now()
	for i := 0; i < pings && time.Since(start) < pingTime; i++ {
		took, err := c.echo(1, 2*stallTimeout)
		if err != nil {
			return err
		}
		if m.RTT == 0 || took < m.RTT {
			m.RTT = max(took, 1)
		}
	}
	return nil
}

// echoes sends messages of several segments, one at a time, and counts what is lost.
func (c connection) echoes(m *Measured) (err error) {
	before, start := c.info(), time.Now()
	var segments, resent int
	limit := echoTime
	for i := 0; err == nil && (i < minEchoes || i < maxEchoes && time.Since(start) < limit); i++ {
		_, err = c.echo(echoBytes, stallTimeout)
		if segments, resent = sentBetween(before, c.info()); resent > 0 {
			limit = lossTime
		}
	}
	m.Segments, m.Resent = m.Segments+segments, m.Resent+resent
	return err
}

// flow sends as fast as it can for a while.
func (c connection) flow(m *Measured) {
	before, start := c.info(), time.Now()
	_ = c.SetDeadline(start.Add(min(max(minFlowTime, 4*m.RTT), maxFlowTime)))
	var block [64 << 10]byte
	block[0] = opFlow
	for sent := 0; sent < maxFlowBytes; {
		n, err := c.Write(block[:])
		if sent += n; err != nil {
			break
		}
	}
	after := c.info()
	m.Time = time.Since(start)
	m.Bytes = max(0, int64(after.Bytes_acked)-int64(before.Bytes_acked))
	m.FlowSegments, m.FlowResent = sentBetween(before, after)
}

// info returns the kernel's statistics of the connection; see tcp(7).
func (c connection) info() (info unix.TCPInfo) {
	raw, err := c.SyscallConn()
	if err != nil {
		return info
	}
	_ = raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = *i
		}
	})
	return info
}

// packetSize returns the size of the IP packets that TCP sends.
func (c connection) packetSize() int {
	const timestamps, timestampsSize = 1, 12 // TCPI_OPT_TIMESTAMPS, RFC 7323
	info := c.info()
	size := int(info.Snd_mss) + headerSize(c.RemoteAddr().(*net.TCPAddr).IP.To4() == nil)
	if info.Options&timestamps != 0 {
		size += timestampsSize
	}
	return size
}

// headerSize returns the bytes of IP and TCP headers in front of a segment without options.
func headerSize(ipv6 bool) int {
	if ipv6 {
		return 60
	}
	return 40
}

// sentBetween counts the data segments that were sent between two snapshots, and those among them that replaced lost
// ones. Duplicates that the receiver reported were not lost.
func sentBetween(before, after unix.TCPInfo) (segments, resent int) {
	segments = int(after.Data_segs_out) - int(before.Data_segs_out)
	resent = int(after.Total_retrans) - int(before.Total_retrans) - (int(after.Dsack_dups) - int(before.Dsack_dups))
	return max(segments, 0), max(resent, 0)
}

// packetSizes are what tunnels and links of all kinds leave of 1500 and 9000.
var packetSizes = []int{576, 1000, 1280, 1380, 1400, 1420, 1450, 1460, 1480, 1492, 1500, 2000, 4000, 8000, 8900, 9000}

// Each size is tried in limitTries connections; it vanishes if none delivers it and at least minStalls of them stall.
const (
	limitTries = 4
	minStalls  = 2
)

// findLimit returns the largest packet size that passes and the smallest that vanishes; zeros if there is no such
// limit.
func findLimit(ctx context.Context, key []byte, target Target, packet int) (passes, vanishes int) {
	sizes := slices.DeleteFunc(slices.Clone(packetSizes), func(size int) bool { return size >= packet })
	sizes = append(sizes, packet)
	arrived := make([]bool, len(sizes))
	var work sync.WaitGroup
	for i, size := range sizes {
		work.Go(func() { arrived[i] = arrives(ctx, key, target, size) })
	}
	work.Wait()
	return limitOf(sizes, arrived)
}

// limitOf returns the border between the sizes that arrive and those that do not; zeros if it is not a clean one.
func limitOf(sizes []int, arrived []bool) (passes, vanishes int) {
	border := slices.Index(arrived, false)
	if border <= 0 || slices.Contains(arrived[border:], true) {
		return 0, 0
	}
	return sizes[border-1], sizes[border]
}

// arrives reports whether packets of a size arrive, also if too few connections could be made to tell.
func arrives(ctx context.Context, key []byte, target Target, size int) bool {
	var work sync.WaitGroup
	var arrived, stalled atomic.Int32
	for range limitTries {
		work.Go(func() {
			conn, err := open(ctx, key, target, arrivalTimeout, nil, size-headerSize(target.Addr.Unmap().Is6()))
			if err != nil {
				return
			}
			defer conn.drop()
			if _, err = conn.echo(2*max(echoBytes, size), arrivalTimeout); err == nil {
				arrived.Add(1)
			} else {
				stalled.Add(1)
			}
		})
	}
	work.Wait()
	return arrived.Load() > 0 || stalled.Load() < minStalls
}

// serveMeasurement is the other end of Measure, after the handshake.
func serveMeasurement(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(measuredTimeout))
	var header [opHeader]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		switch header[0] {
		case opEcho:
			if _, err := io.CopyN(io.Discard, conn, int64(binary.LittleEndian.Uint32(header[1:]))); err != nil {
				return
			}
			if _, err := conn.Write(header[:1]); err != nil {
				return
			}
		case opFlow:
			_, _ = io.Copy(io.Discard, conn)
			return
		default:
			return
		}
	}
}
