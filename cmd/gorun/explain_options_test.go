package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	for line, want := range map[string]explainOptions{
		"gorun explain job.log":           {words: []string{"job.log"}},
		"gorun explain -":                 {words: []string{"-"}},
		"gorun explain ibv_create_qp x":   {words: []string{"ibv_create_qp", "x"}},
		"gorun explain -- --weird text":   {words: []string{"--weird", "text"}},
		"gorun explain nccl --list":       {list: true, words: []string{"nccl"}},
		"gorun explain -9":                {words: []string{"-9"}},
		"gorun explain exitcode -9":       {words: []string{"exitcode", "-9"}},
		"gorun explain a --weird -x b":    {words: []string{"a", "--weird", "-x", "b"}},
		"gorun explain a -- --list":       {words: []string{"a", "--list"}},
		"gorun explain --list":            {list: true},
		"gorun explain --list nccl":       {list: true, words: []string{"nccl"}},
		"gorun explain [rank0]: : a : -n": {words: []string{"[rank0]:", ":", "a", ":", "-n"}},
	} {
		got := mustBe[*explainOptions](t, line)
		got.call = nil
		require.Equal(t, want, *got, line)
	}
	require.True(t, mustBe[*explainOptions](t, "gorun explain --json 137").JSON)
	require.True(t, mustBe[*explainOptions](t, "gorun explain job.log --json").JSON)
	require.True(t, mustBe[*explainOptions](t, "gorun explain -11 --json").JSON)
}

func TestExplainProblems(t *testing.T) {
	_, err := read([]string{"explain", ""}, aroundOf())
	require.ErrorContains(t, err, "the text to explain is empty: an unset variable?")
	requireProblems(t, map[string][]string{
		"gorun explain": {"nothing to explain: add a text in quotes, a file, or - for standard input; --list " +
			"lists what is known"},
		"gorun explain --list a b":  {"b: --list takes one family, such as nccl"},
		"gorun explain --svg x":     {"unknown option --svg"},
		"gorun explain --timeout 5": {"unknown option --timeout: gorun has it, gorun explain does not; call gorun for it"},
	})
}
