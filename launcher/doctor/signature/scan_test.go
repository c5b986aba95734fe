package signature

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const jobLog = `step 1 loss 2.1
[rank2]: torch.distributed.DistBackendError: NCCL error in: x.cpp:2251, remote process exited or there was a ` +
	`network error
0 | node1:17:45 [0] NCCL INFO Connected all rings
1 | node1:17:45 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-a1B2c3 to 9637892 bytes, error: No space ` +
	`left on device (28)
[rank0]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
3 | [rank3]: Error: failed to extend /dev/shm/nccl-x to 1 bytes, error: No space left on device (28)
OSError: [Errno 24] Too many open files: 'x'
`

func TestScan(t *testing.T) {
	found, read, err := Scan(iotest.OneByteReader(strings.NewReader(jobLog)))
	require.NoError(t, err)
	require.Equal(t, Extent{Lines: 7}, read)
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s %d ×%d %v", f.Kind, f.ID, f.Line, f.Count, f.Ranks))
	}
	require.Equal(t, []string{
		"cause nccl-shm-full 4 ×2 [1 3]",
		"cause system-open-files 7 ×1 []",
		"symptom nccl-system-error 5 ×1 [0]",
		"victim nccl-remote-error 2 ×1 [2]",
	}, got)
	require.Equal(t, "9637892", found[0].Values["size"])
	require.Equal(t, "node1:17:45 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-a1B2c3 to 9637892 bytes, error: "+
		"No space left on device (28)", found[0].Text)
}

