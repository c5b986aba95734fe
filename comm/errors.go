package comm

import (
	"fmt"

	"gorun/comm/internal/backend"
)

type (
	// PeerError says that a rank died or closed the group while others needed it.
	PeerError = backend.PeerError
	// TimeoutError says which ranks did not come in time.
	TimeoutError = backend.TimeoutError
	// MismatchError says which two ranks made different calls, and which.
	MismatchError = backend.MismatchError
)

// ErrClosed says that the group was closed.
var ErrClosed = backend.ErrClosed

// ArgumentError says that a call cannot be made with these arguments. Nothing was sent, and the group goes on.
type ArgumentError struct {
	Call string // "AllReduce"
	What string
}

func (e *ArgumentError) Error() string { return fmt.Sprintf("comm: %s: %s", e.Call, e.What) }

func wrong(kind backend.Kind, format string, args ...any) error {
	return &ArgumentError{kind.String(), fmt.Sprintf(format, args...)}
}
