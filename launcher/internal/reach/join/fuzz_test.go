package join

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func FuzzHello(f *testing.F) {
	var b bytes.Buffer
	require.NoError(f,
		writeMessage(&b, &Hello{Version: "v1", ID: "job", NumNodes: 2, NodeRank: 1, Host: "h", NodeID: "\x1b[2J"}))
	f.Add(b.Bytes())
	f.Add([]byte(message(`{"nnodes":-1}`)))
	f.Add([]byte("gorun\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r := bytes.NewReader(p)
		h, err := readHello(r)
		slowly, failed := readHello(iotest.OneByteReader(bytes.NewReader(p)))
		require.Equal(t, err == nil, failed == nil, "how bytes come must not matter")
		if err != nil {
			return
		}
		require.Equal(t, h, slowly)
		var again bytes.Buffer
		require.NoError(t, writeMessage(&again, &h))
		again.WriteString("rest")
		back, err := readHello(&again)
		require.NoError(t, err)
		require.Equal(t, h, back)
		require.Equal(t, "rest", again.String(), "no byte behind it is taken")
	})
}

// A connection's kind does not depend on how its first bytes are split, and its handler gets all of them.
func FuzzSniff(f *testing.F) {
	for _, b := range preambles {
		f.Add([]byte(b.bytes + "and more"))
	}
	f.Add([]byte("\x03\x05\x00\x00"))
	f.Add([]byte("gorum"))
	f.Fuzz(func(t *testing.T, p []byte) {
		want := identify(p)
		at := bytes.NewReader(p)
		who, first, err := readPreamble(stream{r: iotest.OneByteReader(at)})
		if err != nil {
			require.Equal(t, undecided, who)
			require.Equal(t, undecided, want)
			return
		}
		require.LessOrEqual(t, len(first), maxPreamble)
		if want != undecided {
			require.Equal(t, want, who)
		}
		rest := make([]byte, at.Len())
		_, _ = at.Read(rest)
		require.Equal(t, p, append(first, rest...))
	})
}

// stream is a connection for reading.
type stream struct {
	net.Conn
	r interface{ Read([]byte) (int, error) }
}

func (s stream) Read(p []byte) (int, error) { return s.r.Read(p) }

func TestIdentify(t *testing.T) {
	for said, want := range map[string]peerKind{
		"":                             undecided,
		"\x00\xCE\xF7\x85\x3C\x0d":     storeClient,
		"\x00\xCE\xF7\x85":             undecided,
		"\x00\x01":                     unknownPeer,
		"\x16\x03\x01":                 secureNode,
		"\x16\x02":                     unknownPeer,
		"gorun\x02":                    plainNode,
		"goru":                         undecided,
		"\x03\x05\x00\x00\x00\x00\x00": undecided,
		"\x03\x05\x00\x00\x00\x00\x00\x00\x00init/\x01": oldStoreClient,
		"\x03\x06":             unknownPeer,
		strings.Repeat("a", 9): unknownPeer,
	} {
		require.Equal(t, want, identify([]byte(said)), "%q", said)
	}
}
