package ssh

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/internal/reach/remote"
)

// handshake is one attempt to log in, and how far it came.
type handshake struct {
	client   *Client
	settings *settings
	clock    *clock
	step     atomic.Int32 // a remote.Step

	mu      sync.Mutex
	refused error    // what the check of the host's key said
	allowed []string // the methods that the server takes
	partial bool     // one was enough for a part
	offer   *offer
}

func (h *handshake) begin(step remote.Step) {
	h.step.Store(int32(step))
	remote.ReportStep(h.clock.ctx, step)
}

// config is what x/crypto needs to know.
func (h *handshake) config() (*ssh.ClientConfig, error) {
	db, err := h.client.known.read(h.settings.userKnown, h.settings.globalKnown)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "known hosts: %v", err)
	}
	return &ssh.ClientConfig{
		User:              h.settings.user,
		ClientVersion:     "SSH-2.0-gorun",
		HostKeyAlgorithms: db.algorithms(h.settings),
		HostKeyCallback:   h.checkHostKey,
		Auth:              []ssh.AuthMethod{ssh.PublicKeysCallback(h.signers)},
		AuthCallback:      h.nextMethod,
	}, nil
}

// checkHostKey is called once keys are exchanged, and again when they are renewed.
func (h *handshake) checkHostKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	h.begin(remote.StepHostKey)
	if err := h.client.checkHostKey(h.settings, key); err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.refused = err
		return err
	}
	h.begin(remote.StepAuth)
	return nil
}

// nextMethod notes what the server takes and leaves the choice to x/crypto.
func (h *handshake) nextMethod(now *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.allowed, h.partial = now.AllowedMethods, len(now.PartialSuccessMethods) > 0
	return nil, nil
}

// signers are the keys that are offered, in their order.
func (h *handshake) signers() ([]ssh.Signer, error) {
	o, err := h.client.keys.offer(h.settings, h.clock)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offer = o
	if err != nil {
		return nil, err
	}
	return o.signers(), nil
}

// explain says in words why the handshake failed.
func (h *handshake) explain(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var known *remote.Error
	switch step := remote.Step(h.step.Load()); {
	case errors.As(err, &known):
		return err
	case h.refused != nil:
		return h.refused
	case h.clock.ctx.Err() != nil:
		return timedOut(step, h.settings, h.clock)
	case step < remote.StepAuth && remote.IsEnd(err):
		return &droppedError{err}
	case step < remote.StepAuth:
		return h.keysError(err)
	case remote.IsEnd(err):
		return fail(remote.StepAuth, err, "%s closed the connection before it let us in%s", h.settings, h.offered()).
			hint("its log says why; ssh -v %s shows more", h.settings.arguments())
	default:
		return h.authError(err)
	}
}

// keysError is a peer with which no keys could be agreed upon.
func (h *handshake) keysError(err error) error {
	text := strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")
	if strings.Contains(text, "version string") {
		return fail(remote.StepKeys, err, "%s does not speak SSH: %s", h.settings, text).hint("is it the right port?")
	}
	return fail(remote.StepKeys, err, "%s: %s", h.settings, text).hint("--ssh ssh reaches it where OpenSSH itself can")
}

// offered lists the keys that the server has seen.
func (h *handshake) offered() string {
	if h.offer == nil {
		return ""
	}
	if tried := h.offer.tried(); len(tried) > 0 {
		return "; offered: " + strings.Join(tried, ", ")
	}
	return "; no key was there to offer"
}

// authError says which keys were offered and what the server would have taken.
func (h *handshake) authError(err error) error {
	s := h.settings
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not let us in", s)
	var asking *askError
	switch {
	case errors.As(err, &asking):
		fmt.Fprintf(&b, ": %v", asking)
	case h.partial:
		b.WriteString(": a key is not enough there")
	case strings.Contains(err.Error(), "disconnect"):
		fmt.Fprintf(&b, ": %s", strings.TrimPrefix(err.Error(), "ssh: handshake failed: "))
	}
	b.WriteString(h.offered())
	if h.offer != nil {
		for _, note := range h.offer.notes {
			b.WriteString("; " + note)
		}
	}
	if len(h.allowed) > 0 {
		fmt.Fprintf(&b, "; it takes %s", strings.Join(h.allowed, ", "))
	}
	return fail(remote.StepAuth, err, "%s", b.String()).hint("%s", h.authHint(err))
}

// authHint is a way in.
func (h *handshake) authHint(err error) string {
	var asking *askError
	switch {
	case h.offer != nil && h.offer.locked != "" || errors.As(err, &asking):
		path := "KEY"
		if h.offer != nil && h.offer.locked != "" {
			path = shellwords.Quote(h.offer.locked)
		}
		return "ssh-add " + path
	case h.partial:
		return "--ssh ssh with ControlMaster in ~/.ssh/config uses a connection that is logged in already"
	case h.offer != nil && len(h.offer.keys) > 5:
		return "the server may count too many keys: IdentityFile and IdentitiesOnly yes in ~/.ssh/config name the right one"
	}
	return "ssh-copy-id " + printable.Text(h.settings.copyArguments())
}

// copyArguments are ssh-copy-id's, which has -F in newer versions only.
func (s *settings) copyArguments() string {
	words := ""
	if s.port != 22 {
		words = fmt.Sprintf("-p %d ", s.port)
	}
	return words + shellwords.Quote(s.user+"@"+s.target.Name)
}
