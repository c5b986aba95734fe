package tcpstore

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
	"gorun/internal/testneeds"
)

func TestAnyFragmentation(t *testing.T) {
	s := open(t, Config{})
	session := bytes.Join([][]byte{
		greeting,
		{opPing, 9, 8, 7, 6},
		request(opSet, text("/k"), text("value")), request(opGet, text("/k")),
		listOf(opWait, "/k", "/k"),
		{opCancelWait},
	}, nil)
	answer := bytes.Join([][]byte{{9, 8, 7, 6}, text("value"), {replyReady, replyCanceled}}, nil)
	for size := 1; size <= len(session); size++ {
		r := dialRaw(t, s)
		for rest := session; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			r.send(rest[:min(size, len(rest))])
		}
		r.expect(answer...)
		r.ping()
		require.NoError(t, r.Close())
	}
}

// TestAnswers checks, byte by byte, requests that the client never sends in that form.
func TestAnswers(t *testing.T) {
	for name, step := range map[string]struct{ before, ask, answer []byte }{
		"get of a missing key": {nil, request(opGet, text("no")), number(0)},
		"multi-get has no count": {
			pairs("a", "1", "b", "22"), listOf(opMultiGet, "b", "no", "a"),
			bytes.Join([][]byte{text("22"), number(0), text("1")}, nil),
		},
		"multi-get of nothing":   {nil, append(listOf(opMultiGet), opCancelWait), []byte{replyCanceled}},
		"check of nothing":       {nil, listOf(opCheck), []byte{replyReady}},
		"check of a missing key": {nil, listOf(opCheck, "no"), []byte{replyNotReady}},
		"wait for nothing":       {nil, listOf(opWait), []byte{replyReady}},
		"cancel without a wait":  {nil, []byte{opCancelWait, opCancelWait}, []byte{replyCanceled, replyCanceled}},
		"pop of an empty queue":  {nil, request(opQueuePop, text("q")), number(0)},
		"pop says the length before": {
			append(request(opQueuePush, text("q"), text("a")), request(opQueuePush, text("q"), text("b"))...),
			request(opQueuePop, text("q")), append(number(2), text("a")...),
		},
		"barrier of none": {nil, request(opBarrier, text("b"), number(0)), []byte{replyReady}},
		"delete": {
			request(opSet, text("k"), nil, number(0)), append(request(opDelete, text("k")), request(opDelete, text("k"))...),
			append(number(1), number(0)...),
		},
		"keys are listed as they are": {
			request(opSet, text("init/"), text("")), []byte{opListKeys}, append(number(1), text("init/")...),
		},
		"keys are counted, queues not": {
			append(request(opQueuePush, text("q"), text("a")), request(opSet, text("k"), text(""))...),
			[]byte{opNumKeys},
			number(1),
		},
		"compare-set of a missing key": {nil, request(opCompareSet, text("k"), text("lie"), text("x")), text("lie")},
		"a value longer than one chunk": {
			request(opSet, text("k"), text(strings.Repeat("x", 3*chunk))), request(opGet, text("k")),
			text(strings.Repeat("x", 3*chunk)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := greet(t, open(t, Config{}))
			r.send(step.before, step.ask)
			r.expect(step.answer...)
			r.ping()
		})
	}
}

func TestPipelined(t *testing.T) {
	r := greet(t, open(t, Config{}))
	var asked, answer []byte
	for i := range int64(5000) {
		asked = append(asked, request(opAdd, text("/n"), number(1))...)
		answer = append(answer, number(i+1)...)
	}
	sent := make(chan error, 1)
	go func() { _, err := r.Write(asked); sent <- err }()
	r.expect(answer...)
	require.NoError(t, <-sent)
}

