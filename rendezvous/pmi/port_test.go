package pmi

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// portCluster has worlds w, with ranks 0 to 2 of the job, and v with rank 3, and accepts all of them at PMI_PORT.
func portCluster(t *testing.T) (*cluster, []*world.World) {
	c := newCluster(t, 2, 0)
	worlds := []*world.World{newWorld("w", 0, 0, 1), newWorld("v", 0)}
	worlds[1].Ranks[0].Job = 3
	for _, w := range worlds {
		c.add(w)
	}
	c.claim = func(id int) (world.Proc, error) {
		for _, w := range worlds {
			for rank := range w.Ranks {
				if w.Ranks[rank].Job == id {
					return world.Proc{World: w.Name, Rank: rank}, nil
				}
			}
		}
		return world.Proc{}, errors.New("there is no such rank")
	}
	return c, worlds
}

// anonymous connects an unnamed client to PMI_PORT of the first node.
func (c *cluster) anonymous() *client { return c.connectAs(world.Proc{Rank: world.AllRanks}, 0) }

// A client connects to PMI_PORT and names its rank.
func TestInitack(t *testing.T) {
	c, worlds := portCluster(t)
	k := c.anonymous()
	k.asks("cmd=initack pmiid=1", "cmd=initack rc=0")
	k.receives("cmd=set size=3")
	k.receives("cmd=set rank=1")
	k.receives("cmd=set debug=0")
	k.init1()
	k.asks("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=w rc=0")
	k = c.anonymous()
	k.asks("cmd=initack pmiid=3", "cmd=initack rc=0")
	k.receives("cmd=set size=1")
	k.receives("cmd=set rank=0")
	k.receives("cmd=set debug=0")
	k.init1()
	k.asks("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=v rc=0")
	require.Equal(t, []string{"began w.1 PMI-1", "began v.0 PMI-1"}, c.log.all())
	k = c.connect(worlds[0], 0) // a client whose rank is known may also name it
	k.asks("cmd=initack pmiid=0", "cmd=initack rc=0")
	for say, want := range map[string]string{
		"cmd=initack pmiid=1":             "broken .-1: a second process of a rank connects to PMI while the first is in MPI",
		"cmd=initack pmiid=2":             "broken .-1: rank 2 of w is on another node",
		"cmd=initack pmiid=4":             "broken .-1: there is no such rank",
		"cmd=initack pmiid=x":             "not a number",
		"cmd=init pmi_version=1":          "that has not sent its rank in initack",
		"cmd=abort exitcode=3":            "that has not sent its rank in initack",
		"mcmd=spawn\ntotspawns=1\nendcmd": `"spawn" on a connection that has not sent its rank in initack`,
	} {
		k := c.anonymous()
		k.says(say)
		require.Contains(t, k.line(), "cmd=error rc=-1 msg=", say)
		k.closed()
		c.log.await(t, want)
	}
}

// In PMI-2 a client names its rank in fullinit.
func TestPMI2OverPMIPort(t *testing.T) {
	c, _ := portCluster(t)
	k := c.anonymous()
	k.asks("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	k.asks2("cmd=fullinit;pmirank=3;threaded=FALSE;",
		"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;debugged=FALSE;pmiverbose=FALSE;")
	require.Equal(t, []string{"began v.0 PMI-2"}, c.log.all())
	k.asks2("cmd=job-getid;", "cmd=job-getid-response;jobid=v;rc=0;")
	k.asks2("cmd=finalize;", "cmd=finalize-response;rc=0;")
	for say, want := range map[string]string{
		"cmd=fullinit;pmirank=4;": "broken .-1: there is no such rank",
		"cmd=fullinit;":           "not a number",
		"cmd=kvs-fence;":          "that has not sent its rank in fullinit",
	} {
		k := c.anonymous()
		k.asks("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
		k.send(fmt.Sprintf("%6d%s", len(say), say))
		c.log.await(t, want)
	}
}

// A server without a port refuses clients that have not named their rank.
func TestAnonymousClientsWithoutAPort(t *testing.T) {
	c, _ := portCluster(t)
	c.servers[0].cfg.Claim = nil
	c.anonymous().closed()
	c.log.await(t, "broken .-1: PMI: a connection of a rank that is not on this node")
}

// port1 connects to PMI_PORT as a rank and begins PMI-1.
func (c *cluster) port1(id string) *client {
	k := c.anonymous()
	k.asks("cmd=initack pmiid="+id, "cmd=initack rc=0")
	for range 3 {
		k.line()
	}
	k.init1()
	return k
}

// A script may run several programs in turn over PMI_PORT, each with its own connection.
func TestSeveralProgramsOverPMIPort(t *testing.T) {
	c, worlds := portCluster(t)
	first := c.port1("0")
	first.asks("cmd=finalize", "cmd=finalize_ack rc=0")
	second := c.port1("0") // the first connection stays open, as in a Python program
	first.closed()
	require.NoError(t, second.conn.Close()) // it crashes
	third := c.port1("0")
	third.asks("cmd=finalize", "cmd=finalize_ack rc=0")
	c.log.await(t, "left w.0")
	require.ElementsMatch(t, []string{
		"began w.0 PMI-1", "finalized w.0", "began w.0 PMI-1", "left w.0", "began w.0 PMI-1", "finalized w.0",
	}, c.log.all())
	require.Equal(t, 2, c.servers[0].spaces[worlds[0].Name].generations[0])
}

// A rank's next program begins once the other ranks of its node have left the one before: finalized it, or died.
func TestTheNextProgramWaitsForTheOthersOfTheFirst(t *testing.T) {
	c, worlds := portCluster(t)
	server := c.servers[0]
	for _, leave := range []func(*client){
		func(k *client) { k.asks("cmd=finalize", "cmd=finalize_ack rc=0") },
		func(k *client) { require.NoError(t, k.conn.Close()) },
	} {
		first, other := c.port1("0"), c.port1("1")
		first.asks("cmd=finalize", "cmd=finalize_ack rc=0")
		next := c.anonymous()
		next.asks("cmd=initack pmiid=0", "cmd=initack rc=0")
		for range 3 {
			next.line()
		}
		next.says("cmd=init pmi_version=1 pmi_subversion=1")
		waits := []world.Wait{{
			Waiting: []world.Proc{{World: worlds[0].Name, Rank: 0}}, For: []world.Proc{{World: worlds[0].Name, Rank: 1}},
		}}
		waiting := func() bool { return assert.ObjectsAreEqual(waits, server.Waits()) }
		require.Eventually(t, waiting, time.Minute, time.Millisecond)
		leave(other)
		next.receives("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
		next.asks("cmd=finalize", "cmd=finalize_ack rc=0")
	}
}

// The server may learn of the end of a program's connection after the next program has connected.
func TestTheNextProgramWaitsForTheEndOfTheFirst(t *testing.T) {
	c, _ := portCluster(t)
	first := c.port1("0")
	asked, claim := make(chan struct{}), c.claim
	c.claim = func(id int) (world.Proc, error) { close(asked); return claim(id) }
	next := c.anonymous()
	next.says("cmd=initack pmiid=0")
	<-asked
	require.NoError(t, first.conn.Close())
	next.receives("cmd=initack rc=0")
}
