package arch

import (
	"fmt"
	"go/ast"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sizes that keep a function on a screen and a file about one noun. Tests may be longer: their tables are.
const (
	maxFunctionLines = 80
	maxFileLines     = 600
)

// tooLong finds functions and files past those sizes.
func tooLong(all []source) []string {
	var problems []string
	for _, s := range all {
		if s.test {
			continue
		}
		lineOf := func(n ast.Node) (first, last int) {
			return s.pos.Position(n.Pos()).Line, s.pos.Position(n.End()).Line
		}
		if _, last := lineOf(s.tree); last > maxFileLines {
			problems = append(problems, fmt.Sprintf("%s has %d lines (at most %d): split it by noun", s.file, last,
				maxFileLines))
		}
		s.declared(func(function string, decl ast.Decl) {
			if first, last := lineOf(decl); function != "" && last-first+1 > maxFunctionLines {
				problems = append(problems, fmt.Sprintf("%s: %s has %d lines (at most %d): a table or a split reads better",
					s.line(decl), function, last-first+1, maxFunctionLines))
			}
		})
	}
	return problems
}

// longLines are those over maxColumns that are left, most of them texts in tests. The number only falls.
const (
	maxColumns = 120
	longLines  = 163
)

func TestLinesAreShort(t *testing.T) {
	long := 0
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.pos.Position(s.tree.Pos()).Filename)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if len(strings.TrimSuffix(line, "\n")) > maxColumns {
				long++
			}
		}
	}
	require.LessOrEqual(t, long, longLines, "lines have at most %d columns: break the new ones", maxColumns)
}

func TestSizes(t *testing.T) { report(t, tooLong(sources(t))) }

func TestSizesCatch(t *testing.T) {
	long := "package p\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFunctionLines-1) + "}\n"
	require.Len(t, tooLong(sample(t, "env/a.go", long)), 1)
	require.Empty(t, tooLong(sample(t, "env/a.go", strings.Replace(long, "\tf()\n", "", 1))))
	require.Len(t, tooLong(sample(t, "env/a.go", "package p\n"+strings.Repeat("\n", maxFileLines)+"var x int\n")), 1)
}
