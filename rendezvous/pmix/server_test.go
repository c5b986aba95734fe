package pmix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// jobInfo returns the reply to REQ: the keys of the world and its host, and those of each rank.
func (c *client) jobInfo(w *world.World) (map[string]string, []map[string]string, *decoder) {
	c.t.Helper()
	d := c.call(commandJobInfo, nil)
	require.Equal(c.t, w.Name, d.oneString())
	job := map[string]string{}
	ranks := make([]map[string]string, len(w.Ranks))
	var hosts *decoder
	for d.more() {
		d.one()
		k := d.kval()
		b, _ := k.value.bytes()
		blob := &decoder{b: b}
		switch k.key {
		case "pmix.pblob":
			rank := blob.oneUint32()
			ranks[rank] = kvalTexts(blob)
			require.NoError(c.t, blob.err)
		case "pmix.mblob":
			hosts = blob
		default:
			job[k.key] = k.value.shown()
		}
	}
	require.NoError(c.t, d.err)
	return job, ranks, hosts
}

func TestWhatARankKnows(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	w.Universe, w.MapBy, w.RankBy, w.BindTo = 9, "BYNUMA:SPAN", "FILL", "CORE"
	w.Apps = []world.App{{NumRanks: 1, Argv: []string{"./a"}}, {NumRanks: 3, Argv: []string{"./b", "-v"}, Dir: "/tmp"}}
	for rank := 1; rank < 4; rank++ {
		w.Ranks[rank].App = 1
	}
	w.Ranks[3].CPUs, w.Ranks[3].Locality = "2-3", "NM0:SK0:L30:L21:L12-3:CR2-3:HT2-3"
	all := start(t, 2, w)
	c := all.join(w, 3)
	job, ranks, hosts := c.jobInfo(w)
	for key, text := range map[string]string{
		"pmix.job.size": "4", "pmix.max.size": "4", "pmix.univ.size": "9", "pmix.num.nodes": "2", "pmix.job.napps": "2",
		"pmix.jobid": "gorun-1", "pmix.nlist": "host0,host1", "pmix.offset": "0",
		"pmix.local.size": "2", "pmix.node.size": "2", "pmix.lpeers": "2,3", "pmix.lldr": "2",
		"OMPI_APP_SIZES": "1 3", "OMPI_FIRST_RANKS": "0 1",
		"pmix.mapby": "BYNUMA:SPAN", "pmix.rankby": "FILL", "pmix.bindto": "CORE",
	} {
		require.Equal(t, text, job[key], key)
	}
	require.NotContains(t, job, "pmix.parent")
	local, _ := find(all.servers[1].spaces[w.Name].hostInfos(1), "pmix.lprocs")
	procs, _ := local.procs()
	require.Equal(t, []world.Proc{proc(w.Name, 2), proc(w.Name, 3)}, procs)
	require.Equal(t, "2", ranks[3]["pmix.apprank"])
	for key, text := range map[string]string{
		"pmix.lrank": "1", "pmix.nrank": "1", "pmix.nodeid": "1", "pmix.appnum": "1", "pmix.grank": "3",
		"pmix.hname":  "host1",
		"pmix.cpuset": "hwloc:2-3", "pmix.locstr": "NM0:SK0:L30:L21:L12-3:CR2-3:HT2-3",
	} {
		require.Equal(t, text, ranks[3][key], key)
	}
	require.NotContains(t, ranks[0], "pmix.locstr")
	require.NotContains(t, ranks[0], "pmix.pdir", "its directory is on another host")
	require.Equal(t, 2, hosts.oneSize())
	require.Equal(t, map[string]string{"host0": "0,1", "host1": "2,3"}, kvalTexts(hosts))
	for _, dir := range []string{job["pmix.tmpdir"], job["pmix.nsdir"], ranks[3]["pmix.pdir"]} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, info.Mode(), dir)
	}
	require.Equal(t, filepath.Join(job["pmix.nsdir"], "2"), ranks[2]["pmix.pdir"])
	require.NoDirExists(t, ranks[2]["pmix.pdir"], "it has not asked yet")
}

