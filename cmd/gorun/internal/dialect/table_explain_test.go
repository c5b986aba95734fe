package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	for line, want := range map[string]ExplainWish{
		"gorun explain job.log":           {Words: []string{"job.log"}},
		"gorun explain -":                 {Words: []string{"-"}},
		"gorun explain ibv_create_qp x":   {Words: []string{"ibv_create_qp", "x"}},
		"gorun explain -- --weird text":   {Words: []string{"--weird", "text"}},
		"gorun explain nccl --list":       {List: true, Words: []string{"nccl"}},
		"gorun explain -9":                {Words: []string{"-9"}},
		"gorun explain exitcode -9":       {Words: []string{"exitcode", "-9"}},
		"gorun explain a --weird -x b":    {Words: []string{"a", "--weird", "-x", "b"}},
		"gorun explain a -- --list":       {Words: []string{"a", "--list"}},
		"gorun explain --list":            {List: true},
		"gorun explain --list nccl":       {List: true, Words: []string{"nccl"}},
		"gorun explain [rank0]: : a : -n": {Words: []string{"[rank0]:", ":", "a", ":", "-n"}},
	} {
		require.Equal(t, Invocation{Action: ExplainErrors, Dialect: Explain, Explain: want}, mustParse(t, line), line)
	}
	require.True(t, mustParse(t, "gorun explain --json 137").JSON)
	require.True(t, mustParse(t, "gorun explain job.log --json").JSON)
	require.True(t, mustParse(t, "gorun explain -11 --json").JSON)
	require.Equal(t, Run, mustParse(t, "gorun -n 2 explain 137").Action)
}

func TestExplainProblems(t *testing.T) {
	_, err := Parse("gorun", []string{"explain", ""}, Surroundings{})
	require.ErrorContains(t, err, "the text to explain is empty: an unset variable?")
	for line, want := range map[string][]string{
		"gorun explain": {"nothing to explain: add a text in quotes, a file, or - for standard input; --list " +
			"lists what is known"},
		"gorun explain --list a b":  {"b: --list takes one family, such as nccl"},
		"gorun explain --svg x":     {"unknown option --svg"},
		"gorun explain --timeout 5": {"unknown option --timeout: gorun has it, gorun explain does not; call gorun for it"},
	} {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
}
