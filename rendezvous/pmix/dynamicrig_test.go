package pmix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// rig is some nodes' servers, and who launches their ranks.
type rig struct {
	t       testing.TB
	servers []*Server
	starter *starter
}

// newRig has that many nodes until the test ends.
func newRig(t testing.TB, nodes int) *rig {
	star := exchangetest.New(t, nodes, nil)
	r := &rig{t: t, starter: &starter{}}
	r.starter.rig = r
	for node, plane := range star.Planes() {
		dir := t.TempDir()
		s := New(Config{Node: node, Plane: plane, Launcher: r.starter, UID: testUID, Dir: func() (string, error) {
			return dir, nil
		}})
		r.servers = append(r.servers, s)
		t.Cleanup(s.Close)
	}
	return r
}

// testUID is the user of recorded sessions and of the clients here.
const testUID = 0

// add makes a world of that many ranks on each node known to all.
func (r *rig) add(name string, perNode ...int) *world.World {
	w := &world.World{Name: name, Apps: []world.App{{Argv: []string{"prog"}}}}
	for node, n := range perNode {
		if n == 0 {
			continue
		}
		w.Hosts = append(w.Hosts, fmt.Sprintf("host%d", node))
		for local := range n {
			w.Ranks = append(w.Ranks, world.Rank{
				Job: len(w.Ranks), Host: len(w.Hosts) - 1, Node: node, LocalRank: local,
				NodeRank: local,
			})
		}
	}
	w.Apps[0].NumRanks = len(w.Ranks)
	w.Universe = len(w.Ranks)
	r.addWorld(w)
	return w
}

func (r *rig) addWorld(w *world.World) {
	for _, s := range r.servers {
		s.Add(w)
	}
}

// starter is a launcher of the children that ranks spawn.
type starter struct {
	rig *rig

	mu     sync.Mutex
	spawns []world.Spawn
	worlds int
	heard  []string
	broken []error
	fail   error
	start  func(*world.World, []world.SpawnApp) error // nil: nothing is started
}

func (l *starter) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func (l *starter) PID(world.Proc) int { return 1 }

func (l *starter) Signal(p world.Proc, number int) { l.note("%v signal %d", p, number) }

func (l *starter) Failed(p world.Proc, why string) { l.note("%v failed %s", p, why) }

// refuse has it spawn nothing from now on.
func (l *starter) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// asked is what it was asked to spawn, all what it heard.
func (l *starter) asked() []world.Spawn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.spawns)
}

func (l *starter) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

func (l *starter) Began(p world.Proc, by string) { l.note("%v began by %s", p, by) }
func (l *starter) Finalized(p world.Proc)        { l.note("%v finalized", p) }
func (l *starter) Left(p world.Proc)             { l.note("%v left", p) }
func (l *starter) Abort(p world.Proc, code int, text string) {
	l.note("%v aborts %d %s", p, code, text)
}
func (l *starter) Stuck(w []world.Proc, m world.Proc) { l.note("%v wait for %v", w, m) }
func (l *starter) Say(p world.Proc, text string)      { l.note("%v says %s", p, text) }

func (l *starter) Broken(p world.Proc, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, fmt.Errorf("%v: %w", p, err))
}

// Spawn makes a world "NAME-child" of as many ranks, the next "NAME-child2". They
// are on the nodes in turn.
func (l *starter) Spawn(wish world.Spawn, done func(string, error)) {
	l.mu.Lock()
	l.spawns = append(l.spawns, wish)
	fail := l.fail
	name := wish.By.World + "-child"
	if l.worlds++; l.worlds > 1 {
		name += strconv.Itoa(l.worlds)
	}
	l.mu.Unlock()
	if fail != nil {
		done("", fail)
		return
	}
	w := &world.World{Name: name, Parent: wish.By}
	nodes := len(l.rig.servers)
	for i, a := range wish.Apps {
		w.Apps = append(w.Apps, world.App{NumRanks: a.NumRanks, Argv: append([]string{a.Program}, a.Args...), Dir: a.Dir})
		for range a.NumRanks {
			rank := len(w.Ranks)
			node := rank % nodes
			if rank < nodes {
				w.Hosts = append(w.Hosts, fmt.Sprint("host", node))
			}
			w.Ranks = append(w.Ranks, world.Rank{
				Job: 100 + rank, App: i, Host: node, Node: node, LocalRank: rank / nodes,
				NodeRank: rank / nodes,
			})
		}
	}
	l.rig.addWorld(w)
	if l.start != nil {
		if err := l.start(w, wish.Apps); err != nil {
			done("", err)
			return
		}
	}
	done(w.Name, nil)
}

// peer is a rank's end of a connection, without any library.
type peer struct {
	t   testing.TB
	nc  net.Conn
	tag uint32
}

// dial connects a rank, as a client of that version.
func (r *rig) dial(p world.Proc, version string) *peer {
	r.t.Helper()
	s := r.servers[r.nodeOf(p)]
	here, there := tcpPair(r.t)
	served := make(chan struct{})
	go func() {
		s.Serve(there, world.Proc{})
		close(served)
	}()
	r.t.Cleanup(func() {
		here.Close()
		<-served
	})
	c := &peer{t: r.t, nc: here, tag: 100}
	g := greetingOf(p.World, p.Rank)
	g.version = version
	g.credential = make([]byte, nativeCredentialLen) // user 0
	c.write(g.handshake())
	var answer [8]byte
	c.read(answer[:])
	if code := binary.BigEndian.Uint32(answer[:]); code != 0 {
		r.t.Fatalf("the handshake of %v is answered with %d", p, int32(code))
	}
	return c
}

func (r *rig) nodeOf(p world.Proc) int {
	s := r.servers[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaces[p.World].world.Ranks[p.Rank].Node
}

// tcpPair is a connection over loopback.
func tcpPair(t testing.TB) (here, there net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	here, err = net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

func (c *peer) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *peer) read(b []byte) {
	c.t.Helper()
	for n := 0; n < len(b); {
		m, err := c.nc.Read(b[n:])
		n += m
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// ask sends a request and returns its tag.
func (c *peer) ask(code command, write func(*encoder)) uint32 {
	c.t.Helper()
	var e encoder
	e.group(1)
	e.uint8(uint8(code))
	write(&e)
	c.tag++
	c.write(appendFrame(nil, c.tag, e.b))
	return c.tag
}

// answer reads the next message.
func (c *peer) answer() (tag uint32, body decoder) {
	c.t.Helper()
	f, err := readFrame(c.nc, binary.BigEndian, maxFrame)
	if err != nil {
		c.t.Fatal(err)
	}
	return f.tag, decoder{b: f.body}
}

// do sends a request and returns the answer after the status, which must be that one.
func (c *peer) do(code command, want status, write func(*encoder)) decoder {
	c.t.Helper()
	return c.expect(c.ask(code, write), want)
}

func (c *peer) expect(tag uint32, want status) decoder {
	c.t.Helper()
	has, body := c.answer()
	if has != tag {
		c.t.Fatalf("an answer to %d comes, not to %d", has, tag)
	}
	if code := body.oneStatus(); code != want || body.err != nil {
		c.t.Fatalf("the status is %d (%v), not %d", code, body.err, want)
	}
	return body
}

var errNoRoom = errors.New("no room for 4 ranks more")
