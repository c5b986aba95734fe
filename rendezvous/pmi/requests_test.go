package pmi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// asks2 sends a message of PMI-2 and requires the reply.
func (k *client) asks2(body, answer string) {
	k.t.Helper()
	k.says2(body)
	k.receivesPMI2(answer)
}

func (k *client) says2(body string) { k.t.Helper(); k.send(fmt.Sprintf("%6d%s", len(body), body)) }

func (k *client) receivesPMI2(want string) {
	k.t.Helper()
	want = fmt.Sprintf("%6d%s", len(want), want)
	got := make([]byte, 0, len(want))
	for len(got) < len(want) {
		b, err := k.in.ReadByte()
		require.NoError(k.t, err, "%s read %q instead of %q", name(k.p), got, want)
		if got = append(got, b); !strings.HasPrefix(want, string(got)) {
			rest := make([]byte, k.in.Buffered())
			_, _ = k.in.Read(rest)
			require.Equal(k.t, want, string(got)+string(rest))
		}
	}
}

// begun2 connects a rank and begins PMI-2.
func (c *cluster) begun2(w *world.World, rank int) *client {
	c.t.Helper()
	k := c.connect(w, rank)
	k.asks("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	return k
}

func TestVersions(t *testing.T) {
	const one, two = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=", "cmd=response_to_init pmi_version=2 " +
		"pmi_subversion=0 rc="
	for _, c := range []struct {
		only, asked int
		answer      string
	}{
		{0, 1, one + "0"},
		{0, 2, two + "0"},
		{0, 3, one + "-1 msg=PMI-3_is_not_served_to_this_job"},
		{1, 1, one + "0"},
		{1, 2, one + "-1 msg=PMI-2_is_not_served_to_this_job"},
		{2, 1, two + "-1 msg=PMI-1_is_not_served_to_this_job"},
		{2, 2, two + "0"},
		{3, 1, one + "-1 msg=PMI-1_is_not_served_to_this_job"},
	} {
		cl := newCluster(t, 1, c.only)
		k := cl.connect(cl.add(newWorld("w", 0)), 0)
		k.asks(fmt.Sprintf("cmd=init pmi_version=%d pmi_subversion=1", c.asked), c.answer)
		if strings.HasSuffix(c.answer, "rc=0") {
			require.Equal(t, []string{fmt.Sprintf("began w.0 PMI-%d", c.asked)}, cl.log.all())
			continue
		}
		said := fmt.Sprintf("say w.0: the MPI library requests PMI-%d, which this job does not serve", c.asked)
		if c.only != 0 {
			said += ": remove --mpi"
		}
		require.Equal(t, []string{said}, cl.log.all())
	}
}

func TestWhatAWorldSays(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := newWorld("w", 0, 0)
	w.Universe, w.UniverseSet, w.Ranks[1].App = 16, true, 3
	k := c.begun(c.add(w), 1)
	k.asks("cmd=get_universe_size", "cmd=universe_size size=16 rc=0")
	k.asks("cmd=get_appnum", "cmd=appnum appnum=3 rc=0")
	k.asks("cmd=get_ranks2hosts", "cmd=put_ranks2hosts 15 1")
	k.receives("5 node0 0,1, ")

	slots := newWorld("v", 0, 0)
	slots.Universe = 16 // Hydra reports it only if it is set
	c.begun(c.add(slots), 0).asks("cmd=get_universe_size", "cmd=universe_size size=-1 rc=0")
	c.begun2(slots, 1).asks2("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;found=FALSE;rc=0;")
}

func TestPutsThatAreRefused(t *testing.T) {
	c := newCluster(t, 1, 0)
	k := c.begun(c.add(newWorld("w", 0)), 0)
	long := strings.Repeat("k", keyMax)
	k.asks("cmd=put kvsname=w key="+long+" value=v", "cmd=put_result rc=0 msg=success")
	k.asks("cmd=put kvsname=w key="+long+"k value=v", "cmd=put_result rc=-1 msg=key_too_long")
	k.asks("cmd=put kvsname=w key=k value="+strings.Repeat("v", valueMax), "cmd=put_result rc=0 msg=success")
	k.asks("cmd=put kvsname=w key=k value="+strings.Repeat("v", valueMax+1), "cmd=put_result rc=-1 msg=value_too_long")
	k.asks("cmd=put kvsname=other key=k value=v", "cmd=put_result rc=-1 msg=kvs_other_is_not_this_world's")
	k.asks("cmd=put kvsname=w key=PMI_x value=v", "cmd=put_result rc=-1 msg=keys_that_begin_with_PMI__are_reserved")
}

// If ranks of several nodes put the same key, all ranks read the same value afterwards.
func TestTheSameKeyOfTwoNodes(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 1))
	ranks := []*client{c.begun(w, 0), c.begun(w, 1)}
	for round := range 3 {
		for i, k := range ranks {
			k.asks(fmt.Sprintf("cmd=put kvsname=w key=k value=%d-%d", round, i), "cmd=put_result rc=0 msg=success")
		}
		together(ranks, "cmd=barrier_in", "cmd=barrier_out")
		together(ranks, "cmd=get kvsname=w key=k", fmt.Sprintf("cmd=get_result rc=0 msg=success value=%d-1", round))
	}
}

