package pmi

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Any line is refused or parsed, and a parsed line survives writing and parsing.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"cmd=init pmi_version=1 pmi_subversion=1", "cmd=put kvsname=K key=k value=a=b",
		"cmd=publish_name service=a b port=c$d",
		"cmd=abort exitcode=1 message=x y", "cmd=barrier_in group=0,1:7", "cmd=lookup_name service= service=x", "=", "cmd= =",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := parseLine(line)
		if err != nil {
			require.IsType(t, &malformedError{}, err)
			return
		}
		size := 0
		for _, p := range got {
			require.NotEmpty(t, p.key)
			size += len(p.key) + len(p.value)
		}
		require.LessOrEqual(t, size, len(line))
	})
}

// Any spawn is refused or is within the limits.
func FuzzSpawn(f *testing.F) {
	f.Add(twoPrograms)
	f.Add("mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nendcmd\n")
	f.Add("mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nendcmd\nmcmd=spawn\nendcmd\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := requests(text, false)
		require.Error(t, err)
		for _, q := range list {
			if q.blocks != nil {
				checkSpawn(t, q)
			}
		}
	})
}

func checkSpawn(t *testing.T, q request) {
	spawn, err := spawnOf(world.Proc{}, q)
	if err != nil {
		require.IsType(t, &malformedError{}, err)
		return
	}
	require.Len(t, spawn.Apps, len(q.blocks))
	total := 0
	for _, app := range spawn.Apps {
		require.NotEmpty(t, app.Program)
		require.GreaterOrEqual(t, app.NumRanks, 0)
		total += app.NumRanks
	}
	require.LessOrEqual(t, total, world.MaxSpawn)
}

// Any message of PMI-2 is refused or parsed, and a parsed spawn is within the limits.
func FuzzFrame(f *testing.F) {
	for _, body := range []string{
		"cmd=fullinit;pmirank=0;threaded=FALSE;", "cmd=kvs-put;thrid=1;key=k;value=v;",
		"cmd=spawn;ncmds=1;preputcount=1;ppkey0=a;ppval0=b;subcmd=x;maxprocs=2;argc=1;argv0=y;infokeycount=1;infokey0=" +
			"wdir;infoval0=/;",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, err := parseFrame(body)
		if err != nil {
			require.IsType(t, &malformedError{}, err)
			return
		}
		q := request{fields: got, framed: true, reply: "answer"}
		answer := q.text("rc", "0")
		n, err := frameLength([]byte(answer[:frameHeader]))
		require.NoError(t, err)
		require.Len(t, answer, n+frameHeader)
		if spawn, err := spawnOf(world.Proc{}, q); err == nil {
			require.NotEmpty(t, spawn.Apps)
		}
	})
}

// For any input, the connection ends when the client stops. The server reports the client at most once, and serves
// the next one.
func FuzzSession(f *testing.F) {
	init, init2 := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=init pmi_version=2 pmi_subversion=0\n"
	f.Add([]byte(init +
		"cmd=get_maxes\ncmd=put kvsname=w key=k value=v\ncmd=barrier_in\ncmd=get kvsname=w key=k\ncmd=finalize\n"))
	f.Add([]byte(init + twoPrograms + "cmd=abort exitcode=3\n"))
	f.Add([]byte(init + "cmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=unpublish_name service=a\n" +
		"cmd=barrier_in group=NODE:1\n"))
	f.Add([]byte(init2 +
		"    39cmd=fullinit;pmirank=0;threaded=FALSE;;    14cmd=kvs-fence;41    cmd=info-getnodeattr;key=attr;wait=TRUE;;"))
	f.Add([]byte("cmd=initack pmiid=0\n" + init + "cmd=get kvsname=other key=k\ncmd=get_ranks2hosts\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		log := newLogbook()
		node := exchange.NewNode(0, func(*exchange.Message) error { return nil })
		defer node.Close(exchange.ErrClosed)
		s := New(Config{Exchange: node, Launcher: log})
		defer s.Close()
		s.Add(newWorld("w", 0))
		s.Add(newWorld("other", 0, 0))
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.Copy(theirs, bytes.NewReader(sent))
			_ = theirs.Close()
		}()
		s.Serve(ours, world.Proc{World: "w", Rank: 0})
		all := strings.Join(log.all(), "\n")
		require.LessOrEqual(t, strings.Count(all, "broken")+strings.Count(all, "left"), 1, all)
		require.Empty(t, s.open)
	})
}
