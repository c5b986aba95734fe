package nccl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLintOfTexts lints the settings of the texts that gorun's first users learn from,
// and of real sites: each file says what is to be found in it, and that is all.
func TestLintOfTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/*")
	require.NoError(t, err)
	require.Greater(t, len(files), 6)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var want, got []string
			for line := range strings.Lines(string(text)) {
				if name, found := strings.CutPrefix(strings.TrimSpace(line), "# want: "); found {
					want = append(want, name)
				}
			}
			settings := ParseFile(file, text)
			require.NotEmpty(t, settings)
			for _, f := range Lint(settings, Found{}) {
				got = append(got, f.Name+" "+string(f.Problem))
				require.True(t, f.Line > 0 && strings.Contains(lineOf(string(text), f.Line), strings.TrimPrefix(f.Name, "OMPI_MCA_")), "%s is not on line %d", f.Name, f.Line)
			}
			require.Equal(t, want, got)
		})
	}
}

func lineOf(text string, number int) string { return strings.Split(text, "\n")[number-1] }
