package pmix

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gorun/rendezvous/world"
)

// To record sessions of a new release of PMIx or Open MPI:
//
//	go test ./rendezvous/pmix -run TestRecord -record NAME -about TEXT -ranks 2 -args PROGRAM ARGUMENT…
//
// This runs the program's ranks against a server and writes testdata/sessions/NAME.gz. Use an MPI program, or
// testdata/client.c, a small PMIx client. Without -record the test does nothing.
var (
	recordName = flag.String("record", "",
		"write the session of the program in the arguments to testdata/sessions/`NAME`.gz; \"-\": only run it")
	recordAbout    = flag.String("about", "", "what is recorded")
	recordChildren = flag.Bool("children", false, "run what the program spawns")
	recordNodes    = flag.Int("nodes", 1, "on how many nodes, which are one host in truth")
	recordRanks    = flag.Int("ranks", 2, "how many ranks of it are run")
)

func TestRecord(t *testing.T) {
	if *recordName == "" {
		return // nothing to record
	}
	r := newRig(t, *recordNodes)
	w := r.addSessionWorld(*recordRanks)
	rec := &tape{session: &session{about: *recordAbout, ranks: *recordRanks}}
	run := &ranksRun{t: t}
	for _, s := range r.servers {
		run.uris = append(run.uris, serveTapped(t, s, rec))
	}
	if *recordChildren {
		r.starter.start = run.spawned
	}
	for rank := range w.Ranks {
		if err := run.start(w, rank, flag.Args(), "", nil); err != nil {
			t.Error(err)
		}
	}
	run.running.Wait()
	t.Log(r.starter.all())
	t.Log("requests by command:", rec.session.commands())
	if *recordName == "-" {
		return
	}
	rec.save(t, filepath.Join("testdata", "sessions", *recordName+".gz"))
}

// serveTapped makes a server listen until the test ends, and returns its address.
func serveTapped(t *testing.T, s *Server, rec *tape) string {
	listener, uri, err := listen(s)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.Serve(&tapped{Conn: nc, rec: rec, rank: -1}, world.Proc{}) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		s.Close()
		serving.Wait()
	})
	return uri
}

// listen opens the address of a server.
func listen(s *Server) (net.Listener, string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return listener, URI(s.number(), listener.Addr().(*net.TCPAddr).Port), nil
}

// ranksRun are processes of ranks.
type ranksRun struct {
	t       *testing.T
	uris    []string // of the nodes' servers
	running sync.WaitGroup
}

// start runs a rank until it exits, for at most a minute.
func (r *ranksRun) start(w *world.World, rank int, argv []string, dir string, env []string) error {
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, dir
	at := w.Ranks[rank]
	c.Env = append(os.Environ(),
		"PMIX_NAMESPACE="+w.Name, fmt.Sprint("PMIX_RANK=", rank), "PMIX_SERVER_URI3="+r.uris[at.Node],
		"PMIX_SECURITY_MODE=native", "PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_GDS_MODULE=hash", "PMIX_VERSION=4.2.2", "PMIX_HOSTNAME="+w.Hosts[at.Host],
		"PMIX_SERVER_TMPDIR="+os.TempDir(), "PMIX_SYSTEM_TMPDIR="+os.TempDir(),
		"OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1")
	c.Env = append(c.Env, env...)
	if err := c.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	r.running.Go(func() {
		if err := c.Wait(); err != nil {
			r.t.Errorf("%v: %v", argv, err)
		}
		late.Stop()
	})
	return nil
}

// spawned runs the ranks of a world that a rank spawns.
func (r *ranksRun) spawned(w *world.World, apps []world.SpawnApp) error {
	for rank, of := range w.Ranks {
		a := apps[of.App]
		if err := r.start(w, rank, append([]string{a.Program}, a.Args...), a.Dir, a.Env); err != nil {
			return err
		}
	}
	return nil
}

// commands counts the requests of a session, by command.
func (s *session) commands() map[command]int {
	counts := map[command]int{}
	for _, m := range s.messages {
		if m.toServer && binary.BigEndian.Uint32(m.bytes) != 0xffffffff {
			d := decoder{b: m.bytes[headerSize:]}
			counts[command(d.oneUint8())]++
		}
	}
	return counts
}

// tape records messages.
type tape struct {
	mu      sync.Mutex
	session *session
}

func (r *tape) add(rank int, toServer bool, message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session.messages = append(r.session.messages, sessionMessage{rank, toServer, message})
}

func (r *tape) save(t *testing.T, path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := r.session.write(file); err != nil {
		t.Fatal(err)
	}
}

// tapped is a connection whose complete messages are recorded. Earlier messages of the server, even on another
// connection, precede them.
type tapped struct {
	net.Conn
	rec     *tape
	rank    int // known after the handshake
	mu      sync.Mutex
	in, out []byte
	greeted bool
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, b[:n]...)
	for {
		order := binary.ByteOrder(binary.BigEndian)
		if c.rank < 0 {
			order = binary.NativeEndian
		}
		m := firstMessage(&c.in, order)
		if m == nil {
			return n, err
		}
		if c.rank < 0 {
			g, _ := parseHello(m[headerSize:])
			c.rank = int(g.proc.Rank)
		}
		c.rec.add(c.rank, true, m)
	}
}

func (c *tapped) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.out = append(c.out, b...)
	if !c.greeted && len(c.out) >= 8 {
		c.greeted = true
		c.rec.add(c.rank, false, c.out[:8:8])
		c.out = c.out[8:]
	}
	for m := firstMessage(&c.out, binary.BigEndian); m != nil; m = firstMessage(&c.out, binary.BigEndian) {
		c.rec.add(c.rank, false, m)
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// firstMessage returns the first complete message of a stream, or nil if it is incomplete.
func firstMessage(stream *[]byte, order binary.ByteOrder) []byte {
	b := *stream
	if len(b) < headerSize {
		return nil
	}
	n := headerSize + int(order.Uint32(b[8:]))
	if len(b) < n {
		return nil
	}
	*stream = b[n:]
	return append([]byte(nil), b[:n]...)
}
