package comm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"gorun/comm/internal/backend"
	"gorun/env"
	"gorun/rendezvous/tcpstore"
)

// meeting exchanges data between the ranks through keys in a store, so that a back end can connect them.
type meeting struct {
	self     env.Rank
	prefix   string
	name     string // from WithName, "" if unset
	rounds   int
	splits   int
	client   *tcpstore.Client
	borrowed bool      // another meeting owns the client
	server   io.Closer // set on rank 0 if no other process serves the store

	addresses *addressServer // set on rank 0 if the other ranks cannot know the store's address
}

// asking limits a query for missing ranks after the timeout.
const asking = 2 * time.Second

// lateError names the ranks that did not join an exchange.
type lateError struct {
	missing []int
	name    string // the group's name, "" if unset
	cause   error  // why the wait ended
	err     error
}

func (e *lateError) Error() string {
	if len(e.missing) == 0 {
		return e.err.Error()
	}
	text := fmt.Sprintf("%s did not come: %v", backend.Ranks(e.missing), e.cause)
	if e.name != "" {
		text += fmt.Sprintf(" to the group with the name %q", e.name)
	}
	return text
}

func (e *lateError) Unwrap() error { return e.err }

// meet connects to the job's store; a group of one needs none. name comes from WithName, and number counts the groups
// with that name.
func meet(ctx context.Context, self env.Rank, name string, number int) (*meeting, error) {
	place := fmt.Sprintf("%s/%d", name, number)
	m := &meeting{self: self, name: name, prefix: fmt.Sprintf("gorun/comm/%s/%d/%s/", self.RunID, self.Attempt, place)}
	if self.WorldSize == 1 {
		return m, nil
	}
	err := m.open(ctx, place)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *meeting) open(ctx context.Context, place string) (err error) {
	address := m.self.Store
	if address == "" {
		address, err = m.neighboursStore(ctx, place)
	} else {
		err = m.serveIfNobody(ctx, address)
	}
	if err != nil {
		return err
	}
	if m.client, err = tcpstore.Dial(ctx, address); err != nil {
		return fmt.Errorf("the store at %s: %w", address, err)
	}
	return nil
}

// split returns the meeting of a subgroup, in the same store.
func (m *meeting) split(color, rank, size int) *meeting {
	m.splits++
	return &meeting{
		self: env.Rank{Rank: rank, WorldSize: size}, client: m.client, borrowed: true,
		prefix: fmt.Sprintf("%ssplit %d/%d/", m.prefix, m.splits, color),
	}
}

// serveIfNobody starts the store on rank 0 if no launcher serves it. torch.distributed's env:// assigns this to rank 0
// too.
func (m *meeting) serveIfNobody(ctx context.Context, address string) error {
	if m.self.Rank != 0 || m.self.Launcher == "gorun" {
		return nil
	}
	served.Lock()
	defer served.Unlock()
	if s := served.at[address]; s != nil {
		s.users++
		m.server = s
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		return errors.Join(checkStore(conn), conn.Close())
	case ctx.Err() != nil:
		return fmt.Errorf("the store at %s does not answer: %w", address, context.Cause(ctx))
	}
	s, err := serve(address, m.peers())
	if err != nil {
		return err
	}
	m.server = s
	return nil
}

// served contains this process's stores by address. Groups that exist at the same time share one, until the last one
// closes it.
var served = struct {
	sync.Mutex
	at map[string]*ownStore
}{at: map[string]*ownStore{}}

type ownStore struct {
	server  *tcpstore.Server
	address string
	users   int
}

// peers returns a filter for the store's connections from other hosts. It is nil, which rejects all of them, if all
// ranks run on this host. Otherwise it accepts any, since rank 0 does not know the other hosts' addresses. The store
// checks local processes by user ID.
func (m *meeting) peers() func(netip.Addr) bool {
	if m.self.NumNodes == 1 || m.self.LocalWorldSize == m.self.WorldSize {
		return nil
	}
	return func(netip.Addr) bool { return true }
}

