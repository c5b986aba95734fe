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

// checkHostKey decides whether the host is who it should be. A key that is not known
// is never taken blindly.
func (c *Client) checkHostKey(s *settings, key ssh.PublicKey) error {
	c.known.mu.Lock() // held while a key is added: another connection may bring the same one
	defer c.known.mu.Unlock()
	db, err := c.known.readLocked(s.userKnown, s.globalKnown)
	if err != nil {
		return fail(remote.StepHostKey, err, "known hosts: %v", err)
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		if err := db.revokedKey(s, cert.SignatureKey); err != nil {
			return err
		}
		problem, foreign := db.certificateProblem(s, cert)
		if !foreign && problem != nil {
			return fail(remote.StepHostKey, problem, "the certificate of %s is not good: %s", s,
				strings.TrimPrefix(problem.Error(), "ssh: "))
		}
		key = cert.Key // by itself where nobody known signed it, as OpenSSH does
		if !foreign {
			return db.revokedKey(s, key)
		}
	}
	if err := db.revokedKey(s, key); err != nil {
		return err
	}
	own, other := s.names()
	filed, vouching := db.of("", own), db.of("", other)
	is := func(line knownLine) bool { return sameKey(line.key, key) }
	switch {
	case slices.ContainsFunc(filed, is), len(filed) == 0 && slices.ContainsFunc(vouching, is):
		return nil
	case len(filed) > 0:
		return changed(s, key, filed)
	case c.config.AcceptNew || s.strict == "accept-new":
	case s.strict == "no":
		c.tell("StrictHostKeyChecking no is taken as accept-new: keys of unknown hosts are added to the known ones, " +
			"changed keys are refused")
	default:
		return unknown(s, key)
	}
	return c.addKey(s, key)
}

// revokedKey refuses a key that any file has revoked.
func (k known) revokedKey(s *settings, key ssh.PublicKey) error {
	for _, line := range k {
		if line.marker == "@revoked" && sameKey(line.key, key) {
			return fail(remote.StepHostKey, nil, "REVOKED HOST KEY: %s shows the key %s, which %s revokes", s,
				fingerprint(key), line.where()).
				hint("the host needs a new key; ask who runs it")
		}
	}
	return nil
}

// fingerprint is a key as ssh-keygen -l shows it.
func fingerprint(key ssh.PublicKey) string {
	return fmt.Sprintf("%s (%s)", ssh.FingerprintSHA256(key), strings.TrimPrefix(key.Type(), "ssh-"))
}

// changed is a host that is known by other keys than the one that it shows.
func changed(s *settings, key ssh.PublicKey, filed []knownLine) error {
	at := filed[0]
	for _, line := range filed {
		if line.key.Type() == key.Type() {
			at = line
			break
		}
	}
	name := s.filedName()
	return fail(remote.StepHostKey, nil,
		"THE HOST KEY HAS CHANGED: %s shows %s, %s has %s. Somebody may be listening in, or the host was set up anew",
		s, fingerprint(key), at.where(), fingerprint(at.key)).
		hint("if whoever runs the host confirms the new key: ssh-keygen -R %s -f %s", shellwords.Quote(name),
			shellwords.Quote(at.file))
}

// unknown is a host without an entry.
func unknown(s *settings, key ssh.PublicKey) error {
	f := fail(remote.StepHostKey, nil, "the host key of %s is not known: %s", s, fingerprint(key))
	if s.proxyCommand != "" || s.proxyJump != "" || s.hostKeyAlias != "" || len(s.userKnown) == 0 {
		return f.hint("compare the fingerprint with the host's own, then: ssh %s true, or --ssh-accept-new", s.arguments())
	}
	hash := ""
	if s.hashKnown {
		hash = "-H "
	}
	return f.hint(
		"compare the fingerprint with the host's own, then: ssh-keyscan %s-t %s -p %d %s >> %s, or --ssh-accept-new",
		hash, scanType(key), s.port, shellwords.Quote(s.hostName), shellwords.Quote(s.userKnown[0]))
}

// scanType is a key's type as ssh-keyscan -t takes it.
func scanType(key ssh.PublicKey) string {
	switch name := key.Type(); {
	case strings.HasPrefix(name, "ecdsa-"):
		return "ecdsa"
	default:
		return strings.TrimPrefix(name, "ssh-")
	}
}

// addKey files the key of a host that nobody knows.
func (c *Client) addKey(s *settings, key ssh.PublicKey) error {
	if len(s.userKnown) == 0 {
		return fail(remote.StepHostKey, nil,
			"the host key of %s is not known (%s), and UserKnownHostsFile none leaves no place to add it", s, fingerprint(key))
	}
	file, name := s.userKnown[0], s.filedName()
	if s.hashKnown {
		name = knownhosts.HashHostname(name)
	}
	line := name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	if err := appendLine(file, line); err != nil {
		return fail(remote.StepHostKey, err, "the host key of %s (%s) cannot be added to the known ones: %v", s,
			fingerprint(key), err)
	}
	c.known.files[file] = append(c.known.files[file], knownLine{hosts: []string{name}, key: key, file: file})
	c.tell(fmt.Sprintf("added the host key of %s to %s: %s", s.filedName(), file, fingerprint(key)))
	return nil
}

// appendLine adds a line by one write, so that nobody who adds another one at the
// same time tears it.
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
