package exchange_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// fenced is the result of a fence at a node.
type fenced struct {
	node  int
	blobs []string
	err   error
}

// enterAll makes nodes enter a fence, and returns the results.
func enterAll(planes []*exchange.Node, nodes []int, f exchange.Fence) <-chan fenced {
	got := make(chan fenced, len(nodes))
	f.Nodes = nodes
	for _, node := range nodes {
		f.Blob = fmt.Appendf(nil, "%s/%d", f.ID, node)
		planes[node].Fence(f, func(blobs [][]byte, err error) {
			var list []string
			for _, b := range blobs {
				list = append(list, string(b))
			}
			got <- fenced{node, list, err}
		})
	}
	return got
}

func TestFence(t *testing.T) {
	s := exchangetest.New(t, 4, testneeds.Rand(t))
	all := enterAll(s.Nodes, []int{0, 1, 2, 3}, exchange.Fence{ID: "a"})
	some := enterAll(s.Nodes, []int{1, 3}, exchange.Fence{ID: "b"})
	for range 4 {
		got := <-all
		require.NoError(t, got.err)
		assert.Equal(t, []string{"a/0", "a/1", "a/2", "a/3"}, got.blobs)
	}
	for range 2 {
		got := <-some
		require.NoError(t, got.err)
		assert.Equal(t, []string{"b/1", "b/3"}, got.blobs)
	}
}

func TestWhatConcernsOneNodeStaysThere(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	n := s.Nodes[1]
	n.Serve("echo", func(from int, body []byte, reply func([]byte, error)) { reply(append(body, byte('0'+from)), nil) })
	n.RankExited(world.Proc{World: "w", Rank: 1})
	answers := make(chan string, 1)
	n.Request(1, "echo", []byte("x"), func(answer []byte, err error) { answers <- fmt.Sprint(string(answer), err) })
	got := <-enterAll(s.Nodes, []int{1}, exchange.Fence{ID: "a", Members: []world.Proc{{World: "w", Rank: 1}}})
	assert.Equal(t, fenced{1, []string{"a/1"}, nil}, got)
	assert.Equal(t, "x1<nil>", <-answers)
	assert.Zero(t, s.Messages())
}

func TestFenceWithAnExitedMember(t *testing.T) {
	left := world.Proc{World: "w", Rank: 5}
	for name, members := range map[string][]world.Proc{
		"named": {{World: "w", Rank: 1}, left},
		"all":   {{World: "w", Rank: world.AllRanks}},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				s := exchangetest.New(t, 3, testneeds.Rand(t))
				if when == "before" {
					s.Nodes[2].RankExited(left)
				}
				done := make(chan error, 2)
				for node := range 2 {
					s.Nodes[node].Fence(exchange.Fence{ID: "f", Nodes: []int{0, 1, 2}, Members: members}, func(_ [][]byte, err error) {
						done <- err
					})
				}
				if when == "after" {
					s.Nodes[2].RankExited(left)
				}
				for range 2 {
					var missing *exchange.ExitedError
					require.ErrorAs(t, <-done, &missing)
					assert.Equal(t, left, missing.Missing)
				}
			})
		}
	}
}

// A rank that exits after it has entered delays no other.
func TestExitAfterEntering(t *testing.T) {
	s := exchangetest.New(t, 2, testneeds.Rand(t))
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1}, Members: []world.Proc{{World: "w", Rank: world.AllRanks}}}
	done := make(chan error, 2)
	s.Nodes[1].Fence(f, func(_ [][]byte, err error) { done <- err })
	s.Nodes[1].RankExited(world.Proc{World: "w", Rank: 1})
	s.Nodes[0].Fence(f, func(_ [][]byte, err error) { done <- err })
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func TestLostNode(t *testing.T) {
	s := exchangetest.New(t, 3, nil)
	done := make(chan error, 1)
	s.Nodes[0].Request(2, "never", nil, func(_ []byte, err error) { done <- err })
	require.ErrorContains(t, <-done, `node 2 has no service "never"`)
	s.Nodes[2].Serve("never", func(int, []byte, func([]byte, error)) {})
	s.Nodes[0].Request(2, "never", nil, func(_ []byte, err error) { done <- err })
	fenced := enterAll(s.Nodes, []int{0, 1}, exchange.Fence{ID: "unhurt"})
	for range 2 {
		require.NoError(t, (<-fenced).err)
	}
	lost := make(chan error, 2)
	for node := range 2 {
		s.Nodes[node].Fence(exchange.Fence{ID: "f", Nodes: []int{0, 1, 2}}, func(_ [][]byte, err error) { lost <- err })
	}
	s.Lose(2)
	isLost := func(err error) {
		t.Helper()
		require.EqualError(t, err, "node 2 is lost")
		require.ErrorIs(t, err, exchange.ErrNodeLost)
	}
	isLost(<-done)
	for range 2 {
		isLost(<-lost)
	}
	s.Nodes[0].Request(2, "never", nil, func(_ []byte, err error) { done <- err })
	isLost(<-done)
	s.Hub.Request(2, "never", nil, func(_ []byte, err error) { done <- err })
	isLost(<-done)
	s.Nodes[1].Fence(exchange.Fence{ID: "later", Nodes: []int{1, 2}}, func(_ [][]byte, err error) { lost <- err })
	isLost(<-lost)
}