func TestBarriersOfGroups(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 1, 1))
	var ranks []*client
	for i := range w.Ranks {
		ranks = append(ranks, c.begun(w, i))
	}
	ranks[1].asks("cmd=put kvsname=w key=k value=v", "cmd=put_result rc=0 msg=success")
	for range 2 {
		together(ranks[:2], "cmd=barrier_in group=NODE:5", "cmd=barrier_out tag=5")
		together(ranks[1:3], "cmd=barrier_in group=2,1:6", "cmd=barrier_out tag=6")
		together(ranks[1:3], "cmd=barrier_in group=1,2", "cmd=barrier_out")
	}
	ranks[2].asks("cmd=get kvsname=w key=k", "cmd=get_result rc=0 msg=success value=v")
	// Two barriers with different tags run at the same time, as from threads of a rank.
	for _, k := range ranks {
		k.says("cmd=barrier_in group=WORLD:1")
		k.says("cmd=barrier_in group=WORLD:2")
	}
	for _, k := range ranks {
		require.ElementsMatch(t, []string{"cmd=barrier_out tag=1", "cmd=barrier_out tag=2"}, []string{k.line(), k.line()})
	}
	together(ranks, "cmd=barrier_in", "cmd=barrier_out")
	together(ranks, "cmd=get kvsname=w key=k", "cmd=get_result rc=0 msg=success value=v")
	require.Equal(t, groupName([]int{0, 1, 2, 5}, "7"), "0-2,5-5,7")
	long := make([]int, 200)
	for i := range long {
		long[i] = 2 * i
	}
	require.Len(t, groupName(long, ""), 64)
}

func TestNames(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 1, 1))
	a, b := c.begun(w, 0), c.begun(w, 1)
	a.asks("cmd=lookup_name service=svc one", "cmd=lookup_result rc=1 msg=service_not_found")
	a.asks("cmd=publish_name service=svc one port=tag#0$x$", "cmd=publish_result rc=0 info=ok")
	b.asks("cmd=publish_name service=svc one port=other", "cmd=publish_result rc=1 msg=key_already_present")
	b.asks("cmd=lookup_name service=svc one", "cmd=lookup_result rc=0 port=tag#0$x$")
	k := c.begun2(w, 2)
	k.asks2("cmd=name-lookup;name=svc one;infokeycount=0;", "cmd=name-lookup-response;port=tag#0$x$;value=tag#0$x$;rc=0;")
	k.asks2("cmd=name-publish;name=svc one;port=x;", "cmd=name-publish-response;rc=1;errmsg=key_already_present;")
	k.asks2("cmd=name-unpublish;name=svc one;", "cmd=name-unpublish-response;rc=0;")
	b.asks("cmd=unpublish_name service=svc one", "cmd=unpublish_result rc=1 msg=service_not_found")
	k.asks2("cmd=name-lookup;name=svc one;", "cmd=name-lookup-response;rc=1;errmsg=service_not_found;")
	k.asks2("cmd=name-publish;name=n;port=x;", "cmd=name-publish-response;rc=0;")
	b.asks("cmd=unpublish_name service=n", "cmd=unpublish_result rc=0 info=ok")
}

