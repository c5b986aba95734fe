package exchange_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/exchange/exchangetest"
	"gorun/rendezvous/world"
)

// recorder is a hub that records its messages.
type recorder struct {
	hub  *exchange.Hub
	sent []exchange.Message
	to   [][]int
}

func newRecorder(nodes int) *recorder {
	r := &recorder{}
	r.hub = exchange.NewHub(nodes, func(to []int, m *exchange.Message) {
		r.sent, r.to = append(r.sent, *m), append(r.to, to)
	})
	return r
}

// errors returns the messages to nodes, except Watch.
func (r *recorder) errors() (list []string) {
	for i, m := range r.sent {
		if m.Kind != exchange.Watch {
			list = append(list, fmt.Sprint(r.to[i], " ", m.Kind, " ", m.Error))
		}
	}
	return list
}

func TestTheHubRefuses(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 5<<10))
	for want, m := range map[string]exchange.Message{
		`exchange: a fence of node 0 names nodes [1 2] of 3`:   {Kind: exchange.Enter, ID: "f", Nodes: []int{1, 2}},
		`exchange: a fence of node 0 names nodes [0 2 1] of 3`: {Kind: exchange.Enter, ID: "f", Nodes: []int{0, 2, 1}},
		`exchange: a fence of node 0 names nodes [0 3] of 3`:   {Kind: exchange.Enter, ID: "f", Nodes: []int{0, 3}},
		`exchange: a fence of node 0 names nodes [-1 0] of 3`:  {Kind: exchange.Enter, ID: "f", Nodes: []int{-1, 0}},
		`exchange: a fence of node 0 names nodes [] of 3`:      {Kind: exchange.Enter, ID: "f"},
		`at most 4096 are allowed`:                             {Kind: exchange.Enter, ID: long, Nodes: []int{0}},
		`a part in a fence of 33554433 bytes`: {
			Kind: exchange.Enter, ID: "f", Nodes: []int{0}, Blobs: [][]byte{make([]byte, exchange.MaxBlob+1)},
		},
		`exchange: node 3 does not exist`:           {Kind: exchange.Request, To: 3},
		`exchange: node -2 does not exist`:          {Kind: exchange.Request, To: -2},
		`exchange: the launcher has no service "s"`: {Kind: exchange.Request, To: exchange.Head, Service: "s"},
	} {
		r := newRecorder(3)
		r.hub.Receive(0, &m)
		require.Len(t, r.errors(), 1, want)
		assert.Contains(t, r.errors()[0], want)
		assert.Contains(t, r.errors()[0], "[0] ", "only the requester receives it")
	}
}

func TestNodesMustAgreeOnAFence(t *testing.T) {
	r := newRecorder(3)
	r.hub.Receive(0, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1}})
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1, 2}})
	text := `failed exchange: node 1 enters a fence of nodes [0 1 2], another node enters one of [0 1]`
	assert.Equal(t, []string{"[0] " + text, "[1] " + text}, r.errors())
}

// The hub refuses a node with too many fences or requests, without harm to others.
func TestOneNodeCannotGrowTheHub(t *testing.T) {
	r := newRecorder(2)
	members := []world.Proc{{World: strings.Repeat("x", exchange.MaxBlob)}}
	for i := range 2 * exchange.MaxUnderway / exchange.MaxBlob {
		m := exchange.Message{Kind: exchange.Enter, ID: fmt.Sprint(i), Nodes: []int{0, 1}, Members: members}
		r.hub.Receive(0, &m)
	}
	require.NotEmpty(t, r.errors())
	assert.Equal(t, "[0] failed exchange: too many fences of node 0 are in progress", r.errors()[0])
	_, _, kept := r.hub.Kept()
	assert.LessOrEqual(t, kept, exchange.MaxUnderway)

	r = newRecorder(2)
	for i := range exchange.MaxUnderwayCount + 1 {
		r.hub.Receive(0, &exchange.Message{Kind: exchange.Request, Number: i, To: 1})
	}
	assert.Contains(t, r.errors(), "[0] reply exchange: too many requests are in progress")
	_, questions, _ := r.hub.Kept()
	assert.Equal(t, exchange.MaxUnderwayCount, questions)
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Reply, Number: 0, From: 0, To: 1})
	r.sent, r.to = nil, nil
	r.hub.Receive(0, &exchange.Message{Kind: exchange.Request, Number: -1, To: 1})
	assert.Equal(t, []string{"[1] request "}, r.errors(), "there is room again")
}

