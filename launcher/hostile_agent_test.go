package launcher

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// validBodies returns valid frames of each type that agents send. Where the rank matters, it is one of the hostile
// node.
func validBodies() map[wire.Type]wire.Message {
	list := map[wire.Type]wire.Message{}
	for _, m := range []wire.Message{
		&wire.Facts{Version: wire.Version},
		&wire.Opened{Opened: spec.Opened{Addr: "6.6.6.6", Store: "6.6.6.6:1"}}, &wire.Reached{},
		&wire.Checked{}, &wire.Pong{}, &wire.Notice{Text: "\x1b[2J"},
		&wire.Running{Ranks: []wire.RankPID{{Rank: 0, PID: 1}}}, &wire.StartFailed{Rank: -7, Code: 99, Text: "no"},
		&wire.Ended{Ranks: []spec.Exit{{Rank: 0, Code: 9}}}, &wire.Credit{Bytes: -1 << 40},
		&wire.CleanedUp{Orphans: []string{"x"}}, &wire.Suspend{},
		&wire.Hung{Hang: spec.Hang{Ranks: []spec.Activity{{Rank: 0}}}},
		&wire.Stalled{Stall: spec.Stall{Waiting: []spec.StoreWait{{Rank: 1 << 40}}}, RAS: []byte(
			`{"groups":[{"ranks":[{"rank":-5}]}]}`)},
		&wire.Used{Call: 1},
		&wire.OutputLost{Stream: 1, ReaderGone: true}, &wire.Signal{Signal: spec.Signal{Number: syscall.SIGTERM}},
		&wire.Signalled{Signal: syscall.SIGTERM, At: time.Unix(1<<40, 0)},
		&wire.Exchange{Message: exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1, 2}}},
		&wire.MPIEvent{Stuck: &spec.MPIStuck{Waiting: []int{0, 1}}},
		&wire.Spawn{
			Call: 1,
			Request: world.Spawn{Apps: []world.SpawnApp{{
				Program: "touch", Args: []string{"/tmp/x"}, NumRanks: 1,
				Hosts: "node0",
			}}},
		}, &wire.Grown{Number: 1},
		&wire.Hello{Version: wire.Version}, &wire.Open{}, &wire.Start{}, &wire.Kill{}, &wire.Cleanup{}, &wire.Grow{Number: 1},
		&wire.JobEnded{}, &wire.Inspect{},
	} {
		list[m.Type()] = m
	}
	return list
}

// attacks returns frames of a type: valid, empty, as long as the type allows, with a wrong length, and random.
func attacks(t wire.Type) map[string][]byte {
	header := func(size int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(size))
		return append(b, byte(t), 0, 0, 0)
	}
	const much = 64 << 10
	list := map[string][]byte{
		"empty":   header(0),
		"garbage": append(header(much), bytes.Repeat([]byte{0xff, 0x0a, 3, 8}, much/4)...),
		"parts":   append(header(much), bytes.Repeat([]byte{0x12, 0}, much/2)...),
		"huge":    append(header(wire.MaxBody+1), make([]byte, much)...),
		"stream":  append(header(9), 2, 0, 0, 0, 200, 'a', 'b', 'c', 'd'),
	}
	if m := validBodies()[t]; m != nil {
		list["valid"] = wire.AppendControl(nil, m)
	}
	return list
}

var peerKinds = []wire.Peer{wire.PeerLocal, wire.PeerSSH, wire.PeerEngine, wire.PeerJoined, wire.PeerUnauthenticated}

// quiet lists the frame types that other nodes may get, whatever the hostile node sends.
var quiet = []wire.Type{
	wire.TypePing, wire.TypeHello, wire.TypeProbe, wire.TypeOpen, wire.TypeStart, wire.TypeSignal, wire.TypeKill,
	wire.TypeCleanup, wire.TypeExchange, wire.TypeCredit,
}

