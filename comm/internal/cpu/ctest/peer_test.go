package ctest

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Whatever another host's rank sends, a call touches no memory but its own, and ends.
func TestPeersThatSendAnything(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	program := buildOf(t, gcc, engineSources(t), "peer_test.c", sanitized...)
	argv := []string{fmt.Sprint(testneeds.Count(20, 1000)), fmt.Sprint(testneeds.Rand(t).Uint64())}
	said, err := exec.Command(program, argv...).CombinedOutput()
	require.NoError(t, err, "peer_test %v\n%s", argv, said)
	t.Logf("%s", said)
}