func TestNothingIsMadeBeforeARankAsks(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	all.join(w, 0)
	made, err := os.ReadDir(all.dir)
	require.NoError(t, err)
	require.Empty(t, made)
}

func TestWhoSpawnedAWorld(t *testing.T) {
	w := spread("gorun-2", 1, 1)
	w.Parent = world.Proc{World: "gorun-1", Rank: 3}
	w.Ranks[0].Job = 4
	all := start(t, 1, w)
	job, ranks, _ := all.join(w, 0).jobInfo(w)
	require.Equal(t, "gorun-1.3", job["pmix.parent"])
	require.Equal(t, "gorun-1.3", ranks[0]["pmix.parent"])
	require.Equal(t, "4", ranks[0]["pmix.grank"])
}

func TestScopesOnOneHost(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	require.Equal(t, statusSuccess, a.status(commandCommit, func(e *encoder) {
		commitBody(e, scopeLocal, "near", "n")
		commitBody(e, scopeRemote, "far", "f")
		commitBody(e, scopeGlobal, "both", "b")
	}))
	found, code := b.data(b.call(commandGet, getBody(proc(w.Name, 0), "near")))
	require.Equal(t, statusSuccess, code)
	require.Equal(t, map[world.Proc]map[string]string{proc(w.Name, 0): {"near": "n", "both": "b"}}, found)
}

func TestGetWaitsForCommit(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	_, code := b.get(proc(w.Name, 0), "k", attr(keyImmediate, true))
	require.Equal(t, statusNotFound, code)
	tag := b.ask(commandGet, getBody(proc(w.Name, 0), "k"))
	b.unanswered(tag)
	a.commit(scopeGlobal, "k", "v")
	found, code := b.data(b.wait(tag))
	require.Equal(t, statusSuccess, code)
	require.Equal(t, "v", found[proc(w.Name, 0)]["k"])
}

func TestGetTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		a, b := all.join(w, 0), all.join(w, 1)
		begin := time.Now()
		_, code := b.get(proc(w.Name, 0), "k", attr(keyTimeout, uint32(5)))
		require.Equal(t, statusTimeout, code)
		require.Equal(t, 5*time.Second, time.Since(begin))
		a.commit(scopeGlobal, "k", "v")
		begin = time.Now()
		_, code = b.get(proc(w.Name, 0), "another")
		require.Equal(t, statusTimeout, code)
		require.Equal(t, lateKeyTimeout, time.Since(begin))
		_, code = b.get(proc(w.Name, 0), "another", attr(keyTimeout, uint32(5)))
		require.Equal(t, statusTimeout, code)
		_, code = b.get(proc(w.Name, 1), "its own")
		require.Equal(t, statusTimeout, code, "nobody else commits it")
		tag := b.ask(commandGet, getBody(proc(w.Name, 0), "late"))
		b.unanswered(tag)
		a.commit(scopeGlobal, "late", "yes")
		found, _ := b.data(b.wait(tag))
		require.Equal(t, "yes", found[proc(w.Name, 0)]["late"])
	})
}

func TestReservedKeys(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	_, code := b.get(proc(w.Name, 0), "pmix.hwlocxml2")
	require.Equal(t, statusNotFound, code)
	_, code = b.get(proc(w.Name, world.AllRanks), "pmix.nosuchkey")
	require.Equal(t, statusNotFound, code)
	text, _ := b.get(proc(w.Name, world.AllRanks), "pmix.job.size")
	require.Equal(t, "2", text)
	_, code = b.get(proc(w.Name, world.AllRanks), "pmix.mapby")
	require.Equal(t, statusNotFound, code, "its programs were placed in several ways")
	text, _ = b.get(proc(w.Name, 0), "pmix.hname")
	require.Equal(t, "host0", text)
	a.commit(scopeGlobal, "pmix.arch", "amd64")
	text, _ = b.get(proc(w.Name, 0), "pmix.arch")
	require.Equal(t, "amd64", text)
	for _, nobody := range []world.Proc{
		proc("gorun-9", 0), proc(w.Name, 2), proc(w.Name, 0xffffffff), proc(w.Name, 0xfffffffd),
	} {
		_, code = b.get(nobody, "k")
		require.Equal(t, statusNotFound, code)
	}
}

