//go:build !cgo

package nccl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutCgo(t *testing.T) {
	_, opened := Open(Options{})
	_, devices := Devices(Options{})
	_, joined := (&Library{}).Join(t.Context(), Config{})
	for _, err := range []error{opened, devices, joined} {
		require.ErrorContains(t, err,
			"built without cgo, which the GPU libraries need: build it with CGO_ENABLED=1 and a C compiler")
	}
	require.Equal(t, "nccl", (&Backend{}).Name())
}
