package output

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustPattern(s string) Pattern {
	p, err := ParsePattern(s)
	if err != nil {
		panic(err)
	}
	return p
}

func TestPattern(t *testing.T) {
	r := RankInfo{Rank: 7, Host: "n\x1b1", World: 2, Node: 3}
	at := time.Date(2026, 11, 1, 8, 26, 7, 0, time.UTC)
	for _, c := range []struct{ pattern, want string }{
		{"[%r@%h:%g] ", "[7@n^[1:2] "},
		{"%p%%%R", "3%007"},
		{"[%t][1,%r]<%s>: ", "[Sun Nov  1 08:26:07 2026][1,7]<stderr>: "},
		{"", ""},
	} {
		require.Equal(t, c.want, mustPattern(c.pattern).expand(r, Stderr, 3, at), c.pattern)
	}
	for _, bad := range []string{"%", "a%x", "%d"} {
		_, err := ParsePattern(bad)
		require.ErrorContains(t, err, bad)
	}
}

// A line has the time of its first byte, even if it arrives in pieces.
func TestLinesWithTheirTime(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 11, 22, 8, 26, 7, 0, time.UTC)
	c := NewConsole(Config{
		Stdout: Destination{W: &out}, Stderr: Destination{W: &out}, Ranks: []RankInfo{{Rank: 0}, {Rank: 1}},
		Label: LabelAlways, Pattern: mustPattern("%t<%s>:"), Now: func() time.Time { return now },
	})
	c.Write(1, Stdout, []byte("a\nb\n"))
	require.NoError(t, c.Flush(context.Background()))
	now = now.Add(time.Minute)
	c.Write(1, Stdout, []byte("c\n"))
	require.NoError(t, c.Close(context.Background()))
	require.Equal(t,
		"Sun Nov 22 08:26:07 2026<stdout>:a\nSun Nov 22 08:26:07 2026<stdout>:b\nSun Nov 22 08:27:07 2026<stdout>:c\n",
		out.String())
}

// Output of ranks spawned while the job ran looks like that of the first ranks.
func TestRanksMore(t *testing.T) {
	for label, want := range map[Label]string{LabelAlways: "[0] a\n[2] b\n[1] cd\n", LabelNever: "a\nb\ncd\n"} {
		var out bytes.Buffer
		c := NewConsole(Config{
			Stdout: Destination{W: &out}, Stderr: Destination{W: &out}, Ranks: []RankInfo{{Rank: 0}}, Label: label,
		})
		c.Write(0, Stdout, []byte("a\n"))
		c.Write(1, Stdout, []byte("of nobody\n"))
		c.Add([]RankInfo{{Rank: 1}, {Rank: 2}})
		c.Write(1, Stdout, []byte("c"))
		c.Write(2, Stdout, []byte("b\n"))
		c.Write(1, Stdout, []byte("d\n"))
		require.NoError(t, c.Close(context.Background()))
		require.Equal(t, want, out.String())
	}
}

func TestPatternsThatTellNodesApart(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": false, "out": false, "out.%g.%s.%t": false, "%%r": false,
		"out.%r": true, "%R": true, "%h/out": true, "out.%p": true,
	} {
		p, err := ParsePattern(pattern)
		require.NoError(t, err)
		assert.Equal(t, want, p.VariesByNode(), pattern)
	}
}
