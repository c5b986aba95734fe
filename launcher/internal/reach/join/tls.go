package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// The roles that keys are derived for. Node 0 and the dialing nodes have different keys: a peer that reflects the
// handshake authenticates as neither.
const (
	roleHead = "gorun join 1 node 0"
	roleNode = "gorun join 1 node"
)

// minSecret is the minimum size of a secret in bytes. All bits must be random, as a recorded handshake allows guessing
// offline.
const minSecret = 32

// errOtherToken reports a peer that could not prove the token.
var errOtherToken = errors.New("it has a different token")

// tlsConfig returns the configuration of the end with the role own, which pins the key of the role peer.
func tlsConfig(secret []byte, own, peer string) (*tls.Config, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("a secret of %d bytes: at least %d are needed", len(secret), minSecret)
	}
	key, err := deriveKey(secret, own)
	if err != nil {
		return nil, err
	}
	peerKey, err := deriveKey(secret, peer)
	if err != nil {
		return nil, err
	}
	certificate, err := selfSigned(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // #nosec G402 -- the key is pinned instead: there is no authority and no name
		VerifyConnection:       func(s tls.ConnectionState) error { return verifyPin(s, &peerKey.PublicKey) },
		SessionTicketsDisabled: true,
	}, nil
}

// deriveKey derives the key of a role from the secret. P-256 needs no table that each process would have to compute, as
// Ed25519 does for a millisecond. One seed of four billion is too large for a key.
func deriveKey(secret []byte, role string) (*ecdsa.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, role, 32)
	if err != nil {
		return nil, err
	}
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
}

// verifyPin accepts the pinned key and no other.
func verifyPin(s tls.ConnectionState, pinned *ecdsa.PublicKey) error {
	if len(s.PeerCertificates) != 1 || !pinned.Equal(s.PeerCertificates[0].PublicKey) {
		return errOtherToken
	}
	return nil
}

// selfSigned wraps a key in a certificate. It does not depend on the clock, and the dates are never checked.
func selfSigned(key *ecdsa.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: magic},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// isTokenMismatch reports whether a handshake, or the first read after it, failed because of the token: this end
// refused the peer's key, or the peer sent an alert that it refused this end's.
func isTokenMismatch(err error) bool {
	return err != nil && (errors.Is(err, errOtherToken) || strings.HasSuffix(err.Error(), "tls: bad certificate"))
}

// isPlainAnswer reports whether a handshake failed because the peer answered with a plain message: it has no token.
func isPlainAnswer(err error) bool {
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(header.RecordHeader[:]) == magic
}
