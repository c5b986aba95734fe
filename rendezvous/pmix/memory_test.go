package pmix

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// Replies to earlier requests do not accumulate.
func TestUnreadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 1, 1)
		all := start(t, 1, w)
		c := all.join(w, 0)
		for range 200 {
			c.ask(commandGet, getBody(proc(w.Name, 0), "k"))
		}
		synctest.Wait() // all gets wait for the commit
		c.ask(commandCommit, func(e *encoder) { commitBody(e, scopeLocal, "k", strings.Repeat("x", 1<<20)) })
		require.Equal(t, "broken 0 it does not read its replies", all.received.next(t))
	})
}

func TestRequestsThatWaitAreBounded(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	key := strings.Repeat("x", 16<<20)
	for range maxWaitingBytes / len(key) {
		c.ask(commandGet, getBody(proc(w.Name, 1), key))
	}
	require.Equal(t, "broken 0 the pending requests exceed 134217728 bytes",
		all.received.next(t))
}

// A rank has exited even if its child holds the connection open and does not read.
func TestEndedWithAnswersUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 1, 1)
		all := start(t, 1, w)
		c := all.join(w, 0)
		c.commit(scopeLocal, "k", strings.Repeat("x", 1<<20))
		for range maxUnread >> 20 {
			c.ask(commandGet, getBody(proc(w.Name, 0), "k"))
		}
		synctest.Wait()
		all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
		require.Equal(t, "left 0", all.received.next(t))
	})
}

// The reply to an event or to text for the user follows its delivery.
func TestRepliesWaitForDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		star := exchangetest.NewStopped(2)
		t.Cleanup(star.Close)
		w := spread("gorun-1", 2, 2)
		all := startOn(t, star, w)
		c := all.join(w, 0)
		for _, ask := range []func() uint32{
			func() uint32 { return c.ask(commandNotify, notification(-1000, rangeSession)) },
			func() uint32 { return c.ask(commandLog, logBody(textInfo("pmix.log.stderr", "hello"))) },
		} {
			tag := ask()
			c.unanswered(tag)
			for synctest.Wait(); star.Step(nil); synctest.Wait() {
			}
			require.Equal(t, statusSuccess, c.wait(tag).oneStatus())
		}
	})
}

func TestEventsAreForWhomTheyAre(t *testing.T) {
	w := spread("gorun-1", 3, 3)
	all := start(t, 3, w)
	c := all.join(w, 0)
	require.Equal(t, statusSuccess, c.status(commandNotify, notification(-1000, rangeLocal)))
	require.Zero(t, all.star.Messages(), "nobody else is on its host")
	require.Equal(t, statusOutOfResource,
		c.status(commandNotify, notification(-1000, rangeSession, textInfo("k", strings.Repeat("x", maxEvent)))))
	require.Zero(t, all.star.Messages())
}

func TestCodesAreBounded(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	c := start(t, 1, w).join(w, 0)
	codes := make([]status, maxCodes)
	for i := range codes {
		codes[i] = status(-i)
	}
	require.Equal(t, statusSuccess, c.status(commandRegisterEvents, registration(codes...)))
	require.Equal(t, statusOutOfResource, c.status(commandRegisterEvents, registration(-1-maxCodes)))
}

func TestGroupsOfARank(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	self := []world.Proc{proc(w.Name, 0)}
	for n := range maxGroups {
		require.Equal(t, statusSuccess, c.status(commandGroupConstruct, writeConstruct(fmt.Sprint(n), self)))
	}
	require.Equal(t, statusOutOfResource, c.status(commandGroupConstruct, writeConstruct("more", self)))
	require.Equal(t, statusSuccess, c.status(commandGroupDestruct, func(e *encoder) { e.oneString("0"); e.infoList(nil) }))
	require.Equal(t, statusSuccess, c.status(commandGroupConstruct, writeConstruct("more", self)))
	require.NoError(t, c.conn.Close())
	require.Equal(t, "left 0", all.received.next(t))
	all.servers[0].Ended(world.Proc{World: w.Name, Rank: 0})
	require.Empty(t, all.servers[0].spaces[w.Name].member(0).groups)
}

// A rank may contribute an empty value to a group, and its peers learn that.
func TestNothingGivenToAGroup(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	c := start(t, 1, w).join(w, 0)
	d := c.call(commandGroupConstruct,
		writeConstruct("g", everybody(w), inGroup(0)[0], attr(keyGroupInfo, []info(nil))))
	require.Equal(t, statusSuccess, d.oneStatus())
	d.one()
	number := attr(keyGroupNumber, d.integer())
	require.Equal(t, statusSuccess, c.status(commandGet, getBody(proc(w.Name, 0), "pmix.grp.lclid", number)))
}

func TestTooManyKeys(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	c := start(t, 1, w).join(w, 0)
	require.Equal(t, statusOutOfResource, c.status(commandLookup, looksUp(make([]string, maxKeys+1), waitFlag)))
}

func TestInfosForOthersDependOnTheHost(t *testing.T) {
	n := newNamespace(spread("gorun-1", 2, 2), 0)
	require.NotEqual(t, n.infosForOthers(0), n.infosForOthers(-1))
}
