package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These limits keep a function on one screen and a file about one subject. Tests may be longer because of their
// tables.
const (
	maxFunctionLines = 80
	maxFileLines     = 600
)

// tooLong finds functions and files over the limits.
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

// maxColumns is the maximum length of a line in bytes, also in tests.
const maxColumns = 120

func TestLinesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		number := 0
		for line := range bytes.Lines(s.text(t)) {
			if number++; len(bytes.TrimSuffix(line, []byte("\n"))) > maxColumns {
				t.Errorf("%s:%d has over %d columns", s.file, number, maxColumns)
			}
		}
	}
}

// Budgets for the tokens of all Go code and of all tests, without comments and automatic semicolons. A change that
// needs more raises the budget, and its commit says why.
const (
	maxTokens     = 807_710
	maxTestTokens = 735_480
)

func TestTokens(t *testing.T) {
	var code, tests int
	for _, s := range sources(t) {
		if n := tokens(s.text(t)); s.test {
			tests += n
		} else {
			code += n
		}
	}
	require.LessOrEqual(t, code, maxTokens, "tokens of code")
	require.LessOrEqual(t, tests, maxTestTokens, "tokens of tests")
}

func tokens(text []byte) (n int) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		switch _, kind, literal := s.Scan(); {
		case kind == token.EOF:
			return n
		case kind != token.SEMICOLON || literal != "\n":
			n++
		}
	}
}

func TestTokensAreCounted(t *testing.T) {
	require.Equal(t, 10, tokens([]byte("package p\n\n// f does nothing.\nfunc f() { return; }\n")))
}

func TestSizes(t *testing.T) { report(t, tooLong(sources(t))) }

func TestSizesCatch(t *testing.T) {
	long := "package p\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFunctionLines-1) + "}\n"
	require.Len(t, tooLong(sample(t, "env/a.go", long)), 1)
	require.Empty(t, tooLong(sample(t, "env/a.go", strings.Replace(long, "\tf()\n", "", 1))))
	require.Len(t, tooLong(sample(t, "env/a.go", "package p\n"+strings.Repeat("\n", maxFileLines)+"var x int\n")), 1)
}
