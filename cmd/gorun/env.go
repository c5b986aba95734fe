package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/env/nccl"
	"gorun/launcher"
	"gorun/launcher/job"
)

// envOptions are those of gorun env. Its Spec is the job whose environment is printed.
type envOptions struct {
	*commandLine
	explain []string // names and patterns of variables
	lint    bool
	files   []string // for lint; "-" is standard input; without files: the environment and the libraries' own files
	library string   // for lint: a file, or "none"; "" is the one that would be loaded
	shell   bool     // print commands for a shell
	all     bool     // list every variable
}

func envCommand(c *commandLine) *command {
	o := &envOptions{commandLine: c}
	shared := []string{"np", "host", "hostfile", "nproc-per-node", "quiet", "verbose"}
	flags := append(c.group(dialect.GroupShown, option{
		Names: []string{"explain"}, Value: "NAME", Set: appendTo(&o.explain),
		Help: "what a variable means: default, values, versions, when it helps and when it hurts; NAME may be a pattern " +
			"('NCCL_IB_*'), and more may follow",
	}, option{
		Names: []string{"lint"}, Set: dialect.Switch(&o.lint),
		Help: "what is wrong with settings: of the files that follow (scripts, Dockerfiles, Python programs, batch " +
			"scripts, nccl.conf; - is standard input), or of this environment and the nccl.conf of user and host",
	}, option{
		Names: []string{"library"}, Value: "FILE", Set: dialect.Text(&o.library),
		Help: "with --lint: the libnccl.so or librccl.so that is meant, in place of the one that would be loaded; none " +
			"for none",
	}, option{
		Names: []string{"shell"}, Set: dialect.Switch(&o.shell),
		Help: "print the settings that gorun would add as export lines, for eval; what says who a rank is is left out",
	}, option{
		Names: []string{"all"}, Set: dialect.Switch(&o.all),
		Help: "list MPI's variables and those of PyTorch's launcher and gorun, too",
	}, c.jsonOption("print everything as JSON")), c.JobOptions(shared...)...)
	taken := c.JobOptionsExcept(true, append(shared, "json", "version", "help", "print-completion", "report")...)
	return &command{
		request:  o,
		programs: true,
		arrange:  func(args []string) []string { return c.optionsFirstWith(args, "explain", "lint") },
		Command: cli.Command{
			Usage: "what ranks find in their environment; explain and check settings",
			Description: "gorun env shows what the ranks of a job would find in their environment, and why; explains " +
				"variables of NCCL, RCCL, PyTorch and others; and finds settings " +
				"that are wrong, dead or of no use. It starts no rank.",
			UsageText: "gorun env [options] [PROGRAM [ARGS...]]\n       gorun env --explain NAME...\n" +
				"       gorun env --lint [FILE...]",
			Flags: append(c.Flags(flags...), dialect.Hide(c.Flags(taken...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun env", "what gorun would set here"},
				{"gorun env -H a:2,b:2 train.py", "for a job on two hosts"},
				{"gorun env --shell", "the same for a shell's eval, where another launcher starts the program"},
				{"gorun env --explain NCCL_IB_HCA", "what a variable means"},
				{"gorun env --explain 'NCCL_IB_*'", "which there are"},
				{"gorun env --lint", "what is wrong with this environment and its nccl.conf"},
				{"gorun env --lint job.sbatch Dockerfile", "and with what these files set"},
			},
			Ranks: dialect.RanksOfJobs,
			Codes: []dialect.Example{
				{"0", "it was shown; with --lint: nothing is wrong"},
				{"1", "--lint found something"},
				{"2", "a mistake on the command line; with --explain: nothing is known of such a variable"},
				{"125", "gorun's own error"},
				{"126, 127", "PROGRAM cannot be executed, or was not found"},
			},
			Last: "gorun's own options for jobs are taken, too (gorun --help): -n, -H, --nproc-per-node, --gpus, -x and " +
				"others; without PROGRAM any will do. More: docs/nccl.md.",
		},
	}
}

// anyProgram is the program of the job if none is given: every host has it.
const anyProgram = "/bin/sh"

func (o *envOptions) check(words []string) {
	given := givenNames([]choice{
		{o.explain != nil, "--explain"}, {o.lint, "--lint"}, {o.shell, "--shell"}, {o.shell && o.JSON, "--json"},
	})
	if len(given) > 1 {
		o.refuse("%s contradict each other: ask for one at a time", strings.Join(given, " and "))
	}
	switch {
	case o.explain != nil:
		o.explain = append(o.explain, words...)
	case o.lint:
		o.files = words
	default:
		if words == nil && len(o.Spec.Apps) == 1 {
			app := &o.Spec.Apps[0]
			app.Program, app.Args, app.Start = anyProgram, []string{}, job.StartExec
		}
		o.NoteTrailingOptions(words, "json", "shell", "lint", "explain")
		o.DryRun = true
		o.ResolveJob()
	}
	if o.library != "" && !o.lint {
		o.refuse("--library says what --lint is to compare with: add --lint")
	}
}

func (o *envOptions) run() error {
	switch {
	case o.explain != nil:
		return o.explainVariables()
	case o.lint:
		return o.lintSettings()
	}
	options := append(hostOptions(o.Invocation), launcher.WithOutput(o.stdout, o.stderr),
		launcher.WithNVML(nvmlWorker()))
	p, err := launcher.Plan(context.Background(), o.Spec, options...)
	if err != nil {
		code := reportStartFailure(err).ExitCode
		if name := o.Spec.Apps[0].Program; len(nccl.Matching(name)) == 1 {
			o.notify("hint: gorun env --explain " + name)
		}
		return exitWith(code)
	}
	e := newEnvironment(p, o.Spec.Tune)
	e.all, e.mpi, e.more = o.all, p.UsesMPI || o.Spec.RequestsMPI(), "--all"
	if o.shell {
		return o.print(e.shell())
	}
	return o.printResult("environment", e, func() string { return e.table(show.Width(o.stdout)) })
}
