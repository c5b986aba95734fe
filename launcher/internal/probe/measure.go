package probe

import (
	"context"
	"crypto/rand"
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

// Measured is what the way to a Target is like.
type Measured struct {
	// Target is its index in the list that was given.
	Target int
	// RTT is the shortest of several round trips of one byte; 0: nobody was reached.
	RTT time.Duration
	// Segments is how many TCP segments were sent with few of them under way at a time,
	// which no queue on the way need drop, and Resent how many of those were lost.
	Segments, Resent int
	// Bytes arrived within Time, in one connection that sent as much as it could;
	// FlowSegments and FlowResent belong to it. A full queue drops some of those.
	Bytes                    int64
	Time                     time.Duration
	FlowSegments, FlowResent int
	// Packet is the size in bytes of the IP packets in which TCP sends there. Passes is,
	// where those vanish, the largest size that was found to arrive, and Vanishes the
	// smallest that was not; 0: all arrive.
	Packet, Passes, Vanishes int
	// Problem says why less is known.
	Problem string
}

// Bounds of a measurement, so that eight hosts are done within two seconds.
const (
	pings        = 8
	echoBytes    = 8 << 10 // of one message: a few segments
	echoMost     = 64      // messages
	echoLeast    = 4
	echoTime     = 60 * time.Millisecond
	lossTime     = 400 * time.Millisecond // in place of it once something was lost
	flowTime     = 80 * time.Millisecond  // at least; some round trips more on a long way
	flowLongest  = 400 * time.Millisecond
	flowMost     = 128 << 20              // bytes
	pingTime     = 250 * time.Millisecond // no further ping after it
	stallTime    = 900 * time.Millisecond // of a message: TCP repeats twice meanwhile
	arriveTime   = 700 * time.Millisecond
	measuredTime = 10 * time.Second // of a peer that is measured
)

// What a dialer says after the greeting: an operation and the number of bytes that
// follow.
const (
	opEcho   = 'e' // one byte comes back when all have arrived
	opFlow   = 'f' // bytes follow until the end
	opHeader = 1 + 4
)

// openTime is how long it may take to reach a node.
const openTime = 3500 * time.Millisecond

// Measure measures the ways to targets one after the other, and what is more for each
// takes some 150 ms.
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
		if m.tried(ctx, key, target, own) || ctx.Err() != nil {
			return m
		}
	}
	m.Problem = stalls
	return m
}

// tried measures once; false where data stalled and no size of packets explains it:
// some were lost.
func (m *Measured) tried(ctx context.Context, key []byte, target Target, own []Candidate) bool {
	way, target, err := reach(ctx, key, target, own)
	if err != nil {
		m.Problem = err.Error()
		return true
	}
	defer way.close()
	if err := way.ping(m); err != nil {
		return false
	}
	m.Packet = way.packet()
	switch err := way.echo(m); {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
		m.Passes, m.Vanishes = findLimit(ctx, key, target, m.Packet)
		if m.Passes > 0 {
			m.Segments, m.Resent = 0, 0
		}
		return m.Passes > 0
	case err != nil:
		m.Problem = problem(ctx, err)
	default:
		way.flow(m)
	}
	return true
}

// measuring is a connection to a node that is measured.
type measuring struct {
	*net.TCPConn
	ipv6 bool
}

// reach connects to a target, one of its own link by each interface that may lead there,
// and returns it with the name of that.
func reach(ctx context.Context, key []byte, target Target, own []Candidate) (measuring, Target, error) {
	err := errors.New(noRoute)
	for _, t := range target.onLinks(own) {
		var way measuring
		if way, err = open(ctx, key, t, openTime, again, 0); err == nil {
			return way, t, nil
		}
	}
	return measuring{}, target, err
}

// open makes one connection to a node that is measured.
func open(ctx context.Context, key []byte, target Target, limit time.Duration, again []time.Duration, segment int) (
	measuring, error,
) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	conn, _, err := target.open(ctx, key, toMeasure, again, segment)
	if err != nil {
		return measuring{}, errors.New(problem(ctx, err))
	}
	return measuring{conn.(*net.TCPConn), target.Addr.Unmap().Is6()}, nil
}

// close drops what is still to be sent: a slow way is not waited for.
func (w measuring) close() {
	_ = w.SetLinger(0)
	_ = w.Close()
}

// say sends one message and waits until it has arrived.
func (w measuring) say(bytes int, limit time.Duration) (took time.Duration, err error) {
	message := make([]byte, opHeader+bytes)
	message[0] = opEcho
	binary.LittleEndian.PutUint32(message[1:], uint32(bytes))
	began := time.Now()
	if err := w.SetDeadline(began.Add(limit)); err != nil {
		return 0, err
	}
	if _, err := w.Write(message); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(w, message[:1])
	return time.Since(began), err
}

// ping finds the shortest round trip.
func (w measuring) ping(m *Measured) error {
	began := time.Now()
	for i := 0; i < pings && time.Since(began) < pingTime; i++ {
		took, err := w.say(1, 2*stallTime)
		if err != nil {
			return err
		}
		if m.RTT == 0 || took < m.RTT {
			m.RTT = max(took, 1)
		}
	}
	return nil
}

