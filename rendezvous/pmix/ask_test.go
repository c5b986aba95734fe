package pmix

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// question queries one key, of a world unless that is "".
func (c *client) question(key string, qualifiers ...info) (value, status) {
	c.t.Helper()
	d := c.call(commandQuery, func(e *encoder) {
		e.oneSize(1)
		e.group(1)
		e.group(1)
		e.string(key)
		e.size(len(qualifiers))
		for _, i := range qualifiers {
			e.info(i)
		}
	})
	code := d.oneStatus()
	answers := d.infoList()
	require.NoError(c.t, d.err)
	v, _ := find(answers, key)
	return v, code
}

func TestWhatARankAsksOfItsJob(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	w.Apps[0].Dir, w.Apps[0].Argv = "/job", []string{"./prog", "-x"}
	v := spread("gorun-2", 1, 1)
	all := start(t, 2, w, v)
	ranks := all.joinAll(w)
	about := func(name string) info { return attr(keyNamespace, name) }
	table := func(key string, qualifiers ...info) []string {
		answer, code := ranks[1].question(key, qualifiers...)
		require.Equal(t, statusSuccess, code)
		rows, ok := elements(answer, typeProcInfo, func(d *decoder) string {
			p := d.proc()
			host, program := d.string(), d.string()
			return fmt.Sprintf("%s %d %s %s %d,%d", p.World, p.Rank, host, program, d.integer(), d.uint8())
		})
		require.True(t, ok)
		return rows
	}
	whole := []string{
		"gorun-1 0 host0 /job/prog 1000,6", "gorun-1 1 host0 /job/prog 1001,6",
		"gorun-1 2 host1 /job/prog 1002,6", "gorun-1 3 host1 /job/prog 1003,6",
	}
	require.Equal(t, whole, table(keyProcesses))
	require.Equal(t, whole[:2], table(keyLocalProcesses, about(w.Name)))
	require.Equal(t, whole[2:], table(keyLocalProcesses, attr(keyHostName, "host1")))
	require.Equal(t, []string{"gorun-2 0 host0 /home/me/prog 1000,5"}, table(keyProcesses, about(v.Name)))
	_, code := ranks[0].question(keyProcesses, about("gorun-3"))
	require.Equal(t, statusNotSupported, code)

	for name, worlds := range map[string]int{"": 2, v.Name: 1} {
		var of []info
		if name != "" {
			of = []info{about(name)}
		}
		answer, _ := ranks[0].question("pmix.qry.nsinfo", of...)
		list, ok := answer.infos()
		require.True(t, ok)
		require.Len(t, list, worlds)
		inner, ok := list[worlds-1].value.infos()
		require.True(t, ok)
		size, _ := find(inner, "pmix.job.size")
		require.Equal(t, "1", size.shown())
	}
	for key, text := range map[string]string{
		"pmix.qry.spawn": "pmix.host,pmix.hostfile,pmix.addhost,pmix.addhostfile,pmix.wdir,pmix.envar.set,pmix.envar.add",
		"pmix.qry.debug": "",
	} {
		answer, code := ranks[0].question(key)
		require.Equal(t, statusSuccess, code)
		require.Equal(t, text, answer.shown())
	}
}