func TestScanOddTexts(t *testing.T) {
	found, read, err := Scan(strings.NewReader(""))
	require.NoError(t, err)
	require.Empty(t, found)
	require.Zero(t, read)

	long := strings.Repeat("x", 1<<20)
	found, read, err = Scan(strings.NewReader("Too many open files" + long + "\n" + long +
		"Bus error\nno newline: Too many open files"))
	require.NoError(t, err)
	require.Equal(t, Extent{Lines: 3, Long: 2}, read)
	require.Len(t, found, 1)
	require.Equal(t, 2, found[0].Count)
	require.LessOrEqual(t, len(found[0].Text), maxShown+len("… (cut)"))
	require.True(t, strings.HasSuffix(found[0].Text, "… (cut)"))

	broken := errors.New("broken")
	found, _, err = Scan(io.MultiReader(strings.NewReader("Too many open files\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.Len(t, found, 1)
}

func TestWithoutRank(t *testing.T) {
	for line, want := range map[string]struct {
		rank int
		text string
	}{
		"3 | text":                 {3, "text"},
		" 12 |   File":             {12, "  File"},
		"[rank0]: Traceback":       {0, "Traceback"},
		"[rank0]:[E1122 17:08] x":  {0, "[E1122 17:08] x"},
		"[default1]:[rank1]: x":    {1, "x"},
		"[4] text":                 {4, "text"},
		"7: text":                  {7, "text"},
		"[ 3]!text":                {3, "text"},
		"[1,0]<stderr>:text":       {0, "text"},
		"[5]<stdout>: text":        {5, "text"},
		"  error    │   File":      {-1, "  File"},
		"           │ [rank3]: x":  {3, "x"},
		"  last     [12] x":        {12, "x"},
		"           [12]   File":   {12, "  File"},
		"text":                     {-1, "text"},
		"[node1:123] x":            {-1, "[node1:123] x"},
		"1234567890: x":            {-1, "1234567890: x"},
		"12 apples":                {-1, "12 apples"},
		"":                         {-1, ""},
		"[":                        {-1, "["},
		"[rankx]: a":               {-1, "[rankx]: a"},
		"2026-11-22 17:00:01 text": {-1, "text"},

		"2026-11-22T17:00:01.123456789Z [rank3]: x":    {3, "x"},
		"[2026-11-22 17:00:01,123] 7: x":               {7, "x"},
		"[pod/train-0/pytorch] [rank1]: x":             {1, "x"},
		"(RayWorker pid=581, ip=10.0.0.2) [rank16]: x": {16, "x"},
	} {
		rank, text := WithoutRank(line)
		assert.Equal(t, want.rank, rank, line)
		assert.Equal(t, want.text, text, line)
	}
}

// The filter only skips lines that match nothing.
func requireFilter(t *testing.T, text string) {
	f := filter{index: database()}
	for line := range strings.SplitSeq(text, "\n") {
		if f.excludes([]byte(line)) {
			plain := Plain(line, MaxLine)
			require.Empty(t, ids(Find(plain)), line)
			_, vague := Vague(plain)
			require.False(t, vague, line)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(jobLog)
	for _, s := range All() {
		for _, example := range s.Examples {
			f.Add(example)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		requireFilter(t, text)
		found, read, err := Scan(strings.NewReader(text))
		require.NoError(t, err)
		require.LessOrEqual(t, read.Lines, strings.Count(text, "\n")+1)
		for _, finding := range found {
			require.Positive(t, finding.Count)
			require.True(t, utf8.ValidString(finding.Text))
			require.False(t, strings.ContainsFunc(finding.Text, unicode.IsControl), "%q", finding.Text)
			for _, value := range finding.Values {
				require.NotEmpty(t, value)
				require.NotEqual(t, byte('-'), value[0], "an option: %q", value)
				require.False(t, strings.ContainsAny(value, " \t'\"`$\\;&|<>()[]{}*?!#~"), "more than a word: %q", value)
			}
			for _, text := range []string{finding.Advice(), finding.Text, finding.Match.Text(finding.Check)} {
				require.False(t, strings.ContainsFunc(text, unicode.IsControl), "%q", text)
			}
		}
	})
}

func FuzzPatterns(f *testing.F) {
	entries, err := files.ReadDir("data")
	require.NoError(f, err)
	for _, entry := range entries {
		text, err := files.ReadFile("data/" + entry.Name())
		require.NoError(f, err)
		f.Add(string(text[:min(len(text), 2000)]))
	}
	f.Add("a\n  family F\n  means m\n  line {x}text{y#} * more\n  example x\n  cause c\n  check k\n  fix f\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 || !utf8.ValidString(text) { // as the embedded files are; each pattern reads each line
			return
		}
		var list []Signature
		for line := range strings.Lines(text) {
			if p, err := compile(line); err == nil {
				list = append(list, Signature{patterns: []pattern{p}, Cause: line})
			}
		}
		x := newIndex(list)
		for _, line := range append(strings.Split(text, "\n"), strings.ToUpper(text)) {
			for _, m := range x.find(line) {
				_ = m.Marked(m.Cause)
			}
		}
	})
}

// Whatever the index chose for a pattern, it finds the pattern's own text.
func TestIndexFindsEachPattern(t *testing.T) {
	number, word := regexp.MustCompile(`\{[a-z]+#\}`), regexp.MustCompile(`\{[a-z]+\}`)
	for _, s := range All() {
		for _, line := range s.Lines {
			text := strings.ReplaceAll(word.ReplaceAllString(number.ReplaceAllString(line, "7"), "w"), "*", "x")
			assert.Contains(t, ids(Find(text)), s.ID, line)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	line := "node1:4711:4733 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM and some more words until it is long"
	Find(line)
	for b.Loop() {
		Find(line)
	}
}

// A vague line counts where no cause is known.
func TestScanVagueLines(t *testing.T) {
	for text, want := range map[string][]string{
		"step 1\nKilled\n": {"exit-sigkill"},
		"read: Connection reset by peer\n[ 1] Killed\n":     {"exit-sigkill", "system-peer-gone"},
		"Killed\nOSError: [Errno 24] Too many open files\n": {"system-open-files"},
		"Killed\nncclSystemError: x\n":                      {"exit-sigkill", "nccl-system-error"},
	} {
		found, _, err := Scan(strings.NewReader(text))
		require.NoError(t, err)
		var list []string
		for _, f := range found {
			list = append(list, f.ID)
		}
		require.Equal(t, want, list, text)
	}
}