// Each kind of agent sends every frame in every state to a real launcher. The launcher survives, starts nothing on
// other nodes, and loses only the node that breaks the rules. `make soak` sends them all, not a sample.
func TestHostileAgent(t *testing.T) {
	random := testneeds.Rand(t)
	types := []wire.Type{77, 255}
	for typ := wire.TypeHello; typ <= wire.TypeUsed; typ++ {
		types = append(types, typ)
	}
	for _, mpi := range []job.MPIMode{job.MPINone, job.MPIAuto} {
		for _, kind := range peerKinds {
			for m := range never {
				t.Run(fmt.Sprintf("%s, %s, mpi %s", momentNames[m], kind, mpi), func(t *testing.T) {
					before := heap()
					for _, typ := range types {
						all := attacks(typ)
						for _, name := range slices.Sorted(maps.Keys(all)) {
							if !testneeds.Sampled(random, 4) {
								continue
							}
							what := fmt.Sprintf("%s %s", name, typ)
							synctest.Test(t, func(t *testing.T) { attackOnce(t, kind, mpi, m, all[name], what) })
						}
					}
					assert.Less(t, heap(), before+32<<20, "memory that is kept")
				})
			}
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func attackOnce(t *testing.T, kind wire.Peer, mpi job.MPIMode, at moment, frame []byte, what string) {
	j := newFakeJob(t, kind, mpi)
	a := j.hostile()
	a.attack, a.send = at, frame
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	r, err := j.run(ctx)
	require.NoError(t, ctx.Err(), "%s: the job goes on", what)
	for _, good := range j.agents[:2] {
		for typ := range good.received {
			require.True(t, slices.Contains(quiet, typ), "%s: node%d receives %s", what, good.index, typ)
		}
	}
	if err != nil {
		require.ErrorContains(t, err, "node2: ", what)
		return
	}
	if r.Cause == job.CauseNode {
		require.Contains(t, Explain(r), " is lost: ", what)
	}
	if text := Explain(r); r.ExitCode != 0 {
		require.NotContains(t, text, "\x1b", what)
	}
}

// lostFor runs a job whose hostile node sends frames, by default once its ranks run. It returns why the node was
// lost, or "" if it was not.
func lostFor(t *testing.T, kind wire.Peer, mpi job.MPIMode, frames []byte) (text string, j *fakeJob) {
	t.Helper()
	j = newFakeJob(t, kind, mpi)
	j.hostile().attack, j.hostile().send = atStart, frames
	r, err := j.run(context.Background())
	require.NoError(t, err)
	if r.Cause != job.CauseNode {
		return "", j
	}
	return Explain(r), j
}

// An agent that keeps to the rules is not lost.
func TestFakeAgents(t *testing.T) {
	for _, kind := range peerKinds {
		for _, mpi := range []job.MPIMode{job.MPINone, job.MPIAuto} {
			synctest.Test(t, func(t *testing.T) {
				notice := wire.AppendControl(nil, &wire.Notice{Text: "hello"})
				text, j := lostFor(t, kind, mpi, wire.AppendOutput(notice, 2, 1, []byte("hello\n")))
				require.Empty(t, text, kind)
				require.Equal(t, 1, j.hostile().received[wire.TypeCleanup])
			})
		}
	}
}

// The store must be on its node's own address: ranks of all nodes connect to it.
func TestOpenedElsewhere(t *testing.T) {
	own, other := netip.MustParseAddr("10.0.0.1"), "10.6.6.6:29500"
	s := newSession(Spec{}, Options{})
	s.nodes = []*node{{name: "node0", addresses: []netip.Addr{own}}, {name: "node1"}}
	s.masterAddr = "10.0.0.1"
	for _, o := range []spec.Opened{
		{Addr: "10.6.6.6", Port: 29500, Store: "10.0.0.1:29500"},
		{Addr: "10.0.0.1", Port: 29500, Store: other},
		{Addr: "10.0.0.1", Port: 1 << 16, Store: "10.0.0.1:29500"},
		{Addr: "elsewhere", Port: 29500, Store: "10.0.0.1:29500"},
		{Addr: "127.0.0.1", Port: 29500, Store: "127.0.0.1:29500"},
		{},
	} {
		require.ErrorContains(t, s.checkOpened(&o), "which are not its addresses", o)
	}
	require.NoError(t, s.checkOpened(&spec.Opened{Addr: "10.0.0.1", Port: 29500, Store: "10.0.0.1:29500"}))
}

// A frame that breaks a rule loses the node, and the error names the rule.
func TestHostileAgentIsLost(t *testing.T) {
	control := func(m wire.Message) []byte { return wire.AppendControl(nil, m) }
	for name, c := range map[string]struct {
		kind  wire.Peer
		mpi   job.MPIMode
		frame []byte
		want  string
	}{
		"suspends": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Suspend{}), "it sent a suspend frame without a request",
		},
		"spawns": {
			wire.PeerUnauthenticated, job.MPINone, control(&wire.Spawn{}),
			"it sent a spawn frame, which agents send only in MPI jobs",
		},
		"signals": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Signal{Signal: spec.Signal{Number: syscall.SIGTERM}}),
			"it sent a signal frame, which an agent that SSH started may not send",
		},
		"signals as Slurm": {
			wire.PeerJoined, job.MPIAuto, control(&wire.Signalled{Signal: syscall.SIGTERM}),
			"it sent a signalled frame, which a node that joined may not send",
		},
		"passes SIGSTOP": {
			wire.PeerJoined, job.MPIAuto, control(&wire.Signal{Signal: spec.Signal{Number: syscall.SIGSTOP}}),
			"it forwarded signal 19",
		},
		"another's rank": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Ended{Ranks: []spec.Exit{{Rank: 0}}}), "of a rank that is not its own",
		},
		"ends twice": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Ended{Ranks: []spec.Exit{{Rank: 2}, {Rank: 2}}}),
			"it reported again that rank 2 has ended",
		},
		"another's output": {
			wire.PeerSSH, job.MPIAuto, wire.AppendOutput(nil, 1, 1, []byte("x")), "it sent output of rank 1",
		},
		"stream 200": {
			wire.PeerSSH, job.MPIAuto, wire.AppendOutput(nil, 2, 200, []byte("x")), "it sent output of stream 200",
		},
		"too much input": {wire.PeerSSH, job.MPIAuto, control(&wire.Credit{Bytes: 1}), "of 0 that it got"},
		"never seen": {
			wire.PeerSSH, job.MPIAuto,
			[]byte{0, 0, 0, 0, 99, 0, 0, 0},
			"it sent a frame of type 99, an unknown frame",
		},
		"a head's": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Kill{}), "it sent a kill frame, which never goes in this direction",
		},
		"a long pong": {
			wire.PeerSSH, job.MPIAuto,
			[]byte{1, 1, 0, 0, byte(wire.TypePong), 0, 0, 0},
			"it sent a pong frame of 257 bytes: at most 256 are allowed",
		},
		"another store": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Opened{Opened: spec.Opened{Addr: "6.6.6.6"}}),
			"it sent an opened frame, which no agent may send while ranks run",
		},
		"another's stall": {
			wire.PeerSSH, job.MPIAuto, control(&wire.Stalled{}), "it reported on a store that another node has",
		},
		"no body": {
			wire.PeerSSH, job.MPIAuto,
			[]byte{2, 0, 0, 0, byte(wire.TypeEnded), 0, 0, 0, 0xff, 0xff},
			"it sent a malformed ended frame",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text, _ := lostFor(t, c.kind, c.mpi, c.frame)
				require.Contains(t, text, "node2 is lost: ")
				require.Contains(t, text, c.want)
			})
		})
	}
}

