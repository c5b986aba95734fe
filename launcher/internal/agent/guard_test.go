package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Files found during cleanup are removed, too.
func TestPathsThatComeWithTheEnd(t *testing.T) {
	dir := t.TempDir()
	g := newGuard()
	g.skipStart()
	begun, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := range 200 {
			name := filepath.Join(dir, fmt.Sprint("file", i))
			assert.NoError(t, os.WriteFile(name, nil, 0o600))
			g.addPath(name)
			g.AddNumbered(filepath.Join(dir, fmt.Sprint("numbered", i, ".")))
			if i == 20 {
				close(begun)
			}
		}
	}()
	<-begun
	g.dismiss()
	<-over
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
