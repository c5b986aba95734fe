package plan

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test -run ^TestDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write docs/reference/variables.md again from the tables")

// TestDocs keeps docs/reference/variables.md equal to the tables.
func TestDocs(t *testing.T) {
	const file = "../../docs/reference/variables.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(Markdown()), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, Markdown(), string(text), "run make docs")
}