// fill makes a node enter the maximum number of fences, without other nodes.
func (r *recorder) fill(t *testing.T, node int, first string) {
	for i := range exchange.MaxUnderwayCount {
		r.hub.Receive(node, &exchange.Message{Kind: exchange.Enter, ID: fmt.Sprint(first, i), Nodes: []int{0, 1, 2}})
	}
	fences, _, _ := r.hub.Kept()
	require.Equal(t, exchange.MaxUnderwayCount, fences)
	r.sent, r.to = nil, nil
}

// If the hub refuses one node's part, the fence fails for all its nodes, whenever they enter. They can repeat it.
func TestAFenceIsRefusedForAll(t *testing.T) {
	r := newRecorder(3)
	come := func(node int) {
		r.hub.Receive(node, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1, 2}})
	}
	r.fill(t, 0, "x")
	come(1)
	come(0)
	come(0) // again, as after an error
	come(2)
	come(1)
	r.hub.Receive(2, &exchange.Message{Kind: exchange.Withdraw, ID: "f"}) // it does not enter again
	const text = " failed exchange: too many fences of node 0 are in progress"
	require.Equal(t, []string{"[1]" + text, "[0]" + text, "[0]" + text, "[2]" + text, "[1]" + text}, r.errors())
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Withdraw, ID: "x0"})
	r.sent, r.to = nil, nil
	for node := range 3 {
		come(node)
	}
	require.Equal(t, []string{"[0 1 2] merged "}, r.errors())
}

// Nodes report a refusal by the hub as a distinct error.
func TestARefusalIsKnownAsSuch(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	got := make(chan error, 1)
	for i := range exchange.MaxUnderway/exchange.MaxBlob + 1 {
		f := exchange.Fence{ID: fmt.Sprint(i), Nodes: []int{0, 1}, Blob: make([]byte, exchange.MaxBlob)}
		s.Nodes[0].Fence(f, func(_ [][]byte, err error) { got <- err })
		deliver(s)
		if fences, _, _ := s.Hub.Kept(); fences == i {
			require.ErrorIs(t, <-got, exchange.ErrRefused)
			s.Nodes[1].Fence(exchange.Fence{ID: f.ID, Nodes: f.Nodes}, func(_ [][]byte, err error) { got <- err })
			deliver(s)
			require.ErrorIs(t, <-got, exchange.ErrRefused)
			return
		}
	}
	require.Fail(t, "the hub takes all")
}

// If a node has too many fences in progress to enter another, no node waits for it.
func TestANodeWithTooManyFences(t *testing.T) {
	r := newRecorder(3)
	r.fill(t, 0, "x")
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "before", Nodes: []int{0, 1, 2}})
	r.hub.Receive(0, &exchange.Message{Kind: exchange.Enter, ID: "y", Nodes: []int{0, 1, 2}})
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "after", Nodes: []int{0, 1, 2}})
	const text = " failed exchange: too many fences of node 0 are in progress"
	require.Equal(t, []string{"[0]" + text, "[1]" + text, "[1]" + text}, r.errors())
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "others", Nodes: []int{1, 2}})
	r.hub.Receive(2, &exchange.Message{Kind: exchange.Enter, ID: "others", Nodes: []int{1, 2}})
	require.Equal(t, "[1 2] merged ", r.errors()[len(r.errors())-1])
}

// Requests and fences have separate limits.
func TestFencesAndQuestionsHaveTheirOwnRoom(t *testing.T) {
	r := newRecorder(2)
	for i := range exchange.MaxUnderwayCount {
		r.hub.Receive(0, &exchange.Message{Kind: exchange.Request, Number: i, To: 1})
	}
	r.sent, r.to = nil, nil
	for node := range 2 {
		r.hub.Receive(node, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1}})
	}
	require.Equal(t, []string{"[0 1] merged "}, r.errors())
}