func TestLateAnswers(t *testing.T) {
	s := open(t, Config{})
	other := dial(t, s)
	set := func(t *testing.T, key string) { require.NoError(t, other.Set(t.Context(), key, nil)) }

	t.Run("other requests are served while one waits", func(t *testing.T) {
		r := greet(t, s)
		r.send(listOf(opWait, "/late"))
		r.ping()
		set(t, "late")
		r.expect(replyReady)
		r.ping()
	})
	t.Run("one's own set ends one's wait", func(t *testing.T) {
		r := greet(t, s)
		r.send(listOf(opWait, "/own"), request(opSet, text("/own"), text("")), []byte{opPing, 1, 2, 3, 4})
		r.expect(replyReady, 1, 2, 3, 4)
	})
	t.Run("a wait that was cancelled is never answered", func(t *testing.T) {
		r := greet(t, s)
		r.send(append(listOf(opWait, "/cancelled", "/too"), opCancelWait))
		r.expect(replyCanceled)
		set(t, "cancelled")
		set(t, "too")
		r.ping()
	})
	t.Run("a wait that is over comes before the answer to its cancellation", func(t *testing.T) {
		r := greet(t, s)
		r.send(listOf(opWait, "/soon"))
		r.ping()
		set(t, "soon")
		r.send([]byte{opCancelWait})
		r.expect(replyReady, replyCanceled)
		r.ping()
	})
	t.Run("a barrier is cancelled like a wait, and stays counted", func(t *testing.T) {
		r := greet(t, s)
		r.send(append(request(opBarrier, text("/b"), number(2)), opCancelWait))
		r.expect(replyCanceled)
		r.send(request(opBarrier, text("/b"), number(2)))
		r.expect(replyReady)
	})
	t.Run("a key that was deleted counts as come", func(t *testing.T) {
		r := greet(t, s)
		r.send(listOf(opWait, "/a", "/b"))
		r.ping()
		set(t, "a")
		_, err := other.Delete(t.Context(), "a")
		require.NoError(t, err)
		set(t, "b")
		r.expect(replyReady)
		r.ping()
	})
	t.Run("a push wakes one", func(t *testing.T) {
		first, second := greet(t, s), greet(t, s)
		first.send(listOf(opWait, "/q"))
		first.ping()
		second.send(listOf(opWait, "/q"))
		second.ping()
		require.NoError(t, other.QueuePush(t.Context(), "q", []byte("v")))
		first.expect(replyReady)
		second.ping()
		first.send([]byte{opCancelWait}) // its timeout expired without a pop, so the server wakes the other client
		first.expect(replyCanceled)
		second.expect(replyReady)
		second.send(request(opQueuePop, text("/q")))
		second.expect(append(number(1), text("v")...)...)
	})
	t.Run("who dies after a push leaves it to the next", func(t *testing.T) {
		first, second := greet(t, s), greet(t, s)
		first.send(listOf(opWait, "/q2"))
		first.ping()
		second.send(listOf(opWait, "/q2"))
		second.ping()
		require.NoError(t, other.QueuePush(t.Context(), "q2", nil))
		first.expect(replyReady)
		require.NoError(t, first.Close())
		second.expect(replyReady)
	})
	t.Run("what was pushed goes to the next also when the first does something else", func(t *testing.T) {
		first, second := greet(t, s), greet(t, s)
		first.send(listOf(opWait, "/q3"))
		first.ping()
		second.send(listOf(opWait, "/q3"))
		second.ping()
		require.NoError(t, other.QueuePush(t.Context(), "q3", nil))
		first.expect(replyReady)
		first.ping()
		second.expect(replyReady)
	})
	t.Run("who dies waiting is forgotten", func(t *testing.T) {
		s := open(t, Config{})
		r := greet(t, s)
		r.send(listOf(opWait, "/ghost"))
		r.ping()
		require.Equal(t, 1, s.Snapshot().Waiting)
		require.NoError(t, r.Close())
		require.Eventually(t, func() bool { return s.Snapshot() == (Snapshot{Operations: 2}) }, time.Minute, time.Millisecond)
		greet(t, s).send(request(opSet, text("/ghost"), text("")))
	})
}

func TestBadPeersEndOnlyThemselves(t *testing.T) {
	known := func(parts ...[]byte) []byte { return append(bytes.Clone(greeting), bytes.Join(parts, nil)...) }
	for name, peer := range map[string]struct {
		says []byte
		log  string
	}{
		"http":              {[]byte("GET / HTTP/1.1\r\n\r\n"), `not a store client: it began with "GET / HTTP/1.1\r\n"`},
		"tls":               {[]byte{0x16, 3, 1, 2, 0}, "not a store client"},
		"wrong magic":       {[]byte{0, 1, 2, 3, 4}, "not a store client"},
		"request first":     {request(opSet, text("k"), text("v")), "not a store client"},
		"torch 2.1":         {append(bytes.Clone(oldGreeting), number(1)...), "the client is PyTorch before 2.2"},
		"unknown operation": {known([]byte{77}), "unknown operation 77"},
		"second validate":   {known(greeting), "already validated"},
		"second wait":       {known(listOf(opWait, "a"), listOf(opWait, "b")), "while an earlier one is unanswered"},
		"wait in a barrier": {
			known(request(opBarrier, text("b"), number(9)), listOf(opWait, "a")), "while an earlier one is unanswered",
		},
		"long key":   {known(request(opGet, number(1<<40))), "a key of 1099511627776 bytes"},
		"long value": {known(request(opSet, text("k"), number(1<<40))), "a value of 1099511627776 bytes"},
		"many keys":  {known(request(opWait, number(1<<40))), "1099511627776 keys"},
		"no number": {
			known(request(opSet, text("x"), text("y\x1b[2J")), request(opAdd, text("x"), number(1))),
			`ADD: "x" holds "y\x1b[2J", which is not a number`,
		},
		"no number to arrive": {
			known(request(opSet, text("x"), text("")), request(opBarrier, text("x"), number(2))), "BARRIER",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Config{})
			good := greet(t, s)
			good.ping()
			for range 2 {
				bad := dialRaw(t, s)
				bad.send(peer.says)
				bad.ended()
			}
			good.ping()
			require.Contains(t, s.log.text(), peer.log)
			require.Len(t, s.log.lines, 1, "one line for a peer and its fault")
		})
	}
}

