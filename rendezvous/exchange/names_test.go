package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// A lookup of several names takes what it finds, also what is read once, and nothing after it
// has enough.
func TestLookupOfSomeNames(t *testing.T) {
	s := exchangetest.New(t, 2, testneeds.Rand(t))
	errs := make(chan error, 1)
	publish := func(name string) {
		p := exchange.Published{Space: "s", Name: name, Keep: exchange.KeepRead, Owner: world.Proc{World: "w"}}
		exchange.Publish(s.Nodes[0], []exchange.Published{p}, func(err error) { errs <- err })
		require.NoError(t, <-errs)
	}
	type answer struct {
		names []string
		err   error
	}
	look := func(w exchange.Wanted) chan answer {
		came := make(chan answer, 1)
		w.Spaces = []string{"s"}
		exchange.LookupSome(s.Nodes[1], w, func(found []exchange.Published, err error) {
			a := answer{err: err}
			for _, n := range found {
				a.names = append(a.names, n.Name)
			}
			came <- a
		})
		// What comes later on the same way is answered after the head has this one.
		exchange.Lookup(s.Nodes[1], exchange.Wanted{}, func(_ exchange.Published, err error) { errs <- err })
		require.ErrorIs(t, <-errs, exchange.ErrNotPublished)
		return came
	}
	waits := look(exchange.Wanted{Names: []string{"a", "b", "c"}, Need: 2, Wait: -1})
	publish("c")
	require.Equal(t, answer{err: exchange.ErrNotPublished}, <-look(exchange.Wanted{Names: []string{"c"}, Need: 1}),
		"it is read")
	publish("a")
	require.Equal(t, answer{names: []string{"c", "a"}}, <-waits)
	publish("b")
	require.Equal(t, answer{[]string{"b"}, exchange.ErrNotPublished},
		<-look(exchange.Wanted{Names: []string{"a", "b"}, Need: 2}), "nobody else took it")
}

func TestUnpublishAll(t *testing.T) {
	s := exchangetest.New(t, 1, nil)
	errs := make(chan error, 1)
	done := func(err error) { errs <- err }
	for _, p := range []exchange.Published{
		{Space: "s", Name: "a"},
		{Space: "s", Name: "b"},
		{Space: "other", Name: "a"},
		{Space: "s", Name: "c", Owner: world.Proc{World: "w", Rank: 1}},
	} {
		exchange.Publish(s.Nodes[0], []exchange.Published{p}, done)
		require.NoError(t, <-errs)
	}
	for range 2 {
		exchange.Unpublish(s.Nodes[0], []string{"s"}, nil, world.Proc{}, done)
		require.NoError(t, <-errs)
	}
	for _, c := range []struct {
		space, name string
		want        error
	}{{"s", "a", exchange.ErrNotPublished}, {"s", "b", exchange.ErrNotPublished}, {"other", "a", nil}, {"s", "c", nil}} {
		exchange.Lookup(s.Nodes[0], exchange.Wanted{Spaces: []string{c.space}, Name: c.name},
			func(_ exchange.Published, err error) {
				errs <- err
			})
		require.Equal(t, c.want, <-errs, c.space+" "+c.name)
	}
}
