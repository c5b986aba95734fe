package cpu

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"gorun/comm/internal/backend"
)

// KeySize is how many bytes a key must have at least.
const KeySize = 32

// A wire makes the connections between ranks of different hosts: of each pair the higher rank dials the lower one, once
// for data and once for control. Before anything else both prove that they have the key (HMAC-SHA256 over both's fresh
// random numbers), that they are who they say, in the role in which they say it, and that they belong to this group:
// the session is a digest of what all its ranks said about themselves.
//
// Only who comes is proven. What goes over a connection later is neither hidden nor signed.
type wire struct {
	reader backend.Reader // for errors

	rank         int
	key, session []byte
	listener     net.Listener
	pending      chan struct{} // a token for each stranger whose proof is waited for

	mu       sync.Mutex
	unproven map[net.Conn]bool // they; nil when no more are wanted
	wanted   map[slot]bool
	made     map[slot]net.Conn
	refused  map[int]error // by the rank that a stranger said to be
	complete chan struct{}
}

// A slot is a connection that is to be made.
type slot struct {
	rank    int
	purpose byte
}

const (
	forData    = 'D'
	forControl = 'C'
)

const (
	magic = "gorunC01"
	// proofTime is how long a handshake may take, dialTime how long one address may take to answer.
	proofTime = 10 * time.Second
	dialTime  = 5 * time.Second
	// strangers is how many may be in their handshake at once, the next are sent away; dials is how many connections a
	// rank makes at once.
	strangers = 256
	dials     = 32
	attempts  = 16 // to reach a rank whose callers are too many

	nonceSize = 32
	helloSize = len(magic) + 4 + 4 + 1 + nonceSize
)

func newWire(rank int, key []byte) *wire {
	return &wire{
		rank: rank, key: key, pending: make(chan struct{}, strangers), wanted: map[slot]bool{}, made: map[slot]net.Conn{},
		unproven: map[net.Conn]bool{},
		refused:  map[int]error{}, complete: make(chan struct{}),
	}
}

