package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// A lookup of several names takes the names that it finds until it has enough, including names that are read once.
func TestLookupOfSomeNames(t *testing.T) {
	s := exchangetest.New(t, 2, testneeds.Rand(t))
	errs := make(chan error, 1)
	publish := func(name string) {
		p := exchange.Name{Space: "s", Name: name, Lifetime: exchange.LifetimeFirstRead, Owner: world.Proc{World: "w"}}
		s.Nodes[0].Publish([]exchange.Name{p}, func(err error) { errs <- err })
		require.NoError(t, <-errs)
	}
	type answer struct {
		names []string
		err   error
	}
	look := func(w exchange.Query) chan answer {
		came := make(chan answer, 1)
		w.Spaces = []string{"s"}
		s.Nodes[1].Lookup(w, func(found []exchange.Name, err error) {
			a := answer{err: err}
			for _, n := range found {
				a.names = append(a.names, n.Name)
			}
			came <- a
		})
		// The head handles requests in order, so a reply to a later one shows that it has handled this one.
		s.Nodes[1].Lookup(exchange.Query{Names: []string{""}, Need: 1}, func(_ []exchange.Name, err error) { errs <- err })
		require.ErrorIs(t, <-errs, exchange.ErrNotPublished)
		return came
	}
	waits := look(exchange.Query{Names: []string{"a", "b", "c"}, Need: 2, Wait: -1})
	publish("c")
	require.Equal(t, answer{err: exchange.ErrNotPublished}, <-look(exchange.Query{Names: []string{"c"}, Need: 1}),
		"it is read")
	publish("a")
	require.Equal(t, answer{names: []string{"c", "a"}}, <-waits)
	publish("b")
	require.Equal(t, answer{[]string{"b"}, exchange.ErrNotPublished},
		<-look(exchange.Query{Names: []string{"a", "b"}, Need: 2}), "nobody else took it")
}

func TestUnpublishAll(t *testing.T) {
	s := exchangetest.New(t, 1, nil)
	errs := make(chan error, 1)
	done := func(err error) { errs <- err }
	for _, p := range []exchange.Name{
		{Space: "s", Name: "a"},
		{Space: "s", Name: "b"},
		{Space: "other", Name: "a"},
		{Space: "s", Name: "c", Owner: world.Proc{World: "w", Rank: 1}},
	} {
		s.Nodes[0].Publish([]exchange.Name{p}, done)
		require.NoError(t, <-errs)
	}
	for range 2 {
		s.Nodes[0].Unpublish([]string{"s"}, nil, world.Proc{}, done)
		require.NoError(t, <-errs)
	}
	for _, c := range []struct {
		space, name string
		want        error
	}{{"s", "a", exchange.ErrNotPublished}, {"s", "b", exchange.ErrNotPublished}, {"other", "a", nil}, {"s", "c", nil}} {
		s.Nodes[0].Lookup(exchange.Query{Spaces: []string{c.space}, Names: []string{c.name}, Need: 1},
			func(_ []exchange.Name, err error) {
				errs <- err
			})
		require.Equal(t, c.want, <-errs, c.space+" "+c.name)
	}
}