// If a node exits after its ranks, fences report a missing rank, and requests fail.
func TestExitedNode(t *testing.T) {
	s := exchangetest.New(t, 3, testneeds.Rand(t))
	gone := world.Proc{World: "w", Rank: 5}
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1, 2}, Members: []world.Proc{{World: "w", Rank: world.AllRanks}}}
	fenced, asked := make(chan error, 2), make(chan error, 1)
	isLeft := func() {
		t.Helper()
		var left *exchange.ExitedError
		require.ErrorAs(t, <-fenced, &left)
		require.Equal(t, gone, left.Missing)
	}
	received := make(chan struct{})
	s.Nodes[2].Serve("never", func(int, []byte, func([]byte, error)) { close(received) })
	s.Nodes[1].Request(2, "never", nil, func(_ []byte, err error) { asked <- err })
	<-received
	s.Nodes[0].Fence(f, func(_ [][]byte, err error) { fenced <- err })
	s.Cut(2)
	s.Hub.NodeExited(2, []world.Proc{gone})
	isLeft()
	require.ErrorIs(t, <-asked, exchange.ErrNodeLost)
	s.Hub.NodeLost(2)
	s.Nodes[1].Fence(f, func(_ [][]byte, err error) { fenced <- err })
	isLeft()
	s.Nodes[1].Request(2, "never", nil, func(_ []byte, err error) { asked <- err })
	require.EqualError(t, <-asked, "all ranks of node 2 have exited")
}

// A node replies even after its job has ended.
func TestAClosedNodeAnswers(t *testing.T) {
	s := exchangetest.New(t, 2, nil)
	s.Nodes[1].Serve("s", func(_ int, _ []byte, reply func([]byte, error)) { reply(nil, nil) })
	s.Nodes[1].Close(nil)
	asked := make(chan error, 1)
	s.Nodes[0].Request(1, "s", nil, func(_ []byte, err error) { asked <- err })
	require.EqualError(t, <-asked, exchange.ErrClosed.Error())
}

// Several reports about the exit of a rank count as one exit.
func TestARankExitsOnce(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	received := 0
	s.Hub.OnExit(func(world.Proc) { received++ })
	p := world.Proc{World: "w", Rank: 1}
	for range 3 {
		s.Hub.Receive(1, &exchange.Message{Kind: exchange.Exited, Members: []world.Proc{p, p}})
	}
	s.Hub.NodeExited(1, []world.Proc{p, {World: "w", Rank: 2}})
	require.Equal(t, 2, received)
	require.Equal(t, 2, s.Hub.NumExited(1))
	s.Hub.Receive(0, &exchange.Message{Kind: exchange.Exited, Members: []world.Proc{p}})
	require.Equal(t, 1, s.Hub.NumExited(1))
	require.Equal(t, 1, s.Hub.NumExited(0))
}