// fingerprint tells keys apart without telling them. It lies in the store for all ranks to compare, which is as safe as
// the key is random.
func fingerprint(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("gorun comm: which key"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// listen opens the port at which higher ranks dial.
func (w *wire) listen() (err error) {
	w.listener, err = net.Listen("tcp", ":0") // #nosec G102 -- peers prove the job's key
	return err
}

// addresses are those at which this host is reached, that by which it reaches near first.
func (w *wire) addresses(near string, loopback bool) ([]string, error) {
	_, port, err := net.SplitHostPort(w.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	all, err := interfaceAddresses()
	if err != nil {
		return nil, fmt.Errorf("the host's network interfaces: %w", err)
	}
	var found []string
	if first := localAddress(near); first != nil && first.IsLoopback() == loopback {
		found = append(found, first.String())
	}
	for _, address := range all {
		network, ok := address.(*net.IPNet)
		if ok && network.IP.IsLoopback() == loopback && !network.IP.IsLinkLocalUnicast() &&
			!slices.Contains(found, network.IP.String()) {
			found = append(found, network.IP.String())
		}
	}
	if len(found) == 0 {
		return nil, errors.New("this host has no address at which other hosts could reach it")
	}
	found = found[:min(len(found), mostAddresses)]
	for i := range found {
		found[i] = net.JoinHostPort(found[i], port)
	}
	return found, nil
}

// mostAddresses is at how many addresses a rank says that it can be reached: who dials tries them one after the other.
const mostAddresses = 64

// checkAddresses refuses what no rank says of itself: names, that somebody would have to look up, addresses that every
// host has, and too many.
func checkAddresses(all []string, loopback bool) error {
	if len(all) > mostAddresses {
		return fmt.Errorf("it says that it has %d addresses, more than %d", len(all), mostAddresses)
	}
	for _, text := range all {
		address, err := netip.ParseAddrPort(text)
		if err != nil {
			return fmt.Errorf("its address: %w", err)
		}
		ip := address.Addr().Unmap()
		if address.Port() == 0 || ip.IsLoopback() != loopback || ip.IsUnspecified() || ip.IsMulticast() {
			return fmt.Errorf("its address %v cannot be reached from other hosts", address)
		}
	}
	return nil
}

// interfaceAddresses are those of all interfaces that are up.
func interfaceAddresses() (all []net.Addr, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range interfaces {
		if interfaces[i].Flags&net.FlagUp == 0 {
			continue
		}
		own, err := interfaces[i].Addrs()
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	return all, nil
}

// localAddress is the address from which this host would talk to near; no packet is sent to find out.
func localAddress(near string) net.IP {
	if near == "" {
		return nil
	}
	conn, err := net.Dial("udp", near)
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP
}

// connect makes the connections to those ranks, of which some are dialled and the others dial us. addresses are every
// rank's.
func (w *wire) connect(ctx context.Context, ranks []int, addresses [][]string) error {
	var working sync.WaitGroup
	defer working.Wait()
	defer w.dismiss()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, rank := range ranks {
		w.wanted[slot{rank, forData}], w.wanted[slot{rank, forControl}] = true, true
	}
	working.Go(func() { w.accept(&working) })
	stop := context.AfterFunc(ctx, func() { w.listener.Close() })
	defer stop()
	w.dial(ctx, cancel, &working, ranks, addresses)
	select {
	case <-w.complete:
		return nil
	case <-ctx.Done():
		return w.incomplete(context.Cause(ctx))
	}
}

// dial reaches the lower ones of those ranks, so many at once.
func (w *wire) dial(ctx context.Context, cancel context.CancelCauseFunc, working *sync.WaitGroup, ranks []int,
	addresses [][]string,
) {
	turns := make(chan struct{}, dials)
	for _, rank := range ranks {
		if rank > w.rank {
			continue
		}
		working.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for _, purpose := range []byte{forData, forControl} {
				if err := w.reach(ctx, slot{rank, purpose}, addresses[rank]); err != nil {
					cancel(err)
				}
			}
		})
	}
}

// dismiss ends the handshakes that are still going on, and the listening.
func (w *wire) dismiss() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.unproven {
		conn.Close()
	}
	w.unproven = nil
}

// meets notes a stranger; false where no more are wanted.
func (w *wire) meets(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unproven == nil {
		return false
	}
	w.unproven[conn] = true
	return true
}

// incomplete says who is missing and whether somebody was refused in their name.
func (w *wire) incomplete(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []int
	for s := range w.wanted {
		if w.made[s] == nil && !slices.Contains(missing, s.rank) {
			missing = append(missing, s.rank)
		}
	}
	slices.Sort(missing)
	err := fmt.Errorf("no connection with %s: %w", w.reader.Ranks(missing), cause)
	for _, rank := range missing {
		if w.refused[rank] != nil {
			return errors.Join(err, fmt.Errorf("somebody who said to be %s was refused: %w", w.reader.Rank(rank),
				w.refused[rank]))
		}
	}
	return err
}

// close ends all connections.
func (w *wire) close() {
	if w.listener != nil {
		w.listener.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.made {
		conn.Close()
	}
}

// --- the side that is dialled ---

func (w *wire) accept(working *sync.WaitGroup) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		select {
		case w.pending <- struct{}{}:
		default: // too many at once: a rank dials again
			conn.Close()
			continue
		}
		working.Go(func() {
			defer func() { <-w.pending }()
			if !w.meets(conn) || w.admit(conn) != nil {
				conn.Close()
			}
		})
	}
}

// admit lets a stranger prove who it is. Until then it gets no more than two fixed messages and some seconds.
func (w *wire) admit(conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(proofTime))
	var hello [helloSize]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return err
	}
	s, to, err := parseHello(hello[:])
	if err != nil || to != w.rank || s.rank <= w.rank || !w.wanted[s] {
		return errors.New("no rank of this group")
	}
	nonce := make([]byte, nonceSize)
	rand.Read(nonce)
	if _, err := conn.Write(append(nonce, w.proof("dialled", hello[:], nonce)...)); err != nil {
		return err
	}
	var theirs [sha256.Size]byte
	if _, err := io.ReadFull(conn, theirs[:]); err != nil {
		return w.refuse(s.rank, fmt.Errorf("it broke off before it proved to have the key: %w", err))
	}
	if !hmac.Equal(theirs[:], w.proof("dialling", hello[:], nonce)) {
		return w.refuse(s.rank, errors.New("it has another key"))
	}
	if !w.keep(s, conn) {
		return errors.New("connected already")
	}
	return nil
}

