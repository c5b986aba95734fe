package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// Exchange frames of another attempt are ignored.
func TestPlane(t *testing.T) {
	head, side := reach.Local()
	j := &job{agent: &Agent{link: side}, start: wire.Start{Attempt: 2}}
	require.NoError(t, j.agent.exchange(wire.Exchange{Attempt: 2}), "before there are ranks")
	j.plane = j.newPlane(1)
	j.mpi, j.agent.job = j.newMPI(), j
	answers := make(chan string, 1)
	j.plane.Request(exchange.Head, "names", []byte("?"), func(answer []byte, err error) {
		if err != nil {
			answer = []byte(err.Error())
		}
		answers <- string(answer)
	})
	f, err := head.Read()
	require.NoError(t, err)
	var sent wire.Exchange
	require.NoError(t, f.Decode(&sent))
	assert.Equal(t, wire.Exchange{Attempt: 2, Message: exchange.Message{
		Kind: exchange.Request, Number: 1, From: 1, To: exchange.Head, Service: "names", Blobs: [][]byte{[]byte("?")},
	}}, sent)
	for attempt, text := range []string{"of the first", "of the second", "of this"} {
		m := wire.Exchange{Attempt: attempt, Message: exchange.Message{
			Kind: exchange.Reply, Number: 1,
			Blobs: [][]byte{[]byte(text)},
		}}
		require.NoError(t, j.agent.exchange(m))
	}
	assert.Equal(t, "of this", <-answers)

	j.plane.Fence(exchange.Fence{ID: "f", Nodes: []int{0, 1}}, func(_ [][]byte, err error) { answers <- err.Error() })
	j.closePlane()
	assert.Equal(t, exchange.ErrClosed.Error(), <-answers)
}
