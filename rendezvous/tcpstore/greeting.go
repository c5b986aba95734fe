package tcpstore

import (
	"bytes"
	"errors"
	"fmt"
)

// How connections begin: of a client since PyTorch 2.2 (VALIDATE and the magic number 0x3C85F7CE), and of one before,
// whose numbering has ADD at 3 as well and whose first request counts itself under "init/".
var (
	greeting    = []byte{opValidate, 0xCE, 0xF7, 0x85, 0x3C}
	oldGreeting = []byte("\x03\x05\x00\x00\x00\x00\x00\x00\x00init/")
)

// errOldClient is the answer to clients before PyTorch 2.2, whose operations have other codes.
var errOldClient = errors.New("client is torch < 2.2, not supported: use PyTorch 2.2 or later")

// greeted returns the length of the greeting that p begins with, or 0 while it is not whole. An error says that no
// client speaks.
func greeted(p []byte) (int, error) {
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
	return 0, fmt.Errorf("no store client: it began with %q", p[:min(len(p), 16)])
}
