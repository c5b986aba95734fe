package signature

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test -run ^TestDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write the entries of docs/reference/errors.md again")

// TestDocs keeps the entries of docs/reference/errors.md equal to the files.
func TestDocs(t *testing.T) {
	const (
		file  = "../../../docs/reference/errors.md"
		begin = "<!-- Generated from launcher/doctor/signature/data by `make docs`; edit the files there. -->\n\n"
		end   = "\n<!-- The entries end here. -->\n"
	)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	text := before + begin + Markdown() + end + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(page), "run make docs")
}
