package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestTail(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "line %d\n", i)
	}
	for _, tt := range []struct {
		name  string
		write []string
		lines int
		want  []string
	}{
		{"nothing", nil, 5, nil},
		{"pieces", []string{"a", "b\nc", "d"}, 5, []string{"ab", "cd"}},
		{"only the last", []string{many.String()}, 2, []string{"line 98", "line 99"}},
		{"an empty line", []string{"a\n\n"}, 5, []string{"a", ""}},
		{"control bytes", []string{"\x1b[31mred\x1b[0m \x07\x00\n"}, 5, []string{"red ^G^@"}},
		{
			"a progress bar",
			[]string{"head\n", "\r 1%", "\r 2%", "\r", "100%\n", "tail\r\n"},
			5,
			[]string{"head", "100%", "tail"},
		},
		{"a line end in two pieces", []string{"a\r", "\nb"}, 5, []string{"a", "b"}},
		{"a bar in pieces", []string{"\ra", "b"}, 5, []string{"ab"}},
		{"a bar over more than is kept", []string{strings.Repeat("x", 2*stderrTail), "\rab"}, 5, []string{"ab"}},
		{"a bar in progress", []string{"\r1", "\r2", "\r"}, 5, []string{"2"}},
		{
			"more than is kept",
			[]string{strings.Repeat("x", 2*stderrTail) + "\n"},
			5,
			[]string{"..." + strings.Repeat("x", stderrTail-1)},
		},
		{"more than is kept, in pieces", []string{"a\n", strings.Repeat("x", stderrTail-2), "\nb"}, 5, []string{
			"..." + strings.Repeat("x", stderrTail-2), "b",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewConsole(Config{
				Stdout: Destination{W: io.Discard}, Stderr: Destination{W: io.Discard}, Ranks: ranks(2), TailLines: tt.lines,
			})
			for _, p := range tt.write {
				c.Write(1, Stderr, []byte(p))
			}
			assert.Equal(t, tt.want, c.Tail(1, Stderr))
			assert.Nil(t, c.Tail(0, Stderr))
			assert.Nil(t, c.Tail(1, Stdout))
			assert.Nil(t, c.Tail(9, Stdout))
			require.NoError(t, c.Close(t.Context()))
			assert.Equal(t, tt.want, c.Tail(1, Stderr), "it is there for the report, after the end")
		})
	}
}

func TestTailDefault(t *testing.T) {
	c := NewConsole(Config{Stdout: Destination{W: io.Discard}, Stderr: Destination{W: io.Discard}, Ranks: ranks(1)})
	c.Write(0, Stdout, []byte(strings.Repeat("x\n", 100)))
	assert.Len(t, c.Tail(0, Stdout), DefaultTailLines)
	require.NoError(t, c.Close(t.Context()))
}

// TestTailKeepsLittle makes a rank print without end.
func TestTailKeepsLittle(t *testing.T) {
	var kept tail
	for i := range 3000 {
		kept.add([]byte(fmt.Sprintf("\rbar %d", i)), stderrTail)
		kept.add([]byte(strings.Repeat("x", i)), stderrTail)
	}
	assert.LessOrEqual(t, len(kept.buf), stderrTail)
	assert.LessOrEqual(t, cap(kept.buf), 2*stderrTail)
}

// The cause stays, of Python's dump the thread that crashed, and what a shell prints later, whatever pieces come.
func TestTailOfACrashInPython(t *testing.T) {
	const frame = "  File \"a.py\", line 1 in f\n"
	other := "Thread 0x00007e (most recent call first):\n" + strings.Repeat(frame, 100) + "\n"
	text := "what(): CUDA error\nFatal Python error: Aborted\n\n" + strings.Repeat(other, 9) +
		"Current thread 0x00007f (most recent call first):\n" + strings.Repeat(frame, 100) + "  ...\n\n" +
		"Extension modules: " + strings.Repeat("numpy, ", 2000) + "(total: 2000)\nsh: Aborted"
	want := []string{"what(): CUDA error", "Fatal Python error: Aborted"}
	want = append(want, "Current thread 0x00007f (most recent call first):")
	want = append(append(want, slices.Repeat([]string{strings.TrimSuffix(frame, "\n")}, keptFrames)...), "sh: Aborted")
	random := testneeds.Rand(t)
	for range 20 {
		var kept tail
		at := len("what(): CUDA error\nFatal Python error: ")
		kept.add([]byte(text[:at]), stderrTail)
		for at < len(text) {
			next := min(len(text), at+1+random.IntN(1000))
			kept.add([]byte(text[at:next]), stderrTail)
			at = next
		}
		require.Equal(t, want, kept.lines(99))
	}
}
