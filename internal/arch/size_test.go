package arch

import (
	"fmt"
	"go/ast"
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
			problems = append(problems, fmt.Sprintf("%s has %d lines (at most %d): split it by noun", s.file, last, maxFileLines))
		}
		s.declared(func(function string, decl ast.Decl) {
			if first, last := lineOf(decl); function != "" && last-first+1 > maxFunctionLines {
				problems = append(problems, fmt.Sprintf("%s: %s has %d lines (at most %d): a table or a split reads better", s.line(decl), function, last-first+1, maxFunctionLines))
			}
		})
	}
	return problems
}

func TestSizes(t *testing.T) { report(t, tooLong(sources(t))) }

func TestSizesCatch(t *testing.T) {
	long := "package p\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFunctionLines-1) + "}\n"
	require.Len(t, tooLong(sample(t, "env/a.go", long)), 1)
	require.Empty(t, tooLong(sample(t, "env/a.go", strings.Replace(long, "\tf()\n", "", 1))))
	require.Len(t, tooLong(sample(t, "env/a.go", "package p\n"+strings.Repeat("\n", maxFileLines)+"var x int\n")), 1)
}
