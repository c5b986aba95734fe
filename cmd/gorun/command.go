package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/version"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// command is what gorun does in place of a job: what urfave/cli knows of it, the rest of its help, and its options
// with what they have done.
type command struct {
	cli.Command
	dialect.Page
	request
	programs bool // the words are a program with its arguments, or several programs
	// arrange puts words where they are read; nil: options before all others, unless these are programs.
	arrange func(args []string) []string
}

// request is the options of one call of a command.
type request interface {
	// check settles them, together with the words that no option took, and tells the line of each problem.
	check(words []string)
	// run does it. See failure for exit codes.
	run() error
}

// failure is an error with an exit code other than that of gorun's own; of one without a text everything was said.
type failure struct {
	code int
	text string
}

func (f failure) Error() string { return f.text }

// exitWith ends a request about which there is nothing more to say.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return failure{code: code}
}

// errorsOf are the errors for which one stands.
func errorsOf(err error) []error {
	var several *multierror.Error
	switch {
	case errors.As(err, &several):
		return several.Errors
	case err != nil:
		return []error{err}
	}
	return nil
}

// call is one call of a command.
type call struct {
	*dialect.Line
	around         dialect.Surroundings
	args           []string // behind the command's name
	stdout, stderr io.Writer
}

// option is a row of a command's options.
type option = dialect.Option

// commandEntry is a command by its name. It is made when it is called: the start of a job pays for none.
type commandEntry struct {
	name string
	make func(*call) *command
}

// commandList are all, in the order of the help. A command counts only as the first word, so that a program of the same
// name can be started after any option.
func commandList() []commandEntry {
	return []commandEntry{
		{"launch", launchCommand},
		{"hosts", hostsCommand},
		{"doctor", doctorCommand},
		{"store", storeCommand},
		{"token", tokenCommand},
		{"topo", topoCommand},
		{"env", envCommand},
		{"bench", benchCommand},
		{"explain", explainCommand},
		{"sbatch", sbatchCommand},
		{"ps", psCommand},
		{"top", topCommand},
		{"stop", stopCommand},
		{"stacks", stacksCommand},
		{"logs", logsCommand},
		{"help", helpCommand},
		{"version", versionCommand},
		{"completion", completionCommand},
		{"agent", agentCommand},
		{"bench-rank", benchRankCommand},
		{"nvml-facts", nvmlCommand},
	}
}

