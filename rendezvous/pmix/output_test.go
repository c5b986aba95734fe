package pmix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func pullBody(channels uint16, handler int, of ...world.Proc) func(*encoder) {
	return func(e *encoder) {
		e.procList(of)
		e.infoList(nil)
		e.group(1)
		e.uint16(channels)
		e.oneSize(handler)
	}
}

func stopBody(number int) func(*encoder) {
	return func(e *encoder) {
		e.infoList(nil)
		e.oneSize(number)
	}
}

// pulled waits until a client has received n pieces of output, and returns them: handler, source, channel, text.
func (c *client) pulled(n int) (texts []string) {
	c.t.Helper()
	for len(c.received) < n {
		f := c.call(commandQuery, func(e *encoder) { e.oneSize(0) })
		require.NoError(c.t, f.err)
	}
	for _, body := range c.received {
		d := decoder{b: body}
		source := d.oneProc()
		d.one()
		channel := d.uint16()
		d.one()
		handler := d.integer()
		require.Empty(c.t, d.infoList())
		d.one()
		texts = append(texts, fmt.Sprintf("%d: %d of %s.%d: %s", handler, channel, source.World, source.Rank, d.bytes()))
		require.NoError(c.t, d.err)
		require.False(c.t, d.more())
	}
	c.received = nil
	return texts
}

// A rank pulls the output of ranks on its own and another node, including earlier output, until it ends the pull.
func TestOutputIsPulled(t *testing.T) {
	w := spread("w", 4, 2)
	other := spread("other", 1, 1)
	all := start(t, 2, w, other)
	c := all.join(w, 0)
	write := func(rank, stream int, text string) {
		all.servers[w.Ranks[rank].Node].Output(world.Proc{World: "w", Rank: rank}, stream, []byte(text))
	}
	write(1, 1, "early\n")
	write(3, 2, "early, too\n")
	write(0, 1, "its own\n")

	body := c.call(commandPull, pullBody(6, 7, everybody(w)...))
	require.Equal(t, statusSuccess, body.oneStatus())
	body.one()
	number := int(body.integer())
	assert.ElementsMatch(t, []string{"7: 2 of w.1: early\n", "7: 4 of w.3: early, too\n"}, c.pulled(2))

	write(1, 2, "late")
	write(0, 1, "its own\n")
	all.servers[0].Output(world.Proc{World: "other"}, 1, []byte("of another world"))
	write(1, 1, "")
	assert.Equal(t, []string{"7: 4 of w.1: late", "7: 2 of w.1: "}, c.pulled(2))
	write(2, 1, "far\n")
	assert.Equal(t, []string{"7: 2 of w.2: far\n"}, c.pulled(1))

	assert.Equal(t, statusSuccess, c.status(commandStopPull, stopBody(number)))
	assert.Equal(t, statusNotFound, c.status(commandStopPull, stopBody(number)))
	write(1, 1, "for the next\n")
	require.Equal(t, statusSuccess, c.status(commandPull, pullBody(2, 8, proc("w", 1), proc("other", 0))))
	write(1, 2, "on the other channel\n")
	assert.Equal(t, []string{"8: 2 of other.0: of another world", "8: 2 of w.1: for the next\n"}, c.pulled(2))
	assert.Empty(t, c.received)
}

func TestOutputOfOthersJobsIsNotPulled(t *testing.T) {
	w := spread("w", 2, 1)
	all := start(t, 1, w)
	c := all.join(w, 0)
	assert.Equal(t, statusNotFound, c.status(commandPull, pullBody(6, 0, proc("elsewhere", world.AllRanks))))
	assert.Equal(t, statusNotFound, c.status(commandPull, pullBody(6, 0, proc("w", 2))))
	assert.Equal(t, statusNotFound, c.status(commandPull, pullBody(6, 0)))
	// A rank cannot end the pull of another.
	require.Equal(t, statusSuccess, c.status(commandPull, pullBody(6, 0, everybody(w)...)))
	assert.Equal(t, statusNotFound, all.join(w, 1).status(commandStopPull, stopBody(1)))
}

// A rank that does not read the output that it pulls loses some, with one report about the loss. Ranks that print
// never wait.
func TestUnreadOutput(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		w := spread("w", 2, hosts)
		all := start(t, hosts, w)
		c := all.join(w, 0)
		require.Equal(t, statusSuccess, c.status(commandPull, pullBody(2, 0, everybody(w)...)))
		piece := []byte(strings.Repeat("x", 64<<10))
		source := all.servers[w.Ranks[1].Node]
		said := make(chan string, 1)
		go func() { said <- all.received.next(t) }()
		for done := false; !done; {
			source.Output(world.Proc{World: "w", Rank: 1}, 1, piece)
			select {
			case text := <-said:
				want := "say 0 gorun: rank 0 reads the output of PMIx_IOF_pull too slowly: gorun dropped some of it"
				assert.Equal(t, want, text)
				done = true
			default:
			}
		}
		// After it disconnects, the server keeps no output for it.
		c.conn.Close()
	}
}

func TestOutputThatIsKeptIsBounded(t *testing.T) {
	w := spread("w", 2, 1)
	all := start(t, 1, w)
	s := all.servers[0]
	for range maxKept {
		s.Output(world.Proc{World: "w", Rank: 1}, 1, []byte("x"))
	}
	s.Output(world.Proc{World: "w", Rank: 1}, 1, make([]byte, maxKept))
	assert.LessOrEqual(t, s.outputs.bytes, maxKept)
	assert.LessOrEqual(t, len(s.outputs.kept), maxKept/outputCost)
	s.Forget("w")
	assert.Zero(t, s.outputs.bytes)
	assert.Empty(t, s.outputs.kept)
}

// Another host may deliver only the output of its own ranks, and pull only from worlds that exist.
func TestOutputOfAHostileHost(t *testing.T) {
	w := spread("w", 3, 3)
	all := start(t, 3, w)
	c := all.join(w, 0)
	require.Equal(t, statusSuccess, c.status(commandPull, pullBody(2, 0, everybody(w)...)))
	tell := func(from int, body []byte) {
		done := make(chan struct{})
		all.star.Nodes[from].Request(0, outputService, body, func([]byte, error) { close(done) })
		<-done
	}
	as := func(rank int) []byte {
		var e encoder
		e.uint64(1)
		e.proc(proc("w", rank))
		e.uint16(2)
		e.uint8(0)
		e.bytes([]byte("hello"))
		return e.b
	}
	tell(2, as(1))
	tell(2, as(7))
	tell(2, []byte("garbage"))
	tell(2, as(2))
	assert.Equal(t, []string{"0: 2 of w.2: hello"}, c.pulled(1))
	for _, body := range [][]byte{nil, []byte("garbage"), pullQuestion(1, "elsewhere"), pullQuestion(1, "w")} {
		done := make(chan struct{})
		all.star.Nodes[2].Request(1, pullService, body, func([]byte, error) { close(done) })
		<-done
	}
	all.servers[1].node.Lock()
	defer all.servers[1].node.Unlock()
	assert.Len(t, all.servers[1].outputs.pulls, 2)
}

func pullQuestion(number int, name string) []byte {
	var e encoder
	e.uint64(uint64(number))
	e.proc(proc(name, 2))
	e.uint16(6)
	e.procList([]world.Proc{proc(name, world.AllRanks)})
	return e.b
}