func (w *wire) refuse(rank int, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[rank] = err
	return err
}

// keep notes a connection that was proven; false where there is one. The listening side says so by one byte.
func (w *wire) keep(s slot, conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[s] != nil {
		return false
	}
	if s.rank > w.rank {
		if _, err := conn.Write([]byte{1}); err != nil {
			return false
		}
	}
	conn.SetDeadline(time.Time{})
	w.made[s] = conn
	delete(w.unproven, conn)
	if len(w.made) == len(w.wanted) {
		close(w.complete)
	}
	return true
}

// --- the side that dials ---

// reach tries the rank's addresses one after the other.
func (w *wire) reach(ctx context.Context, s slot, addresses []string) error {
	for attempt := 1; ; attempt++ {
		err := w.tryAll(ctx, s, addresses)
		var busy *brokenOff
		if err == nil || !errors.As(err, &busy) || attempt == attempts {
			return err
		}
		select {
		case <-time.After(time.Duration(attempt) * 100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (w *wire) tryAll(ctx context.Context, s slot, addresses []string) error {
	var failed []error
	for _, address := range addresses {
		dialer := net.Dialer{Timeout: dialTime}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { w.breakOff(s, conn) })
			err = w.introduce(conn, s)
			stop()
		}
		if err == nil {
			return nil
		}
		if conn != nil {
			conn.Close()
		}
		failed = append(failed, fmt.Errorf("%s: %w", address, err))
	}
	return fmt.Errorf("rank %d cannot be reached: %w", s.rank, errors.Join(failed...))
}

// breakOff ends a handshake. ctx ends, too, when the last connection was made, of which who dialled may not have heard
// yet: what is kept stays.
func (w *wire) breakOff(s slot, conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[s] != conn {
		conn.SetDeadline(time.Unix(1, 0))
	}
}

// brokenOff is the error of a connection that ended before the other side proved anything.
type brokenOff struct{ error }

// introduce proves to the rank who we are, after it did.
func (w *wire) introduce(conn net.Conn, s slot) error {
	conn.SetDeadline(time.Now().Add(proofTime))
	hello := w.hello(s)
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	var answer [nonceSize + sha256.Size]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return &brokenOff{fmt.Errorf("who answers there is not rank %d of this group, or has too many callers: %w", s.rank,
			err)}
	}
	nonce := answer[:nonceSize]
	if !hmac.Equal(answer[nonceSize:], w.proof("dialled", hello, nonce)) {
		return fmt.Errorf("who answers there as rank %d has another key or belongs to another group", s.rank)
	}
	if _, err := conn.Write(w.proof("dialling", hello, nonce)); err != nil {
		return err
	}
	var accepted [1]byte
	if _, err := io.ReadFull(conn, accepted[:]); err != nil {
		return fmt.Errorf("rank %d refused this rank: %w", s.rank, err)
	}
	if !w.keep(s, conn) {
		return errors.New("connected already")
	}
	return nil
}

// --- messages ---

// hello is: magic, who dials, who is dialled, purpose, random number.
func (w *wire) hello(s slot) []byte {
	nonce := make([]byte, nonceSize)
	rand.Read(nonce)
	hello := binary.LittleEndian.AppendUint32([]byte(magic), uint32(w.rank))
	hello = binary.LittleEndian.AppendUint32(hello, uint32(s.rank))
	return append(append(hello, s.purpose), nonce...)
}

func parseHello(hello []byte) (from slot, to int, err error) {
	rest, ok := bytes.CutPrefix(hello, []byte(magic))
	if !ok {
		return from, 0, errors.New("not the protocol of gorun/comm")
	}
	from = slot{int(binary.LittleEndian.Uint32(rest)), rest[8]}
	return from, int(binary.LittleEndian.Uint32(rest[4:])), nil
}

// proof shows that one has the key. The role is part of it, so that nobody can be made to answer its own question.
func (w *wire) proof(role string, hello, nonce []byte) []byte {
	mac := hmac.New(sha256.New, w.key)
	for _, part := range [][]byte{[]byte("gorun comm: " + role), w.session, hello, nonce} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}