// A node that is not a member cannot end a fence.
func TestNonMemberDoesNotEndAFence(t *testing.T) {
	r := newRecorder(3)
	r.hub.Receive(0, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1}})
	r.hub.Receive(2, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1, 2}})
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1}})
	require.Equal(t, []string{
		"[2] failed exchange: node 2 enters a fence of nodes [0 1 2], another node enters one of [0 1]",
		"[0 1] merged ",
	}, r.errors())
}

// One rank cannot use up all waiting lookups.
func TestLookupsOfOneRankThatWait(t *testing.T) {
	s := exchangetest.New(t, 1, nil)
	got := make(chan error, 1)
	look := func(rank, n int, done func([]exchange.Name, error)) {
		by := world.Proc{World: "w", Rank: rank}
		w := exchange.Query{Spaces: []string{"s"}, Names: []string{fmt.Sprint(n)}, Need: 1, By: by, Wait: -1}
		s.Nodes[0].Lookup(w, done)
	}
	for n := range exchange.MaxRankWaits {
		look(0, n, func([]exchange.Name, error) { got <- nil })
	}
	look(0, -1, func(_ []exchange.Name, err error) { got <- err })
	require.ErrorIs(t, <-got, exchange.ErrTooManyWaits)
	publish := func(n int) {
		s.Nodes[0].Publish([]exchange.Name{{Space: "s", Name: fmt.Sprint(n)}}, func(error) {})
		require.NoError(t, <-got)
	}
	look(1, -2, func([]exchange.Name, error) { got <- nil })
	publish(-2)
	publish(0)
	look(0, -1, func(_ []exchange.Name, err error) { got <- err })
	publish(-1)
}

// A node cannot reply in place of another.
func TestRepliesFromOtherNodesAreIgnored(t *testing.T) {
	r := newRecorder(3)
	r.hub.Receive(0, &exchange.Message{Kind: exchange.Request, Number: 7, To: 1})
	r.hub.Receive(2, &exchange.Message{Kind: exchange.Reply, Number: 7, From: 0, To: 1})
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Reply, Number: 8, From: 0, To: 1})
	require.Len(t, r.errors(), 1)
	r.hub.Receive(1, &exchange.Message{Kind: exchange.Reply, Number: 7, From: 0, To: 1})
	assert.Equal(t, "[0] reply ", r.errors()[1])
}

// Large results are sent in pieces, so that others get their turn.
func TestBigFencesComeInPieces(t *testing.T) {
	s := exchangetest.New(t, 3, nil)
	blobs := [][]byte{make([]byte, exchange.MaxPiece+1), []byte("small"), make([]byte, exchange.MaxPiece)}
	blobs[2][exchange.MaxPiece-1] = 7
	got := make(chan [][]byte, len(blobs))
	for node, b := range blobs {
		s.Nodes[node].Fence(exchange.Fence{ID: "f", Nodes: []int{0, 1, 2}, Blob: b}, func(all [][]byte, err error) {
			got <- all
		})
	}
	for range blobs {
		require.Equal(t, blobs, <-got)
	}
	assert.Equal(t, 3+3+3*3, s.Messages(), "a part and a watch for exits for each, and three pieces for each")
}

// The names of worlds are part of the names of fences, and give access as a rank. No error may show them.
func TestErrorsNameNoWorld(t *testing.T) {
	s := exchangetest.NewStopped(2)
	defer s.Close()
	secret := world.Proc{World: "secret", Rank: 1}
	texts := []string{(&exchange.ExitedError{Missing: secret}).Error()}
	got := make(chan string, 8)
	for _, f := range []exchange.Fence{
		{ID: "pmi/secret", Nodes: []int{1}},
		{ID: "pmi/secret" + strings.Repeat("x", 1<<20), Nodes: []int{0, 1}},
		{ID: "pmi/secret", Nodes: []int{0, 1}},
		{ID: "pmi/secret", Nodes: []int{0, 1}},
	} {
		s.Nodes[0].Fence(f, func(_ [][]byte, err error) { got <- err.Error() })
	}
	s.Hub.Receive(1, &exchange.Message{Kind: exchange.Enter, ID: "pmi/secret", Nodes: []int{1, 5}})
	s.Nodes[0].Receive(&exchange.Message{Kind: exchange.Merged, ID: "pmi/secret", Last: true})
	for range 4 {
		texts = append(texts, <-got)
	}
	for _, text := range texts {
		require.NotContains(t, text, "secret")
	}
}
