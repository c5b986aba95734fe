package dialect

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"gorun/internal/testneeds"
)

func TestExpects(t *testing.T) {
	for line, want := range map[string]string{
		"gorun ":                           "command",
		"gorun -n 4 ":                      "command",
		"gorun -- ":                        "command",
		"gorun --nproc":                    "words --nproc-per-node",
		"gorun --nproc_per":                "words --nproc_per_node",
		"gorun -hostf":                     "words -hostfile",
		"gorun -n 4 --gra":                 "words --grace",
		"gorun --label a":                  "words auto always never",
		"gorun --label=":                   "words[--label=] auto always never",
		"gorun --label=no --lab":           "words --label",
		"gorun --nproc_per_node ":          "words auto gpu cpu xpu",
		"gorun -n ":                        "words",
		"gorun --log-dir ":                 "dirs",
		"gorun --hostfile h":               "files",
		"gorun --hostfile=h":               "files[--hostfile=]",
		"gorun -H ":                        "hosts",
		"gorun -H a,b":                     "hosts[a,]",
		"gorun --host=a,root@b":            "hosts[--host=a,root@]",
		"gorun -x NAM":                     "variables",
		"gorun -x NAME=":                   "words",
		"gorun -n 4 ./x --nproc":           "arguments 2",
		"gorun -- x --nproc":               "arguments 1",
		"gorun -n 1 ./a : --map":           "words --map-by",
		"gorun -n 1 ./a : --hang-t":        "words",
		"gorun -n 1 ./a : -n 1 ./b ":       "arguments 6",
		"mpirun -genv A 1 --map-b":         "words --map-by",
		"mpirun -genv A ":                  "words",
		"torchrun --nn":                    "words --nnodes",
		"torchrun --np":                    "words --nproc-per-node",
		"torch.distributed.launch --use-e": "words --use-env",
	} {
		words := strings.Split(line, " ")
		got := ByName(words[0]).Expects(words[1:])
		text := got.Kind
		if got.Prefix != "" {
			text += "[" + got.Prefix + "]"
		}
		if got.Kind == "arguments" {
			text += " " + string(rune('0'+got.Program))
		}
		for _, c := range got.Words {
			text += " " + c.Word
		}
		require.Equal(t, want, text, line)
	}
}

// Options of a command may follow its arguments, unless these are a program.
func TestExpectedByCommand(t *testing.T) {
	c := &cli.Command{Flags: new(Line).Flags(&Option{Names: "from", Value: "DIR", Dirs: true})}
	for line, want := range map[string][2]string{
		"": {"operand", "command"}, "a --f": {"words", "arguments"}, "--from ": {"dirs", "dirs"}, "--f": {"words", "words"},
	} {
		words := strings.Split(line, " ")
		require.Equal(t, want, [2]string{
			ExpectedByCommand(c, false, words).Kind, ExpectedByCommand(c, true, words).Kind,
		}, line)
	}
}

// Each script is valid in its shell.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range Shells {
		for _, d := range []*Dialect{Gorun, Torchrun, Launch} {
			program := testneeds.Program(t, testneeds.Layer(shell), shell)
			cmd := exec.Command(program, "-n")
			cmd.Stdin = strings.NewReader(d.Completion(shell))
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.Empty(t, string(output))
		}
	}
}
