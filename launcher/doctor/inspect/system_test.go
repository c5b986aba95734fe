package inspect

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who has the capability is not bound by the limit: root outside of containers, but not
// with Docker's usual set.
func TestLocks(t *testing.T) {
	const all, docker = 0xffffffff, 0xa80425fb // as /proc/self/status has them
	assert.True(t, canLock(all))
	assert.False(t, canLock(docker))
	assert.False(t, canLock(0))
}

// The kernel's own words of what this process may are those that are read.
func TestMayLock(t *testing.T) {
	status, err := os.ReadFile("/proc/thread-self/status")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(status), "CapEff:")
	text, _, _ = strings.Cut(text, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	require.NoError(t, err)
	assert.Equal(t, canLock(uint32(set)), mayLock())
}
