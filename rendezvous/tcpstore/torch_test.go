package tcpstore

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// TestTorchClient drives our server with PyTorch's own client. The same script
// passes against PyTorch's own server: testdata/client.py HOST PORT 1.
func TestTorchClient(t *testing.T) {
	python := testneeds.Torch(t)
	s, log := serve(t, Config{})
	port := strconv.Itoa(int(s.Addr().Port()))
	out, err := exec.CommandContext(t.Context(), python, "testdata/client.py", "127.0.0.1", port, "0").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "ok")
	assert.Empty(t, log.text())
	assert.Positive(t, s.Clients())
}
