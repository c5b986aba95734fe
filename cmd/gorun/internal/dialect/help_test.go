package dialect

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

//go:generate go test -run ^TestDocs -count=1 . -update

var update = flag.Bool("update", false, "write docs/options.md instead of comparing it")

func TestHelp(t *testing.T) {
	for _, d := range allDialects {
		help := d.Help()
		for line := range strings.Lines(help) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), helpWidth, line)
			require.Equal(t, strings.TrimRight(line, " \n"), strings.TrimSuffix(line, "\n"), "no blanks at the end")
		}
		for o := range d.Options {
			shown := strings.Contains(help, "\n  "+o.Usage()+"\n") || strings.Contains(help, "\n  "+o.Usage()+" ")
			taken := slices.ContainsFunc(d.taken, func(table []Option) bool { return o == &table[0] })
			own := o.Group < groups || o.Group == GroupMPI && d.slots != slotsOfGorun
			require.Equal(t, own && !taken, shown, "%s: %s", d.Name, o.Usage())
		}
		require.NotRegexp(t, `--\w+_`, help, "underscores are no second spelling to show")
		require.Less(t, strings.Index(help, "Examples:"), strings.Index(help, "  -h, --help"))
		require.Equal(t, !d.serves && !d.checks, strings.Contains(help, "How many ranks:"))
		require.Less(t, strings.Index(help, "--version"), strings.Index(help, "Exit codes:"))
	}
}

// Every command line that the help shows can be typed.
func TestExamplesParse(t *testing.T) {
	for _, d := range allDialects {
		require.NotEmpty(t, d.examples)
		for _, e := range d.examples {
			require.True(t, strings.HasPrefix(e.line+" ", d.Name+" "), e.line)
			inv := mustParse(t, e.line)
			require.Same(t, d, inv.Dialect)
			require.Empty(t, inv.Notes)
		}
	}
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a b", "ccccc", "d"}, wrap("a b ccccc d", 4))
	require.Equal(t, []string{""}, wrap("", 4))
	require.Equal(t, []string{"abc d"}, wrap("  abc   d ", 5))
}

// TestDocs keeps docs/options.md equal to the tables.
func TestDocs(t *testing.T) {
	page := filepath.Join(testneeds.Repository(t), "docs", "options.md")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(Markdown()), 0o644))
	}
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, Markdown(), string(written), "docs/options.md is stale: make docs")
}

func TestDocsNameEveryOption(t *testing.T) {
	text := Markdown()
	for _, d := range allDialects {
		for o := range d.Options {
			for _, n := range o.Names {
				require.Contains(t, text, "`"+Spelling(n))
			}
			for _, v := range o.Variables() {
				require.Contains(t, text, "`"+v+"`")
			}
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| `") {
			require.Equal(t, 5, strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"), line)
		}
	}
}
