package join

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// What the keys are for. Node 0 and the nodes that dial have different ones: who is
// sent back what he said himself does not take it for the other's word.
const (
	forHead = "gorun join 1 node 0"
	forNode = "gorun join 1 node"
)

// minSecret is the least size of a secret in bytes: all of its bits have to be
// unknown, since a handshake lets anyone try secrets at home.
const minSecret = 32

// errOtherToken is a peer that could not prove that it has the token.
var errOtherToken = errors.New("it has another token")

// tlsFor returns the configuration of one end: own and theirs are what the keys are
// for.
func tlsFor(secret []byte, own, theirs string) (*tls.Config, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("a secret of %d bytes: at least %d are needed", len(secret), minSecret)
	}
	private, err := derive(secret, own)
	if err != nil {
		return nil, err
	}
	peer, err := derive(secret, theirs)
	if err != nil {
		return nil, err
	}
	certificate, err := selfSigned(private)
	if err != nil {
		return nil, err
	}
	pinned := peer.Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // #nosec G402 -- the key is pinned instead: there is no authority and no name
		VerifyConnection:       func(s tls.ConnectionState) error { return pin(s, pinned) },
		SessionTicketsDisabled: true,
	}, nil
}

// derive makes a key of the secret.
func derive(secret []byte, what string) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, what, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// pin takes the one key and no other.
func pin(s tls.ConnectionState, pinned ed25519.PublicKey) error {
	if len(s.PeerCertificates) != 1 {
		return errOtherToken
	}
	theirs, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || subtle.ConstantTimeCompare(theirs, pinned) != 1 {
		return errOtherToken
	}
	return nil
}

// selfSigned wraps a key into what TLS carries keys in. Nothing in it depends on the
// clock, and nobody looks at the dates.
func selfSigned(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: magic},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(bytes.NewReader(nil), template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tokenTrouble reports whether a handshake, or the first read after it, failed for the
// token: this end refused the other's key, or the other end this one's, which it says by
// an alert.
func tokenTrouble(err error) bool {
	return err != nil && (errors.Is(err, errOtherToken) || strings.HasSuffix(err.Error(), "tls: bad certificate"))
}

// answeredPlain reports whether a handshake failed since the other end spoke gorun's
// plain messages: it has no token. It answers by what was said.
func answeredPlain(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) && string(header.RecordHeader[:]) == magic
}
