package pmi

import (
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// Sessions under testdata/sessions are those of real programs. To record one again:
//
//	go test ./rendezvous/pmi -run '^TestRecord$' -record FILE -hosts 0,0,1,1 -args PROGRAM ARGUMENT…
//
// Without a file the test only runs the program.
var (
	recordTo    = flag.String("record", "", "run the program in the arguments and record what its ranks say to the server")
	recordHosts = flag.String("hosts", "0,0", "the hosts of its ranks, all of which are this one")
)

// TestRecord runs a real program under servers of simulated nodes.
func TestRecord(t *testing.T) {
	if *recordTo == "" {
		return
	}
	var hosts []int
	most := 0
	for _, text := range strings.Split(*recordHosts, ",") {
		host, err := strconv.Atoi(text)
		require.NoError(t, err)
		hosts = append(hosts, host)
		most = max(most, host)
	}
	r := &recording{cluster: newCluster(t, most+1, 0)}
	file, err := os.Create(*recordTo)
	require.NoError(t, err)
	r.file, r.dir = file, filepath.Dir(*recordTo)
	fmt.Fprintf(file, "world %s %s\n", recorded, *recordHosts)
	r.log.spawn = r.spawn
	// MPICH names its shared memory after the world, so the name must differ from that of a crashed run.
	r.world = "gorun-" + rand.Text()
	w := r.add(newWorld(r.world, hosts...))
	r.start(w, flag.Args(), nil)
	r.running.Wait()
	for _, line := range r.log.all() {
		fmt.Println("launcher:", line)
	}
	require.NoError(t, file.Close())
}

// recording is a job of real processes.
type recording struct {
	*cluster
	running sync.WaitGroup

	mu     sync.Mutex
	file   *os.File
	worlds int
	part   map[string]string // incomplete messages
	dir    string
	world  string
}

// spawn starts a world on the first node.
func (r *recording) spawn(s world.Spawn) (string, error) {
	fmt.Printf("launcher: spawn %+v\n", s)
	n := 0
	for _, app := range s.Apps {
		n += app.NumRanks
	}
	r.mu.Lock()
	r.worlds++
	w := newWorld(fmt.Sprintf("%s-%d", r.world, r.worlds), make([]int, n)...)
	fmt.Fprintf(r.file, "world %s-%d %s\n", recorded, r.worlds, strings.TrimSuffix(strings.Repeat("0,", n), ","))
	r.mu.Unlock()
	w.Parent, w.Preput = s.By, s.Preput
	r.add(w)
	r.start(w, append([]string{s.Apps[0].Program}, s.Apps[0].Args...), []string{"PMI_SPAWNED=1"})
	return w.Name, nil
}

// start starts the ranks of a world, each with a connection to a server.
func (r *recording) start(w *world.World, argv, env []string) {
	for rank := range w.Ranks {
		server, file := socketPair(r.t)
		p := world.Proc{World: w.Name, Rank: rank}
		node := w.Ranks[rank].Node
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Env = append(cmd.Env, "PMI_FD=3", fmt.Sprint("PMI_RANK=", rank), fmt.Sprint("PMI_SIZE=", len(w.Ranks)))
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{file}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
		}
		_ = file.Close()
		r.serving.Go(func() { r.servers[node].Serve(&tap{Conn: server, r: r, who: name(p)}, p) })
		r.running.Go(func() {
			if err := cmd.Wait(); err != nil {
				fmt.Println(name(p), err)
			}
			r.servers[node].Ended(p)
		})
	}
}

// tap records the bytes on a connection.
type tap struct {
	net.Conn
	r   *recording
	who string
}

func (c *tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.r.note(c.who, ">", string(b[:n]))
	}
	return n, err
}

func (c *tap) Write(b []byte) (int, error) {
	c.r.note(c.who, "<", string(b))
	return c.Conn.Write(b)
}

// note records a complete message without machine-specific text: long addresses, this host, directories.
func (r *recording) note(who, way, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part == nil {
		r.part = map[string]string{}
	}
	text = r.part[who+way] + text
	r.part[who+way] = ""
	if text[0] >= 'a' && !strings.HasSuffix(text, "\n") {
		r.part[who+way] = text
		return
	}
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	length := len(text)
	for _, place := range []string{filepath.Dir(flag.Arg(0)) + "/", r.dir + "/", dir + "/"} {
		text = strings.ReplaceAll(text, place, "")
	}
	text = strings.ReplaceAll(text, host, "thishost")
	text = address.ReplaceAllStringFunc(text, func(a string) string { return a[:16] + strings.Repeat("x", len(a)-16) })
	text = cardAddress.ReplaceAllString(text, "ifname#192.0.2.1")
	text = recount(text, len(text)-length)
	line := fmt.Sprintf("%s%s %s\n", who, way, strconv.Quote(text))
	_, _ = r.file.WriteString(strings.ReplaceAll(line, r.world, recorded))
}

// recount corrects the length before a message of PMI-2.
func recount(text string, by int) string {
	n, err := strconv.Atoi(strings.TrimSpace(text[:min(len(text), frameHeader)]))
	switch {
	case err != nil:
		return text
	case text[0] == ' ':
		return fmt.Sprintf("%6d%s", n+by, text[frameHeader:])
	}
	return fmt.Sprintf("%-6d%s", n+by, text[frameHeader:])
}

// recorded replaces the world's name. It has the same length, since PMI-2 counts bytes.
var recorded = "gorun-" + strings.Repeat("x", 26)

var cardAddress = regexp.MustCompile(`ifname#[0-9.]+`)

var address = regexp.MustCompile(`[0-9A-F\[\]]{60,}`)
