package pmix

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// fuzzed returns a server of one node with a connection of a rank that reads nothing.
func fuzzed(t testing.TB) (*Server, *conn) {
	s := New(Config{
		Exchange: exchangetest.NewStopped(1).Nodes[0], Launcher: &starter{recorder: newRecorder(), fail: os.ErrInvalid},
		UID: os.Getuid(),
		Dir: func() (string, error) {
			return "", os.ErrPermission
		},
	})
	w := spread("gorun-1", 2, 2)
	s.Add(w)
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close(); s.Close() })
	c := newConn(ours)
	g := greetingOf("gorun-1", 0)
	_, err := s.admit(c, &g)
	require.NoError(t, err)
	return s, c
}

// FuzzRequest serves bodies of requests. No body may cause a panic or a much longer reply.
func FuzzRequest(f *testing.F) {
	for cmd := range 40 {
		f.Add([]byte{0, 0, 0, 1, byte(cmd)})
		f.Add([]byte{0, 0, 0, 1, byte(cmd), 0, 0, 0, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, c := fuzzed(t)
		before := c.out.Waiting()
		for range 2 {
			_ = s.serve(&request{conn: c, tag: 100, body: decoder{b: body}})
		}
		require.Less(t, c.out.Waiting()-before, 4096+8*len(body))
	})
}

// FuzzCommit commits data, and decodes it unless the server refuses it.
func FuzzCommit(f *testing.F) {
	var e encoder
	commitBody(&e, scopeGlobal, "k", "v")
	f.Add(e.b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		s, c := fuzzed(t)
		q := &request{conn: c, tag: 100, body: decoder{b: body}}
		do := s.commit(q, &q.body)
		if q.body.err != nil {
			return
		}
		do()
		require.NoError(t, checkKvals(c.member.data.local))
		require.NoError(t, checkKvals(c.member.data.remote))
		require.True(t, c.member.data.committed)
		s.merge(1, body)
	})
}

// FuzzNodes sends invalid messages from other nodes to a server.
func FuzzNodes(f *testing.F) {
	var e encoder
	e.proc(proc("gorun-1", 1))
	e.uint64(0)
	e.bytes([]byte("kvals"))
	f.Add(e.b)
	f.Add(event{to: rangeSession, targets: []world.Proc{proc("gorun-1", 0)}}.encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		s, _ := fuzzed(t)
		s.merge(1, body)
		s.finishRequested("", body, nil)
		for _, answer := range []service{s.serveEvent, s.serveModex} {
			answer(1, &decoder{b: body}, func([]byte) {})
		}
	})
}

// FuzzGreeting parses handshakes. A valid handshake encodes to the same bytes again.
func FuzzGreeting(f *testing.F) {
	f.Add(greetingOf("gorun-1", 0).encode())
	f.Add([]byte("native\x00\x00\x00\x00\x08"))
	tool := greetingOf("gorun-1", 0)
	tool.flag, tool.ids = toolClient, make([]byte, 8)
	f.Add(tool.encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := parseHello(body)
		if err == nil {
			require.Equal(t, body, g.encode())
		}
		g.check(0)
	})
}

// FuzzFrames splits a stream into messages with any announced lengths.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 100, []byte("one")), 101, nil))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 100, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := bytes.NewReader(stream)
		total := 0
		for {
			message, err := readFrame(in, binary.BigEndian, maxFrame)
			if err != nil {
				break
			}
			total += headerSize + len(message.body)
			require.LessOrEqual(t, cap(message.body), max(2*len(stream), 512))
		}
		require.LessOrEqual(t, total, len(stream))
	})
}