func TestQuestions(t *testing.T) {
	s := exchangetest.New(t, 3, testneeds.Rand(t))
	for _, n := range s.Nodes {
		n.Serve("who", func(from int, body []byte, reply func([]byte, error)) {
			if len(body) == 0 {
				reply(nil, errors.New("an empty question"))
			}
			reply(fmt.Appendf(nil, "%d asked %d: %s", from, n.Number(), body), nil)
		})
	}
	s.Hub.Serve("who", func(from int, body []byte, reply func([]byte, error)) {
		reply(fmt.Appendf(nil, "%d asked the head: %s", from, body), nil)
	})
	answers := make(chan string, 1)
	take := func(answer []byte, err error) { answers <- fmt.Sprint(string(answer), err) }
	s.Nodes[0].Request(2, "who", []byte("x"), take)
	assert.Equal(t, "0 asked 2: x<nil>", <-answers)
	s.Nodes[0].Request(2, "who", nil, take)
	assert.Equal(t, "an empty question", <-answers)
	s.Nodes[1].Request(exchange.Head, "who", []byte("y"), take)
	assert.Equal(t, "1 asked the head: y<nil>", <-answers)
	s.Nodes[1].Request(exchange.Head, "what", nil, take)
	assert.Contains(t, <-answers, `the launcher has no service "what"`)
	s.Nodes[1].Request(7, "who", nil, take)
	assert.Contains(t, <-answers, "node 7 does not exist")
	s.Hub.Request(1, "who", []byte("z"), take)
	assert.Equal(t, "-1 asked 1: z<nil>", <-answers)
}

func TestClosingFailsWhatIsUnderWay(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	done := make(chan error, 4)
	take := func(err error) { done <- err }
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1}}
	for range 2 {
		s.Nodes[0].Fence(f, func(_ [][]byte, err error) { take(err) })
		s.Nodes[0].Request(1, "s", nil, func(_ []byte, err error) { take(err) })
		s.Nodes[0].Close(nil)
	}
	for range 4 {
		require.ErrorIs(t, <-done, exchange.ErrClosed)
	}
}

func TestNames(t *testing.T) {
	s := exchangetest.New(t, 2, testneeds.Rand(t))
	owner := world.Proc{World: "w", Rank: 3}
	errs := make(chan error, 1)
	done := func(err error) { errs <- err }
	name := exchange.Name{Space: "pmi", Name: "ocean", Value: []byte("port\x00\xff"), Owner: owner}
	s.Nodes[0].Publish([]exchange.Name{name}, done)
	require.NoError(t, <-errs)
	s.Nodes[1].Publish([]exchange.Name{name}, done)
	require.ErrorIs(t, <-errs, exchange.ErrPublished)

	found := make(chan []exchange.Name, 1)
	look := func(node int, w exchange.Query) ([]exchange.Name, error) {
		s.Nodes[node].Lookup(w, func(n []exchange.Name, err error) { found <- n; errs <- err })
		return <-found, <-errs
	}
	got, err := look(1, exchange.Query{Spaces: []string{"pmix", "pmi"}, Names: []string{"ocean"}, Need: 1})
	require.NoError(t, err)
	assert.Equal(t, []exchange.Name{name}, got)
	_, err = look(1, exchange.Query{Spaces: []string{"pmix"}, Names: []string{"ocean"}, Need: 1})
	require.ErrorIs(t, err, exchange.ErrNotPublished)
	_, err = look(1, exchange.Query{Spaces: []string{"pmix"}, Names: []string{"ocean"}, Need: 1, Wait: time.Millisecond})
	require.ErrorIs(t, err, exchange.ErrNotPublished)

	s.Nodes[1].Unpublish([]string{"pmi"}, []string{"ocean"}, world.Proc{World: "w", Rank: 4}, done)
	require.ErrorIs(t, <-errs, exchange.ErrNotOwner)
	s.Nodes[1].Unpublish([]string{"pmi"}, []string{"ocean"}, owner, done)
	require.NoError(t, <-errs)
	s.Nodes[1].Unpublish([]string{"pmi"}, []string{"ocean"}, world.Proc{}, done)
	require.ErrorIs(t, <-errs, exchange.ErrNotPublished)
}

func TestLookupWaits(t *testing.T) {
	s := exchangetest.New(t, 2, testneeds.Rand(t))
	found := make(chan error, 2)
	for node := range 2 {
		by := world.Proc{World: "w", Rank: node}
		w := exchange.Query{Spaces: []string{"pmix"}, Names: []string{"n"}, Need: 1, By: by, Wait: -1}
		s.Nodes[node].Lookup(w, func(_ []exchange.Name, err error) { found <- err })
	}
	s.Nodes[1].RankExited(world.Proc{World: "w", Rank: 1})
	require.ErrorIs(t, <-found, exchange.ErrNotPublished, "waits for an exited rank end")
	published := make(chan error, 1)
	s.Nodes[1].Publish([]exchange.Name{{Space: "pmix", Name: "n"}}, func(err error) { published <- err })
	require.NoError(t, <-published)
	require.NoError(t, <-found)
}

