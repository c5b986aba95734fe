package pmi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a set of nodes with a server each, and a launcher that logs its calls.
type cluster struct {
	t       testing.TB
	star    *exchangetest.Star
	servers []*Server
	log     *logbook
	serving sync.WaitGroup
	// claim accepts or refuses clients of PMI_PORT, for all nodes.
	claim func(id int) (world.Proc, error)
}

// logbook is a launcher that only logs.
type logbook struct {
	mu      sync.Mutex
	changed sync.Cond
	lines   []string
	spawns  []world.Spawn
	// spawn creates a world; nil refuses all.
	spawn func(world.Spawn) (string, error)
}

func newLogbook() *logbook {
	b := &logbook{}
	b.changed.L = &b.mu
	return b
}

func (b *logbook) write(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
	b.changed.Broadcast()
}

func name(p world.Proc) string { return fmt.Sprintf("%s.%d", p.World, p.Rank) }

func (b *logbook) Began(p world.Proc, by string) { b.write("began %s %s", name(p), by) }
func (b *logbook) Finalized(p world.Proc)        { b.write("finalized %s", name(p)) }
func (b *logbook) Left(p world.Proc)             { b.write("left %s", name(p)) }
func (b *logbook) Abort(p world.Proc, code int, text string) {
	b.write("abort %s %d %s", name(p), code, text)
}

func (b *logbook) Broken(p world.Proc, err error) { b.write("broken %s: %v", name(p), err) }

func (b *logbook) PID(world.Proc) int { return 1 }

func (b *logbook) Signal(world.Proc, int) {}

func (b *logbook) Failed(p world.Proc, why string) { b.write("failed %s: %s", name(p), why) }

func (b *logbook) Say(p world.Proc, text string) { b.write("say %s: %s", name(p), text) }

func (b *logbook) Stuck(waiting []world.Proc, missing world.Proc) {
	var list []string
	for _, p := range waiting {
		list = append(list, name(p))
	}
	b.write("stuck %s for %s", strings.Join(list, " "), name(missing))
}

func (b *logbook) Spawn(s world.Spawn, done func(string, error)) {
	b.mu.Lock()
	b.spawns = append(b.spawns, s)
	spawn := b.spawn
	b.mu.Unlock()
	if spawn == nil {
		done("", fmt.Errorf("no room for more ranks"))
		return
	}
	go func() { done(spawn(s)) }()
}

func (b *logbook) answerSpawns(spawn func(world.Spawn) (string, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spawn = spawn
}

// await waits for a line that contains text, and returns it.
func (b *logbook) await(t testing.TB, text string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.changed.Broadcast()
	})
	defer timer.Stop()
	for {
		for _, line := range b.lines {
			if strings.Contains(line, text) {
				return line
			}
		}
		require.False(t, late, "the launcher never received %q, but %q", text, b.lines)
		b.changed.Wait()
	}
}

func (b *logbook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

func newCluster(t testing.TB, nodes, only int) *cluster {
	c := &cluster{t: t, log: newLogbook(), star: exchangetest.New(t, nodes, nil)}
	for _, node := range c.star.Nodes {
		c.servers = append(c.servers, New(Config{
			Exchange: node, Launcher: c.log, Only: []string{"", "PMI-1", "PMI-2", "PMIx"}[only], Claim: c.claims,
		}))
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Close()
		}
		c.serving.Wait()
	})
	return c
}

func (c *cluster) claims(_ net.Conn, id int) (world.Proc, error) {
	if c.claim == nil {
		return world.Proc{}, fmt.Errorf("nobody is let in")
	}
	return c.claim(id)
}

// newWorld returns a world with a rank on each of the given hosts, which are nodes.
func newWorld(name string, hosts ...int) *world.World {
	w := &world.World{Name: name}
	for range slices.Max(hosts) + 1 {
		w.Hosts = append(w.Hosts, fmt.Sprintf("node%d", len(w.Hosts)))
	}
	local := map[int]int{}
	for rank, host := range hosts {
		w.Ranks = append(w.Ranks, world.Rank{
			Job: rank, Host: host, Node: host, LocalRank: local[host],
			NodeRank: local[host],
		})
		local[host]++
	}
	w.Apps = []world.App{{NumRanks: len(hosts), Argv: []string{"prog"}}}
	return w
}

func (c *cluster) add(w *world.World) *world.World {
	for _, s := range c.servers {
		s.Add(w)
	}
	return w
}

// socketPair returns both ends of a connection between a server and a rank.
func socketPair(t testing.TB) (server net.Conn, rank *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours := os.NewFile(uintptr(fds[0]), "pmi")
	server, err = net.FileConn(ours)
	require.NoError(t, err)
	require.NoError(t, ours.Close())
	return server, os.NewFile(uintptr(fds[1]), "rank")
}

// client is a rank.
type client struct {
	t    testing.TB
	p    world.Proc
	conn net.Conn
	in   *bufio.Reader
}

// connect connects a rank.
func (c *cluster) connect(w *world.World, rank int) *client {
	c.t.Helper()
	return c.connectAs(world.Proc{World: w.Name, Rank: rank}, w.Ranks[rank].Node)
}

func (c *cluster) connectAs(p world.Proc, node int) *client {
	c.t.Helper()
	server, file := socketPair(c.t)
	conn, err := net.FileConn(file)
	require.NoError(c.t, err)
	require.NoError(c.t, file.Close())
	c.serving.Go(func() { c.servers[node].Serve(server, p) })
	c.t.Cleanup(func() { _ = conn.Close() })
	return &client{t: c.t, p: p, conn: conn, in: bufio.NewReader(conn)}
}

// begun connects a rank and begins PMI-1.
func (c *cluster) begun(w *world.World, rank int) *client {
	c.t.Helper()
	k := c.connect(w, rank)
	k.init1()
	return k
}

func (k *client) init1() {
	k.t.Helper()
	k.asks("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
}

func (k *client) send(text string) {
	k.t.Helper()
	_, err := io.WriteString(k.conn, text)
	require.NoError(k.t, err)
}

// says sends a line.
func (k *client) says(line string) { k.t.Helper(); k.send(line + "\n") }

// receives requires a line from the server.
func (k *client) receives(want string) {
	k.t.Helper()
	require.Equal(k.t, want, k.line(), "what %s receives", name(k.p))
}

func (k *client) line() string {
	k.t.Helper()
	_ = k.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	line, err := k.in.ReadString('\n')
	require.NoError(k.t, err, "%s read %q", name(k.p), line)
	return strings.TrimSuffix(line, "\n")
}

func (k *client) asks(line, answer string) {
	k.t.Helper()
	k.says(line)
	k.receives(answer)
}

// closed requires that the server closes the connection.
func (k *client) closed() {
	k.t.Helper()
	_ = k.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := k.in.ReadByte()
	require.ErrorIs(k.t, err, io.EOF)
}
