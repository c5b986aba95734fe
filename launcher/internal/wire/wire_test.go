package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
)

func TestFramesSurviveAnyFragmentation(t *testing.T) {
	b := AppendControl(nil, &Signal{Signal: spec.Signal{Number: 15, Group: true}})
	b = AppendOutput(b, 3, 2, []byte("half a line"))
	b = AppendStdin(b, 1, nil)

	r := NewReader(iotest.OneByteReader(bytes.NewReader(b)))
	f, err := r.Read()
	require.NoError(t, err)
	var s Signal
	require.NoError(t, f.Decode(&s))
	assert.Equal(t, Signal{Signal: spec.Signal{Number: 15, Group: true}}, s)

	f, err = r.Read()
	require.NoError(t, err)
	rank, stream, p, err := f.Stream()
	require.NoError(t, err)
	assert.Equal(t, []any{3, 2, "half a line"}, []any{rank, stream, string(p)})

	f, err = r.Read()
	require.NoError(t, err)
	rank, _, p, err = f.Stream()
	require.NoError(t, err)
	assert.Equal(t, 1, rank)
	assert.Empty(t, p)

	_, err = r.Read()
	assert.Equal(t, io.EOF, err)
}

func TestBrokenStreams(t *testing.T) {
	whole := AppendOutput(nil, 0, 1, []byte("abc"))
	for name, tc := range map[string]struct {
		bytes []byte
		want  string
	}{
		"inside a header":  {whole[:5], "unexpected EOF"},
		"inside a body":    {whole[:10], "unexpected EOF"},
		"before a body":    {whole[:8], "unexpected EOF"},
		"too long":         {[]byte{255, 255, 255, 255, 1, 0, 0, 0}, "not a frame"},
		"type zero":        {make([]byte, 8), "not a frame"},
		"an http request":  {[]byte("GET / HTTP/1.1\r\n\r\n"), "not a frame"},
		"stream too short": {[]byte{2, 0, 0, 0, byte(TypeOutput), 0, 0, 0, 1, 2}, "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := NewReader(bytes.NewReader(tc.bytes)).Read()
			if err == nil {
				_, _, _, err = f.Stream()
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// An announced length allocates nothing until the bytes come.
func TestAnnouncedLengthIsNotBelieved(t *testing.T) {
	r := NewReader(bytes.NewReader(appendHeader(nil, TypeOutput, MaxBody)))
	_, err := r.Read()
	require.Equal(t, io.ErrUnexpectedEOF, err)
	assert.Less(t, cap(r.body), 4<<20)
}

func TestTypesHaveNames(t *testing.T) {
	for typ := TypeHello; typ <= TypeWarm; typ++ {
		assert.NotContains(t, typ.String(), "type ")
	}
	assert.Equal(t, "type 200", Type(200).String())
}

// FuzzReader feeds arbitrary bytes: no panic, and every frame that is read
// writes back to the bytes that it came from.
func FuzzReader(f *testing.F) {
	start := AppendControl(nil, &Start{
		JobID: "0a", Common: []string{"A=b"},
		Ranks: []Row{{Process: spec.Process{Rank: 1}}},
	})
	f.Add(start)
	f.Add(AppendOutput(nil, 2, 1, []byte("text\n")))
	f.Add(append(AppendStdin(nil, 0, nil), start...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest := NewReader(bytes.NewReader(b)), b
		for {
			frame, err := r.Read()
			if err != nil {
				return
			}
			again := append(appendHeader(nil, frame.Type, len(frame.Body)), frame.Body...)
			require.Equal(t, rest[:len(again)], again)
			rest = rest[len(again):]
			_, _, _, _ = frame.Stream()
			for _, m := range messages {
				into := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				if into.Type() == frame.Type && frame.Decode(into) == nil {
					once := appendMessage(nil, into)
					again := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
					if err := readMessage(once, again); !errors.Is(err, errTooLarge) { // what is alike takes less room
						require.NoError(t, err, "what was read is written so that it can be read")
					}
				}
			}
		}
	})
}

// Names and variables are bytes, not UTF-8: they arrive as they are.
func TestTextsOfAnyBytes(t *testing.T) {
	all := make([]byte, 0, 255)
	for c := 1; c < 256; c++ {
		all = append(all, byte(c))
	}
	sent := Start{
		Common: []string{"A=\xff\xfe", "", "B=" + string(all)}, JobID: string(all),
		Apps:  []spec.App{{Path: "\x80", Argv: []string{"", "\n", "\"\\"}}},
		Ranks: []Row{{Env: []string{"/tmp/\xc3\x28"}}},
	}
	f, err := NewReader(bytes.NewReader(AppendControl(nil, &sent))).Read()
	require.NoError(t, err)
	var got Start
	require.NoError(t, f.Decode(&got))
	assert.Equal(t, sent, got)
}