func TestWhatCameBeforeAFaultIsAnswered(t *testing.T) {
	r := greet(t, open(t, Config{}))
	r.send([]byte{opPing, 7, 7, 7, 7, 99})
	r.expect(7, 7, 7, 7)
	r.ended()
}

func TestLogNamesTheProcess(t *testing.T) {
	s := open(t, Config{})
	r := greet(t, s)
	r.send(binary.LittleEndian.AppendUint32([]byte{opPing}, 4711), []byte{99})
	r.expect(0x67, 0x12, 0, 0)
	r.ended()
	require.Contains(t, s.log.text(), r.LocalAddr().String()+" (pid 4711): unknown operation 99")
}

func TestSilentPeersAreCutOff(t *testing.T) {
	s := open(t, Config{Limits: Limits{Greeting: time.Millisecond}})
	silent, half := dialRaw(t, s), dialRaw(t, s)
	half.send(greeting[:3])
	silent.ended()
	half.ended()
	require.Contains(t, s.log.text(), "no greeting from a store client within 1ms")
	require.Zero(t, s.Clients())
}

func TestHalfARequestHoldsUpNobody(t *testing.T) {
	s := open(t, Config{})
	half := greet(t, s)
	half.send(request(opSet, text("/k"), number(60<<20)), make([]byte, 100_000))
	good := greet(t, s)
	good.ping()
	require.Eventually(t, func() bool { return s.Snapshot().Memory >= 100_000 }, time.Minute, time.Millisecond)
	require.Less(t, s.Snapshot().Memory, int64(1<<20), "memory for what came, not for what was announced")
}

// TestSlowReader makes a client request much and read nothing. The server still serves others and copies little,
// and the client gets everything when it reads.
func TestSlowReader(t *testing.T) {
	s := open(t, Config{})
	good := dial(t, s)
	big := bytes.Repeat([]byte("x"), 8<<20)
	require.NoError(t, good.Set(t.Context(), "big", big))
	require.NoError(t, good.Set(t.Context(), "small", []byte("y")))
	const asked = 20
	r := greet(t, s)
	for range asked {
		r.send(request(opGet, text("/big")), listOf(opMultiGet, "/small", "/big"))
	}
	require.NoError(t, good.Set(t.Context(), "k", nil))
	require.Less(t, s.Snapshot().Memory, int64(10<<20), "the value is stored once")
	for range asked {
		r.expect(number(int64(len(big)))...)
		_, err := io.CopyN(io.Discard, r, int64(len(big)))
		require.NoError(t, err)
		r.expect(append(text("y"), number(int64(len(big)))...)...)
		_, err = io.CopyN(io.Discard, r, int64(len(big)))
		require.NoError(t, err)
	}
	r.ping()
}

// TestManyAnswersUnread is like TestSlowReader, with replies that the server copies.
func TestManyAnswersUnread(t *testing.T) {
	s := open(t, Config{})
	r := greet(t, s)
	value := strings.Repeat("v", 4000)
	r.send(request(opSet, text("k"), text(value)))
	const keys = 20_000 // 80 MB of replies to a request of 180 kB
	r.send(listOf(opMultiGet, make([]string, keys)...), listOf(opMultiGet, slicesOf("k", keys)...))
	other := greet(t, s)
	other.ping()
	_, err := io.CopyN(io.Discard, r, keys*8)
	require.NoError(t, err)
	for range keys {
		r.expect(text(value)...)
	}
	r.ping()
}

func slicesOf(s string, n int) []string {
	return strings.Split(strings.Repeat(s+" ", n-1)+s, " ")
}

