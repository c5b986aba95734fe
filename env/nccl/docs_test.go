package nccl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const tablesBegin = "<!-- Below here: written by \"make docs\" from env/nccl/data; edit the data there. -->\n"

// TestDocs keeps the tables of docs/reference/nccl.md equal to the data. The text before them is written by
// hand.
func TestDocs(t *testing.T) {
	const file = "../../docs/reference/nccl.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	above, tables, found := strings.Cut(string(text), tablesBegin)
	require.True(t, found)
	if *update {
		tables = Tables()
		require.NoError(t, os.WriteFile(file, []byte(above+tablesBegin+tables), 0o644))
	}
	require.Equal(t, Tables(), tables, "run make docs")
	for _, v := range Variables() {
		require.Equal(t, 1, strings.Count(tables, "</a>"+code(v.Name)+" |"), "%s is in the tables once", v.Name)
	}
}