// echo sends messages of several segments, one at a time, to see what is lost.
func (w measuring) echo(m *Measured) (err error) {
	before, began := w.info(), time.Now()
	var segments, resent int
	limit := echoTime
	for i := 0; err == nil && (i < echoLeast || i < echoMost && time.Since(began) < limit); i++ {
		_, err = w.say(echoBytes, stallTime)
		if segments, resent = sent(before, w.info()); resent > 0 {
			limit = lossTime
		}
	}
	m.Segments, m.Resent = m.Segments+segments, m.Resent+resent
	return err
}

// flow sends as much as it can for a while.
func (w measuring) flow(m *Measured) {
	limit := min(max(flowTime, 4*m.RTT), flowLongest)
	before, began := w.info(), time.Now()
	_ = w.SetDeadline(began.Add(limit))
	var block [64 << 10]byte
	block[0] = opFlow
	for sent := 0; sent < flowMost; {
		n, err := w.Write(block[:])
		if sent += n; err != nil {
			break
		}
	}
	after := w.info()
	m.Time = time.Since(began)
	m.Bytes = max(0, int64(after.Bytes_acked)-int64(before.Bytes_acked))
	m.FlowSegments, m.FlowResent = sent(before, after)
}

// info is what the kernel tells of the connection; see tcp(7).
func (w measuring) info() (info unix.TCPInfo) {
	raw, err := w.SyscallConn()
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

// packet is the size of the packets in which TCP sends.
func (w measuring) packet() int {
	const timestamps, timestampsSize = 1, 12 // TCPI_OPT_TIMESTAMPS, RFC 7323
	info := w.info()
	size := int(info.Snd_mss) + headers(w.ipv6)
	if info.Options&timestamps != 0 {
		size += timestampsSize
	}
	return size
}

// headers are the bytes of IP and TCP before a segment without options.
func headers(ipv6 bool) int {
	if ipv6 {
		return 60
	}
	return 40
}

// sent says how many segments with data were sent between two looks, and how many of
// them because others were lost; what arrived twice was not.
func sent(before, after unix.TCPInfo) (segments, again int) {
	segments = int(after.Data_segs_out) - int(before.Data_segs_out)
	again = int(after.Total_retrans) - int(before.Total_retrans) - (int(after.Dsack_dups) - int(before.Dsack_dups))
	return max(segments, 0), max(again, 0)
}

// packetSizes are tried where large packets vanish: what tunnels and links of all
// kinds leave of 1500 and 9000.
var packetSizes = []int{576, 1000, 1280, 1380, 1400, 1420, 1450, 1460, 1480, 1492, 1500, 2000, 4000, 8000, 8900, 9000}

// limitTries is how often each size is tried, and limitSure how many of the connections
// made for that have to stall before it counts as one that vanishes.
const (
	limitTries = 4
	limitSure  = 2
)

// findLimit finds the size of packets from which on they vanish: the largest that
// passes and the smallest that does not; zeros where there is no such limit.
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

// limitOf is the border between sizes that arrive and those that do not, if it is one.
func limitOf(sizes []int, arrived []bool) (passes, vanishes int) {
	border := slices.Index(arrived, false)
	if border <= 0 || slices.Contains(arrived[border:], true) {
		return 0, 0
	}
	return sizes[border-1], sizes[border]
}

// arrives reports whether packets of a size do: in one of several connections, or where too few of these
// could be made to know.
func arrives(ctx context.Context, key []byte, target Target, size int) bool {
	var work sync.WaitGroup
	var whole, stalled atomic.Int32
	for range limitTries {
		work.Go(func() {
			way, err := open(ctx, key, target, arriveTime, nil, size-headers(target.Addr.Unmap().Is6()))
			if err != nil {
				return
			}
			defer way.close()
			if _, err = way.say(2*max(echoBytes, size), arriveTime); err == nil {
				whole.Add(1)
			} else {
				stalled.Add(1)
			}
		})
	}
	work.Wait()
	return whole.Load() > 0 || stalled.Load() < limitSure
}

// beMeasured is the other end of Measure, once it has proven itself.
func beMeasured(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(measuredTime))
	var header [opHeader]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		bytes := int64(binary.LittleEndian.Uint32(header[1:]))
		switch header[0] {
		case opEcho:
			if _, err := io.CopyN(io.Discard, conn, bytes); err != nil {
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

// converse has the node at the other end prove itself.
func converse(conn net.Conn, why *purpose, key []byte, node int) (rtt time.Duration, err error) {
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return 0, err
	}
	greet := why.greeting(key, node, nonce)
	began := time.Now()
	if _, err := conn.Write(greet); err != nil {
		return 0, err
	}
	var reply [answerSize]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, err
	}
	if !why.proves(key, greet, reply[:]) {
		return 0, errStranger
	}
	return time.Since(began), nil
}
