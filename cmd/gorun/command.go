package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// command is one of gorun's commands: what urfave/cli knows of it, the rest of its help, and its request.
type command struct {
	cli.Command
	dialect.Page
	request
	programs bool // the arguments are a program with its arguments, or several programs
	// arrange reorders the command line before it is parsed. By default, options move before arguments, unless these
	// are programs.
	arrange func(args []string) []string
}

// request holds the options of one command line.
type request interface {
	// check validates and completes them, given the arguments that belong to no option, and refuses each mistake.
	check(args []string)
	// run executes the command. See exitError for exit codes.
	run() error
}

// exitError is an error with an exit code of its own. Without a text, the error has been reported already.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }

// exitWith ends a command with a code and nothing more to report.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{code: code}
}

// flatten returns the errors that err combines.
func flatten(err error) []error {
	if several, ok := errors.AsType[*multierror.Error](err); ok {
		return several.Errors
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// commandLine is the command line of a command, with its streams.
type commandLine struct {
	*dialect.Line
	around         dialect.Surroundings
	args           []string // after the command's name
	stdout, stderr io.Writer
	sources        map[string]string // of the command's own options that were given, by first name: "-b 8M"
}

type option = dialect.Option

// commandEntry makes a command when it is called, so that the start of a job pays for none.
type commandEntry struct {
	name     string
	category string
	make     func(*commandLine) *command
}

// commandList holds all commands, in the order of the help. Only the first word of a command line can be a command:
// after any option, it is a program.
func commandList() []commandEntry {
	return []commandEntry{
		{"run", dialect.CategoryRun, runCommand},
		{"launch", dialect.CategoryRun, launchCommand},
		{"hosts", dialect.CategoryDiagnose, hostsCommand},
		{"doctor", dialect.CategoryDiagnose, doctorCommand},
		{"store", dialect.CategoryRun, storeCommand},
		{"token", dialect.CategoryRun, tokenCommand},
		{"topo", dialect.CategoryDiagnose, topoCommand},
		{"env", dialect.CategoryDiagnose, envCommand},
		{"bench", dialect.CategoryRun, benchCommand},
		{"explain", dialect.CategoryDiagnose, explainCommand},
		{"lint", dialect.CategoryDiagnose, lintCommand},
		{"sbatch", dialect.CategoryRun, sbatchCommand},
		{"ps", dialect.CategoryInspect, psCommand},
		{"top", dialect.CategoryInspect, topCommand},
		{"stop", dialect.CategoryInspect, stopCommand},
		{"stacks", dialect.CategoryInspect, stacksCommand},
		{"logs", dialect.CategoryInspect, logsCommand},
		{"evidence", dialect.CategoryInspect, evidenceCommand},
		{"report", dialect.CategoryInspect, reportCommand},
		{"diff", dialect.CategoryInspect, diffCommand},
		{"help", dialect.CategoryHelp, helpCommand},
		{"version", dialect.CategoryHelp, versionCommand},
		{"completion", dialect.CategoryHelp, completionCommand},
		{"install-names", dialect.CategoryHelp, namesCommand},
		{"agent", "", agentCommand},
		{"bench-rank", "", benchRankCommand},
		{"nvml-facts", "", nvmlCommand},
		{"completion-words", "", wordsCommand},
	}
}

// findCommand returns nil if there is no command of that name.
func findCommand(name string) *commandEntry {
	list := commandList()
	if i := slices.IndexFunc(list, func(e commandEntry) bool { return e.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// manual builds a command for its help alone.
func (e commandEntry) manual() *command {
	return newCommandLine(dialect.Surroundings{}, nil, nil, nil).build(e)
}

// publicCommands returns the commands that help and completion list.
func publicCommands() (list []*cli.Command) {
	for _, e := range commandList() {
		if c := e.manual(); !c.Hidden {
			list = append(list, &c.Command)
		}
	}
	return list
}

func commandNames() (names []string) {
	for _, c := range publicCommands() {
		names = append(names, c.Name)
	}
	return names
}

func newCommandLine(around dialect.Surroundings, args []string, stdout, stderr io.Writer) *commandLine {
	return &commandLine{dialect.NewLine(around), around, args, stdout, stderr, map[string]string{}}
}

// build makes the command that this line is for.
func (c *commandLine) build(e commandEntry) *command {
	cmd := e.make(c)
	cmd.Name, cmd.Category = e.name, e.category
	if cmd.HelpName == "" {
		cmd.HelpName = "gorun " + e.name
		cmd.Flags = append(cmd.Flags, c.Flags(c.JobOptions("version", "help")...)...)
	}
	if cmd.UsageText == "" {
		cmd.UsageText = cmd.HelpName + " [options]"
	}
	c.SetCommand(&cmd.Command, cmd.programs)
	return cmd
}

// parse parses the line with urfave/cli and, if nothing is wrong with it, calls act. A command without a description
// has no options: its arguments are taken literally.
func (c *commandLine) parse(cmd *command, act func() error) error {
	args := c.args
	switch {
	case cmd.Description == "":
		args = append([]string{"--"}, args...)
	case cmd.arrange != nil:
		args = cmd.arrange(args)
	case !cmd.programs:
		args = c.MoveOptionsFirst(args, nil)
	}
	cmd.Action = func(*cli.Context) error {
		cmd.check(c.Operands())
		if err := c.Err(); err != nil {
			return err
		}
		return act()
	}
	return c.Run(args)
}

// execute runs the command and returns the exit code. --help and --version win over mistakes.
func (c *commandLine) execute(e commandEntry) int {
	cmd, code := c.build(e), 0
	err := c.parse(cmd, func() error {
		printNotes(c.Invocation, c.stderr)
		code = c.reportErrors(cmd.run())
		return nil
	})
	switch {
	case c.HelpRequested():
		return c.reportErrors(c.print(cmd.help()))
	case c.VersionRequested():
		return c.reportErrors(c.print(version.Line() + "\n"))
	case err != nil:
		return reportUsage(c.stderr, err)
	}
	return code
}

// reportErrors prints the errors that err combines and returns the exit code.
func (c *commandLine) reportErrors(err error) (code int) {
	for _, err := range flatten(err) {
		text, own := printable.Error(err), job.ExitLauncher
		if exit, ok := errors.AsType[exitError](err); ok {
			own = exit.code
		}
		if errors.Is(err, registry.ErrEnded) {
			own = exitNoJob
		}
		if text != "" && !errors.Is(err, unix.EPIPE) { // the reader of our output has gone
			c.notify(text)
		}
		code = max(code, own)
	}
	return code
}

func (cmd *command) help() string { return dialect.Help(&cmd.Command, cmd.Page, nil) }

func (c *commandLine) notify(text string) { notify(c.stderr, text) }

func (c *commandLine) print(text string) error {
	_, err := io.WriteString(c.stdout, text)
	return err
}

// printResult prints a result as a JSON document of a kind with --json, otherwise as text.
func (c *commandLine) printResult(kind string, result any, text func() string) error {
	if c.JSON {
		return show.JSON(c.stdout, kind, result)
	}
	return c.print(text())
}

// refuse reports a mistake on the command line.
func (c *commandLine) refuse(format string, args ...any) { c.Problem(fmt.Errorf(format, args...)) }

// refuseArguments is for commands that take none.
func (c *commandLine) refuseArguments(command string, args []string) {
	if args != nil {
		c.refuse("%s: gorun %s takes no arguments; gorun ./%[2]s starts a program of that name", dialect.Typed(args[:1]),
			command)
	}
}

// group makes the options of a command under a heading. Environment variables give them no default. Each that is given
// is recorded in sources.
func (c *commandLine) group(g dialect.Group, rows ...option) []*option {
	options := make([]*option, len(rows))
	for i := range rows {
		rows[i].Group, rows[i].From = g, dialect.NoVar
		options[i] = &rows[i]
	}
	c.record(options...)
	return options
}

// record has options record their sources.
func (c *commandLine) record(options ...*option) {
	for _, o := range options {
		if set := o.Set; set != nil {
			o.Set = func(a dialect.Arg) error {
				c.sources[o.Name()] = a.From
				return set(a)
			}
		}
	}
}

func (c *commandLine) jsonOption(help string) option {
	return option{Names: "json", Set: dialect.Switch(&c.JSON), Help: help}
}

// choice is an option that excludes others when it is given.
type choice struct {
	given bool
	name  string
}

func givenNames(choices []choice) (names []string) {
	for _, c := range choices {
		if c.given {
			names = append(names, c.name)
		}
	}
	return names
}

// oneOutput refuses several options that write to standard output.
func (c *commandLine) oneOutput(choices ...choice) {
	if names := givenNames(choices); len(names) > 1 {
		c.refuse("%s and %s contradict each other: both want standard output", names[0], names[1])
	}
}

// wordRequest is the request of a command that takes one word and no options.
type wordRequest struct {
	*commandLine
	atLeast, atMost int      // number of words
	choices         []string // what the word may be; nil: anything
	refusal         string   // of other words, and other numbers of them
	word            string
	act             func(word string) error
}

func (r *wordRequest) check(words []string) {
	if len(words) > 0 {
		r.word = words[0]
	}
	if len(words) < r.atLeast || len(words) > r.atMost || r.choices != nil && !slices.Contains(r.choices, r.word) {
		r.refuse("%s", r.refusal)
	}
}

func (r *wordRequest) run() error { return r.act(r.word) }

// hidden makes a command for gorun's own use, which no help lists.
func (r *wordRequest) hidden() *command {
	return &command{request: r, Command: cli.Command{Hidden: true}}
}

// optionsFirstWith moves options before the arguments if one of the given options is among them. Otherwise the
// arguments are a program with its own.
func (c *commandLine) optionsFirstWith(args []string, names ...string) []string {
	if c.HasOption(args, names...) {
		return c.MoveOptionsFirst(args, nil)
	}
	return args
}

// appendTo collects the values of an option that may be repeated.
func appendTo(list *[]string) func(dialect.Arg) error {
	return func(a dialect.Arg) error {
		*list = append(*list, a.Value)
		return nil
	}
}

// optionError names the option that an error is about; nil stays nil.
func optionError(option string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", option, err)
	}
	return err
}
