package join

import (
	"bytes"
	"net"
)

// kind is who speaks on a connection.
type kind uint8

const (
	undecided kind = iota // more bytes are needed
	storeClient
	secureNode // TLS
	plainNode
	oldClient // PyTorch before 2.2
	stranger
)

// beginnings is how each of them begins. No two begin alike.
var beginnings = []struct {
	kind  kind
	bytes []byte
}{
	{storeClient, []byte("\x00\xCE\xF7\x85\x3C")},
	{secureNode, []byte("\x16\x03")},
	{plainNode, []byte(magic)},
	{oldClient, []byte("\x03\x05\x00\x00\x00\x00\x00\x00\x00init/")},
}

// longestBeginning is how many bytes are read at most before it is known who speaks.
const longestBeginning = 14

// identify tells who begins with p; while it is undecided, more bytes are worth
// reading, and no reader needs fewer.
func identify(p []byte) (who kind, more int) {
	who = stranger
	for _, b := range beginnings {
		rest, begins := bytes.CutPrefix(b.bytes, p)
		switch {
		case bytes.HasPrefix(p, b.bytes):
			return b.kind, 0
		case begins && (who == stranger || len(rest) < more):
			who, more = undecided, len(rest)
		}
	}
	return who, more
}

// listenTo reads the beginning of a connection until it is known who speaks.
func listenTo(c net.Conn) (who kind, first []byte, err error) {
	first = make([]byte, 0, longestBeginning)
	for {
		who, more := identify(first)
		if who != undecided {
			return who, first, nil
		}
		n, err := c.Read(first[len(first) : len(first)+more])
		first = first[:len(first)+n]
		if err != nil && n == 0 {
			return undecided, first, err
		}
	}
}

// rewound is a connection of which first was read already.
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