func TestFences(t *testing.T) {
	w := spread("gorun-1", 3, 1)
	all := start(t, 1, w)
	ranks := []*client{all.join(w, 0), all.join(w, 1), all.join(w, 2)}
	for range 3 {
		first := ranks[0].ask(commandFence, fenceBody(everybody(w)))
		// Other ranks may enter a fence meanwhile, and name its members in any order.
		pair := ranks[1].ask(commandFence, fenceBody([]world.Proc{proc(w.Name, 1), proc(w.Name, 2)}))
		again := fenceBody([]world.Proc{proc(w.Name, 2), proc(w.Name, 1)})
		require.Equal(t, statusSuccess, ranks[2].status(commandFence, again))
		require.Equal(t, statusSuccess, ranks[1].wait(pair).oneStatus())
		// The list of all ranks means the same as the world.
		second := ranks[1].ask(commandFence, fenceBody([]world.Proc{proc(w.Name, 2), proc(w.Name, 1), proc(w.Name, 0)}))
		ranks[0].unanswered(first)
		require.Equal(t, statusSuccess, ranks[2].status(commandFence, fenceBody(everybody(w))))
		require.Equal(t, statusSuccess, ranks[0].wait(first).oneStatus())
		require.Equal(t, statusSuccess, ranks[1].wait(second).oneStatus())
	}
	require.Empty(t, all.servers[0].collectives)
	code := ranks[0].status(commandFence, fenceBody([]world.Proc{proc(w.Name, 1)}))
	require.Equal(t, statusBadParameter, code, "not a member")
	require.Equal(t, statusNotFound, ranks[0].status(commandFence, fenceBody([]world.Proc{proc("gorun-9", 0)})))
	require.Equal(t, statusNotFound, ranks[0].status(commandFence, fenceBody(nil)))
	tag := ranks[0].ask(commandFence, fenceBody(everybody(w)))
	require.Equal(t, statusBadParameter, ranks[0].status(commandFence, fenceBody(everybody(w))), "it already exists")
	ranks[0].unanswered(tag)
}

func TestFenceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		a, b := all.join(w, 0), all.join(w, 1)
		require.Equal(t, statusTimeout,
			a.status(commandFence, fenceBody(everybody(w), attr(keyTimeout, uint32(3)))))
		tag := a.ask(commandFence, fenceBody(everybody(w)))
		require.Equal(t, statusSuccess, b.status(commandFence, fenceBody(everybody(w))))
		require.Equal(t, statusSuccess, a.wait(tag).oneStatus())
	})
}

// A fence that expires ends in the same way on all nodes, whether or not they had entered it. The next fence has
// all committed data.
func TestFenceTimesOutOnAllNodes(t *testing.T) {
	soon := attr(keyTimeout, uint32(3))
	for name, first := range map[string][]int{
		"one node is incomplete": {0, 2, 3}, "one node does not come": {2, 3},
		"the complete one is later": {0, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := spread("gorun-1", 4, 2)
				all := start(t, 2, w)
				ranks := all.joinAll(w)
				for rank, c := range ranks {
					commitScopes(c, rank)
				}
				tags := map[int]uint32{}
				for _, rank := range first {
					tags[rank] = ranks[rank].ask(commandFence, fenceBody(everybody(w), collecting, soon))
				}
				for rank, tag := range tags {
					require.Equal(t, statusTimeout, ranks[rank].wait(tag).oneStatus())
				}
				ranks[2].commit(scopeGlobal, "later", "x")
				fenceAll(t, w, ranks, collecting)
				for of, key := range map[int]string{2: "later", 3: "far"} {
					_, code := ranks[0].get(proc(w.Name, of), key, attr(keyImmediate, true))
					require.Equal(t, statusSuccess, code)
				}
				fenceAll(t, w, ranks)
				synctest.Wait()
				require.Empty(t, all.servers[0].queues)
				require.Empty(t, all.servers[1].collectives)
			})
		})
	}
}

