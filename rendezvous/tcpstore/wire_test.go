package tcpstore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests as PyTorch's client sends them.

func number(n int64) []byte { return counted(0, "", n)[10:] }

func text(s string) []byte { return appendText(nil, s) }

func request(op byte, parts ...[]byte) []byte { return append([]byte{op}, bytes.Join(parts, nil)...) }

func listOf(op byte, texts ...string) []byte {
	b := request(op, number(int64(len(texts))))
	for _, s := range texts {
		b = append(b, text(s)...)
	}
	return b
}

func pairs(texts ...string) []byte {
	b := listOf(opMultiSet, texts...)
	copy(b[1:], number(int64(len(texts)/2)))
	return b
}

func TestRequestsEnd(t *testing.T) {
	limits := Limits{}.withDefaults()
	for op, b := range [operations][]byte{
		opValidate:   greeting,
		opSet:        request(opSet, text("k"), text("value")),
		opCompareSet: request(opCompareSet, text("k"), text(""), text("y")),
		opGet:        request(opGet, text("k")),
		opAdd:        request(opAdd, text("k"), number(-1)),
		opCheck:      listOf(opCheck, "a", "b"),
		opWait:       listOf(opWait),
		opNumKeys:    {opNumKeys},
		opDelete:     request(opDelete, text("")),
		opAppend:     request(opAppend, text("k"), text("")),
		opMultiGet:   listOf(opMultiGet, "a"),
		opMultiSet:   pairs("a", "1", "b", "2"),
		opCancelWait: {opCancelWait},
		opPing:       {opPing, 1, 2, 3, 4},
		opQueuePush:  request(opQueuePush, text("k"), text("v")),
		opQueuePop:   request(opQueuePop, text("k")),
		opQueueLen:   request(opQueueLen, text("k")),
		opListKeys:   {opListKeys},
		opBarrier:    request(opBarrier, text("k"), number(2)),
	} {
		t.Run(protocol[op].name, func(t *testing.T) {
			require.Equal(t, op, int(b[0]))
			var s scan
			for n := range len(b) {
				end, err := s.end(b[:n], &limits)
				require.NoError(t, err)
				require.Zero(t, end, "of %d bytes", n)
				require.LessOrEqual(t, s.need, len(b), "asks for no more than there is")
			}
			end, err := s.end(append(b, b...), &limits)
			require.NoError(t, err)
			require.Equal(t, len(b), end)
			require.Equal(t, scan{}, s, "is ready for the next")
		})
	}
}

func TestInvalidRequests(t *testing.T) {
	limits := Limits{Key: 10, Value: 20, Keys: 3}.withDefaults()
	for want, b := range map[string][]byte{
		"unknown operation 19":                                   {operations},
		"unknown operation 255":                                  {255},
		"GET: a key of 11 bytes; at most 10 are allowed":         request(opGet, number(11)),
		"ADD: a key of 18446744073709551615 bytes; at most 10":   request(opAdd, number(-1)),
		"SET: a value of 21 bytes; at most 20 are allowed":       request(opSet, text("k"), number(21)),
		"WAIT: 4 keys; at most 3 are allowed":                    request(opWait, number(4)),
		"MULTI_SET: 9223372036854775808 keys":                    request(opMultiSet, number(-1<<63)),
		"MULTI_SET: a value of 21 bytes; at most 20 are allowed": request(opMultiSet, number(1), text("a"), number(21)),
		"MULTI_GET: a key of 99 bytes; at most 10 are allowed":   request(opMultiGet, number(2), text("a"), number(99)),
		"COMPARE_SET: a value of 1099511627776 bytes; at most 20 ar": request(opCompareSet, text(""), text(""),
			number(1<<40)),
	} {
		_, err := new(scan).end(b, &limits)
		require.ErrorContains(t, err, want)
	}
}

func TestGreetings(t *testing.T) {
	for n := range greeting {
		end, err := parseGreeting(greeting[:n])
		require.NoError(t, err)
		require.Zero(t, end)
	}
	end, err := parseGreeting(append(greeting[:5:5], 99))
	require.NoError(t, err)
	require.Equal(t, 5, end)

	for n := range oldGreeting {
		end, err := parseGreeting(oldGreeting[:n])
		require.NoError(t, err)
		require.Zero(t, end)
	}
	_, err = parseGreeting(oldGreeting)
	require.ErrorIs(t, err, errOldClient)
	require.ErrorContains(t, err, "the client is PyTorch before 2.2")

	for _, b := range []string{
		"GET / HTTP/1.1\r\n", "\x16\x03\x01", "\x00\xce\xf7\x85\x3d", "\x00\x01",
		"\x03\x05\x00\x00\x00\x00\x00\x00\x00init?", "\xff",
	} {
		_, err := parseGreeting([]byte(b))
		require.ErrorContains(t, err, "not a store client", "%q", b)
		require.NotContains(t, err.Error(), "\r")
	}
}

// sessions are the bytes that PyTorch 2.15 sent: all operations, and the rendezvous of a process group of two with
// Gloo.
func sessions(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("testdata/sessions/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string][]byte{}
	for _, file := range files {
		all[filepath.Base(file)], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	return all
}

// requests splits a session into its requests, fed in pieces of a size.
func requests(t testing.TB, session []byte, size int) (ends []int) {
	limits := Limits{}.withDefaults()
	var s scan
	at := 0
	for have := 0; have < len(session); {
		have = min(have+size, len(session))
		for {
			n, err := s.end(session[at:have], &limits)
			require.NoError(t, err)
			if n == 0 {
				break
			}
			at += n
			ends = append(ends, at)
		}
	}
	require.Equal(t, len(session), at, "nothing is left")
	return ends
}

func TestSessionsScanAlikeInAnyPieces(t *testing.T) {
	for name, session := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			whole := requests(t, session, len(session))
			for _, size := range []int{1, 2, 3, 7, 16, 64} {
				require.Equal(t, whole, requests(t, session, size))
			}
		})
	}
}

// FuzzParse checks that parsing finds the same request in one piece and in two, and that its arguments can be
// decoded.
func FuzzParse(f *testing.F) {
	for _, session := range sessions(f) {
		f.Add(session[len(greeting):], 3)
	}
	f.Add(pairs("a", "1", "b", "2"), 12)
	f.Add(listOf(opWait, "a", "", "b"), 9)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		limits := Limits{Key: 64, Value: 256, Keys: 16}.withDefaults()
		whole, err := new(scan).end(b, &limits)
		if cut < 0 || cut > len(b) {
			cut = len(b) / 2
		}
		var s scan
		n, first := s.end(b[:cut], &limits)
		if n == 0 && first == nil {
			require.LessOrEqual(t, s.at, cut)
			n, first = s.end(b, &limits)
		}
		require.Equal(t, whole, n)
		require.Equal(t, err == nil, first == nil)
		if whole > 0 {
			readAll(t, b[:whole])
		}
	})
}

// readAll decodes the arguments of a complete request.
func readAll(t *testing.T, b []byte) {
	args := arguments(b[1:])
	for _, kind := range protocol[b[0]].shape {
		switch kind {
		case 'k', 'v':
			args.text()
		case 'n':
			args.number()
		case 'w':
			args = args[4:]
		case 'K':
			args.appendTexts(nil)
		case 'P':
			for n := args.number(); n > 0; n-- {
				args.text()
				args.text()
			}
		}
	}
	require.Empty(t, args)
}
