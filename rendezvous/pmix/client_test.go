package pmix

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// recorder is a launcher that records its calls.
type recorder struct {
	received chan string
	spawn    func(world.Spawn, func(string, error))
}

func newRecorder() *recorder { return &recorder{received: make(chan string, 1024)} }

func (r *recorder) note(format string, args ...any) { r.received <- fmt.Sprintf(format, args...) }

func (r *recorder) Began(p world.Proc, protocol string) { r.note("began %d %s", p.Rank, protocol) }
func (r *recorder) Finalized(p world.Proc)              { r.note("finalized %d", p.Rank) }
func (r *recorder) Left(p world.Proc)                   { r.note("left %d", p.Rank) }
func (r *recorder) Broken(p world.Proc, err error)      { r.note("broken %d %v", p.Rank, err) }
func (r *recorder) Failed(p world.Proc, why string)     { r.note("failed %d %s", p.Rank, why) }
func (r *recorder) PID(p world.Proc) int                { return 1000 + p.Rank }
func (r *recorder) Signal(p world.Proc, number int)     { r.note("signal %d %d", p.Rank, number) }
func (r *recorder) Say(p world.Proc, text string)       { r.note("say %d %s", p.Rank, text) }

func (r *recorder) Abort(p world.Proc, code int, message string) {
	r.note("abort %d %d %s", p.Rank, code, message)
}

func (r *recorder) Stuck(waiting []world.Proc, missing world.Proc) {
	ranks := []int{}
	for _, p := range waiting {
		ranks = append(ranks, p.Rank)
	}
	r.note("stuck %v %d", ranks, missing.Rank)
}

func (r *recorder) Spawn(s world.Spawn, done func(string, error)) { r.spawn(s, done) }

// next returns the next call, except those of ranks that begin MPI.
func (r *recorder) next(t testing.TB) string {
	t.Helper()
	for {
		select {
		case received := <-r.received:
			if len(received) < 5 || received[:5] != "began" {
				return received
			}
		case <-time.After(time.Minute):
			require.FailNow(t, "the launcher received nothing")
		}
	}
}

// all returns the calls so far.
func (r *recorder) all() (received []string) {
	for {
		select {
		case text := <-r.received:
			received = append(received, text)
		default:
			return received
		}
	}
}

// nodes are the servers of a test.
type nodes struct {
	t        testing.TB
	star     *exchangetest.Star
	received *recorder
	servers  []*Server
	dir      string
	serving  sync.WaitGroup
}

// start starts servers on n nodes and adds the worlds to each.
func start(t testing.TB, n int, worlds ...*world.World) *nodes {
	return startOn(t, exchangetest.New(t, n, nil), worlds...)
}

func startOn(t testing.TB, star *exchangetest.Star, worlds ...*world.World) *nodes {
	received := newRecorder()
	all := startWith(t, star, received, os.Getuid(), worlds...)
	all.received = received
	return all
}

func startWith(t testing.TB, star *exchangetest.Star, launcher world.Launcher, uid int, worlds ...*world.World) *nodes {
	all := &nodes{t: t, star: star, dir: t.TempDir()}
	for _, node := range all.star.Nodes {
		s := New(Config{
			Exchange: node, Launcher: launcher, UID: uid,
			Dir: func() (string, error) { return os.MkdirTemp(all.dir, "node") },
		})
		for _, w := range worlds {
			s.Add(w)
		}
		all.servers = append(all.servers, s)
	}
	t.Cleanup(func() {
		for _, s := range all.servers {
			s.Close()
		}
		all.serving.Wait()
	})
	return all
}

// spread returns a world of n ranks on hosts with one node each, the first ranks on the first host.
func spread(name string, n, hosts int) *world.World {
	w := &world.World{Name: name, Apps: []world.App{{NumRanks: n, Argv: []string{"./prog", "-x"}, Dir: "/home/me"}}}
	for h := range hosts {
		w.Hosts = append(w.Hosts, fmt.Sprintf("host%d", h))
	}
	local := map[int]int{}
	for r := range n {
		h := r * hosts / n
		w.Ranks = append(w.Ranks, world.Rank{Job: r, Host: h, Node: h, LocalRank: local[h], NodeRank: local[h]})
		local[h]++
	}
	return w
}

// client is a rank that speaks PMIx.
type client struct {
	t        testing.TB
	conn     net.Conn
	tag      uint32
	stash    map[uint32][]byte
	received [][]byte // events, and output that it pulls
}

// dial opens a connection to a node.
func (all *nodes) dial(node int) net.Conn {
	ours, theirs := net.Pipe()
	all.serving.Go(func() { all.servers[node].Serve(theirs, world.Proc{}) })
	all.t.Cleanup(func() { ours.Close() })
	return ours
}

// client opens a connection before its handshake.
func (all *nodes) client(node int) *client {
	return &client{t: all.t, conn: all.dial(node), tag: 100, stash: map[uint32][]byte{}}
}

// join connects a rank.
func (all *nodes) join(w *world.World, rank int) *client {
	all.t.Helper()
	c := all.client(w.Ranks[rank].Node)
	require.Equal(all.t, statusSuccess, greetWith(all.t, c.conn, greetingOf(w.Name, rank)))
	return c
}

func greetingOf(name string, rank int) hello {
	credential := binary.NativeEndian.AppendUint32(nil, uint32(os.Getuid()))
	return hello{
		security: "native", credential: binary.NativeEndian.AppendUint32(credential, uint32(os.Getgid())),
		proc: proc(name, rank), version: "4.2.2", encoding: "v3", bufferType: 1, dataStore: "hash",
	}
}

