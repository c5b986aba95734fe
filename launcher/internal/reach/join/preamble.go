package join

import (
	"bytes"
	"net"
	"strings"
)

// peerKind is the protocol that a connection starts with.
type peerKind uint8

const (
	undecided peerKind = iota // more bytes are needed
	storeClient
	secureNode // TLS
	plainNode
	oldStoreClient // PyTorch before 2.2
	unknownPeer
)

// preambles are the first bytes of each protocol. None is a prefix of another.
var preambles = []struct {
	kind  peerKind
	bytes string
}{
	{storeClient, "\x00\xCE\xF7\x85\x3C"},
	{secureNode, "\x16\x03"},
	{plainNode, magic},
	{oldStoreClient, "\x03\x05\x00\x00\x00\x00\x00\x00\x00init/"},
}

// maxPreamble is the length of the longest preamble.
const maxPreamble = 14

// identify returns the kind of a peer from the first bytes that it sent.
func identify(first []byte) peerKind {
	kind := unknownPeer
	for _, p := range preambles {
		switch {
		case bytes.HasPrefix(first, []byte(p.bytes)):
			return p.kind
		case strings.HasPrefix(p.bytes, string(first)):
			kind = undecided
		}
	}
	return kind
}

// readPreamble reads from a connection until the kind of its peer is known. first holds all bytes that were read.
func readPreamble(c net.Conn) (kind peerKind, first []byte, err error) {
	first = make([]byte, 0, maxPreamble)
	for {
		if kind = identify(first); kind != undecided {
			return kind, first, nil
		}
		n, err := c.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		if err != nil && n == 0 {
			return undecided, first, err
		}
	}
}

// rewound is a connection that returns first again before it reads on.
type rewound struct {
	net.Conn
	first []byte
}

func (r *rewound) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}
