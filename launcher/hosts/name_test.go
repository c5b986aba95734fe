package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameName(t *testing.T) {
	for _, same := range [][2]string{
		{"node1", "node1"},
		{"NODE1", "node1"},
		{"node1", "node1.site.org"},
		{"node1.site.org", "node1"},
		{"node1.site.org.", "node1.site.org"},
		{"10.0.0.1", "10.0.0.1"},
	} {
		require.True(t, SameName(same[0], same[1]), same)
	}
	for _, other := range [][2]string{
		{"node1", "node2"},
		{"node1.a.org", "node1.b.org"},
		{"", ""},
		{".", "node1"},
		{"node1", "node11"},
		{"10.0.0.1", "10"},
		{"10.0.0.1", "10.0.0.2"},
	} {
		require.False(t, SameName(other[0], other[1]), other)
	}
}
