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

// Sealer seals data for processes of the same user on all hosts of a site, as MUNGE does. With it, node 0 gives its
// secret to nodes without a token:
//
//	node                                          node 0
//	  | -- hello{id, nodes, …, nonce} ----------> |
//	  | <-- welcome{sealed: id, nonce, secret} -- |
//
// The connection then ends, and the node connects again with the secret, as with a token. Anybody may ask, but only
// processes of this user can open the answer. A false node 0 is detected, as its answer does not open or has another
// nonce.
type Sealer interface {
	// Seal returns what only processes of this user can open.
	Seal(ctx context.Context, text []byte) ([]byte, error)
	// Open returns the content if a process of this user sealed it.
	Open(ctx context.Context, sealed []byte) ([]byte, error)
}

const nonceSize = 32 // bytes

// sealedSecret is the content that node 0 seals.
type sealedSecret struct {
	ID     string `json:"id"`
	Nonce  []byte `json:"nonce"`
	Secret []byte `json:"secret"`
}

// maxSeals limits concurrent calls of Seal, each of which runs a process.
const maxSeals = 4

// makeSecret makes a secret that the sealer distributes, if nodes have none and the sealer works.
func (h *Head) makeSecret(ctx context.Context) error {
	if h.cfg.Secret != nil || h.cfg.Sealer == nil {
		h.cfg.Sealer = nil
		return nil
	}
	if _, err := h.cfg.Sealer.Seal(ctx, nil); err != nil {
		h.cfg.Sealer, h.cfg.NoSealer = nil, "MUNGE is not available: "+err.Error()
		return nil
	}
	h.seals = make(chan struct{}, maxSeals)
	h.cfg.Secret = make([]byte, minSecret)
	_, err := rand.Read(h.cfg.Secret)
	return err
}

// IsInsecure reports whether nodes prove nothing: there is no secret, and they may be on other hosts or other users'.
func (h *Head) IsInsecure() bool { return h.cfg.isInsecure() }

// sendSecret answers a node that has no secret yet.
func (h *Head) sendSecret(c *inbound, first []byte) {
	hello, err := readHello(&rewound{c.TCPConn, first})
	if err != nil {
		h.nodeNotices.add("refused a node at %v: %v", c.peer.Addr(), err)
		c.Close()
		return
	}
	answer := h.secretFor(&hello)
	if answer.Refusal != "" {
		h.nodeNotices.add("refused node %s at %v: %s", hello.Name(), c.peer.Addr(), answer.Refusal)
	}
	h.answer(c, c, answer)
}

func (h *Head) secretFor(hello *Hello) *Welcome {
	switch {
	case hello.ID != h.cfg.Self.ID:
		return h.refuseJob(hello)
	case len(hello.Nonce) != nonceSize:
		return &Welcome{Refusal: "node 0 uses MUNGE, which this node lacks: give all nodes a token (--token-file, " +
			"GORUN_TOKEN)"}
	}
	// #nosec G117 -- MUNGE seals it
	text, err := json.Marshal(sealedSecret{ID: hello.ID, Nonce: hello.Nonce, Secret: h.cfg.Secret})
	if err != nil {
		return &Welcome{Refusal: err.Error()}
	}
	ctx, cancel := context.WithTimeout(h.open, h.cfg.patience) // Close does not wait for MUNGE
	defer cancel()
	select {
	case h.seals <- struct{}{}:
		defer func() { <-h.seals }()
	case <-ctx.Done():
		return &Welcome{Refusal: "node 0 is busy, or has ended", Retry: true}
	}
	sealed, err := h.cfg.Sealer.Seal(ctx, text)
	if err != nil {
		return &Welcome{Refusal: "MUNGE failed on node 0: " + err.Error(), Retry: true}
	}
	return &Welcome{Sealed: sealed}
}

// refuseJob refuses a node of another job.
func (h *Head) refuseJob(hello *Hello) *Welcome {
	return &Welcome{
		OtherJob: true,
		Refusal:  fmt.Sprintf("it belongs to job %q, node 0 to job %q (--rdzv-id)", hello.ID, h.cfg.Self.ID),
	}
}

// tlsConfig returns the configuration with the token's keys, or those of the secret that node 0 distributes; nil
// without either.
func (d *dialer) tlsConfig(ctx context.Context, port int) (*tls.Config, error) {
	if d.tls != nil || d.cfg.Sealer == nil {
		return d.tls, nil
	}
	secret, err := d.requestSecret(ctx, port)
	if err != nil {
		return nil, err
	}
	return tlsConfig(secret, roleNode, roleHead)
}

// requestSecret requests the secret from node 0.
func (d *dialer) requestSecret(ctx context.Context, port int) ([]byte, error) {
	c, err := d.dial(ctx, "tcp", d.cfg.addrAt(port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(dialTimeout))
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

// openSecret opens the secret in node 0's answer, and checks that it answers this hello.
func (d *dialer) openSecret(ctx context.Context, port int, hello *Hello, w *Welcome) ([]byte, error) {
	text, err := d.cfg.Sealer.Open(ctx, w.Sealed)
	if err != nil {
		return nil, d.refusedByOther(port, "MUNGE did not authenticate the process at that port: "+err.Error())
	}
	var s sealedSecret
	if err := json.Unmarshal(text, &s); err != nil || s.ID != hello.ID || string(s.Nonce) != string(hello.Nonce) ||
		len(s.Secret) < minSecret {
		return nil, d.refusedByOther(port, "its sealed secret belongs to another node")
	}
	return s.Secret, nil
}

// readWelcome reads node 0's answer; a refusal is an error.
func (d *dialer) readWelcome(c net.Conn, port int) (*Welcome, error) {
	var w Welcome
	err := readMessage(c, &w)
	_, otherVersion := errors.AsType[*versionError](err)
	switch {
	case otherVersion:
		return nil, d.refusedByOther(port, err.Error())
	case isTokenMismatch(err): // node 0 verifies our key after our side of the handshake is done
		return nil, d.refusedByOther(port, otherToken)
	case err != nil:
		return nil, err
	case w.Refusal != "" && w.Retry:
		return nil, errors.New(w.Refusal)
	case w.Refusal != "":
		refused := d.refused(port, w.Host, w.Refusal)
		refused.unverified, refused.started = w.OtherJob, w.Started
		return nil, refused
	}
	return &w, nil
}