// spawnOn returns a request by a rank of the job's first world to spawn touch on a host.
func spawnOn(rank int, host string) func(s *wire.Start) world.Spawn {
	return func(s *wire.Start) world.Spawn {
		return world.Spawn{
			By:   world.Proc{World: s.MPI.Worlds[0].Name, Rank: rank},
			Apps: []world.SpawnApp{{Program: "touch", Args: []string{"/tmp/x"}, NumRanks: 1, Hosts: host}},
		}
	}
}

// Ranks of other hosts can spawn only if the job is known to use MPI, and only in their own name. Ranks of nodes that
// joined can spawn only on their own node.
func TestSpawnAuthorization(t *testing.T) {
	for name, c := range map[string]struct {
		kind   wire.Peer
		asked  bool
		app    job.App
		spawns func(s *wire.Start) world.Spawn
		want   string // the expected error
		grown  [3]int
	}{
		"a program of no MPI": {
			wire.PeerSSH, false, job.App{Program: "sleep"}, spawnOn(2, "node0"), "sleep is not known to use MPI", [3]int{},
		},
		"mpirun": {wire.PeerSSH, true, job.App{Program: "sleep"}, spawnOn(2, "node0"), "", [3]int{1, 0, 0}},
		"mpi4py": {
			wire.PeerSSH, false,
			job.App{Program: "python3", Args: []string{"-m", "mpi4py", "x.py"}},
			spawnOn(2, "node0"), "",
			[3]int{1, 0, 0},
		},
		"Slurm's agents": {wire.PeerEngine, true, job.App{Program: "sleep"}, spawnOn(2, "node1"), "", [3]int{0, 1, 0}},
		"this host":      {wire.PeerLocal, false, job.App{Program: "sleep"}, spawnOn(2, "node1"), "", [3]int{0, 1, 0}},
		"another's rank": {
			wire.PeerSSH, true,
			job.App{Program: "sleep"},
			spawnOn(0, "node0"),
			"rank 0 of that MPI_COMM_WORLD does not run on node2",
			[3]int{},
		},
		"a rank that is not": {wire.PeerSSH, true, job.App{Program: "sleep"}, spawnOn(-1, "node0"), "rank -1 of", [3]int{}},
		"no world": {wire.PeerSSH, true, job.App{Program: "sleep"}, func(*wire.Start) world.Spawn {
			return world.Spawn{}
		}, "rank 0 of", [3]int{}},
		"no program": {wire.PeerSSH, true, job.App{Program: "sleep"}, func(s *wire.Start) world.Spawn {
			w := spawnOn(2, "")(s)
			w.Apps = nil
			return w
		}, "no program given", [3]int{}},
		"another host": {
			wire.PeerSSH, true,
			job.App{Program: "sleep"},
			spawnOn(2, "elsewhere"), "host elsewhere: the job has node[0-2]",
			[3]int{},
		},
		"joined": {wire.PeerJoined, true, job.App{Program: "sleep"}, spawnOn(2, ""), "", [3]int{0, 0, 1}},
		"joined, elsewhere": {
			wire.PeerJoined, true, job.App{Program: "sleep"}, spawnOn(2, "node0"), "no host can take more ranks", [3]int{},
		},
		"joined without token": {
			wire.PeerUnauthenticated, true, job.App{Program: "sleep"}, spawnOn(2, ""), "without a token", [3]int{},
		},
		"what is no environment": {wire.PeerSSH, true, job.App{Program: "sleep"}, func(s *wire.Start) world.Spawn {
			w := spawnOn(2, "node0")(s)
			w.Apps[0].Env = []string{"A\x00B=1"}
			return w
		}, "is not a valid environment variable", [3]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newFakeJob(t, c.kind, job.MPIAuto)
				j.session.spec.MPIRequested, j.session.spec.Apps = c.asked, []job.App{c.app}
				j.hostile().attack, j.hostile().spawns = atStart, c.spawns
				r, err := j.run(context.Background())
				require.NoError(t, err)
				require.Zero(t, r.ExitCode, Explain(r))
				var grown [3]int
				for i, a := range j.agents {
					grown[i] = a.grown
				}
				require.Equal(t, c.grown, grown)
				require.Contains(t, j.hostile().spawned.Error, c.want)
				require.Equal(t, c.want == "", j.hostile().spawned.Error == "")
			})
		})
	}
}