func TestAbort(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	code := all.join(w, 1).status(commandAbort, func(e *encoder) {
		e.oneStatus(42)
		e.oneString("no more")
		e.procList(everybody(w))
	})
	require.Equal(t, statusSuccess, code)
	require.Equal(t, "abort 1 42 no more", all.received.next(t))
}

func TestHowRanksEnd(t *testing.T) {
	w := spread("gorun-1", 3, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	require.Equal(t, statusSuccess, a.status(commandFinalize, nil))
	require.Equal(t, "finalized 0", all.received.next(t))
	require.NoError(t, a.conn.Close())
	tag := b.ask(commandFence, fenceBody(everybody(w)))
	b.unanswered(tag)
	all.servers[0].Ended(world.Proc{World: w.Name, Rank: 2})
	require.Equal(t, "stuck [1] 2", all.received.next(t), "it never called MPI_Init")
	require.NoError(t, b.conn.Close())
	require.Equal(t, "left 1", all.received.next(t))
}

// The server handles the last requests of a rank before other nodes learn of its end.
func TestEndedAfterItsLastRequest(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	tag := b.ask(commandGet, getBody(proc(w.Name, 0), "k"))
	b.unanswered(tag)
	all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
	a.commit(scopeGlobal, "k", "v")
	found, _ := b.data(b.wait(tag))
	require.Equal(t, "v", found[proc(w.Name, 0)]["k"])
	require.NoError(t, a.conn.Close())
	require.Equal(t, "left 0", all.received.next(t))
}

func TestGetFromExitedRank(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	b := all.join(w, 1)
	tag := b.ask(commandGet, getBody(proc(w.Name, 0), "k"))
	b.unanswered(tag)
	all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
	require.Equal(t, "stuck [1] 0", all.received.next(t))
	require.Equal(t, statusNotFound, b.wait(tag).oneStatus())
	_, code := b.get(proc(w.Name, 0), "k")
	require.Equal(t, statusNotFound, code)
}

// A child of the rank holds its connection open.
func TestEndedWithItsConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		all.join(w, 0)
		b := all.join(w, 1)
		tag := b.ask(commandFence, fenceBody(everybody(w)))
		b.unanswered(tag)
		all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
		require.Equal(t, "left 0", all.received.next(t))
		require.Equal(t, "stuck [1] 0", all.received.next(t))
	})
}

func TestGarbageEndsOneConnection(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	a.ask(commandGet, func(e *encoder) { e.b = append(e.b, "garbage"...) })
	require.Contains(t, all.received.next(t), "broken 0 command 4: ")
	_, err := a.conn.Read(make([]byte, 1))
	require.Error(t, err)
	b.commit(scopeGlobal, "k", "v")
	_, err = b.conn.Write(appendFrame(nil, 1, nil)[:headerSize-8])
	require.NoError(t, err)
	_, err = b.conn.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	require.NoError(t, err)
	require.Contains(t, all.received.next(t), "broken 1 a message announces 4294967295 bytes")
}

func TestCommandsThatNobodyServes(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	for _, cmd := range []command{17, 25, 26, 33, 99, 255} {
		require.Equal(t, statusNotSupported, c.status(cmd, nil), "command %d", cmd)
	}
}

func logBody(infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.group(1)
		e.uint64(1)
		e.infoList(infos)
		e.infoList(nil)
	}
}

func TestLog(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	body := logBody
	require.Equal(t, statusSuccess, c.status(commandLog, body(attr("pmix.log.stderr", "hello"))))
	require.Equal(t, "say 0 hello", all.received.next(t))
	// The text of Open MPI 4.1's MPI_Abort. The same text from another rank is not shown again.
	help := encoder{}
	for _, text := range []string{"help-mpi-api.txt", "mpi-abort"} {
		help.uint32(1)
		help.string(text)
	}
	help.b = append(help.b, 0, 0, 0, 1, 1, 0, 0, 0, 1)
	help.string("MPI_ABORT was invoked on rank 0\n")
	for range 2 {
		require.Equal(t, statusSuccess, c.status(commandLog, body(attr("pmix.log.msg", help.b))))
	}
	require.Equal(t, "say 0 MPI_ABORT was invoked on rank 0\n", all.received.next(t))
	for n := range help.b {
		require.Equal(t, statusNotSupported,
			c.status(commandLog, body(attr("pmix.log.msg", help.b[:n]))))
	}
	require.Equal(t, statusSuccess, c.status(commandLog, body(attr("pmix.log.stderr", "last"))))
	require.Equal(t, "say 0 last", all.received.next(t), "nothing between")
	require.Equal(t, statusNotSupported, c.status(commandLog, body(attr("pmix.log.job", true))))
}

