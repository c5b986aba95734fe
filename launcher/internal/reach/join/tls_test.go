package join

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyOf returns the certificate of one end.
func keyOf(t *testing.T, of string) tls.Certificate {
	t.Helper()
	private, err := deriveKey(secret, of)
	require.NoError(t, err)
	certificate, err := selfSigned(private)
	require.NoError(t, err)
	return certificate
}

// signed returns a certificate for any key.
func signed(t *testing.T, key crypto.Signer) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: magic},
		NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// impostor is an attack that is possible without the right key.
type impostor struct {
	name   string
	change func(t *testing.T, own string, c *tls.Config)
}

var impostors = []impostor{
	{"TLS 1.2", func(_ *testing.T, _ string, c *tls.Config) {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	}},
	{"no certificate", func(_ *testing.T, _ string, c *tls.Config) { c.Certificates = nil }},
	{"reflected", func(t *testing.T, own string, c *tls.Config) { // the key of its peer
		other := map[string]string{roleHead: roleNode, roleNode: roleHead}[own]
		c.Certificates = []tls.Certificate{keyOf(t, other)}
	}},
	// the right certificate without its key
	{"replayed", func(t *testing.T, own string, c *tls.Config) {
		right := keyOf(t, own)
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{{Certificate: right.Certificate, PrivateKey: private}}
	}},
	{"two certificates", func(t *testing.T, own string, c *tls.Config) {
		right := keyOf(t, own)
		right.Certificate = append(right.Certificate, right.Certificate[0])
		c.Certificates = []tls.Certificate{right}
	}},
	{"the right one behind another", func(t *testing.T, own string, c *tls.Config) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		other := signed(t, private)
		other.Certificate = append(other.Certificate, keyOf(t, own).Certificate[0])
		c.Certificates = []tls.Certificate{other}
	}},
	{"an Ed25519 key", func(t *testing.T, _ string, c *tls.Config) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{signed(t, private)}
	}},
	{"another P-256 key", func(t *testing.T, _ string, c *tls.Config) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{signed(t, private)}
	}},
	{"an RSA key", func(t *testing.T, _ string, c *tls.Config) {
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{signed(t, private)}
	}},
	{"a key of another use of the secret", func(t *testing.T, _ string, c *tls.Config) {
		private, err := deriveKey(secret, "gorun something else")
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{signed(t, private)}
	}},
}

// careless returns a configuration that accepts any peer.
func careless(t *testing.T, own string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{keyOf(t, own)},
	}
}

// Node 0 reads no hello from a peer without the key of nodes that dial.
func TestImpostorsOfNodes(t *testing.T) {
	h, _ := listenAt(t, 2, secret)
	for _, i := range impostors {
		t.Run(i.name, func(t *testing.T) {
			cfg := careless(t, roleNode)
			i.change(t, roleNode, cfg)
			c := tls.Client(raw(t, h), cfg)
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
			err := c.Handshake()
			if err == nil { // node 0 verifies the key after the client's handshake is done
				_ = writeMessage(c, &Hello{Version: "v1", ID: "job", NumNodes: 2, NodeRank: 1, Host: "evil"}) // it may be closed
				_, err = c.Read(make([]byte, 1))
			}
			var late net.Error
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF, "an alert says why")
			require.False(t, errors.As(err, &late) && late.Timeout(), "%v", err)
		})
	}
	stillWorks(t, h, secret)
}

// A node sends nothing to a listener without node 0's key.
func TestImpostorsOfNodeZero(t *testing.T) {
	for _, i := range impostors {
		t.Run(i.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			cfg := settings(l.Addr().(*net.TCPAddr).Port, 2, 1, secret)
			cfg.Timeout = time.Second
			node := come(t, t.Context(), cfg)
			theirs := careless(t, roleHead)
			i.change(t, roleHead, theirs)
			received := make(chan []byte, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					received <- nil
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				said, _ := io.ReadAll(tls.Server(c, theirs))
				received <- said
			}()
			<-node.done
			require.Error(t, node.err)
			require.Empty(t, <-received)
		})
	}
}

// pair returns a connection between both ends, made as by node 0 and a node.
func pair(t *testing.T, node *tls.Config) (state tls.ConnectionState) {
	t.Helper()
	head, err := tlsConfig(secret, roleHead, roleNode)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			server := tls.Server(c, head)
			_, err = io.Copy(server, server)
		}
		served <- err
	}()
	dialled, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	c := tls.Client(dialled, node)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1)) // a ticket would have arrived before
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	require.NoError(t, <-served)
	require.NoError(t, c.Close())
	return c.ConnectionState()
}

// cache records whether a session was stored.
type cache struct {
	tls.ClientSessionCache
	put int
}

func (c *cache) Put(key string, s *tls.ClientSessionState) {
	c.put++
	c.ClientSessionCache.Put(key, s)
}

// Sessions are never resumed: each connection proves the token anew.
func TestNoResumption(t *testing.T) {
	node, err := tlsConfig(secret, roleNode, roleHead)
	require.NoError(t, err)
	sessions := &cache{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	node.SessionTicketsDisabled, node.ClientSessionCache = false, sessions
	for range 2 {
		state := pair(t, node)
		require.Equal(t, uint16(tls.VersionTLS13), state.Version, "which has no renegotiation")
		require.False(t, state.DidResume)
	}
	require.Zero(t, sessions.put, "node 0 gives no tickets")
}

// A handshake that is cut off anywhere, or has one changed byte, proves nothing.
func TestBrokenHandshakes(t *testing.T) {
	h, _ := listenAt(t, 2, secret)
	var first bytes.Buffer
	node, err := tlsConfig(secret, roleNode, roleHead)
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	go func() { _ = tls.Client(ours, node).Handshake(); ours.Close() }()
	record := make([]byte, 5)
	_, err = io.ReadFull(theirs, record)
	require.NoError(t, err)
	first.Write(record)
	_, err = io.CopyN(&first, theirs, int64(record[3])<<8|int64(record[4]))
	require.NoError(t, err)
	theirs.Close()
	for cut := 2; cut < first.Len(); cut += 7 {
		c := raw(t, h)
		said := bytes.Clone(first.Bytes())
		if cut%2 == 0 {
			said = said[:cut]
		} else {
			said[cut] ^= 0x55
		}
		_, err := c.Write(said)
		require.NoError(t, err)
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		closed(t, c)
	}
	stillWorks(t, h, secret)
}
