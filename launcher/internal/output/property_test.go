package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// transcript is the output of some ranks: whole streams, and the order in which their pieces arrive.
type transcript struct {
	streams [][]byte
	pieces  []piece
}

// piece is n bytes of a rank's stream; 0 bytes mean its end.
type piece struct{ rank, n int }

// randomTranscript makes up to four ranks print lines of all sizes, each with its rank and line number. The last line
// may lack its newline.
func randomTranscript(r *rand.Rand) transcript {
	var t transcript
	for rank := range 1 + r.IntN(4) {
		var stream []byte
		for i := range r.IntN(60) {
			stream = fmt.Appendf(stream, "<%d:%d:%s>\n", rank, i, strings.Repeat("x", randomSize(r)))
		}
		if r.IntN(2) == 0 {
			stream = bytes.TrimSuffix(stream, newline)
		}
		t.streams = append(t.streams, stream)
	}
	t.pieces = cutUp(r, t.streams)
	return t
}

func randomSize(r *rand.Rand) int {
	switch r.IntN(50) {
	case 0:
		return r.IntN(3 * blockSize)
	case 1, 2, 3:
		return r.IntN(5000)
	}
	return r.IntN(40)
}

// cutUp cuts streams into pieces in random order. The last piece of each is its end.
func cutUp(r *rand.Rand, streams [][]byte) []piece {
	var pieces []piece
	left := make([]int, len(streams))
	open := make([]int, len(streams))
	for i, s := range streams {
		left[i], open[i] = len(s), i
	}
	for len(open) > 0 {
		at := r.IntN(len(open))
		rank := open[at]
		n := min(left[rank], 1+randomSize(r))
		pieces = append(pieces, piece{rank, n})
		if left[rank] -= n; n == 0 {
			open = append(open[:at], open[at+1:]...)
		}
	}
	return pieces
}

// play sends the pieces to a Console and returns its whole output. It calls between after each piece.
func (t transcript) play(tb testing.TB, cfg Config, between func()) string {
	var stdout recorder
	var credits account
	cfg.Stdout.W, cfg.Stderr.W = &stdout, &recorder{}
	cfg.Ranks, cfg.Consumed = ranks(len(t.streams)), credits.consumed
	c := NewConsole(cfg)
	at := make([]int, len(t.streams))
	for _, p := range t.pieces {
		if p.n == 0 {
			c.End(p.rank, Stdout)
			continue
		}
		chunk := bytes.Clone(t.streams[p.rank][at[p.rank]:][:p.n])
		at[p.rank] += p.n
		c.Write(p.rank, Stdout, chunk)
		clear(chunk) // the caller may reuse the buffer
		between()
	}
	require.NoError(tb, c.Close(tb.Context()))
	for rank, stream := range t.streams {
		assert.Equal(tb, len(stream), credits.of(rank, Stdout), "credit of rank %d", rank)
	}
	return stdout.take()
}

// byRank separates the output lines by rank.
func (t transcript) byRank(tb testing.TB, written string, tagged bool) []string {
	got := make([]string, len(t.streams))
	for line := range strings.Lines(written) {
		tag := ""
		if tagged {
			var ok bool
			tag, line, ok = strings.Cut(line, "] ")
			require.True(tb, ok, "a line without a tag: %.60q", line)
		}
		var rank, number int
		n, _ := fmt.Sscanf(line, "<%d:%d:", &rank, &number)
		require.Equal(tb, 2, n, "a torn line: %.60q", line)
		if tagged {
			require.Equal(tb, fmt.Sprintf("[%d", rank), tag, "a mistagged line: %.60q", line)
		}
		got[rank] += line
	}
	return got
}

// check compares each rank's lines in the output with its input.
func (t transcript) check(tb testing.TB, written string, tagged bool) {
	for rank, got := range t.byRank(tb, written, tagged) {
		want := string(t.streams[rank])
		if got != want { // no assert: a difference of megabytes is unreadable
			got, want = strings.TrimSuffix(got, "\n"), strings.TrimSuffix(want, "\n") // added after a final partial line
		}
		require.True(tb, got == want, "rank %d: %d bytes written, %d printed", rank, len(got), len(want))
	}
}

