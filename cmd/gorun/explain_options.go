package main

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// explainOptions are those of gorun explain.
type explainOptions struct {
	*call
	words []string // a text, a file, an id, or "-"; with list a family's name, or none
	list  bool     // of all errors that are known
}

func explainCommand(c *call) *command {
	o := &explainOptions{call: c}
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.OptionsFirst(args, isExplainOption) },
		Command: cli.Command{
			Usage: "say what an error means: of a text, a log file, an exit code",
			Description: "gorun explain says what an error of NCCL, PyTorch, MPI, CUDA, SSH, Slurm or the system means, why " +
				"it comes, how to check that and what to do. " +
				"It reads one text, a whole log, or an exit code, and starts no rank.",
			UsageText: "gorun explain [options] TEXT|FILE|ID|-",
			Flags: c.Flags(own(dialect.GroupShown, option{
				Names: []string{"list"}, Set: dialect.Switch(&o.list),
				Help: "list the errors that are known, or those of one FAMILY, such as nccl, slurm, openmpi",
			}, c.jsonOption("print what is found as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun explain 'ibv_create_qp failed'", "one error"},
				{"gorun explain job.log", "all in a log, causes first"},
				{"gorun explain -", "the same from standard input"},
				{"gorun explain nccl-shm-full", "one that a hint names"},
				{"gorun explain 137", "an exit code"},
				{"gorun explain --list nccl", "those of NCCL that are known"},
			},
			Codes: []dialect.Example{
				{"0", "something was found"},
				{"1", "nothing of it is known"},
				{"2", "a mistake on the command line, or a file that cannot be read"},
				{"125", "gorun's own error"},
			},
			Last: "A word that is an id, or else a file, is taken for it; ./WORD is a file. Options may stand behind the " +
				"words; behind -- nothing is one. More: docs/errors.md.",
		},
	}
}

// isExplainOption: the words are somebody's text, in which only long options of gorun explain are none of it; and what
// begins like -9 is an exit code.
func isExplainOption(word string, o *option, words []string) bool {
	digits, negative := strings.CutPrefix(word, "-")
	if negative && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return false
	}
	return words == nil || o != nil && strings.HasPrefix(word, "--")
}

func (o *explainOptions) check(words []string) {
	o.words = words
	switch {
	case o.list && len(words) > 1:
		o.problem("%s: --list takes one family, such as nccl", dialect.Typed(words[1:]))
	case words != nil && strings.TrimSpace(strings.Join(words, "")) == "":
		o.problem("the text to explain is empty: an unset variable? gorun explain --list lists what is known")
	case !o.list && len(words) == 0 && o.Err() == nil:
		o.problem("nothing to explain: add a text in quotes, a file, or - for standard input; --list lists what is known")
	}
}

func (o *explainOptions) run() error { return o.explain(os.Stdin) }
