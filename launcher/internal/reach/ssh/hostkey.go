package ssh

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gorun/internal/shellwords"
	"gorun/launcher/internal/reach/remote"
)

// checkHostKey verifies a host by its key. An unknown key is only accepted, and recorded, if the configuration
// allows it.
func (c *Client) checkHostKey(s *settings, key ssh.PublicKey) error {
	c.known.mu.Lock() // until the key is added: another connection may bring the same one
	defer c.known.mu.Unlock()
	known, err := c.known.readLocked(s)
	if err != nil {
		return fail(remote.StepHostKey, err, "known hosts: %v", err)
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		if err := known.checkRevoked(s, cert.SignatureKey); err != nil {
			return err
		}
		problem, trusted := known.checkCertificate(s, cert)
		if trusted && problem != nil {
			return fail(remote.StepHostKey, problem, "invalid certificate of %s: %s", s,
				strings.TrimPrefix(problem.Error(), "ssh: "))
		}
		key = cert.Key // counts by itself if no known authority signed it, as with OpenSSH
		if trusted {
			return known.checkRevoked(s, key)
		}
	}
	if err := known.checkRevoked(s, key); err != nil {
		return err
	}
	name, portless := s.knownNames()
	own, other := known.find("", name), known.find("", portless)
	isKey := func(line knownLine) bool { return sameKey(line.key, key) }
	switch {
	case slices.ContainsFunc(own, isKey), len(own) == 0 && slices.ContainsFunc(other, isKey):
		return nil
	case len(own) > 0:
		return changedKeyError(s, key, own)
	case c.config.AcceptNew || s.strict == "accept-new":
	case s.strict == "no":
		c.notify("StrictHostKeyChecking no works as accept-new: gorun adds keys of unknown hosts to the known hosts, and " +
			"refuses changed keys")
	default:
		return unknownKeyError(s, key)
	}
	return c.addKey(s, key)
}

// checkRevoked refuses a key that any file revokes.
func (k knownLines) checkRevoked(s *settings, key ssh.PublicKey) error {
	for _, line := range k {
		if line.marker == "revoked" && sameKey(line.key, key) {
			return fail(remote.StepHostKey, nil, "REVOKED HOST KEY: %s has the key %s, revoked in %s", s,
				fingerprint(key), line.position()).
				WithHint("ask the host's administrator for a new key")
		}
	}
	return nil
}

// fingerprint formats a key as ssh-keygen -l does.
func fingerprint(key ssh.PublicKey) string {
	return fmt.Sprintf("%s (%s)", ssh.FingerprintSHA256(key), strings.TrimPrefix(key.Type(), "ssh-"))
}

func changedKeyError(s *settings, key ssh.PublicKey, own []knownLine) error {
	at := own[max(0, slices.IndexFunc(own, func(line knownLine) bool { return line.key.Type() == key.Type() }))]
	name, _ := s.knownNames()
	return fail(remote.StepHostKey, nil,
		"THE HOST KEY HAS CHANGED: %s shows %s, %s has %s. Someone may intercept the connection, or the host was reinstalled",
		s, fingerprint(key), at.position(), fingerprint(at.key)).
		WithHint("ask the host's administrator; if the new key is right, run `ssh-keygen -R %s -f %s`",
			shellwords.Quote(name), shellwords.Quote(at.file))
}

func unknownKeyError(s *settings, key ssh.PublicKey) error {
	const compare = "compare the fingerprint with the host's own, then "
	failure := fail(remote.StepHostKey, nil, "the host key of %s is not known: %s", s, fingerprint(key))
	if s.proxyCommand != "" || s.proxyJump != "" || s.hostKeyAlias != "" || len(s.userKnown) == 0 {
		return failure.WithHint(compare+"run `ssh %s true` or add `--ssh-accept-new`", s.arguments())
	}
	hash := ""
	if s.hashKnown {
		hash = "-H "
	}
	scanType := strings.TrimPrefix(key.Type(), "ssh-") // as ssh-keyscan -t takes it
	if strings.HasPrefix(scanType, "ecdsa-") {
		scanType = "ecdsa"
	}
	return failure.WithHint(compare+"run `ssh-keyscan %s-t %s -p %d %s >> %s` or add `--ssh-accept-new`", hash, scanType,
		s.port, shellwords.Quote(s.hostName), shellwords.Quote(s.userKnown[0]))
}

// addKey records the key of an unknown host.
func (c *Client) addKey(s *settings, key ssh.PublicKey) error {
	if len(s.userKnown) == 0 {
		return fail(remote.StepHostKey, nil,
			"the host key of %s is not known (%s), and UserKnownHostsFile none keeps gorun from adding it", s, fingerprint(key))
	}
	file := s.userKnown[0]
	name, _ := s.knownNames()
	pattern := name
	if s.hashKnown {
		pattern = knownhosts.HashHostname(name)
	}
	line := pattern + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	if err := appendLine(file, line); err != nil {
		return fail(remote.StepHostKey, err, "cannot add the host key of %s (%s) to the known hosts: %v", s,
			fingerprint(key), err)
	}
	c.known.files[file] = append(c.known.files[file], knownLine{hosts: []string{pattern}, key: key, file: file})
	c.notify(fmt.Sprintf("added the host key of %s to %s: %s", name, file, fingerprint(key)))
	return nil
}

// appendLine adds a line by one write, so that concurrent writers do not tear it.
func appendLine(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	last := make([]byte, 1)
	if size, err := f.Seek(-1, io.SeekEnd); err == nil && size >= 0 {
		if _, err := f.ReadAt(last, size); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
