package join

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Sealer is a service by which processes of one user, on all hosts of a site, are told
// from everybody else's: MUNGE, where Slurm is. Nodes without a token then have one all
// the same, which node 0 makes:
//
//	node                                          node 0
//	  | -- hello{id, nodes, …, nonce} ----------> |
//	  | <-- welcome{sealed: id, nonce, secret} -- |
//
// after which the connection ends and the node comes with the secret, as with a token.
// Anybody may ask, and only this user's processes can open the answer; that somebody else
// listens there is known since what he seals does not open, or has another nonce.
type Sealer interface {
	// Seal returns what only this user's processes can open.
	Seal(ctx context.Context, text []byte) ([]byte, error)
	// Open returns what a process of this user sealed, and an error for all else.
	Open(ctx context.Context, sealed []byte) ([]byte, error)
}

// nonceSize is that of a nonce in bytes.
const nonceSize = 32

// sealedSecret is what node 0 seals.
type sealedSecret struct {
	ID     string `json:"id"`
	Nonce  []byte `json:"nonce"`
	Secret []byte `json:"secret"`
}

// maxSeals bounds how many secrets are sealed at the same time: each is a process.
const maxSeals = 4

// vouch has the voucher give the nodes a secret, where it can and they have none.
func (h *Head) vouch(ctx context.Context) error {
	if h.cfg.Secret != nil || h.cfg.Sealer == nil {
		h.cfg.Sealer = nil
		return nil
	}
	if _, err := h.cfg.Sealer.Seal(ctx, nil); err != nil {
		h.cfg.Sealer, h.cfg.NoSealer = nil, "nobody vouches for nodes here: "+err.Error()
		return nil
	}
	h.seals = make(chan struct{}, maxSeals)
	h.cfg.Secret = make([]byte, minSecret)
	_, err := rand.Read(h.cfg.Secret)
	return err
}

// IsInsecure reports whether nodes are known by what they say alone: there is no secret, and
// they may be on other hosts or other users'.
func (h *Head) IsInsecure() bool { return h.cfg.isWeak() }

// giveSecret answers a node that has no secret yet.
func (h *Head) giveSecret(g *guest, first []byte) {
	hello, err := readHello(&rewound{g.TCPConn, first})
	if err != nil {
		h.told.node("a node at %v was refused: %v", g.peer.Addr(), err)
		g.Close()
		return
	}
	answer := h.secretFor(&hello)
	if answer.Refusal != "" {
		h.told.node("the node %s at %v was refused: %s", hello.Name(), g.peer.Addr(), answer.Refusal)
	}
	h.dismiss(g, g, answer)
}

// secretFor is the answer to a node that has no secret.
func (h *Head) secretFor(hello *Hello) *Welcome {
	switch {
	case hello.ID != h.cfg.Self.ID:
		return &Welcome{Other: true, Refusal: fmt.Sprintf("it belongs to job %q, node 0 to job %q (--rdzv-id)", hello.ID,
			h.cfg.Self.ID)}
	case len(hello.Nonce) != nonceSize:
		return &Welcome{Refusal: "MUNGE vouches for node 0, and does not answer on this node: give all nodes a token " +
			"(--token-file, GORUN_TOKEN)"}
	}
	// #nosec G117 -- MUNGE seals it
	text, err := json.Marshal(sealedSecret{ID: hello.ID, Nonce: hello.Nonce, Secret: h.cfg.Secret})
	if err != nil {
		return &Welcome{Refusal: err.Error()}
	}
	ctx, cancel := context.WithTimeout(h.open, h.cfg.patience) // who closes the head does not wait for MUNGE
	defer cancel()
	select {
	case h.seals <- struct{}{}:
		defer func() { <-h.seals }()
	case <-ctx.Done():
		return &Welcome{Refusal: "node 0 is busy, or has ended", Again: true}
	}
	sealed, err := h.cfg.Sealer.Seal(ctx, text)
	if err != nil {
		return &Welcome{Refusal: "MUNGE does not answer at node 0: " + err.Error(), Again: true}
	}
	return &Welcome{Sealed: sealed}
}

// keys are those with which a node proves that it belongs to the job: of the token, or of
// the secret that node 0 gives; nil where there is none.
func (d *dialer) keys(ctx context.Context, port int) (*tls.Config, error) {
	if d.tls != nil || d.cfg.Sealer == nil {
		return d.tls, nil
	}
	secret, err := d.askSecret(ctx, port)
	if err != nil {
		return nil, err
	}
	return tlsFor(secret, forNode, forHead)
}

// askSecret asks who listens at a port for the secret.
func (d *dialer) askSecret(ctx context.Context, port int) ([]byte, error) {
	c, err := d.dial(ctx, "tcp", d.cfg.at(port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(dialWithin))
	hello := d.cfg.Self
	hello.Nonce = make([]byte, nonceSize)
	if _, err := rand.Read(hello.Nonce); err != nil {
		return nil, err
	}
	if err := writeMessage(c, &hello); err != nil {
		return nil, err
	}
	w, err := d.readWelcome(c, port)
	if err != nil {
		return nil, err
	}
	return d.openSecret(ctx, port, &hello, w)
}

// openSecret returns the secret of node 0's answer, if node 0 is this user's.
func (d *dialer) openSecret(ctx context.Context, port int, hello *Hello, w *Welcome) ([]byte, error) {
	text, err := d.cfg.Sealer.Open(ctx, w.Sealed)
	if err != nil {
		return nil, d.stranger(port, "MUNGE does not vouch for who listens there: "+err.Error())
	}
	var s sealedSecret
	if err := json.Unmarshal(text, &s); err != nil || s.ID != hello.ID || string(s.Nonce) != string(hello.Nonce) ||
		len(s.Secret) < minSecret {
		return nil, d.stranger(port, "what it sealed is meant for somebody else")
	}
	return s.Secret, nil
}

// readWelcome reads node 0's answer; a refusal is an error.
func (d *dialer) readWelcome(c net.Conn, port int) (*Welcome, error) {
	var (
		w     Welcome
		other *versionError
	)
	err := readMessage(c, &w)
	switch {
	case errors.As(err, &other):
		return nil, d.stranger(port, err.Error())
	case tokenTrouble(err): // node 0 reads our key after its own handshake is done
		return nil, d.stranger(port, "its token is not that of this node (--token-file, GORUN_TOKEN)")
	case err != nil:
		return nil, err
	case w.Refusal != "" && w.Again:
		return nil, errors.New(w.Refusal)
	case w.Refusal != "":
		refused := d.refused(port, w.Host, w.Refusal)
		refused.stranger, refused.started = w.Other, w.Started
		return nil, refused
	}
	return &w, nil
}
