package join

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// user seals for processes of the same user name. As with MUNGE on one host, no text can be opened twice.
type user struct {
	name string
	dead error
}

func (u user) Seal(_ context.Context, text []byte) ([]byte, error) {
	return append([]byte(u.name+"|"), text...), u.dead
}

func (u user) Open(_ context.Context, sealed []byte) ([]byte, error) {
	text, ok := bytes.CutPrefix(sealed, []byte(u.name+"|"))
	if !ok {
		return nil, errors.New("unauthorized credential")
	}
	return text, u.dead
}

// authenticated returns the settings of a node with a Sealer.
func authenticated(port, n, rank int, by Sealer) Config {
	cfg := settings(port, n, rank, nil)
	cfg.Sealer = by
	return cfg
}

func TestNodesOfOneUserHaveASecret(t *testing.T) {
	alice := user{name: "alice"}
	h := listenAmong(t, authenticated(0, 3, 0, alice))
	require.False(t, h.IsInsecure())
	nodes := []*coming{
		come(t, t.Context(), authenticated(port(h), 3, 1, alice)),
		come(t, t.Context(), authenticated(port(h), 3, 2, alice)),
	}
	members := wait(t, h)
	for i, n := range nodes {
		<-n.done
		require.NoError(t, n.err)
		require.Empty(t, members[i].Hello.Nonce)
	}
}

func TestWhoIsAuthenticated(t *testing.T) {
	alice, bob := user{name: "alice"}, user{name: "bob"}
	dead := user{"alice", errors.New("did you start munged?")}
	for name, c := range map[string]struct {
		head, node Sealer
		says       string
	}{
		"another user":          {alice, bob, "MUNGE did not authenticate the process at that port"},
		"nobody for the node":   {alice, nil, "node 0 uses MUNGE, which this node lacks"},
		"nobody for node 0":     {nil, alice, "it uses MUNGE, which node 0 lacks"},
		"node 0's is dead":      {dead, alice, "it uses MUNGE, which node 0 lacks"},
		"the node's is dead":    {alice, dead, "did you start munged?"},
		"somebody else's words": {forger{alice}, alice, "belongs to another node"},
	} {
		t.Run(name, func(t *testing.T) {
			h := listenAmong(t, authenticated(0, 2, 0, c.head))
			node := come(t, t.Context(), authenticated(port(h), 2, 1, c.node))
			<-node.done
			var refused *RefusedError
			require.ErrorAs(t, node.err, &refused)
			require.Contains(t, refused.Why, c.says)
		})
	}
}

// forger reuses a text that was sealed elsewhere.
type forger struct{ user }

func (f forger) Seal(ctx context.Context, text []byte) ([]byte, error) {
	var s sealedSecret
	if json.Unmarshal(text, &s) == nil {
		s.Nonce[0]++
		text, _ = json.Marshal(s)
	}
	return f.user.Seal(ctx, text)
}

// A given token takes precedence over a sealed identity.
func TestTokenBesideAVoucher(t *testing.T) {
	head, node := authenticated(0, 2, 0, user{name: "alice"}), authenticated(0, 2, 1, user{name: "alice"})
	head.Secret, node.Secret = secret, secret
	h := listenAmong(t, head)
	node.Port = port(h)
	meet(t, h, node)
	without := come(t, t.Context(), authenticated(port(h), 2, 1, user{name: "alice"}))
	<-without.done
	require.ErrorContains(t, without.err, "node 0 requires a token")
}

// Nodes skip another job's node 0 before they seal anything.
func TestAuthenticatedNodesSkipAnotherJob(t *testing.T) {
	alice := user{name: "alice"}
	other := authenticated(0, 2, 0, alice)
	other.Self.ID = "another"
	first := port(listenAmong(t, other))
	head := authenticated(first, 2, 0, alice)
	_, free := occupied(t)
	head.Ports = []int{free}
	h := listenAmong(t, head)
	cfg := authenticated(first, 2, 1, alice)
	cfg.Ports = head.Ports
	meet(t, h, cfg)
}

// The peer that seals the answer may be slow or never send it. The launcher survives both, and an incomplete request
// costs one descriptor for a while.
func TestQuestionsThatEndEarly(t *testing.T) {
	cfg := authenticated(0, 2, 0, user{name: "alice"})
	cfg.patience = 50 * time.Millisecond
	h := listenAmong(t, cfg)
	for _, text := range []string{
		"gorun", "gorun\x02\xff\xff\xff\xff", "gorun\x02\x02\x00\x00\x00{}",
		"gorun\x02\x05\x00\x00\x00{{{{{",
	} {
		c, err := net.Dial("tcp", h.Addr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
		_, _ = bytes.NewBuffer(nil).ReadFrom(c)
		c.Close()
	}
	meet(t, h, authenticated(port(h), 2, 1, user{name: "alice"}))
}

// A node that has no secret yet learns that it has another version.
func TestQuestionOfAnotherVersion(t *testing.T) {
	h := listenAmong(t, authenticated(0, 2, 0, user{name: "alice"}))
	c := raw(t, h)
	_, err := c.Write([]byte("gorun\x03\x02\x00\x00\x00{}"))
	require.NoError(t, err)
	require.Contains(t, string(closed(t, c)), "uses version 3 of the join protocol, node 0 uses 2")
}
