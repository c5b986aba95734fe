package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMadeThreadsStay(t *testing.T) {
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(tasks)
	}
	n := threads() + 5
	makeThreads(n)
	assert.GreaterOrEqual(t, threads(), n)
}