func TestNothingIsTornOrLost(t *testing.T) {
	r := testneeds.Rand(t)
	for range 20 {
		script := randomTranscript(r)
		idle := func() {}
		script.check(t, script.play(t, Config{}, idle), false)
		script.check(t, script.play(t, Config{Label: LabelAlways}, idle), true)
	}
}

func FuzzLines(f *testing.F) {
	f.Add(uint64(1), []byte("a\nb\nc"))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		r := rand.New(rand.NewPCG(seed, 0))
		script := transcript{streams: make([][]byte, 2+r.IntN(3))}
		for i, b := range data {
			rank := i % len(script.streams)
			script.streams[rank] = append(script.streams[rank], b)
		}
		script.pieces = cutUp(r, script.streams)
		checkTagged(t, script, script.play(t, Config{Label: LabelAlways}, func() {}))
		raw := script.play(t, Config{}, func() {})
		assert.LessOrEqual(t, len(raw)-len(data), len(script.streams), "at most one newline of ours a rank")
	})
}

// checkTagged collects each rank's lines by their tags, whatever bytes they contain.
func checkTagged(t *testing.T, script transcript, written string) {
	got := make([]string, len(script.streams))
	for line := range strings.Lines(written) {
		var rank int
		_, err := fmt.Sscanf(line, "[%d] ", &rank)
		require.NoError(t, err, "a line without a tag: %q", line)
		got[rank] += line[len("[0] "):]
	}
	for rank, stream := range script.streams {
		want := string(stream)
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		assert.Equal(t, want, got[rank], "rank %d", rank)
	}
}

// screen is a terminal of unlimited width: rows of characters and a cursor.
type screen struct {
	rows [][]byte
	col  int
}

func (s *screen) feed(text string) {
	if s.rows == nil {
		s.rows = [][]byte{nil}
	}
	for i := range len(text) {
		row := &s.rows[len(s.rows)-1]
		switch b := text[i]; {
		case b == '\n':
			s.rows, s.col = append(s.rows, nil), 0
		case b == '\r':
			s.col = 0
		default:
			for len(*row) <= s.col {
				*row = append(*row, ' ')
			}
			(*row)[s.col] = b
			s.col++
		}
	}
}

// TestTerminalShowsEverything makes ranks print prompts and bars in random order, with pauses. On the screen, each
// row belongs to one rank, and a rank's rows together are its text.
func TestTerminalShowsEverything(t *testing.T) {
	r := testneeds.Rand(t)
	for i := range 60 {
		script, want := randomShow(r)
		synctest.Test(t, func(t *testing.T) {
			pause := func() {
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.Int64N(int64(2 * ShowAfter))))
				}
			}
			cfg := Config{Stdout: Destination{Terminal: true, Width: 80}, Label: LabelAlways}
			var s screen
			s.feed(script.play(t, cfg, pause))
			for rank, text := range want {
				assert.Equal(t, text, rowsOf(&s, rank), "round %d, rank %d", i, rank)
			}
		})
	}
}

// randomShow makes ranks print lines, even ranks as plain text, odd ones as bars. It also returns the visible text of
// each rank: all texts concatenated, but only the last bar.
func randomShow(r *rand.Rand) (transcript, []string) {
	var t transcript
	want := make([]string, 1+r.IntN(4))
	for rank := range want {
		var stream []byte
		for i := range r.IntN(12) {
			line := fmt.Sprintf("<%d%s>", i, strings.Repeat("x", r.IntN(30)))
			if rank%2 == 1 {
				for range r.IntN(4) {
					stream = append(stream, bar(fmt.Sprintf("%*d%%", r.IntN(40), i))...)
				}
				stream = append(stream, '\r')
			}
			stream = append(append(stream, line...), '\n')
			want[rank] += line
		}
		t.streams = append(t.streams, bytes.TrimSuffix(stream, newline))
	}
	t.pieces = cutUp(r, t.streams)
	return t, want
}

// rowsOf returns a rank's rows, concatenated.
func rowsOf(s *screen, rank int) string {
	var text string
	for _, row := range s.rows {
		if line, ok := strings.CutPrefix(string(row), fmt.Sprintf("[%d] ", rank)); ok {
			text += strings.TrimRight(line, " ")
		}
	}
	return text
}
