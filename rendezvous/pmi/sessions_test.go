package pmi

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// Replies to recorded sessions of real programs equal the recorded replies.
func TestRecordedSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/sessions/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { replay(t, file) })
	}
}

// replay sends the requests of a session in order, and requires the replies.
func replay(t *testing.T, name string) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	var worlds []*world.World
	clients := map[string]*client{}
	type exchanged struct{ who, way, text string }
	var said []exchanged
	for in := bufio.NewScanner(file); in.Scan(); {
		head, tail, _ := strings.Cut(in.Text(), " ")
		if head == "world" {
			worlds = append(worlds, readWorld(t, tail))
			continue
		}
		text, err := strconv.Unquote(tail)
		require.NoError(t, err)
		said = append(said, exchanged{head[:len(head)-1], head[len(head)-1:], text})
	}
	nodes := 0
	for i := range worlds[0].Ranks {
		nodes = max(nodes, worlds[0].Ranks[i].Node+1)
	}
	c := newCluster(t, nodes, 0)
	c.add(worlds[0])
	spawned := 0
	c.log.spawn = func(s world.Spawn) (string, error) {
		spawned++
		w := worlds[spawned]
		w.Parent, w.Preput = s.By, s.Preput
		return c.add(w).Name, nil
	}
	for i, e := range said {
		k := clients[e.who]
		if k == nil {
			k = c.connectNamed(worlds, e.who)
			clients[e.who] = k
		}
		if e.way == ">" {
			k.send(e.text)
			continue
		}
		answer := make([]byte, len(e.text))
		_ = k.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := io.ReadFull(k.in, answer)
		require.NoError(t, err, "line %d, %s: %q", i, e.who, answer[:n])
		require.Equal(t, e.text, string(answer), "line %d, %s", i, e.who)
	}
	for _, k := range clients {
		require.NoError(t, k.conn.Close())
	}
	c.serving.Wait()
	for _, line := range c.log.all() {
		require.Regexp(t, "^(began|finalized|abort) ", line)
	}
}

func readWorld(t *testing.T, line string) *world.World {
	name, list, _ := strings.Cut(line, " ")
	var hosts []int
	for text := range strings.SplitSeq(list, ",") {
		host, err := strconv.Atoi(text)
		require.NoError(t, err)
		hosts = append(hosts, host)
	}
	return newWorld(name, hosts...)
}

// connectNamed connects a rank of one of the worlds by its name.
func (c *cluster) connectNamed(worlds []*world.World, who string) *client {
	for _, w := range worlds {
		for rank := range w.Ranks {
			if fmt.Sprintf("%s.%d", w.Name, rank) == who {
				return c.connect(w, rank)
			}
		}
	}
	require.Fail(c.t, "nobody is called "+who)
	return nil
}
