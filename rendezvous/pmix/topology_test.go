package pmix

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// A client gets only the topology of its own host, and requests it like the keys of its world.
func TestTopology(t *testing.T) {
	w, other := spread("gorun-1", 2, 2), spread("gorun-2", 1, 1)
	all := start(t, 2, w, other)
	asked := 0
	all.servers[1].cfg.Topology = func() (string, error) {
		asked++
		if asked > 1 {
			return "", errors.New("the machine is strange")
		}
		return "<topology/>", nil
	}
	elsewhere, c := all.join(w, 0), all.join(w, 1)
	job, _, _ := c.jobInfo(w)
	require.NotContains(t, job, keyTopology)
	require.Zero(t, asked, "nobody asks")
	for _, of := range []world.Proc{proc(w.Name, 0), proc(w.Name, 1), proc(other.Name, world.AllRanks)} {
		text, _ := c.get(of, keyTopology)
		require.Empty(t, text)
	}
	_, code := elsewhere.get(proc(w.Name, world.AllRanks), keyTopology)
	require.Equal(t, statusNotFound, code, "that node's is unknown")
	require.Zero(t, asked)
	text, code := c.get(proc(w.Name, world.AllRanks), keyTopology)
	require.Equal(t, statusSuccess, code)
	require.Equal(t, "<topology/>", text)
	_, code = c.get(proc(w.Name, world.AllRanks), keyTopology)
	require.Equal(t, statusNotFound, code)
	require.Equal(t, 2, asked)
}

// PMIx_Init of libpmix 5 looks for the topology in the first reply, and otherwise discovers it itself.
func TestInitialTopology(t *testing.T) {
	w := spread("gorun-1", 5, 1)
	all := start(t, 1, w)
	known := true
	all.servers[0].cfg.Topology = func() (string, error) {
		if !known {
			return "", errors.New("the machine is strange")
		}
		return "<topology/>", nil
	}
	for rank, version := range []string{"4.2.2", "5.0.11rc1", "6.1.0", "strange", "5.0.0"} {
		known = rank < 4
		c := all.client(0)
		g := greetingOf(w.Name, rank)
		g.version = version
		require.Equal(t, statusSuccess, greetWith(t, c.conn, g))
		job, _, _ := c.jobInfo(w)
		require.Equal(t, "5", job["pmix.job.size"])
		if rank == 1 || rank == 2 {
			require.Equal(t, "<topology/>", job[keyTopology], version)
		} else {
			require.NotContains(t, job, keyTopology, version)
		}
	}
}
