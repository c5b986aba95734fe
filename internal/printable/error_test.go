package printable

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts of errors have no names of Go's operations.
func TestError(t *testing.T) {
	_, err := os.ReadFile("missing")
	require.EqualError(t, Cause(err), "no such file or directory")
	require.Equal(t, "lint: missing: no such file or directory", Error(fmt.Errorf("lint: %w", err)))
	require.Equal(t, "missing: no such file or directory (again)", Error(fmt.Errorf("missing: %w (again)", err)))
	require.EqualError(t, Unwritten("missing/x", os.WriteFile("missing/x", nil, 0o600)),
		"cannot write missing/x: no such directory")
	require.EqualError(t, Unwritten("testdata", os.WriteFile("testdata", nil, 0o600)),
		"cannot write testdata: is a directory")
	require.Equal(t, "node 0: timed out", Error(fmt.Errorf("node 0: %w", context.DeadlineExceeded)))
	dns := &net.DNSError{Err: "no such host", Name: "node9", Server: "10.0.0.1:53", IsNotFound: true}
	require.Equal(t, "cannot resolve host name node9", Error(&net.OpError{Op: "dial", Net: "tcp", Err: dns}))
}