// commandNamed finds a command, nil where there is none.
func commandNamed(name string) *commandEntry {
	list := commandList()
	if i := slices.IndexFunc(list, func(e commandEntry) bool { return e.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// manuals are the commands that users call, as the help and completion list them.
func manuals() (list []*cli.Command) {
	for _, e := range commandList() {
		if c := newCall(dialect.Surroundings{}, nil, nil, nil).make(e); !c.Hidden {
			list = append(list, &c.Command)
		}
	}
	return list
}

func newCall(around dialect.Surroundings, args []string, stdout, stderr io.Writer) *call {
	return &call{dialect.NewLine(around), around, args, stdout, stderr}
}

// make makes a command for this call, which reads the line's words by its options.
func (c *call) make(e commandEntry) *command {
	cmd := e.make(c)
	cmd.Name = e.name
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

// read has urfave/cli read the words of a command, and acts where nothing is wrong with them. A command without a page
// in the help has no options either: its words are read as they are.
func (c *call) read(cmd *command, act func() error) error {
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

// do does what a command is called for, and returns the exit code. Help and version are given whatever else is wrong:
// who asks for help should get it.
func (c *call) do(e commandEntry) int {
	cmd, code := c.make(e), 0
	err := c.read(cmd, func() error {
		sayNotes(c.Invocation, c.stderr)
		code = c.end(cmd.run())
		return nil
	})
	switch {
	case c.HelpRequested():
		return c.end(c.write(cmd.help()))
	case c.VersionRequested():
		return c.end(c.write(version.Line() + "\n"))
	case err != nil:
		return explain(c.stderr, err)
	}
	return code
}

// end says what failed, and returns the exit code.
func (c *call) end(err error) (code int) {
	for _, err := range errorsOf(err) {
		text, own := err.Error(), job.ExitLauncher
		var failed failure
		switch {
		case errors.As(err, &failed):
			own = failed.code
		case errors.Is(err, registry.ErrEnded):
			own = exitNoJob
		case errors.Is(err, unix.EPIPE): // a reader that went away
			text = ""
		}
		if text != "" {
			c.say(text)
		}
		code = max(code, own)
	}
	return code
}

func (cmd *command) help() string { return dialect.Help(&cmd.Command, cmd.Page, nil) }

// sayNotes says what there is to be said of a command line.
func sayNotes(inv dialect.Invocation, stderr io.Writer) {
	if inv.Quiet {
		return
	}
	for _, note := range inv.Notes {
		say(stderr, note)
	}
}

// say says something of gorun's own.
func (c *call) say(text string) { say(c.stderr, text) }

// write prints what was asked for.
func (c *call) write(text string) error {
	_, err := io.WriteString(c.stdout, text)
	return err
}

// show prints a result: as JSON where that was asked for, else as text.
func (c *call) show(result any, text func() string) error {
	if !c.JSON {
		return c.write(text())
	}
	return writeJSON(c.stdout, result)
}

// writeJSON writes a value as people and programs read it.
func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// problem tells of a mistake on the command line.
func (c *call) problem(format string, args ...any) { c.Problem(fmt.Errorf(format, args...)) }

// noWords refuses words of a command that takes none.
func (c *call) noWords(name string, words []string) {
	if words != nil {
		c.problem("%s: gorun %s takes no arguments; gorun ./%[2]s starts a program of that name", dialect.Typed(words[:1]),
			name)
	}
}

// own are a command's options under a heading; no variable gives them a default.
func own(g dialect.Group, rows ...option) []*option {
	options := make([]*option, len(rows))
	for i := range rows {
		rows[i].Group, rows[i].From = g, dialect.NoVar
		options[i] = &rows[i]
	}
	return options
}

// jsonOption prints a result as JSON.
func (c *call) jsonOption(help string) option {
	return option{Names: []string{"json"}, Set: dialect.Switch(&c.JSON), Help: help}
}

// oneOutput refuses several of options that write to standard output; "" is none.
func (c *call) oneOutput(given ...string) {
	if given = slices.DeleteFunc(given, func(name string) bool { return name == "" }); len(given) > 1 {
		c.problem("%s and %s contradict each other: both want standard output", given[0], given[1])
	}
}

// ifGiven is the name of an option that was given, or "".
func ifGiven(given bool, name string) string {
	if given {
		return name
	}
	return ""
}

// wordRequest is the request of a command that takes a word, and no options.
type wordRequest struct {
	*call
	least, most int      // how many words it takes
	choices     []string // what it may be; nil: anything
	refusal     string   // of other words, and other numbers of them
	word        string
	act         func(word string) error
}

func (r *wordRequest) check(words []string) {
	if len(words) > 0 {
		r.word = words[0]
	}
	if len(words) < r.least || len(words) > r.most || r.choices != nil && !slices.Contains(r.choices, r.word) {
		r.problem("%s", r.refusal)
	}
}

func (r *wordRequest) run() error { return r.act(r.word) }

// hidden is a command of gorun's own, which no help lists.
func (r *wordRequest) hidden() *command {
	return &command{request: r, Command: cli.Command{Hidden: true}}
}

// askedFirst puts options first where one of some is among them, with which the words are what is asked about, and no
// program with its arguments.
func (c *call) askedFirst(args []string, asking ...string) []string {
	if c.HasOption(args, asking...) {
		return c.MoveOptionsFirst(args, nil)
	}
	return args
}

// added collects the values of an option that may be repeated.
func added(into *[]string) func(dialect.Arg) error {
	return func(a dialect.Arg) error {
		*into = append(*into, a.Value)
		return nil
	}
}

// saidBy takes a value as parse reads it, and remembers the option.
func saidBy[T any](from *string, into *T, parse func(string) (T, error)) func(dialect.Arg) error {
	return func(a dialect.Arg) (err error) {
		*into, err = parse(a.Value)
		*from = a.From // which may be a part of it
		return err
	}
}

// commandNames are those of the commands that users call.
func commandNames() (names []string) {
	for _, c := range manuals() {
		names = append(names, c.Name)
	}
	return names
}
