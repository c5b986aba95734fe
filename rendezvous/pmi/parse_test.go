package pmi

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		line string
		want fields
	}{
		{"cmd=get_maxes", fields{{"cmd", "get_maxes"}}},
		{"cmd=put  kvsname=K key=k value=a=b ", fields{{"cmd", "put"}, {"kvsname", "K"}, {"key", "k"}, {"value", "a=b"}}},
		{"cmd=put value= key=k", fields{{"cmd", "put"}, {"value", ""}, {"key", "k"}}},
		{"cmd=put value=a b key=k", fields{{"cmd", "put"}, {"value", "a b"}, {"key", "k"}}},
		{"cmd=lookup_name service=svc one=1", fields{{"cmd", "lookup_name"}, {"service", "svc one=1"}}},
		{"cmd=publish_name service=a port=b port=tag#0$x$", fields{
			{"cmd", "publish_name"},
			{"service", "a port=b"},
			{"port", "tag#0$x$"},
		}},
		{"cmd=publish_name port=p service=s t", fields{{"cmd", "publish_name"}, {"port", "p"}, {"service", "s t"}}},
		{"cmd=publish_name", fields{{"cmd", "publish_name"}}},
		{"cmd=abort exitcode=3 message=it = wrong", fields{{"cmd", "abort"}, {"exitcode", "3"}, {"message", "it = wrong"}}},
	} {
		got, err := parseLine(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, got, c.line)
	}
	for _, line := range []string{
		"cmd=put =v", "garbage", "=", "cmd=a\x00b", "cmd=a\x1b",
		"cmd=a" + strings.Repeat(" k=v", 65),
	} {
		_, err := parseLine(line)
		require.Error(t, err, line)
	}
}

// A client cannot make the server copy a value again for each of its parts.
func TestParsingIsLinear(t *testing.T) {
	line, body := "cmd=put value=a"+strings.Repeat(" b", 1000), "cmd=put;value=a"+strings.Repeat(";;b", 1000)
	require.Less(t, testing.AllocsPerRun(1, func() {
		_, _ = parseLine(line)
		_, _ = parseFrame(body)
	}), 100.0)
}

func TestParseFrame(t *testing.T) {
	got, err := parseFrame("cmd=kvs-put;thrid=7; key=k;value=a=b;;c;;;;;flag;")
	require.NoError(t, err)
	require.Equal(t, fields{{"cmd", "kvs-put"}, {"thrid", "7"}, {"key", "k"}, {"value", "a=b;c;;"}, {"flag", ""}}, got)
	q := request{fields: got, framed: true, reply: "kvs-put-response"}
	require.Equal(t, "    43cmd=kvs-put-response;thrid=7;x=a;;b;;;;;y=;", q.text("x", "a;b;;", "y", ""))
	require.Equal(t, "    37cmd=kvs-put-response;thrid=7;rc=0;x=;", q.text("rc", "0", "x", ""))
	for _, body := range []string{"=v;", "cmd=a\x00;", strings.Repeat("a=b;", maxEntries+1)} {
		_, err := parseFrame(body)
		require.Error(t, err)
	}
	for header, want := range map[string]int{"    12": 12, "12    ": 12, "999999": 999999, "000000": 0} {
		n, err := frameLength([]byte(header))
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	for _, header := range []string{"      ", "12  34", "-    1", "0x1000"} {
		_, err := frameLength([]byte(header))
		require.Error(t, err, header)
	}
}

// requests reads all requests of a stream.
func requests(stream string, framed bool) (list []request, err error) {
	r := newReader(strings.NewReader(stream))
	r.framed = framed
	for {
		q, err := r.next()
		if err != nil {
			return list, err
		}
		list = append(list, q)
	}
}

func TestRequestsOfAStream(t *testing.T) {
	long := strings.Repeat("v", 100_000)
	list, err := requests("cmd=get_maxes\n    12cmd=finalize12    cmd=finalizecmd=put value="+long+"\n", true)
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, list, 4)
	require.False(t, list[0].framed)
	require.True(t, list[2].framed)
	require.Equal(t, long, list[3].get("value"))

	for stream, want := range map[string]string{
		"GET / HTTP/1.1\r\n":        `"GET / HTTP/1.1\r\n" is not a PMI request`,
		"cmx":                       `"cmx" is not a PMI request`,
		"    12cmd=finalize":        `"    12cmd=finalize" is not a PMI request`,
		"cmd=" + long + long + long: `a request of more than 262144 bytes that begins with "cmd=vvv`,
		"mcmd=other\n":              `"mcmd=other" in a spawn`,
		"mcmd=spawn\nmcmd=spawn\n":  `"mcmd=spawn" in a spawn`,
		"mcmd=spawn\nendcmd\n":      "has totspawns=",
		"mcmd=spawn\nword\n":        `"word" in a spawn is not key=value`,
		"mcmd=spawn\n" + strings.Repeat("a="+long+"\n", 50): "a spawn of more than 4194304 bytes",
		"mcmd=spawn\n" + strings.Repeat("a=\n", 70_000):     "a spawn of more than 65536 fields",
	} {
		_, err := requests(stream, false)
		var bad *malformedError
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, want)
	}
	for _, stream := range []string{"", "c", "cmd=in", "mcmd=spawn\n", "mcm"} { // ended within a request
		_, err := requests(stream, false)
		require.ErrorIs(t, err, io.EOF, stream)
	}
	_, err = requests("    1xcmd", true)
	require.ErrorContains(t, err, "in place of the length of a PMI-2 message")
	_, err = requests("999999cmd=", true)
	require.ErrorIs(t, err, io.EOF)
}

// MPICH's own client overstates lengths by six bytes; Slurm's copy of it does not.
func TestMPICHOvercounts(t *testing.T) {
	message := func(body, junk string) string { return fmt.Sprintf("%-6d%s%s", len(body+junk), body, junk) }
	for _, junk := range []string{"\x00e=\x00;x", "=1\x00\x00;;", "\x00\x00\x00\x00\x00\x00", ""} {
		list, err := requests(message("cmd=fullinit;pmirank=1;threaded=FALSE;", junk)+message("cmd=kvs-put;key=k;", junk)+
			message("cmd=job-getid;", junk), true)
		require.ErrorIs(t, err, io.EOF, "%q", junk)
		require.Len(t, list, 3)
		require.Equal(t, fields{{"cmd", "fullinit"}, {"pmirank", "1"}, {"threaded", "FALSE"}}, list[0].fields)
		require.Equal(t, fields{{"cmd", "kvs-put"}, {"key", "k"}}, list[1].fields)
		require.Equal(t, fields{{"cmd", "job-getid"}}, list[2].fields)
		list, err = requests(message("cmd=abort;isworld=TRUE;msg=no such key;", junk), true) // its only message, refused
		require.ErrorIs(t, err, io.EOF, "%q", junk)
		require.Equal(t, fields{{"cmd", "abort"}, {"isworld", "TRUE"}, {"msg", "no such key"}}, list[0].fields)
	}
}

// A client whose PMI-2 is refused still aborts in PMI-2.
func TestRefusedPMI2ClientAborts(t *testing.T) {
	c := newCluster(t, 1, 1)
	k := c.connect(c.add(newWorld("w", 0)), 0)
	k.asks("cmd=init pmi_version=2 pmi_subversion=0",
		"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1 msg=PMI-2_is_not_served_to_this_job")
	k.send("34    cmd=abort;isworld=TRUE;msg=closed;")
	c.log.await(t, "abort w.0 1 closed")
	require.NotContains(t, strings.Join(c.log.all(), "\n"), "broken")
}