func TestQueries(t *testing.T) {
	w, v := spread("gorun-1", 2, 1), spread("gorun-2", 3, 1)
	all := start(t, 1, w, v)
	c := all.join(w, 0)
	ask := func(qualifiers []info, keys ...string) (map[string]string, status) {
		d := c.call(commandQuery, func(e *encoder) {
			e.oneSize(1)
			e.group(1)
			e.uint32(uint32(len(keys)))
			for _, key := range keys {
				e.string(key)
			}
			e.size(len(qualifiers))
			for _, q := range qualifiers {
				e.info(q)
			}
		})
		code := d.oneStatus()
		found := map[string]string{}
		for _, i := range d.infoList() {
			found[i.key] = i.value.shown()
		}
		require.NoError(t, d.err)
		return found, code
	}
	found, code := ask(nil, "pmix.qry.ns", "pmix.qry.psetnum", "pmix.job.size", "pmix.lpeers")
	require.Equal(t, statusSuccess, code)
	require.Equal(t, map[string]string{
		"pmix.qry.ns": "gorun-1,gorun-2", "pmix.qry.psetnum": "0", "pmix.job.size": "2",
		"pmix.lpeers": "0,1",
	}, found)
	found, code = ask([]info{attr("pmix.nspace", "gorun-2")}, "pmix.job.size", "pmix.qry.qlst")
	require.Equal(t, statusPartialSuccess, code)
	require.Equal(t, map[string]string{"pmix.job.size": "3"}, found)
	_, code = ask([]info{attr("pmix.nspace", "gorun-9")}, "pmix.job.size")
	require.Equal(t, statusNotSupported, code)
}

func TestFilesThatRanksLeave(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	a, b := all.join(w, 0), all.join(w, 1)
	job, _, _ := a.jobInfo(w)
	var files []string
	for _, name := range []string{"one", "two", "three"} {
		file := filepath.Join(all.dir, name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		files = append(files, file)
	}
	notified := make(chan string, 8)
	all.servers[0].cfg.OnCleanup = func(files []string) { notified <- strings.Join(files, ",") }
	control := func(c *client, infos ...info) status {
		return c.status(commandJobControl, func(e *encoder) { e.procList(nil); e.infoList(infos) })
	}
	require.Equal(t, statusSuccess, control(a, attr(keyCleanUp, files[0])))
	require.Equal(t, files[0], <-notified, "others may have to remove it")
	require.Equal(t, statusSuccess, control(b, attr(keyCleanUp, files[1]+","+all.dir)))
	require.Equal(t, statusSuccess, control(a, attr(keyCleanUpDir, job["pmix.nsdir"]),
		attr("pmix.clnup.recurse", true)))
	require.Equal(t, statusNotSupported, control(a, attr(keyCleanUpDir, "/home")))
	require.Equal(t, statusNotSupported,
		control(a, attr(keyCleanUpDir, job["pmix.tmpdir"]+"/../..")))
	require.Equal(t, statusNotSupported, control(a, attr(keyCleanUp, "relative")))
	require.Equal(t, statusNotSupported, control(a, attr("pmix.jctrl.kill", true)))
	require.NoError(t, a.conn.Close())
	require.Equal(t, "left 0", all.received.next(t))
	all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
	require.NoFileExists(t, files[0])
	require.FileExists(t, files[1])
	all.servers[0].Close()
	require.NoFileExists(t, files[1])
	require.FileExists(t, files[2])
	require.DirExists(t, all.dir, "directories are not removed")
}
