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

// handshake is one attempt to authenticate, and its progress.
type handshake struct {
	client   *Client
	settings *settings
	budget   *budget
	step     atomic.Int32 // a remote.Step

	mu         sync.Mutex
	hostKeyErr error
	allowed    []string // methods that the server accepts
	partial    bool     // a method succeeded, but more are required
	offer      *offer
}

// handshake authenticates over a connection.
func (c *Client) handshake(b *budget, s *settings, conn net.Conn) (*ssh.Client, error) {
	h := &handshake{client: c, settings: s, budget: b}
	h.begin(remote.StepKeys)
	var client *ssh.Client
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		client, err = h.run(conn)
	}()
	select {
	case <-done:
		if err != nil {
			return nil, h.explain(err)
		}
		return client, nil
	case <-b.ctx.Done():
		// A silent agent is not interrupted by closing the connection; Client.Close ends that wait.
		_ = conn.Close()
		return nil, timeoutError(remote.Step(h.step.Load()), s, b)
	}
}

func (h *handshake) begin(step remote.Step) {
	h.step.Store(int32(step))
	remote.ReportStep(h.budget.ctx, step)
}

func (h *handshake) run(conn net.Conn) (*ssh.Client, error) {
	known, err := h.client.known.read(h.settings)
	if err != nil {
		return nil, fail(remote.StepConfig, err, "known hosts: %v", err)
	}
	c, channels, requests, err := ssh.NewClientConn(conn, h.settings.address(), &ssh.ClientConfig{
		User:              h.settings.user,
		ClientVersion:     "SSH-2.0-gorun",
		HostKeyAlgorithms: known.algorithms(h.settings),
		HostKeyCallback:   h.checkHostKey,
		Auth:              []ssh.AuthMethod{ssh.PublicKeysCallback(h.signers)},
		AuthCallback:      h.recordMethods,
	})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// checkHostKey is called after the key exchange, and after each rekeying.
func (h *handshake) checkHostKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	h.begin(remote.StepHostKey)
	if err := h.client.checkHostKey(h.settings, key); err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hostKeyErr = err
		return err
	}
	h.begin(remote.StepAuth)
	return nil
}

// recordMethods records what the server accepts and leaves the choice to x/crypto.
func (h *handshake) recordMethods(now *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.allowed, h.partial = now.AllowedMethods, len(now.PartialSuccessMethods) > 0
	return nil, nil
}

// signers returns the keys to offer, in order.
func (h *handshake) signers() ([]ssh.Signer, error) {
	o := h.client.keys.offer(h.settings, h.budget)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offer = o
	return o.signers(), nil
}

// explain returns the reason why the handshake failed.
func (h *handshake) explain(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, isExplained := errors.AsType[*remote.Error](err)
	switch step := remote.Step(h.step.Load()); {
	case isExplained:
		return err
	case h.hostKeyErr != nil:
		return h.hostKeyErr
	case h.budget.ctx.Err() != nil:
		return timeoutError(step, h.settings, h.budget)
	case step < remote.StepAuth && remote.IsEnd(err):
		return &droppedError{err}
	case step < remote.StepAuth:
		return h.keyExchangeError(err)
	case remote.IsEnd(err):
		return fail(remote.StepAuth, err, "%s closed the connection during authentication%s", h.settings, h.offeredKeys()).
			WithHint("run `ssh -v %s` to see more, or read the log of its sshd", h.settings.arguments())
	default:
		return h.authError(err)
	}
}

func (h *handshake) keyExchangeError(err error) error {
	text := strings.TrimPrefix(printable.Error(err), "ssh: handshake failed: ")
	if strings.Contains(text, "version string") {
		return fail(remote.StepKeys, err, "%s does not speak SSH: %s", h.settings, text).WithHint("check the port")
	}
	return fail(remote.StepKeys, err, "%s: %s", h.settings, text).WithHint("add `--ssh ssh` to connect with OpenSSH")
}

// offeredKeys lists the keys that the server has seen.
func (h *handshake) offeredKeys() string {
	if h.offer == nil {
		return ""
	}
	if tried := h.offer.tried(); len(tried) > 0 {
		return "; offered: " + strings.Join(tried, ", ")
	}
	return "; no key to offer"
}

// authError lists the keys that were offered and the methods that the server accepts.
func (h *handshake) authError(err error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s refuses the login", h.settings)
	passphrase, isPassphrase := errors.AsType[*passphraseError](err)
	switch {
	case isPassphrase:
		fmt.Fprintf(&b, ": %v", passphrase)
	case h.partial:
		b.WriteString(": a key alone is not enough")
	case strings.Contains(err.Error(), "disconnect"):
		fmt.Fprintf(&b, ": %s", strings.TrimPrefix(printable.Error(err), "ssh: handshake failed: "))
	}
	b.WriteString(h.offeredKeys())
	if h.offer != nil {
		for _, note := range h.offer.notes {
			b.WriteString("; " + note)
		}
	}
	if len(h.allowed) > 0 {
		fmt.Fprintf(&b, "; it takes %s", strings.Join(h.allowed, ", "))
	}
	return fail(remote.StepAuth, err, "%s", b.String()).WithHint("%s", h.authHint(isPassphrase))
}

func (h *handshake) authHint(isPassphrase bool) string {
	switch {
	case h.offer != nil && h.offer.locked != "":
		return "run `ssh-add " + shellwords.Quote(h.offer.locked) + "`"
	case isPassphrase:
		return "run `ssh-add KEY`"
	case h.partial:
		return "add `--ssh ssh`, with ControlMaster in ~/.ssh/config, to use a connection that is logged in already"
	case h.offer != nil && len(h.offer.keys) > 5:
		return "name the right key in ~/.ssh/config (IdentityFile, IdentitiesOnly yes): the server may count too many"
	}
	return "run `ssh-copy-id " + printable.Text(h.settings.copyIDArguments()) + "`"
}
