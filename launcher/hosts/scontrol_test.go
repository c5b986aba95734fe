package hosts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// shownHostnames returns what Slurm's own scontrol makes of hostlists, nil where it refuses one. It asks one process,
// whose answers come behind its prompt and what was asked; no daemon is needed.
func shownHostnames(t *testing.T, lists []string) [][]string {
	t.Helper()
	scontrol := testneeds.Program(t, testneeds.LayerSlurm, "scontrol")
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	require.NoError(t, os.WriteFile(conf, []byte("ClusterName=none\nSlurmctldHost=localhost\n"), 0o644))
	var ask strings.Builder
	for _, list := range lists {
		fmt.Fprintf(&ask, "show hostnames %s\nshow hostnames end-of-one\n", list)
	}
	cmd := exec.Command(scontrol)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+conf, "TERM=dumb")
	cmd.Stdin = strings.NewReader(ask.String())
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, complaints.String())
	shown := [][]string{nil}
	for line := range strings.Lines(string(out)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "end-of-one":
			shown = append(shown, nil)
		case !strings.HasPrefix(line, "scontrol:") && !strings.HasPrefix(line, "Invalid hostlist:"):
			shown[len(shown)-1] = append(shown[len(shown)-1], line)
		}
	}
	require.Len(t, shown, len(lists)+1, "answers")
	return shown[:len(lists)]
}

// randomHostlist is a hostlist, and what is odd about it.
type randomHostlist struct {
	list    string
	wrong   bool // there is a mistake in a bracket
	endless bool // text follows a last bracket
	cubic   bool // some element has three brackets: scontrol lets the one in the middle run slowest, Expand the first one
}

// newRandomHostlist has up to four elements, which may come twice.
func newRandomHostlist(r *rand.Rand) randomHostlist {
	var (
		l     randomHostlist
		words []string
	)
	for range 1 + r.IntN(4) {
		words = append(words, l.element(r))
		if r.IntN(6) == 0 {
			words = append(words, words[r.IntN(len(words))])
		}
	}
	l.list = strings.Join(words, ",")
	return l
}

// element is text with no to three brackets.
func (l *randomHostlist) element(r *rand.Rand) string {
	texts := []string{"n", "gpu-", "x1y", "a.b", "rack07-", "n0", "n-", "9", "c1-0c0s3n"}
	brackets := r.IntN(4)
	word := texts[r.IntN(len(texts))]
	if brackets == 0 {
		return word + []string{"", padded(r, r.IntN(2000)), "000000000000012", "999999999999999", ".site"}[r.IntN(5)]
	}
	for i := range brackets {
		if i > 0 && r.IntN(3) > 0 {
			word += texts[r.IntN(len(texts))]
		}
		word += "[" + l.ranges(r, brackets) + "]"
	}
	l.cubic = l.cubic || brackets == 3
	if r.IntN(12) == 0 {
		l.endless = true
		word += []string{"x", "-ib", ".site"}[r.IntN(3)]
	}
	return word
}

// ranges is the content of one of several brackets; one in twenty-five is wrong.
func (l *randomHostlist) ranges(r *rand.Rand, brackets int) string {
	if r.IntN(25) == 0 {
		l.wrong = true
		return []string{"3-1", "1-3:2", "a-c", "", "1-", "-2", "1,,2", "[1-2]", "1--2", "0x1"}[r.IntN(10)]
	}
	words := make([]string, 1+r.IntN(4))
	for i := range words {
		low := r.IntN([]int{3, 12, 120, 1100}[r.IntN(4)])
		words[i] = padded(r, low)
		if r.IntN(2) == 0 {
			words[i] += "-" + padded(r, low+r.IntN(16/brackets))
		}
	}
	return strings.Join(words, ",")
}

// padded is a number, at times with zeros before it.
func padded(r *rand.Rand, n int) string {
	text := strconv.Itoa(n)
	if r.IntN(2) == 0 {
		return strings.Repeat("0", r.IntN(4)) + text
	}
	return text
}

func TestExpandAgreesWithScontrol(t *testing.T) {
	r := testneeds.Rand(t)
	all := make([]randomHostlist, 2000)
	lists := make([]string, len(all))
	for i := range all {
		all[i] = newRandomHostlist(r)
		lists[i] = all[i].list
	}
	var written []string
	for i, shown := range shownHostnames(t, lists) {
		names := all[i].requireAgreement(t, shown)
		if len(names) > 0 {
			written = append(written, requireInverse(t, names))
		}
	}
	require.Greater(t, len(written), len(lists)/2, "most lists should be good ones")
	checked := 0
	for i, shown := range shownHostnames(t, written) {
		if shown != nil { // a number with text behind it becomes a bracket with text behind it
			names, err := Expand(written[i])
			require.NoError(t, err)
			if !slices.ContainsFunc(names, hugeNumber.MatchString) {
				require.Equal(t, shown, names, written[i])
				checked++
			}
		}
	}
	t.Logf("%d of %d lists are good, scontrol takes %d of them back", len(written), len(lists), checked)
}

// hugeNumber matches numbers that may not fit in 64 bits.
var hugeNumber = regexp.MustCompile(`[0-9]{19}`)

// requireAgreement returns the names that Expand makes of the list, after a comparison with what scontrol shows.
func (l randomHostlist) requireAgreement(t *testing.T, shown []string) []string {
	t.Helper()
	names, err := Expand(l.list)
	switch {
	case l.wrong: // scontrol is generous with some mistakes: [1-]
		require.Error(t, err, l.list)
	case l.endless && shown == nil: // it takes no text behind a bracket
		require.NoError(t, err, l.list)
	case slices.ContainsFunc(names, hugeNumber.MatchString): // scontrol shows the largest 64-bit number instead
		require.NoError(t, err, l.list)
	case l.cubic:
		require.NoError(t, err, l.list)
		require.Equal(t, slices.Sorted(slices.Values(shown)), slices.Sorted(slices.Values(names)), l.list)
	default:
		require.NoError(t, err, l.list)
		require.Equal(t, shown, names, l.list)
	}
	return names
}

// requireInverse writes names as a node list and requires that the result means the same set, each name once.
func requireInverse(t *testing.T, names []string) (list string) {
	t.Helper()
	list = NodeList(names)
	again, err := Expand(list)
	require.NoError(t, err, "%s becomes %s", names, list)
	require.Equal(t, slices.Compact(slices.Sorted(slices.Values(names))), slices.Sorted(slices.Values(again)), list)
	return list
}
