package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// A Python process that hangs, for example in a driver, is abandoned after a timeout.
func TestCountingDevicesHasALimit(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, unix.Mkfifo(python+".never", 0o600))
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\nread x < \"$0.never\"\n"), 0o700))
	programs := []spec.Program{{Kind: "python script", Path: python}}
	_, err := (&Agent{}).count(&wire.Hello{Device: "xpu"}, programs, 10*time.Millisecond)
	require.EqualError(t, err, python+" did not answer within 10ms")
}
