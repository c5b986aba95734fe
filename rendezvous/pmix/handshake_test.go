package pmix

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func TestWhoMayConnect(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	for name, row := range map[string]struct {
		change func(*hello)
		code   status
		broken bool
	}{
		"a rank":                  {func(*hello) {}, statusSuccess, false},
		"with attributes":         {func(g *hello) { g.attributes = []byte("whatever") }, statusSuccess, false},
		"another user":            {func(g *hello) { g.credential[0]++ }, statusInvalidCred, false},
		"no credential":           {func(g *hello) { g.credential = nil }, statusInvalidCred, false},
		"munge":                   {func(g *hello) { g.security = "munge" }, statusInvalidCred, false},
		"another world":           {func(g *hello) { g.proc.World = "gorun-2" }, statusNotFound, false},
		"no such rank":            {func(g *hello) { g.proc.Rank = 2 }, statusNotFound, false},
		"all ranks":               {func(g *hello) { g.proc.Rank = world.AllRanks }, statusNotFound, false},
		"a rank of another node":  {func(g *hello) { g.proc.Rank = 1 }, statusNotFound, false},
		"a tool":                  {func(g *hello) { g.flag = 3 }, statusNotSupported, false},
		"a launcher":              {func(g *hello) { g.flag = 8 }, statusNotSupported, false},
		"another encoding":        {func(g *hello) { g.encoding = "v41" }, statusNotSupported, true},
		"described buffers":       {func(g *hello) { g.bufferType = 2 }, statusNotSupported, true},
		"data in shared memory":   {func(g *hello) { g.dataStore = "shmem2,hash" }, statusNotSupported, true},
		"hash and something else": {func(g *hello) { g.dataStore = "hash,ds21" }, statusSuccess, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := start(t, 1, w)
			g := greetingOf("gorun-1", 0)
			row.change(&g)
			conn := all.dial(0)
			require.Equal(t, row.code, greetWith(t, conn, g))
			if row.code == statusSuccess {
				require.Equal(t, "began 0 PMIx 4.2.2", <-all.received.received)
				return
			}
			_, _ = conn.Write(appendFrame(nil, 1, []byte{0})) // other clients are disconnected earlier
			_, err := conn.Read(make([]byte, 1))
			require.Error(t, err)
			if row.broken {
				require.Contains(t, all.received.next(t), "unset")
			}
			require.Empty(t, all.received.received)
		})
	}
}

// If a job serves only PMI, the server refuses clients and the user gets the reason. Without a server, each rank
// would be alone in its world.
func TestPMIxIsNotServed(t *testing.T) {
	for only, want := range map[string]struct {
		code     status
		received string
	}{
		"PMI-1": {statusNotFound, "say 0 the MPI library requests PMIx, which this job does not serve: remove --mpi"},
		"PMIx":  {statusSuccess, "began 0 PMIx 4.2.2"},
	} {
		all := start(t, 1, spread("gorun-1", 2, 1))
		all.servers[0].cfg.Only = only
		require.Equal(t, want.code, greetWith(t, all.dial(0), greetingOf("gorun-1", 0)))
		require.Equal(t, want.received, <-all.received.received)
	}
}

// A handshake that is incomplete, or announces more bytes than it has, ends only its own connection.
func TestHandshakesCutOff(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	whole := greetingOf("gorun-1", 0).handshake()
	for n := range whole {
		conn := all.dial(0)
		_, err := conn.Write(whole[:n])
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	for n := range len(whole) - headerSize {
		short := append([]byte{}, whole[:headerSize+n]...)
		binary.NativeEndian.PutUint32(short[8:], uint32(n))
		conn := all.dial(0)
		_, err := conn.Write(short)
		require.NoError(t, err)
		var reply [4]byte
		_, err = io.ReadFull(conn, reply[:])
		require.NoError(t, err)
		require.NotZero(t, binary.BigEndian.Uint32(reply[:]), "%d bytes of %d", n, len(whole))
	}
	for _, announced := range []uint32{maxHandshake + 1, 1 << 31, 0xffffffff} {
		long := append([]byte{}, whole[:headerSize]...)
		binary.NativeEndian.PutUint32(long[8:], announced)
		conn := all.dial(0)
		_, err := conn.Write(long)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Equal(t, statusSuccess, greetWith(t, all.dial(0), greetingOf("gorun-1", 0)), "ranks still come in")
}

func TestWhoSaysNothingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := start(t, 1, spread("gorun-1", 1, 1))
		conn := all.dial(0)
		begin := time.Now()
		_, err := conn.Write([]byte{1, 2, 3})
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, handshakeTimeout, time.Since(begin))
		synctest.Wait()
		require.Empty(t, all.servers[0].pending)
	})
}