func TestMemoryHasALimit(t *testing.T) {
	s := open(t, Config{Limits: Limits{Memory: 1 << 20}})
	good := dial(t, s)
	require.NoError(t, good.Set(t.Context(), "k", make([]byte, 500_000)))
	greedy := greet(t, s)
	_, _ = greedy.Write(request(opSet, text("a"), text(string(make([]byte, 600_000)))))
	_, _ = io.Copy(io.Discard, greedy) // end-of-file or a reset, depending on timing
	require.Contains(t, s.log.text(), "the store is full")
	_, err := good.Get(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, good.Set(t.Context(), "k", nil))
}

func TestConnectionsHaveALimit(t *testing.T) {
	s := open(t, Config{Limits: Limits{Connections: 2}})
	first := greet(t, s)
	first.ping()
	silent := dialRaw(t, s)
	second := greet(t, s) // replaces the connection without a greeting
	second.ping()
	silent.ended()

	third := greet(t, s) // waits in the kernel's queue until there is room
	third.send([]byte{opPing, 1, 2, 3, 4})
	second.ping()
	require.Eventually(t, func() bool {
		return strings.Contains(s.log.text(), "2 connections are open (that is the limit), and 1 are waiting")
	}, time.Minute, time.Millisecond)
	require.NoError(t, first.Close())
	third.expect(1, 2, 3, 4)
	require.Equal(t, 3, s.Clients())
}

func TestAllowedClients(t *testing.T) {
	l := loop{cfg: Config{Allow: netip.MustParsePrefix("10.1.0.0/16").Contains}}
	defer l.peers.Close()
	for address, want := range map[string]error{
		"10.1.2.3": nil, "10.2.0.1": errElsewhere, "203.0.113.2": errElsewhere, "2001:db8::1": errElsewhere,
	} {
		peer := netip.AddrPortFrom(netip.MustParseAddr(address), 5)
		local, why := l.allowed(peersocket.Ends{Local: netip.MustParseAddrPort("10.0.0.1:5"), Remote: peer})
		require.False(t, local)
		require.Equal(t, want, why, address)
	}
	for _, own := range []string{"127.0.0.1", "127.8.8.8", "::1"} {
		at := netip.AddrPortFrom(netip.MustParseAddr(own), 5)
		peer := peersocket.Ends{Local: at, Remote: netip.AddrPortFrom(at.Addr(), 6)}
		_, why := l.allowed(peer)
		require.ErrorContains(t, why, "its user is unknown (no process on this host has its other end open)", own)
		open := loop{cfg: Config{AllowLocalUsers: true}}
		local, why := open.allowed(peer)
		require.NoError(t, why, own)
		require.True(t, local)
	}
}

func TestOwnAddressIsAllowed(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().Is4() || prefix.Addr().IsLoopback() {
			continue
		}
		s := open(t, Config{Host: prefix.Addr().String()})
		greet(t, s).ping()
		everywhere := open(t, Config{Host: "::"})
		r, err := net.Dial("tcp", netip.AddrPortFrom(prefix.Addr(), everywhere.Addr().Port()).String())
		require.NoError(t, err)
		defer r.Close()
		raw{r, t}.send(greeting)
		raw{r, t}.ping()
		return
	}
	testneeds.Skip(t, "network", "this host has no IPv4 address beside loopback")
}

// TestSockets checks the options of the server's descriptors, which connections inherit, and that no child inherits
// them.
func TestSockets(t *testing.T) {
	before := sockets(t)
	s := open(t, Config{})
	r := greet(t, s)
	r.ping()
	type option struct{ level, name int }
	accepted := 0
	for fd := range sockets(t) {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if before[fd] || err != nil {
			continue
		}
		require.NotZero(t, flags&unix.FD_CLOEXEC, "descriptor %d", fd)
		if peer, err := unix.Getpeername(fd); err != nil || addrPort(peer).String() != r.LocalAddr().String() {
			continue
		}
		accepted++
		for o, want := range map[option]int{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY}: 1, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}: 1,
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}:  60,
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 10, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}: 6,
		} {
			got, err := unix.GetsockoptInt(fd, o.level, o.name)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v", o)
		}
	}
	require.Equal(t, 1, accepted)
}

// sockets returns this process's descriptors.
func sockets(t *testing.T) map[int]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	all := map[int]bool{}
	for _, e := range entries {
		n := 0
		for _, digit := range e.Name() {
			n = 10*n + int(digit-'0')
		}
		all[n] = true
	}
	return all
}

