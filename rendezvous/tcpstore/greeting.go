package tcpstore

import (
	"bytes"
	"errors"
	"fmt"
)

// What clients send first: since PyTorch 2.2 VALIDATE and the magic number 0x3C85F7CE; before that an ADD, with the
// same code 3, of their count under "init/".
var (
	greeting    = []byte{opValidate, 0xCE, 0xF7, 0x85, 0x3C}
	oldGreeting = []byte("\x03\x05\x00\x00\x00\x00\x00\x00\x00init/")
)

// errOldClient rejects clients before PyTorch 2.2, whose operations have other codes.
var errOldClient = errors.New("the client is PyTorch before 2.2: use PyTorch 2.2 or later")

// parseGreeting returns the length of the greeting that p begins with, or 0 while it is incomplete. The error says that
// p is not from a client.
func parseGreeting(p []byte) (int, error) {
	switch {
	case len(p) >= len(greeting) && bytes.HasPrefix(p, greeting):
		return len(greeting), nil
	case bytes.HasPrefix(greeting, p):
		return 0, nil
	case bytes.HasPrefix(p, oldGreeting):
		return 0, errOldClient
	case bytes.HasPrefix(oldGreeting, p):
		return 0, nil
	}
	return 0, fmt.Errorf("not a store client: it began with %q", p[:min(len(p), 16)])
}