func TestHowLongNamesAreKept(t *testing.T) {
	s := exchangetest.New(t, 1, nil)
	n := s.Nodes[0]
	errs := make(chan error, 1)
	publish := func(name string, keep exchange.Lifetime) {
		p := exchange.Name{Space: "s", Name: name, Lifetime: keep, Owner: world.Proc{World: "w"}, WorldSize: 2}
		n.Publish([]exchange.Name{p}, func(err error) { errs <- err })
		require.NoError(t, <-errs)
	}
	is := func(name string) bool {
		n.Lookup(exchange.Query{Spaces: []string{"s"}, Names: []string{name}, Need: 1}, func(_ []exchange.Name, err error) {
			errs <- err
		})
		return <-errs == nil
	}
	publish("read", exchange.LifetimeFirstRead)
	assert.True(t, is("read"))
	assert.False(t, is("read"))
	publish("job", exchange.LifetimeJob)
	publish("world", exchange.LifetimeWorld)
	publish("owner", exchange.LifetimeOwner)
	assert.True(t, is("owner"))
	n.RankExited(world.Proc{World: "w", Rank: 0})
	assert.False(t, is("owner"))
	assert.True(t, is("world"))
	n.RankExited(world.Proc{World: "w", Rank: 1})
	assert.False(t, is("world"))
	assert.True(t, is("job"))
}

// A fence that one node withdraws from fails for all nodes that have entered. Its name can be used again.
func TestGiveUp(t *testing.T) {
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1, 2}}
	for name, by := range map[string]int{"who has come": 0, "who has not": 2} {
		t.Run(name, func(t *testing.T) {
			s := exchangetest.NewStopped(3)
			defer s.Close()
			got := make(chan error, 3)
			come := func(node int) { s.Nodes[node].Fence(f, func(_ [][]byte, err error) { got <- err }) }
			come(0)
			come(1)
			deliver(s)
			s.Nodes[by].Withdraw(f, by == 0)
			deliver(s)
			require.ErrorIs(t, <-got, exchange.ErrWithdrawn)
			require.ErrorIs(t, <-got, exchange.ErrWithdrawn)
			for node := range 3 {
				come(node)
			}
			deliver(s)
			for range 3 {
				require.NoError(t, <-got)
			}
		})
	}
}

// A node that withdraws from a completed fence does not end the next one.
func TestGiveUpTooLate(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1}}
	got := make(chan error, 4)
	come := func(node int) { s.Nodes[node].Fence(f, func(_ [][]byte, err error) { got <- err }) }
	come(0)
	come(1)
	for range 4 { // both have entered, then node 0 gets the result
		require.True(t, s.Step(nil))
	}
	require.NoError(t, <-got)
	come(0)
	s.Step(nil)
	s.Nodes[1].Withdraw(f, true)
	deliver(s)
	require.NoError(t, <-got, "node 1 learns that it was complete")
	come(1)
	deliver(s)
	require.NoError(t, <-got)
}

func deliver(s *exchangetest.Star) {
	for s.Step(nil) {
	}
}

// Nodes may withdraw from a fence at the same time, even nodes that have not entered. That ends one fence, but not
// the next one of the same name that others have entered by then.
func TestGiveUpAtTheSameTime(t *testing.T) {
	f := exchange.Fence{ID: "f", Nodes: []int{0, 1}}
	for name, first := range map[string]int{"who has come is first": 0, "who has not": 1} {
		t.Run(name, func(t *testing.T) {
			s := exchangetest.NewStopped(2)
			defer s.Close()
			got := make(chan error, 4)
			come := func(node int) { s.Nodes[node].Fence(f, func(_ [][]byte, err error) { got <- err }) }
			come(0)
			deliver(s)
			s.Nodes[first].Withdraw(f, first == 0)
			deliver(s)
			require.ErrorIs(t, <-got, exchange.ErrWithdrawn)
			come(first)
			deliver(s)
			s.Nodes[1-first].Withdraw(f, first == 1)
			deliver(s)
			come(1 - first)
			deliver(s)
			require.NoError(t, <-got)
			require.NoError(t, <-got)
			fences, _, bytes := s.Hub.Kept()
			require.Zero(t, fences)
			require.Zero(t, bytes, "of what was given up")
		})
	}
}
