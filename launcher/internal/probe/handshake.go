package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// MinKey is the minimum size of a job's key in bytes.
const MinKey = 16

const (
	magicSize  = 8
	nonceSize  = 16
	greetSize  = magicSize + 4 + nonceSize + sha256.Size
	answerSize = sha256.Size
)

// purpose says what a connection is for. The two directions sign different texts, so that a connection to its own
// socket, or a peer that echoes, proves nothing.
type purpose struct {
	magic                string // magicSize bytes
	dialText, answerText string
}

var (
	toReach   = &purpose{"gorunPRB", "gorun probe, dialer\x00", "gorun probe, listener\x00"}
	toMeasure = &purpose{"gorunMSR", "gorun measure, dialer\x00", "gorun measure, listener\x00"}
)

// purposeOf returns the purpose of a greeting by its magic, or nil.
func purposeOf(b []byte) *purpose {
	for _, p := range []*purpose{toReach, toMeasure} {
		if len(b) >= magicSize && string(b[:magicSize]) == p.magic {
			return p
		}
	}
	return nil
}

// greeting returns what a dialer sends first to the listener of a node.
func (p *purpose) greeting(key []byte, node int, nonce [nonceSize]byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(p.magic), uint32(node))
	b = append(b, nonce[:]...)
	return append(b, sign(key, p.dialText, b[magicSize:])...)
}

// answer returns the reply of a node's listener to a greeting; nil if that is not from this job or not for this node.
func answer(key []byte, node int, b []byte) []byte {
	p := purposeOf(b)
	if len(b) != greetSize || p == nil {
		return nil
	}
	subject, mac := b[magicSize:greetSize-sha256.Size], b[greetSize-sha256.Size:]
	if !hmac.Equal(mac, sign(key, p.dialText, subject)) || binary.LittleEndian.Uint32(subject) != uint32(node) {
		return nil
	}
	return sign(key, p.answerText, subject)
}

// proves reports whether an answer is from the node that the greeting was for.
func (p *purpose) proves(key, greeting, answer []byte) bool {
	return hmac.Equal(answer, sign(key, p.answerText, greeting[magicSize:greetSize-sha256.Size]))
}

func sign(key []byte, text string, subject []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	mac.Write(subject)
	return mac.Sum(nil)
}

// handshake makes the peer prove that it is the node, and returns the round-trip time.
func (p *purpose) handshake(conn net.Conn, key []byte, node int) (rtt time.Duration, err error) {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	greet := p.greeting(key, node, nonce)
	start := time.Now()
	if _, err := conn.Write(greet); err != nil {
		return 0, err
	}
	var reply [answerSize]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, err
	}
	if !p.proves(key, greet, reply[:]) {
		return 0, errOtherHost
	}
	return time.Since(start), nil
}
