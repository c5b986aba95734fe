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
	magic      = "gorunPRB"
	nonceSize  = 16
	greetSize  = len(magic) + 4 + nonceSize + sha256.Size
	answerSize = sha256.Size
)

// The two directions have different texts, so that a connection that comes back to
// its own socket, or a peer that echoes, proves nothing.
const (
	dialText   = "gorun probe, dialer\x00"
	answerText = "gorun probe, listener\x00"
)

// greeting is what a dialer says first to the listener of a node.
func greeting(key []byte, node int, nonce [nonceSize]byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(node))
	b = append(b, nonce[:]...)
	return append(b, proof(key, dialText, b[len(magic):])...)
}

// answer is what the listener of a node says to a greeting; an error when the
// greeting does not come from the job or is meant for another node.
func answer(key []byte, node int, b []byte) ([]byte, error) {
	if len(b) != greetSize || string(b[:len(magic)]) != magic {
		return nil, errors.New("not a probe")
	}
	subject, mac := b[len(magic):greetSize-sha256.Size], b[greetSize-sha256.Size:]
	if !hmac.Equal(mac, proof(key, dialText, subject)) {
		return nil, errors.New("a probe of another job")
	}
	if binary.LittleEndian.Uint32(subject) != uint32(node) {
		return nil, errors.New("a probe for another node")
	}
	return proof(key, answerText, subject), nil
}

// proves reports whether an answer to a greeting comes from the node that it was
// meant for.
func proves(key, greeting, answer []byte) bool {
	return hmac.Equal(answer, proof(key, answerText, greeting[len(magic):greetSize-sha256.Size]))
}

func proof(key []byte, text string, subject []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	mac.Write(subject)
	return mac.Sum(nil)
}
