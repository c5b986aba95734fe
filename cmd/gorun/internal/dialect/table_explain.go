package dialect

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// Explain is the command line of gorun explain, which has no program.
var Explain = &Dialect{
	Name: "gorun explain",
	About: "gorun explain says what an error of NCCL, PyTorch, MPI, CUDA, SSH, Slurm or the system means, why it comes, " +
		"how to check that and what to do. " +
		"It reads one text, a whole log, or an exit code, and starts no rank.",
	examples: []example{
		{"gorun explain 'ibv_create_qp failed'", "one error"},
		{"gorun explain job.log", "all in a log, causes first"},
		{"gorun explain -", "the same from standard input"},
		{"gorun explain nccl-shm-full", "one that a hint names"},
		{"gorun explain 137", "an exit code"},
		{"gorun explain --list nccl", "those of NCCL that are known"},
	},
	tables: append([][]Option{explainTable}, rows(ownTable, "version", "help")...),
	serves: true, explains: true,
	codes: []example{
		{"0", "something was found"},
		{"1", "nothing of it is known"},
		{"2", "a mistake on the command line, or a file that cannot be read"},
		{"125", "gorun's own error"},
	},
	last: "A word that is an id, or else a file, is taken for it; ./WORD is a file. Options may stand behind the words; " +
		"behind -- nothing is one. More: docs/errors.md.",
}

// ExplainWish is what gorun explain is asked.
type ExplainWish struct {
	// Words are the arguments: a text, a file, an id, or "-"; with List a family's name, or none.
	Words []string
	// List asks for all errors that are known.
	List bool
}

// explainTable holds the options of gorun explain alone.
var explainTable = []Option{
	{
		Names: []string{"list"}, Group: GroupShown, from: varNone,
		Help: "list the errors that are known, or those of one FAMILY, such as nccl, slurm, openmpi",
		set:  func(p *parser, a arg) error { p.inv.Explain.List = a.on; return nil },
	},
	{
		Names: []string{"json"}, Group: GroupShown, from: varNone,
		Help: "print what is found as JSON",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
}

// finishExplain makes an Invocation of the options of gorun explain.
func (p *parser) finishExplain() (Invocation, error) {
	wish := &p.inv.Explain
	if app := p.inv.Spec.Apps[0]; app.Program != "" || app.Args != nil {
		wish.Words = append([]string{app.Program}, app.Args...)
	}
	switch {
	case wish.List && len(wish.Words) > 1:
		p.problem(fmt.Errorf("%s: --list takes one family, such as nccl", typed(wish.Words[1:])))
	case wish.Words != nil && strings.TrimSpace(strings.Join(wish.Words, "")) == "":
		p.problem(errors.New("the text to explain is empty: an unset variable? gorun explain --list lists what is known"))
	case !wish.List && len(wish.Words) == 0 && p.problems == nil:
		p.problem(errors.New("nothing to explain: add a text in quotes, a file, or - for standard input; --list lists what " +
			"is known"))
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action, p.inv.Spec = ExplainErrors, job.Spec{}
	return p.inv, nil
}
