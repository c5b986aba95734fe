package tcpstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescriptorsForConnections(t *testing.T) {
	for connections := range 1000 {
		need := descriptorsFor(connections)
		require.GreaterOrEqual(t, connectionsFor(uint64(need)), connections)
		require.LessOrEqual(t, need, connections*4/3+4)
	}
	require.Equal(t, 262144, connectionsFor(1<<40))
}
