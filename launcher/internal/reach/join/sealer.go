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
func (h *Head) makeSecret(ctx context.Context) {
	if h.cfg.Secret != nil || h.cfg.Sealer == nil {
		h.cfg.Sealer = nil
		return
	}
	if _, err := h.cfg.Sealer.Seal(ctx, nil); err != nil {
		h.cfg.Sealer, h.cfg.NoSealer = nil, "MUNGE is not available: "+err.Error()
		return
	}
	h.seals = make(chan struct{}, maxSeals)
	h.cfg.Secret = make([]byte, minSecret)
	rand.Read(h.cfg.Secret) // never fails
}

// IsInsecure reports whether nodes prove nothing: there is no secret, and they may be on other hosts or other users'.
func (h *Head) IsInsecure() bool { return h.cfg.isInsecure() }

// sealSecret answers a node that has no secret yet.
func (h *Head) sealSecret(_ *inbound, m *Member) *Welcome {
	switch {
	case m.ID != h.cfg.Self.ID:
		return h.refuseJob(m)
	case len(m.Nonce) != nonceSize:
		return &Welcome{Refusal: "node 0 uses MUNGE, which this node lacks: give all nodes a token (--token-file, " +
			"GORUN_TOKEN)"}
	}
	// #nosec G117 -- MUNGE seals it
	text, err := json.Marshal(sealedSecret{ID: m.ID, Nonce: m.Nonce, Secret: h.cfg.Secret})
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
func (h *Head) refuseJob(m *Member) *Welcome {
	return &Welcome{
		OtherJob: true,
		Refusal:  fmt.Sprintf("it belongs to job %q, node 0 to job %q (--rdzv-id)", m.ID, h.cfg.Self.ID),
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
	rand.Read(hello.Nonce) // never fails
	if err := writeMessage(c, &hello); err != nil {
		return nil, err
	}
	w, err := readWelcome(c)
	if err != nil {
		return nil, err
	}
	return d.openSecret(ctx, &hello, w)
}

// openSecret opens the secret in node 0's answer, and checks that it answers this hello.
func (d *dialer) openSecret(ctx context.Context, hello *Hello, w *Welcome) ([]byte, error) {
	text, err := d.cfg.Sealer.Open(ctx, w.Sealed)
	if err != nil {
		return nil, refusedByOther("MUNGE did not authenticate the process at that port: " + err.Error())
	}
	var s sealedSecret
	if err := json.Unmarshal(text, &s); err != nil || s.ID != hello.ID || string(s.Nonce) != string(hello.Nonce) ||
		len(s.Secret) < minSecret {
		return nil, refusedByOther("its sealed secret belongs to another node")
	}
	return s.Secret, nil
}

// readWelcome reads node 0's answer; a refusal is an error.
func readWelcome(c net.Conn) (*Welcome, error) {
	var w Welcome
	err := readMessage(c, &w)
	_, otherVersion := errors.AsType[*versionError](err)
	switch {
	case otherVersion:
		return nil, refusedByOther(err.Error())
	case isTokenMismatch(err): // node 0 verifies our key after our side of the handshake is done
		return nil, refusedByOther(otherToken)
	case err != nil:
		return nil, err
	case w.Refusal != "" && w.Retry:
		return nil, errors.New(w.Refusal)
	case w.Refusal != "":
		refused := refused(w.Host, w.Refusal)
		refused.unverified, refused.started = w.OtherJob, w.Started
		return nil, refused
	}
	return &w, nil
}
