package job

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parseSigns reads "2*cpu=100 in=MPI_Recv; store".
func parseSigns(t *testing.T, text string) (ranks []Signs) {
	t.Helper()
	for group := range strings.SplitSeq(text, ";") {
		n, words := 1, strings.TrimSpace(group)
		if number, rest, found := strings.Cut(words, "*"); found {
			n, _ = strconv.Atoi(number)
			words = rest
		}
		s := Signs{GPU: -1}
		for word := range strings.FieldsSeq(words) {
			name, value, _ := strings.Cut(word, "=")
			number, _ := strconv.Atoi(value)
			switch name {
			case "cpu":
				s.CPU = number
			case "gpu":
				s.GPU = number
			case "io":
				s.IO = int64(number)
			case "tcp":
				s.TCP = int64(number)
			case "main":
				s.Main = number
			case "runs":
				s.Runs = int64(number)
			case "received":
				s.Received = int64(number)
			case "net":
				s.Network = int64(number)
			case "behind":
				s.Behind = value
			case "in":
				s.Collective = value
			case "store":
				s.Store = true
			case "input":
				s.Input = true
			default:
				t.Fatalf("%q in %q", word, text)
			}
		}
		for range n {
			s.Rank = len(ranks)
			ranks = append(ranks, s)
		}
	}
	return ranks
}

func TestSilence(t *testing.T) {
	text, err := os.ReadFile("testdata/silence.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, part, 3, line)
		s := NewSilence(parseSigns(t, part[1]))
		got := "hangs"
		if s.Works {
			got = "works"
		}
		if s.Doubt {
			got = "doubt"
		}
		assert.Equal(t, part[2], got+": "+s.Text, part[0])
	}
}

func TestInCollective(t *testing.T) {
	for want, stack := range map[string][]string{
		"":           {"step (a.py:3)", "<module> (a.py:9)"},
		"all_reduce": {"all_reduce (torch/distributed/c10d.py:9)", "wrapper (torch/distributed/c10d_logger.py:8)"},
		"MPI_Recv":   {"MPIDI_progress_test (libmpi.so.12)", "PMPI_Recv (libmpi.so.12)", "main (a.c:7)"},
	} {
		assert.Equal(t, want, InCollective(stack))
	}
}

// A line is the seconds of --hang-timeout and the checks of a job: "p" something was printed, "s" ranks sleep, "c" they
// compute, "w" they use files, "m" they compute, and their stacks show MPI. The suspicion comes after 8 s.
func TestHangWatch(t *testing.T) {
	for line, want := range map[string]string{
		"0 ssssssss":          "suspected 8s",
		"0 ssssssssssssssss":  "suspected 8s",              // once
		"0 ssspssspsssp":      "",                          // it prints now and then
		"0 cccccccccccccccc":  "",                          // a busy job is no hang
		"0 wwwwssswwwwsss":    "",                          // nor are pauses in its work
		"0 mmmmmmmm":          "suspected 8s",              // one that polls is
		"0 cssscssscsssc":     "",                          // nor one that computes now and then
		"4 csscsscsscsssss":   "busy 4s, certain 14s",      // until it does no longer
		"16 ssssssssss":       "suspected 8s, certain 16s", // of 4 checks each
		"4 ssss":              "certain 4s",                // before the suspicion
		"4 cccccccccccc":      "busy 4s",                   // said once
		"4 ccccccccssss":      "busy 4s, certain 12s",      // the last seconds of it
		"4 wwwwwwmmmm":        "busy 4s, certain 10s",      //
		"4 wwmmmm":            "certain 6s",                // not "busy" before
		"busy 4 cccc":         "certain 4s",                // as --on-hang stop-busy wants it
		"busy 4 wwpwwww":      "certain 4s",                //
		"busy 16 cccccccccc":  "certain 16s",               // no suspicion of a job that works
		"busy 16 ssssssssssp": "suspected 8s, certain 16s", //
	} {
		words := strings.Fields(line)
		onHang := HangStop
		if words[0] == "busy" {
			onHang, words = HangStopBusy, words[1:]
		}
		limit, err := strconv.Atoi(words[0])
		require.NoError(t, err)
		w := NewHangWatch(8*time.Second, time.Duration(limit)*time.Second, onHang)
		var got []string
		for _, c := range words[1] {
			seen := map[rune]Silence{'c': {Works: true, Doubt: true}, 'm': {Works: true, Doubt: true}, 'w': {Works: true}}[c]
			verdict, _ := w.Check(c == 'p', seen, func() Silence { seen.Works = c == 'c' || c == 'w'; return seen })
			if verdict != HangNone {
				got = append(got, []string{"", "busy ", "suspected ", "certain "}[verdict]+w.Quiet())
			}
			if verdict == HangCertain {
				break
			}
		}
		assert.Equal(t, want, strings.Join(got, ", "), line)
	}
	assert.Nil(t, NewHangWatch(0, 0, HangStop))
}