// held is a reader that blocks until the hostile agent has ended.
type held struct{ until chan struct{} }

func (h held) Write(p []byte) (int, error) { <-h.until; return len(p), nil }

// A node that sends more output than its credit is lost before the launcher buffers much of it.
func TestHostileAgentFloodsOutput(t *testing.T) {
	for _, stream := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			j := newFakeJob(t, wire.PeerSSH, job.MPIAuto)
			j.session.settings.Stdout, j.session.settings.Stderr = held{j.ended}, held{j.ended}
			a := j.hostile()
			a.attack, a.floods = atStart, wire.AppendOutput(nil, 2, stream, bytes.Repeat([]byte("line\n"), 12<<10))
			r, err := j.run(context.Background())
			require.NoError(t, err)
			require.Contains(t, Explain(r), "node2 is lost: it sent more output than it has credit for")
			require.Less(t, a.sent, maxWindow+rankExcess+1<<20)
		})
	}
}

// A flood of notices is not shown and uses no memory. It loses only the node.
func TestHostileAgentFloodsNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newFakeJob(t, wire.PeerSSH, job.MPIAuto)
		var said []string
		j.session.nodes[2].notify = func(text string) { said = append(said, text) }
		a := j.hostile()
		a.attack, a.floods = atStart, bytes.Repeat(wire.AppendControl(nil, &wire.Notice{Text: "again"}), 10_000)
		a.sent = mostFlood - 1 // send it once
		r, err := j.run(context.Background())
		require.NoError(t, err)
		require.Zero(t, r.ExitCode, Explain(r))
		require.Len(t, said, maxNotices+1)
		require.Contains(t, said[maxNotices], "more than 1000 lines")
	})
}

// The launcher survives any frame that passes the header check.
func FuzzHeadFrame(f *testing.F) {
	for typ := wire.TypeHello; typ <= wire.TypeUsed; typ++ {
		for _, b := range attacks(typ) {
			f.Add(uint8(typ), uint8(atStart), b[8:min(len(b), 1<<10)])
		}
	}
	machine, err := placement.Example("dgx-h100")
	require.NoError(f, err)
	good := sleeper(nil, 2)
	facts := good.facts()
	facts.Machine = machine
	for _, m := range []wire.Message{good.facts(), facts} {
		f.Add(uint8(wire.TypeFacts), uint8(atHello), wire.AppendControl(nil, m)[8:])
	}
	f.Fuzz(func(t *testing.T, typ, at uint8, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), typ, 0, 0, 0)
			attackOnce(t, wire.PeerJoined, job.MPIAuto, moment(at)%never, append(frame, body...), "")
		})
	})
}
