package output

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newMerged is a console whose ranks' stderr goes where their stdout does.
func newMerged(cfg Config) (c *Console, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cfg.Stdout, cfg.Stderr = Destination{W: stdout}, Destination{W: stderr}
	cfg.Ranks = []RankInfo{{Rank: 0}, {Rank: 1}}
	return NewConsole(cfg), stdout, stderr
}

// Each line is an element, whatever stands in it, and all of them are one document.
func TestXML(t *testing.T) {
	c, stdout, stderr := newMerged(Config{Label: LabelAlways, Style: XMLTag})
	c.Write(0, Stdout, []byte("a < b && c\t\xc3"))
	c.Write(1, Stderr, []byte("oops\r\n\n"))
	c.Write(0, Stdout, []byte("\xa9 \x1b[1m\xff]]>\nha"))
	c.Notice("gorun: a remark")
	c.Write(0, Stdout, []byte("lf\xe2\x82"))
	c.End(0, Stdout)
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, `<mpirun>
<stderr rank="1">oops&#013;&#010;</stderr>
<stderr rank="1">&#010;</stderr>
<stdout rank="0">a &lt; b &amp;&amp; c&#009;é &#65533;[1m&#65533;]]&gt;&#010;</stdout>
<stdout rank="0">half&#65533;</stdout>
</mpirun>
`, stdout.String())
	require.Equal(t, "gorun: a remark\n", stderr.String())
	var document struct {
		Out []string `xml:"stdout"`
		Err []string `xml:"stderr"`
	}
	require.NoError(t, xml.Unmarshal(stdout.Bytes(), &document))
	require.Equal(t, []string{"oops\r\n", "\n"}, document.Err)
}

// A line that is passed on in pieces is as many elements where another rank writes between them.
func TestXMLOfEndlessLines(t *testing.T) {
	c, stdout, _ := newMerged(Config{Label: LabelAlways, Style: XMLTag})
	long := strings.Repeat("x", MaxLine)
	c.Write(0, Stdout, []byte(long))
	c.Write(1, Stdout, []byte("whole\n"))
	c.Write(0, Stdout, []byte("end\n"))
	require.NoError(t, c.Close(t.Context()))
	want := `<mpirun>
<stdout rank="0">` + long + `</stdout>
<stdout rank="1">whole&#010;</stdout>
<stdout rank="0">end&#010;</stdout>
</mpirun>
`
	require.True(t, want == stdout.String())
}

// What ranks write to stderr keeps its label on stdout; gorun's own lines stay on stderr.
func TestMerge(t *testing.T) {
	c, stdout, stderr := newMerged(Config{
		Merge: true, Label: LabelAlways, Style: PatternTag,
		Pattern: mustPattern("%r<%s>:"),
	})
	c.Write(0, Stderr, []byte("oops\npart"))
	c.Write(1, Stdout, []byte("out\n"))
	c.EndStderr()
	c.Notice("gorun: a remark")
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, "0<stderr>:oops\n1<stdout>:out\n0<stderr>:part\n", stdout.String())
	require.Equal(t, "gorun: a remark\n", stderr.String())
	require.Equal(t, []string{"oops", "part"}, c.Tail(0, Stderr))
}