// Any number of clients without a handshake cannot keep ranks out.
func TestManyWithoutHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		var idle []net.Conn
		for range morePending + len(w.Ranks) + 3 {
			idle = append(idle, all.dial(0))
			synctest.Wait()
		}
		require.Len(t, all.servers[0].pending, morePending+len(w.Ranks))
		for _, oldest := range idle[:3] {
			_, err := oldest.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		all.join(w, 1)
	})
}

func TestAfterClose(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	all.servers[0].Close()
	_, err := c.conn.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = all.dial(0).Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestURI(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	listener, uri, err := listen(all.servers[0])
	require.NoError(t, err)
	defer listener.Close()
	require.Regexp(t, `^gorun-node0\.0;tcp4://127\.0\.0\.1:\d+$`, uri)
	all.serving.Go(func() {
		conn, err := listener.Accept()
		if err == nil {
			all.servers[0].Serve(conn, world.Proc{})
		}
	})
	conn, err := net.Dial("tcp4", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, statusSuccess, greetWith(t, conn, greetingOf("gorun-1", 0)))
}

// A child of a rank connects as the rank.
func TestSecondConnectionOfARank(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	first, other := all.join(w, 0), all.join(w, 1)
	first.commit(scopeGlobal, "k", "the rank's")
	for range 2 {
		require.Equal(t, statusExists, greetWith(t, all.dial(0), greetingOf(w.Name, 0)))
	}
	require.Contains(t, all.received.next(t), "say 0 gorun: refused MPI_Init in a child of rank 0, since")
	text, _ := other.get(proc(w.Name, 0), "k")
	require.Equal(t, "the rank's", text)
	tag := first.ask(commandFence, fenceBody(everybody(w)))
	require.Equal(t, statusSuccess, other.status(commandFence, fenceBody(everybody(w))))
	require.Equal(t, statusSuccess, first.wait(tag).oneStatus())
	require.NoError(t, first.conn.Close())
	require.Equal(t, "left 0", all.received.next(t), "it is said once that another was refused")
}

// PMIx 4.2 ignores a refusal. It waits for ever if the connection ends before its next request.
func TestRefusedClientThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 1, 1)
		all := start(t, 1, w)
		all.join(w, 0)
		second := all.dial(0)
		require.Equal(t, statusExists, greetWith(t, second, greetingOf(w.Name, 0)))
		synctest.Wait()
		_, err := second.Write(appendFrame(nil, 1, []byte{0}))
		require.NoError(t, err, "the connection is still there")
		_, err = second.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// A shell script may run several MPI programs in turn.
func TestRankBeginsAgain(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	for range 2 {
		c := all.join(w, 0)
		require.Equal(t, "began 0 PMIx 4.2.2", <-all.received.received)
		require.Equal(t, statusSuccess, c.status(commandFence, fenceBody(everybody(w))))
		require.Equal(t, statusSuccess, c.status(commandFinalize, nil))
		require.Equal(t, "finalized 0", all.received.next(t))
		require.NoError(t, c.conn.Close())
	}
}

// A rank that calls PMIx_tool_init instead of PMIx_Init gets the name of its server.
func TestToolThatIsARank(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	g := greetingOf(w.Name, 1)
	g.flag, g.ids = toolClient, make([]byte, 8)
	c := all.client(0)
	_, err := c.conn.Write(g.handshake())
	require.NoError(t, err)
	reply := make([]byte, 4+maxNamespace+8)
	_, err = io.ReadFull(c.conn, reply)
	require.NoError(t, err)
	require.Equal(t,
		append(append(make([]byte, 4), "gorun-node0"...), make([]byte, maxNamespace+8-len("gorun-node0"))...), reply)
	job, _, _ := c.jobInfo(w)
	require.Equal(t, "2", job["pmix.job.size"])
	require.Equal(t, statusExists, greetWith(t, all.dial(0), g), "the rank already exists")
}
