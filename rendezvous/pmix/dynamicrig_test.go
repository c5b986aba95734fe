package pmix

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// rig is the servers of nodes, with the launcher of their ranks.
type rig struct {
	*nodes
	starter *starter
}

// testUID is the user ID of recorded sessions and of the clients here.
const testUID = 0

// newRig starts n nodes until the test ends.
func newRig(t testing.TB, n int) *rig {
	r := &rig{starter: &starter{recorder: newRecorder()}}
	r.starter.rig = r
	r.nodes = startWith(t, exchangetest.New(t, n, nil), r.starter, testUID)
	return r
}

// add adds a world with n ranks on each node to all nodes.
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

// starter is a launcher that spawns ranks.
type starter struct {
	*recorder
	rig *rig

	mu     sync.Mutex
	spawns []world.Spawn
	worlds int
	fail   error
	start  func(*world.World, []world.SpawnApp) error // nil starts no rank
}

// refuse makes all later spawns fail.
func (l *starter) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// asked returns the spawns so far.
func (l *starter) asked() []world.Spawn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.spawns)
}

// Spawn creates a world "NAME-child", then "NAME-child2", with its ranks on the nodes in turn.
func (l *starter) Spawn(spawn world.Spawn, done func(string, error)) {
	l.mu.Lock()
	l.spawns = append(l.spawns, spawn)
	fail := l.fail
	name := spawn.By.World + "-child"
	if l.worlds++; l.worlds > 1 {
		name += strconv.Itoa(l.worlds)
	}
	l.mu.Unlock()
	if fail != nil {
		done("", fail)
		return
	}
	w := &world.World{Name: name, Parent: spawn.By}
	nodes := len(l.rig.servers)
	for i, a := range spawn.Apps {
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
		if err := l.start(w, spawn.Apps); err != nil {
			done("", err)
			return
		}
	}
	done(w.Name, nil)
}

// dial connects a rank as a client of a PMIx version.
func (r *rig) dial(p world.Proc, version string) *client {
	r.t.Helper()
	g := greetingOf(p.World, p.Rank)
	g.version, g.credential = version, make([]byte, nativeCredentialLen) // user 0
	c := r.client(r.nodeOf(p))
	require.Equal(r.t, statusSuccess, greetWith(r.t, c.conn, g))
	return c
}

func (r *rig) nodeOf(p world.Proc) int {
	s := r.servers[0]
	s.node.Lock()
	defer s.node.Unlock()
	return s.spaces[p.World].Ranks[p.Rank].Node
}

// do sends a request, requires a status and returns the rest of the reply.
func (c *client) do(code command, want status, write func(*encoder)) *decoder {
	c.t.Helper()
	return c.expect(c.ask(code, write), want)
}

func (c *client) expect(tag uint32, want status) *decoder {
	c.t.Helper()
	d := c.wait(tag)
	require.Empty(c.t, c.stash, "another answer has come before")
	require.Empty(c.t, c.received)
	require.Equal(c.t, want, d.oneStatus())
	require.NoError(c.t, d.err)
	return d
}

var errNoRoom = errors.New("no room for 4 ranks more")
