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

// KeySize is the minimum size of a key in bytes.
const KeySize = 32

// A wire connects ranks on different hosts. In each pair the higher rank dials the lower one, once for data and once
// for control.
//
// In the handshake both sides prove that they have the key, with HMAC-SHA256 over fresh random numbers of both. They
// also prove their rank, their role and their group: the session is a digest of all ranks' descriptions.
//
// The handshake only authenticates the peer. Later data is neither encrypted nor signed.
type wire struct {
	reader backend.Reader // identifies the reader of errors

	rank         int
	key, session []byte
	listener     net.Listener
	pacer        string        // the host's congestion control if that is BBR: see pacing.go
	pending      chan struct{} // a token for each unauthenticated peer

	mu       sync.Mutex
	unproven map[net.Conn]bool // connections in their handshake; nil when wire accepts no more
	wanted   map[slot]bool
	made     map[slot]net.Conn
	refused  map[int]error // by the rank that the peer claimed
	complete chan struct{}
}

// A slot identifies a connection.
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
	// proofTime limits a handshake, dialTime the connection to one address.
	proofTime = 10 * time.Second
	dialTime  = 5 * time.Second
	// maxHandshakes is the maximum number of concurrent handshakes; wire rejects further peers. dials is the maximum
	// number of connections that a rank opens at the same time.
	maxHandshakes = 256
	dials         = 32
	attempts      = 16 // to reach a rank that rejects peers because it has too many

	nonceSize = 32
	helloSize = len(magic) + 4 + 4 + 1 + nonceSize
)

func newWire(rank int, key []byte) *wire {
	return &wire{
		rank: rank, key: key, pacer: hostPacer(), pending: make(chan struct{}, maxHandshakes),
		wanted: map[slot]bool{}, made: map[slot]net.Conn{},
		unproven: map[net.Conn]bool{},
		refused:  map[int]error{}, complete: make(chan struct{}),
	}
}

// fingerprint identifies a key without revealing it. It is in the store, so that all ranks can compare it. This is safe
// because the key is random.
func fingerprint(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("gorun comm: which key"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// listen opens the port for higher ranks.
func (w *wire) listen() (err error) {
	config := net.ListenConfig{Control: w.unpace}
	w.listener, err = config.Listen(context.Background(), "tcp", ":0") // #nosec G102 -- peers prove the job's key
	return err
}

// addresses returns this host's addresses. The first one is in the network that leads to near.
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

// mostAddresses is the maximum number of addresses of a rank. A dialing rank tries them one after the other.
const mostAddresses = 64

// checkAddresses rejects addresses that no rank publishes: names, which need a lookup, addresses that every host has,
// and more than mostAddresses.
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

// interfaceAddresses returns the addresses of all interfaces that are up.
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

// localAddress returns the source address of packets to near. It sends no packet.
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

// connect connects to ranks: it dials the lower ones and accepts the higher ones. addresses contains every rank's
// addresses.
func (w *wire) connect(ctx context.Context, ranks []int, addresses [][]string) error {
	var working sync.WaitGroup
	defer working.Wait()
	defer w.dismiss()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, rank := range ranks {
		w.wanted[slot{rank, forData}], w.wanted[slot{rank, forControl}] = true, true
	}
	working.Go(func() { w.accept(&working, cancel) })
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

// dial connects to the lower ones of ranks, at most dials at the same time.
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

// dismiss ends the remaining handshakes and the listener.
func (w *wire) dismiss() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.unproven {
		conn.Close()
	}
	w.unproven = nil
}

// meets records an unauthenticated connection. It returns false if wire accepts no more.
func (w *wire) meets(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unproven == nil {
		return false
	}
	w.unproven[conn] = true
	return true
}

// incomplete names the missing ranks, and rejected peers that claimed to be one of them.
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

// close closes all connections.
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

// --- accepting side ---

func (w *wire) accept(working *sync.WaitGroup, cancel context.CancelCauseFunc) {
	for {
		conn, err := w.listener.Accept()
		if err != nil { // such as for lack of descriptors; also the end of connect, when cancel does nothing
			cancel(err)
			return
		}
		select {
		case w.pending <- struct{}{}:
		default: // too many handshakes: the rank retries
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

// admit authenticates a peer. Until then, the peer gets at most two fixed messages and a few seconds.
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

// keep stores an authenticated connection. It returns false if there is one already. The accepting side confirms the
// connection with one byte.
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

// --- dialing side ---

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
		dialer := net.Dialer{Timeout: dialTime, Control: w.unpace}
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

// breakOff ends a handshake but not a stored connection. ctx also ends when the last connection is complete, possibly
// before the dialing side has read the confirmation.
func (w *wire) breakOff(s slot, conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[s] != conn {
		conn.SetDeadline(time.Unix(1, 0))
	}
}

// brokenOff is the error of a connection that ended before the peer authenticated.
type brokenOff struct{ error }

// introduce authenticates this rank to the peer, after the peer.
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

// hello returns magic, dialing rank, accepting rank, purpose and random number.
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

// proof returns the MAC that proves possession of the key. It includes the role, so that a peer cannot reflect a rank's
// own proof.
func (w *wire) proof(role string, hello, nonce []byte) []byte {
	mac := hmac.New(sha256.New, w.key)
	for _, part := range [][]byte{[]byte("gorun comm: " + role), w.session, hello, nonce} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}