// QUERY returns a group. Its name means its members, all of them or by index.
func TestGroupsHaveNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 4, 2)
		all := start(t, 2, w)
		ranks := all.joinAll(w)
		members := []world.Proc{proc(w.Name, 1), proc(w.Name, 2)}
		answer, _ := ranks[1].question("pmix.qry.pgrpnum")
		require.Equal(t, "0", answer.shown())
		tag := ranks[1].ask(commandGroupConstruct, writeConstruct("g", members))
		require.Equal(t, statusSuccess, ranks[2].status(commandGroupConstruct, writeConstruct("g", members)))
		require.Equal(t, statusSuccess, ranks[1].wait(tag).oneStatus())
		for key, text := range map[string]string{"pmix.qry.pgrpnum": "1", "pmix.qry.pgrp": "g"} {
			answer, _ = ranks[2].question(key)
			require.Equal(t, text, answer.shown())
		}
		answer, _ = ranks[2].question("pmix.qry.pgrpmems", attr(keyGroupID, "g"))
		list, _ := answer.procs()
		require.Equal(t, members, list)
		for _, name := range [][]world.Proc{{proc("g", world.AllRanks)}, {proc("g", 0), proc("g", 1)}} {
			tag = ranks[1].ask(commandFence, fenceBody(name))
			require.Equal(t, statusSuccess, ranks[2].status(commandFence, fenceBody(name)))
			require.Equal(t, statusSuccess, ranks[1].wait(tag).oneStatus())
		}
		require.Equal(t, statusNotFound, ranks[1].status(commandFence, fenceBody([]world.Proc{proc("g", 2)})))
		whole := []world.Proc{proc("g", world.AllRanks)}
		require.Equal(t, statusNotFound, ranks[0].status(commandFence, fenceBody(whole)), "it is not in it")
		require.Equal(t, statusTimeout, ranks[1].status(commandFence, fenceBody(whole, within(1))))
		require.Equal(t, statusBadParameter, ranks[0].status(commandGroupDestruct, func(e *encoder) {
			e.oneString("unknown")
			e.infoList(nil)
		}))
	})
}

// A rank signals ranks of its own host.
func TestSignals(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	all := start(t, 2, w)
	c := all.join(w, 0)
	send := func(number int, targets ...world.Proc) status {
		return c.status(commandJobControl, func(e *encoder) {
			e.procList(targets)
			e.infoList([]info{attr(keySignal, uint32(number))})
		})
	}
	require.Equal(t, statusSuccess, send(10, proc(w.Name, 1)))
	require.Equal(t, "signal 1 10", all.received.next(t))
	require.Equal(t, statusNoPermissions, send(10, proc(w.Name, 2)), "another host's")
	require.Equal(t, statusNoPermissions, send(10))
	require.Equal(t, statusNotFound, send(10, proc(w.Name, 4)))
	require.Equal(t, statusNotFound, send(10, proc("gorun-2", 0)), "another job's")
	require.Equal(t, statusBadParameter, send(0, proc(w.Name, 1)))
	require.Equal(t, statusBadParameter, send(lastSignal+1, proc(w.Name, 1)))
	require.Equal(t, statusSuccess, send(12, proc(w.Name, 0), proc(w.Name, 1)))
	require.Equal(t, "signal 0 12", all.received.next(t))
	require.Equal(t, "signal 1 12", all.received.next(t))
}

// A node reports only its own ranks, as complete items. The server ignores anything else.
func TestProcessesOfAHostileHost(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	all := start(t, 2, w)
	lie := func(rank, pid int) []byte {
		var e encoder
		e.uint32(uint32(rank))
		e.proc(proc(w.Name, rank))
		e.string("host1")
		e.string("/bin/sh")
		e.uint16(uint16(typeUint32))
		e.uint32(uint32(pid))
		e.uint8(processRunning)
		return e.b
	}
	all.servers[1].cfg.Exchange.Serve(processService, func(_ int, _ []byte, reply func([]byte, error)) {
		asAnother := append([]byte{0, 0, 0, 3}, lie(0, 1)[4:]...)
		whole := slices.Concat(lie(0, 1), lie(99, 1), asAnother, lie(2, 7))
		reply(append(whole, lie(3, 8)[:20]...), nil)
	})
	answer, code := all.join(w, 0).question(keyProcesses)
	require.Equal(t, statusSuccess, code)
	pids, ok := elements(answer, typeProcInfo, func(d *decoder) (pid uint64) {
		d.proc()
		d.string()
		d.string()
		pid = d.integer()
		d.uint8()
		return pid
	})
	require.True(t, ok)
	require.Equal(t, []uint64{1000, 1001, 7}, pids)
}