// encode encodes the body of the handshake.
func (g hello) encode() []byte {
	var e encoder
	text := func(s string) { e.b = append(append(e.b, s...), 0) }
	text(g.security)
	e.uint32(uint32(len(g.credential)))
	e.b = append(e.b, g.credential...)
	e.uint8(g.flag)
	e.b = append(e.b, g.ids...)
	text(g.proc.World)
	e.uint32(uint32(g.proc.Rank))
	text(g.version)
	text(g.encoding)
	e.uint8(g.bufferType)
	text(g.dataStore)
	return append(e.b, g.attributes...)
}

// handshake returns the whole handshake.
func (g hello) handshake() []byte {
	body := g.encode()
	b := binary.NativeEndian.AppendUint32(nil, 0xffffffff)
	b = binary.NativeEndian.AppendUint32(b, 0xffffffff)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, 0, 0, 0, 0), body...)
}

// greetWith sends a handshake and returns the server's status.
func greetWith(t testing.TB, conn net.Conn, g hello) status {
	t.Helper()
	_, err := conn.Write(g.handshake())
	require.NoError(t, err)
	var reply [4]byte
	_, err = io.ReadFull(conn, reply[:])
	require.NoError(t, err)
	code := status(int32(binary.BigEndian.Uint32(reply[:])))
	if code == statusSuccess {
		_, err = io.ReadFull(conn, reply[:])
		require.NoError(t, err)
	}
	return code
}

// ask sends a request and returns the tag of its reply.
func (c *client) ask(cmd command, write func(*encoder)) uint32 {
	c.t.Helper()
	c.tag++
	var e encoder
	e.group(1)
	e.uint8(uint8(cmd))
	if write != nil {
		write(&e)
	}
	_, err := c.conn.Write(appendFrame(nil, c.tag, e.b))
	require.NoError(c.t, err)
	return c.tag
}

// wait returns the body of a reply. It keeps other replies that arrive first.
func (c *client) wait(tag uint32) *decoder {
	c.t.Helper()
	for {
		if body, ok := c.stash[tag]; ok {
			delete(c.stash, tag)
			return &decoder{b: body}
		}
		f, err := readFrame(c.conn, binary.BigEndian, 1<<30)
		require.NoError(c.t, err)
		if f.tag == tagEvent || f.tag == tagOutput {
			c.received = append(c.received, f.body)
		} else {
			c.stash[f.tag] = f.body
		}
	}
}

// call sends a request and waits.
func (c *client) call(cmd command, write func(*encoder)) *decoder {
	c.t.Helper()
	return c.wait(c.ask(cmd, write))
}

// status is like call, for a reply that is only a status.
func (c *client) status(cmd command, write func(*encoder)) status {
	c.t.Helper()
	return c.call(cmd, write).oneStatus()
}

// unanswered requires that a request has no reply yet, although a later request has one.
func (c *client) unanswered(tag uint32) {
	c.t.Helper()
	c.call(commandQuery, func(e *encoder) { e.oneSize(0) })
	require.NotContains(c.t, c.stash, tag)
}

// commit commits one key.
func (c *client) commit(to scope, key, text string) {
	c.t.Helper()
	require.Equal(c.t, statusSuccess, c.status(commandCommit, func(e *encoder) { commitBody(e, to, key, text) }))
}

func commitBody(e *encoder, to scope, key, text string) {
	e.group(1)
	e.uint8(uint8(to))
	e.group(1)
	e.uint8(bufferNotDescribed)
	e.bytes(encodeKvals(attr(key, text)))
}

func fenceBody(members []world.Proc, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.procList(members)
		e.infoList(infos)
	}
}

func proc(name string, rank int) world.Proc { return world.Proc{World: name, Rank: rank} }

func everybody(w *world.World) []world.Proc { return []world.Proc{proc(w.Name, world.AllRanks)} }

func getBody(of world.Proc, key string, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.oneString(of.World)
		e.group(1)
		if of.Rank == world.AllRanks {
			e.uint32(rankWildcard)
		} else {
			e.uint32(uint32(of.Rank))
		}
		e.infoList(infos)
		if key != "" {
			e.oneString(key)
		}
	}
}

// data decodes the reply to a GET: the texts by process and key.
func (c *client) data(d *decoder) (map[world.Proc]map[string]string, status) {
	c.t.Helper()
	code := d.oneStatus()
	found := map[world.Proc]map[string]string{}
	for d.more() {
		d.one()
		inner := decoder{b: d.bytes()}
		of := inner.oneProc()
		found[of] = kvalTexts(&inner)
		require.NoError(c.t, inner.err)
	}
	require.NoError(c.t, d.err)
	return found, code
}

// kvalTexts decodes groups of one kval each as text.
func kvalTexts(d *decoder) map[string]string {
	texts := map[string]string{}
	for d.more() {
		d.one()
		k := d.kval()
		texts[k.key] = k.value.shown()
	}
	return texts
}

// shown formats a value.
func (v value) shown() string {
	if text, ok := v.string(); ok {
		return text
	}
	if n, ok := v.integer(); ok {
		return fmt.Sprint(n)
	}
	if p, ok := v.proc(); ok {
		return fmt.Sprintf("%s.%d", p.World, p.Rank)
	}
	return fmt.Sprintf("type %d", v.typ)
}

// get requests a key of a rank and returns the result.
func (c *client) get(of world.Proc, key string, infos ...info) (string, status) {
	c.t.Helper()
	found, code := c.data(c.call(commandGet, getBody(of, key, infos...)))
	return found[of][key], code
}
