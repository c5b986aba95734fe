package probe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// MinKey is the least size of a job's key in bytes.
const MinKey = 16

const (
	magicSize  = 8
	nonceSize  = 16
	greetSize  = magicSize + 4 + nonceSize + sha256.Size
	answerSize = sha256.Size
)

// purpose is what a connection is for. The two directions have different texts, so
// that a connection that comes back to its own socket, or a peer that echoes, proves
// nothing.
type purpose struct {
	magic                string // magicSize bytes
	dialText, answerText string
}

var (
	toReach   = &purpose{"gorunPRB", "gorun probe, dialer\x00", "gorun probe, listener\x00"}
	toMeasure = &purpose{"gorunMSR", "gorun measure, dialer\x00", "gorun measure, listener\x00"}
)

// purposeOf is the one that begins a greeting, nil for none.
func purposeOf(b []byte) *purpose {
	for _, p := range []*purpose{toReach, toMeasure} {
		if len(b) >= magicSize && string(b[:magicSize]) == p.magic {
			return p
		}
	}
	return nil
}

// greeting is what a dialer says first to the listener of a node.
func (p *purpose) greeting(key []byte, node int, nonce [nonceSize]byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(p.magic), uint32(node))
	b = append(b, nonce[:]...)
	return append(b, proof(key, p.dialText, b[magicSize:])...)
}

// answer is what the listener of a node says to a greeting; an error when the
// greeting does not come from the job or is meant for another node.
func answer(key []byte, node int, b []byte) ([]byte, error) {
	p := purposeOf(b)
	if len(b) != greetSize || p == nil {
		return nil, errors.New("not a probe")
	}
	subject, mac := b[magicSize:greetSize-sha256.Size], b[greetSize-sha256.Size:]
	if !hmac.Equal(mac, proof(key, p.dialText, subject)) {
		return nil, errors.New("a probe of another job")
	}
	if binary.LittleEndian.Uint32(subject) != uint32(node) {
		return nil, errors.New("a probe for another node")
	}
	return proof(key, p.answerText, subject), nil
}

// proves reports whether an answer to a greeting comes from the node that it was
// meant for.
func (p *purpose) proves(key, greeting, answer []byte) bool {
	return hmac.Equal(answer, proof(key, p.answerText, greeting[magicSize:greetSize-sha256.Size]))
}

func proof(key []byte, text string, subject []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	mac.Write(subject)
	return mac.Sum(nil)
}