// serve starts the store. The caller holds served's lock.
func serve(address string, peers func(netip.Addr) bool) (*ownStore, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the store's address %q: %w", address, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("the store's port %q is no number", port)
	}
	server, err := tcpstore.Listen(tcpstore.Config{Host: listenHost(host), Port: number, Allow: peers})
	if err != nil {
		return nil, fmt.Errorf("rank 0 serves the store at %s, since nobody does: %w", address, err)
	}
	s := &ownStore{server, address, 1}
	served.at[address] = s
	return s, nil
}

// Close releases one reference to the store. The last one stops it.
func (s *ownStore) Close() error {
	served.Lock()
	defer served.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	delete(served.at, s.address)
	return s.server.Close()
}

// listenHost returns the address to listen on so that host reaches it: the loopback interface only if host names it.
func listenHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String()
	}
	if host == "localhost" {
		return host
	}
	return "::"
}

// exchange is a [backend.Exchange]. Rank 0 collects the blobs, so that each of n ranks reads one key instead of n.
func (m *meeting) exchange(ctx context.Context, blob []byte) ([][]byte, error) {
	m.rounds++
	prefix := fmt.Sprintf("%s%d/", m.prefix, m.rounds)
	if m.self.WorldSize == 1 {
		return [][]byte{blob}, nil
	}
	if err := m.client.Set(ctx, prefix+strconv.Itoa(m.self.Rank), blob); err != nil {
		return nil, m.late(ctx, prefix, err)
	}
	if m.self.Rank == 0 {
		blobs, err := m.collect(ctx, prefix)
		if err != nil {
			return nil, m.late(ctx, prefix, err)
		}
		return blobs, m.client.Set(ctx, prefix+"all", pack(blobs))
	}
	packed, err := m.client.Get(ctx, prefix+"all")
	if err != nil {
		return nil, m.late(ctx, prefix, err)
	}
	return unpack(packed, m.self.WorldSize)
}

func (m *meeting) collect(ctx context.Context, prefix string) ([][]byte, error) {
	keys := make([]string, m.self.WorldSize)
	for rank := range keys {
		keys[rank] = prefix + strconv.Itoa(rank)
	}
	if err := m.client.Wait(ctx, keys...); err != nil {
		return nil, err
	}
	return m.client.MultiGet(ctx, keys...)
}

// late adds the missing ranks to an error if ctx has ended.
func (m *meeting) late(ctx context.Context, prefix string, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	var missing []int
	for rank := range m.self.WorldSize {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
		here, failed := m.client.Check(ask, prefix+strconv.Itoa(rank))
		cancel()
		if failed != nil {
			return err
		}
		if !here {
			missing = append(missing, rank)
		}
	}
	return &lateError{missing, m.name, cause, err}
}

func (m *meeting) close() error {
	if m.borrowed {
		return nil
	}
	var err error
	if m.client != nil {
		err = m.client.Close()
	}
	if m.addresses != nil {
		m.addresses.close()
	}
	if m.server != nil {
		err = errors.Join(err, m.server.Close())
	}
	return err
}

// pack joins blobs, each as its length in decimal, a colon and its bytes. unpack reverses it.
func pack(blobs [][]byte) (packed []byte) {
	for _, blob := range blobs {
		packed = append(strconv.AppendInt(packed, int64(len(blob)), 10), ':')
		packed = append(packed, blob...)
	}
	return packed
}

func unpack(packed []byte, n int) ([][]byte, error) {
	blobs := make([][]byte, n)
	for i := range blobs {
		length, rest, found := bytes.Cut(packed, []byte(":"))
		size, err := strconv.Atoi(string(length))
		if !found || err != nil || size < 0 || size > len(rest) {
			return nil, fmt.Errorf("what rank 0 collected is broken at blob %d of %d", i, n)
		}
		blobs[i], packed = rest[:size], rest[size:]
	}
	return blobs, nil
}
