package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gorun/launcher/job"
)

// Env is the command line of gorun env: gorun's own options for a job whose ranks' environment is shown, and what is
// asked of single variables. Its rows are made when they are asked for: every start of a job would pay for them
// otherwise.
func Env() *Dialect {
	envOnce.Do(func() { envDialect = makeEnv() })
	return envDialect
}

var (
	envOnce    sync.Once
	envDialect *Dialect
)

func makeEnv() *Dialect {
	return &Dialect{
		Name: "gorun env",
		About: "gorun env shows what the ranks of a job would find in their environment, and why; explains variables of " +
			"NCCL, RCCL, PyTorch and others; and finds settings " +
			"that are wrong, dead or of no use. It starts no rank.",
		examples: []example{
			{"gorun env", "what gorun would set here"},
			{"gorun env -H a:2,b:2 train.py", "for a job on two hosts"},
			{"gorun env --shell", "the same for a shell's eval, where another launcher starts the program"},
			{"gorun env --explain NCCL_IB_HCA", "what a variable means"},
			{"gorun env --explain 'NCCL_IB_*'", "which there are"},
			{"gorun env --lint", "what is wrong with this environment and its nccl.conf"},
			{"gorun env --lint job.sbatch Dockerfile", "and with what these files set"},
		},
		tables: slices.Concat([][]Option{envTable()}, rows(mpiTable, "np", "host", "hostfile"),
			rows(torchrunTable, "nproc-per-node"), rows(ownTable, "quiet", "verbose", "version", "help")),
		taken: without([][]Option{
			ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable,
			reachTable, torchrunTable, openmpiTable, hydraTable, foreignTable, unclearTable,
		},
			"np", "host", "hostfile", "nproc-per-node", "json", "quiet", "verbose", "version", "help", "print-completion",
			"report"),
		interpreters: gorunInterpreters, mpmd: true, environs: true,
		codes: []example{
			{"0", "it was shown; with --lint: nothing is wrong"},
			{"1", "--lint found something"},
			{"2", "a mistake on the command line; with --explain: nothing is known of such a variable"},
			{"125", "gorun's own error"},
			{"126, 127", "PROGRAM cannot be executed, or was not found"},
		},
		last: "gorun's own options for jobs are taken, too (gorun --help): -n, -H, --nproc-per-node, --gpus, -x and " +
			"others; without PROGRAM any will do. More: docs/nccl.md.",
	}
}

// EnvWish is what gorun env is to do.
type EnvWish struct {
	Explain []string // names and patterns of variables to explain
	Lint    bool     // find what is wrong with
	Files   []string // these; "-" is standard input, none: the environment and the libraries' own files
	Library string   // with Lint: the library that is meant; "": the one that would be loaded
	Shell   bool     // print the settings of the job as a shell's commands
}

// envTable holds the options of gorun env alone.
func envTable() []Option {
	return []Option{
		{
			Names: []string{"explain"}, Group: GroupShown, Value: "NAME", from: varNone,
			Help: "what a variable means: default, values, versions, when it helps and when it hurts; NAME may be a pattern " +
				"('NCCL_IB_*'), and more may follow",
			set: func(p *parser, a arg) error { p.env.Explain = append(p.env.Explain, a.value); return nil },
		},
		{
			Names: []string{"lint"}, Group: GroupShown, from: varNone,
			Help: "what is wrong with settings: of the files that follow (scripts, Dockerfiles, Python programs, batch " +
				"scripts, nccl.conf; - is standard input), or of this environment and the nccl.conf of user and host",
			set: func(p *parser, a arg) error { p.env.Lint = a.on; return nil },
		},
		{
			Names: []string{"library"}, Group: GroupShown, Value: "FILE", from: varNone,
			Help: "with --lint: the libnccl.so or librccl.so that is meant, in place of the one that would be loaded; none " +
				"for none",
			set: func(p *parser, a arg) error { return text(&p.env.Library, a) },
		},
		{
			Names: []string{"shell"}, Group: GroupShown, from: varNone,
			Help: "print the settings that gorun would add as export lines, for eval; what says who a rank is is left out",
			set:  func(p *parser, a arg) error { p.env.Shell = a.on; return nil },
		},
		{
			Names: []string{"json"}, Group: GroupShown, from: varNone,
			Help: "print everything as JSON",
			set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
		},
	}
}

// anyProgram stands for the program of a job where none was named: every host has it.
const anyProgram = "/bin/sh"

// finishEnv makes an Invocation of the options of gorun env.
func (p *parser) finishEnv() (Invocation, error) {
	wish, app := &p.env, &p.inv.Spec.Apps[0]
	var words []string
	if app.Args != nil {
		words = append([]string{app.Program}, app.Args...)
	}
	p.oneOfEnv()
	switch {
	case wish.Explain != nil:
		wish.Explain = append(wish.Explain, words...)
		p.inv.Spec = job.Spec{}
	case wish.Lint:
		wish.Files = words
		p.inv.Spec = job.Spec{}
	default:
		if words == nil && len(p.inv.Spec.Apps) == 1 {
			app.Program, app.Args, app.Start = anyProgram, []string{}, job.StartExec
		}
		p.noteAsArguments(words, "--json", "--shell", "--lint", "--explain")
		p.dryRun = true
		p.finishJob()
	}
	if wish.Library != "" && !wish.Lint {
		p.problem(errors.New("--library says what --lint is to compare with: add --lint"))
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action, p.inv.Env = ShowEnv, wish
	return p.inv, nil
}

// oneOfEnv refuses several things to do.
func (p *parser) oneOfEnv() {
	var given []string
	for _, o := range []struct {
		given bool
		name  string
	}{{p.env.Explain != nil, "--explain"}, {p.env.Lint, "--lint"}, {p.env.Shell, "--shell"}} {
		if o.given {
			given = append(given, o.name)
		}
	}
	if p.env.Shell && p.inv.JSON {
		given = append(given, "--json")
	}
	if len(given) > 1 {
		p.problem(fmt.Errorf("%s contradict each other: ask for one at a time", strings.Join(given, " and ")))
	}
}
