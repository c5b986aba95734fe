package pages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConsoleAndGorun(t *testing.T) {
	p := Page{"docs/a.md", "Call `gorun ps` or `ps`.\n```console hosts mpi\n$ a \\\n  b  # c\none\ntwo\n$ d\n```\n" +
		"```\n$ no `gorun x`\n```\n| `gorun -n 1 sh \\| cat` |\n```console\n$ e\n```\n"}
	require.Equal(t, []Block{
		{2, []string{"hosts", "mpi"}, []Command{{"a   b  # c", []string{"one", "two"}}, {"d", nil}}},
		{13, []string{}, []Command{{"e", nil}}},
	}, p.Console())
	require.Equal(t, []string{"gorun ps", "gorun -n 1 sh | cat"}, p.Gorun())
	require.True(t, p.IsGuide())
	require.False(t, Page{File: "docs/internals/b.md"}.IsGuide())
}