func TestDescriptorsAreClosed(t *testing.T) {
	s, err := Listen(Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	before := len(sockets(t))
	for range 20 {
		s, err := Listen(Config{})
		require.NoError(t, err)
		c, err := Dial(t.Context(), s.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		idle, err := Listen(Config{})
		require.NoError(t, err)
		require.NoError(t, idle.Close())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "again")
		require.Zero(t, s.Snapshot())
	}
	require.Len(t, sockets(t), before)
}

func TestListenTellsWhatIsWrong(t *testing.T) {
	s := open(t, Config{})
	port := int(s.Addr().Port())
	_, err := Listen(Config{Port: port})
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, PortTakenError{Host: "127.0.0.1", Port: port, Err: unix.EADDRINUSE}, *taken)
	require.ErrorIs(t, err, unix.EADDRINUSE)

	_, err = Listen(Config{Host: "node1.example"})
	require.ErrorContains(t, err, `bind "node1.example": use an IP address`)
	_, err = Listen(Config{Host: "192.0.2.1"})
	require.ErrorContains(t, err, "bind 192.0.2.1 port 0")
	_, err = Listen(Config{Port: 1 << 16})
	require.ErrorContains(t, err, "ports are 0 to 65535")

	require.NoError(t, s.Close())
	again := open(t, Config{Host: "localhost", Port: port})
	require.Equal(t, s.Addr(), again.Addr(), "the port is free at once")
}

func TestIPv6(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		testneeds.Skip(t, "ipv6", err.Error())
	}
	if _, err := Listen(Config{Host: "::1", Port: -1}); err == nil {
		t.Fatal("a port of -1")
	}
	s, err := Listen(Config{Host: "::1"})
	if err != nil {
		testneeds.Skip(t, "ipv6", err.Error())
	}
	defer s.Close()
	c, err := Dial(t.Context(), s.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestEverywhereTakesBothKinds(t *testing.T) {
	s := open(t, Config{Host: "::"})
	r, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Addr().Port()).String())
	require.NoError(t, err)
	defer r.Close()
	raw{r, t}.send(greeting)
	raw{r, t}.ping()
}

func TestComplaintsHaveAnEnd(t *testing.T) {
	log := &logbook{}
	c := complaints{logf: log.logf}
	at := netip.MustParseAddr("10.0.0.0")
	for range 2 * maxComplaints {
		at = at.Next()
		c.log(complaint{peer: at, kind: faultNotClient}, "%v", at)
		c.log(complaint{peer: at, kind: faultNotClient}, "%v again", at)
	}
	require.Len(t, log.lines, maxComplaints+1)
	require.Contains(t, log.lines[maxComplaints], "no longer logs others")
}

// FuzzServer sends bytes to a server, with or without a greeting. The server still serves others, and frees the
// memory of the connection.
func FuzzServer(f *testing.F) {
	for _, session := range sessions(f) {
		f.Add(session, true)
		f.Add(session[len(greeting):], true)
		f.Add(session, false)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add(bytes.Clone(oldGreeting), false)
	s := open(f, Config{Limits: Limits{Key: 1 << 10, Value: 1 << 16, Memory: 64 << 20}})
	f.Fuzz(func(t *testing.T, b []byte, greets bool) {
		r := dialRaw(t, s)
		if greets {
			_, _ = r.Write(greeting)
		}
		_, _ = r.Write(b[:len(b)/2]) // the server may close the connection at any byte
		_, _ = r.Write(b[len(b)/2:])
		require.NoError(t, r.Close())
		greet(t, s).ping()
	})
}

// meets sets the keys that a session waits for, as its peers did.
func (r raw) meets(session []byte) {
	start := 0
	for _, end := range requests(r.t, session, len(session)) {
		if session[start] == opWait {
			args := arguments(session[start+1 : end])
			for _, key := range args.appendTexts(nil) {
				r.send(request(opSet, text(string(key)), text("")))
			}
		}
		start = end
	}
	r.ping()
}

// TestSessionsAreServed replays the bytes that PyTorch sent.
func TestSessionsAreServed(t *testing.T) {
	for name, session := range sessions(t) {
		t.Run(strings.TrimSuffix(name, filepath.Ext(name)), func(t *testing.T) {
			s := open(t, Config{})
			r := dialRaw(t, s)
			greet(t, s).meets(session)
			for i := range session {
				r.send(session[i : i+1])
			}
			require.NoError(t, r.Conn.(*net.TCPConn).CloseWrite())
			_, err := io.Copy(io.Discard, r)
			require.NoError(t, err)
			require.Empty(t, s.log.text())
		})
	}
}
