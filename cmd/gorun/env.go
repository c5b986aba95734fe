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
	shell bool // print commands for a shell
	all   bool // list every variable

	explain  []string // old spelling of gorun explain NAME...
	lint     bool     // old spelling of gorun lint
	settings lintOptions
}

func envCommand(c *commandLine) *command {
	o := &envOptions{commandLine: c, settings: lintOptions{commandLine: c}}
	shared := []string{"np", "host", "hostfile", "nproc-per-node", "quiet", "verbose"}
	flags := append(c.group(dialect.GroupShown, option{
		Names: "shell", Set: dialect.Switch(&o.shell),
		Help: "print export lines for eval, without variables that differ by rank",
	}, option{
		Names: "all", Set: dialect.Switch(&o.all),
		Help: "list the variables of MPI, PyTorch's launcher and gorun, too",
	}, c.jsonOption("print everything as JSON")), c.JobOptions(shared...)...)
	old := c.group(dialect.GroupShown, option{
		Names: "explain", Value: "NAME", Set: appendTo(&o.explain), Help: "act as gorun explain NAME",
	}, option{
		Names: "lint", Set: dialect.Switch(&o.lint), Help: "act as gorun lint",
	}, o.settings.libraryOption())
	taken := c.JobOptionsExcept(true, append(shared, "json", "version", "help", "print-completion", "report")...)
	return &command{
		request:  o,
		programs: true,
		arrange:  func(args []string) []string { return c.optionsFirstWith(args, "explain", "lint") },
		Command: cli.Command{
			Usage:       "show the variables that ranks find in their environment",
			Description: "gorun env shows the variables of a job's ranks, and why each is set. It starts no rank.",
			UsageText:   "gorun env [options] [PROGRAM [ARGS...]]",
			Flags:       append(c.Flags(flags...), dialect.Hide(c.Flags(append(old, taken...)...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun env", "what gorun sets here"},
				{"gorun env -H a:2,b:2 train.py", "for a job on two hosts"},
				{"gorun env --shell", "for a program that another launcher starts"},
			},
			Ranks: dialect.RanksOfJobs,
			Codes: []dialect.Example{
				{"0", "the variables were shown"},
				{"2", "a mistake on the command line"},
				{"125", "gorun's own error"},
				{"126, 127", "PROGRAM cannot be executed, or was not found"},
			},
			Last: "All options of a job work as well: gorun help all. What a variable means: gorun explain NAME. " +
				"More: docs/nccl.md.",
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
		o.settings.check(words)
	default:
		if words == nil && len(o.Spec.Apps) == 1 {
			app := &o.Spec.Apps[0]
			app.Program, app.Args, app.Start = anyProgram, []string{}, job.StartExec
		}
		o.NoteTrailingOptions(words, "json", "shell", "lint", "explain")
		o.DryRun = true
		o.ResolveJob()
	}
	if o.settings.library != "" && !o.lint {
		o.refuse("--library is an option of gorun lint")
	}
}

func (o *envOptions) run() error {
	switch {
	case o.explain != nil:
		return o.explainVariables(o.explain)
	case o.lint:
		return o.settings.run()
	}
	p, err := launcher.Plan(context.Background(), o.Spec, o.hostOptions())
	if err != nil {
		code := reportStartFailure(err).ExitCode
		if name := o.Spec.Apps[0].Program; len(nccl.Matching(name)) == 1 {
			o.notify("hint: gorun explain " + name)
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
