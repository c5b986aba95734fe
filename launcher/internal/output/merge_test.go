package output

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// newMerged returns a Console that writes the ranks' stderr to stdout.
func newMerged(cfg Config) (c *Console, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cfg.Stdout, cfg.Stderr = Destination{W: stdout}, Destination{W: stderr}
	cfg.Ranks = []RankInfo{{Rank: 0}, {Rank: 1}}
	return NewConsole(cfg), stdout, stderr
}

// Ranks' stderr keeps its label on stdout. gorun's own lines stay on stderr.
func TestMerge(t *testing.T) {
	c, stdout, stderr := newMerged(Config{
		Merge: true, Label: LabelAlways,
		Pattern: mustPattern("%r<%s>:"),
	})
	c.Write(0, Stderr, []byte("oops\npart"))
	c.Write(1, Stdout, []byte("out\n"))
	c.EndStderr()
	c.Notice("gorun: a note")
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, "0<stderr>:oops\n1<stdout>:out\n0<stderr>:part\n", stdout.String())
	require.Equal(t, "gorun: a note\n", stderr.String())
	require.Equal(t, []string{"oops", "part"}, c.Tail(0, Stderr))
}