func TestPMI2(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := newWorld("w", 0, 1)
	w.Universe, w.UniverseSet, w.Parent, w.Preput = 8, true, world.Proc{World: "p"},
		[]world.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: "port"}}
	c.add(w)
	c.add(newWorld("p", 0))
	ranks := []*client{c.begun2(w, 0), c.begun2(w, 1)}
	ranks[1].asks2("cmd=fullinit;pmirank=1;threaded=FALSE;", "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;"+
		"rank=1;size=2;appnum=0;spawner-jobid=p;debugged=FALSE;pmiverbose=FALSE;")
	k := ranks[0]
	k.asks2("cmd=job-getid;thrid=12;", "cmd=job-getid-response;thrid=12;jobid=w;rc=0;")
	k.asks2("cmd=info-getjobattr;key=PMI_process_mapping;",
		"cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,2,1));rc=0;")
	k.asks2("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;found=TRUE;value=8;rc=0;")
	k.asks2("cmd=info-getjobattr;key=hasNameServ;", "cmd=info-getjobattr-response;found=TRUE;value=TRUE;rc=0;")
	k.asks2("cmd=info-getjobattr;key=PARENT_ROOT_PORT_NAME;", "cmd=info-getjobattr-response;found=TRUE;value=port;rc=0;")
	k.asks2("cmd=info-getjobattr;key=none;", "cmd=info-getjobattr-response;found=FALSE;rc=0;")
	k.asks2("cmd=kvs-put;key=k;value=v=1;", "cmd=kvs-put-response;rc=0;")
	k.asks2("cmd=kvs-put;key=PMI_k;value=v;", "cmd=kvs-put-response;rc=-1;errmsg=keys_that_begin_with_PMI__are_reserved;")
	for _, k := range ranks {
		k.says2("cmd=kvs-fence;")
	}
	for _, k := range ranks {
		k.receivesPMI2("cmd=kvs-fence-response;rc=0;")
	}
	ranks[1].asks2("cmd=kvs-get;jobid=w;srcid=-1;key=k;", "cmd=kvs-get-response;found=TRUE;value=v=1;rc=0;")
	ranks[1].asks2("cmd=kvs-get;srcid=0;key=-NONEXIST-KEY;", "cmd=kvs-get-response;found=FALSE;rc=0;")
	ranks[1].asks2("cmd=kvs-get;jobid=p;srcid=-1;key=k;", "cmd=kvs-get-response;found=FALSE;rc=0;")
	k.asks2("cmd=job-connect;jobid=p;", "cmd=job-connect-response;kvscopy=0;rc=0;")
	k.asks2("cmd=job-disconnect;jobid=p;", "cmd=job-disconnect-response;rc=0;")
	k.asks2("cmd=job-connect;jobid=q;", "cmd=job-connect-response;rc=-1;errmsg=unknown_jobid;")
	k.asks2("cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=1;argc=0;",
		"cmd=spawn-response;rc=-1;errmsg=no_room_for_more_ranks;")
	c.log.answerSpawns(func(world.Spawn) (string, error) { return "w-2", nil })
	k.asks2("cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=1;argc=0;", "cmd=spawn-response;rc=0;jobid=w-2;nerrs=0;")
	k.asks2("cmd=finalize;", "cmd=finalize-response;rc=0;")
	ranks[1].says2("cmd=abort;isworld=TRUE;msg=it went wrong;")
	require.Equal(t, "abort w.1 1 it went wrong", c.log.await(t, "abort"))
}

func TestRing(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 1))
	var ranks []*client
	for i := range w.Ranks {
		ranks = append(ranks, c.begun2(w, i))
	}
	for range 2 {
		for i, k := range ranks {
			k.says2(fmt.Sprintf("cmd=ring;ring-count=1;ring-left=l%d;ring-right=r%d;", i, i))
		}
		for i, k := range ranks {
			k.receivesPMI2(fmt.Sprintf("cmd=ring-response;rc=0;ring-count=%d;ring-left=r%d;ring-right=l%d;", i, (i+2)%3,
				(i+1)%3))
		}
	}
}

// Ranks of a host share its attributes, even if several agents serve it.
func TestAttributesOfAHost(t *testing.T) {
	c := newCluster(t, 3, 0)
	w := newWorld("w", 0, 0, 0, 1)
	w.Ranks[1].Node, w.Ranks[2].Node, w.Ranks[3].Node = 1, 1, 2
	c.add(w)
	var ranks []*client
	for i := range w.Ranks {
		ranks = append(ranks, c.begun2(w, i))
	}
	forged := make(chan []byte, 1)
	c.star.Nodes[2].Request(0, attributesService, packTexts(attributePut, "w", "1", "0/0/k", "forged"),
		func(reply []byte, _ error) { forged <- reply })
	require.Equal(t, packTexts(missing, ""), <-forged, "to a node for another's rank")
	const wait, got = "cmd=info-getnodeattr;thrid=3;key=k;wait=TRUE;", "cmd=info-getnodeattr-response;thrid=3;found" +
		"=TRUE;value=v;rc=0;"
	ranks[2].asks2("cmd=info-getnodeattr;key=k;wait=FALSE;", "cmd=info-getnodeattr-response;found=FALSE;rc=0;")
	ranks[0].says2(wait)
	ranks[2].says2(wait)
	ranks[2].asks2("cmd=job-getid;", "cmd=job-getid-response;jobid=w;rc=0;") // another thread
	ranks[1].asks2("cmd=info-putnodeattr;key=k;value=v;", "cmd=info-putnodeattr-response;rc=0;")
	ranks[0].receivesPMI2(got)
	ranks[2].receivesPMI2(got)
	ranks[2].asks2(wait, got)
	ranks[3].asks2("cmd=info-getnodeattr;key=k;", "cmd=info-getnodeattr-response;found=FALSE;rc=0;")
	ranks[3].asks2("cmd=info-putnodeattr;key=k;value="+strings.Repeat("v", valueMax+1)+";",
		"cmd=info-putnodeattr-response;rc=-1;errmsg=value_too_long;")

	// A rank that begins again finds none of its earlier attributes.
	ranks[0].asks2("cmd=finalize;", "cmd=finalize-response;rc=0;")
	ranks[0].asks("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	ranks[0].asks2("cmd=info-getnodeattr;key=k;", "cmd=info-getnodeattr-response;found=FALSE;rc=0;")
}
