package dialect

import (
	"cmp"
	"errors"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// Invocation is the result of reading a command line without mistakes.
type Invocation struct {
	Dialect *Dialect
	// Print returns the help, version or completion to print instead; nil: start a job.
	Print func() string
	Spec  job.Spec

	Display Display

	DryRun     bool   // print the plan and stop
	Offline    bool   // plan without contacting hosts
	Unlisted   bool   // keep the job out of the registry
	Unrecorded bool   // keep no record
	JSON       bool   // print JSON
	Quiet      bool   // print no notes
	Verbose    int    // number of -v
	Report     string // file for the result as JSON; "": none
	Events     string // where to write what happens to the job, in --events' form; "": nowhere
	Metrics    string // address to serve metrics at; "": none
	StopWith   int    // process whose end stops the job; 0: none

	// Notes may hold control bytes, as UsageError.Lines.
	Notes []string

	typed [][]string // options before each program, without "--" before the first; nil if a file names the programs
}

// Command returns the command line with other words in place of a program and its arguments; "" if a file names them.
func (inv *Invocation) Command(program int, words ...string) string {
	if program >= len(inv.typed) {
		return ""
	}
	return shellwords.Join(append(strings.Fields(inv.Dialect.Name), inv.line(program, words)...))
}

func (inv *Invocation) line(program int, words []string) (line []string) {
	for i, options := range inv.typed {
		if i > 0 {
			line = append(line, ":")
		}
		line = append(line, options...)
		if app := inv.Spec.Apps[i]; i == program {
			line = append(line, words...)
		} else {
			line = append(append(line, app.Program), app.Args...)
		}
	}
	return line
}

// alone returns the options before the only program; nil for several.
func (inv *Invocation) alone() []string {
	if len(inv.typed) != 1 {
		return nil
	}
	return inv.typed[0]
}

// IsSilent reports whether a job prints no notes as long as nothing is wrong.
func (inv *Invocation) IsSilent() bool {
	return inv.Dialect.colons && inv.Verbose == 0 && !inv.DryRun
}

// Display selects what to show of a job besides its output.
type Display struct {
	Map     bool // placement of each rank
	RankMap bool // ranks of each host, in Intel MPI's form
	Hosts   bool // hosts with their slots

	ExitCodes bool // at the end, how each rank ended, in Hydra's form

	// Where else to write something: "-" is standard output, "+" standard error, "" nowhere.
	PID       string // the launcher's process id
	URI       string // where the job's own store listens
	Processes string // the processes of all ranks, in Open MPI's form
}

// Surroundings gives access to all that a command line may depend on. Fields without a note must not be nil.
type Surroundings struct {
	// Lookup returns a variable of the launcher's environment, Names the names of all of them in any order.
	Lookup func(name string) (value string, found bool)
	Names  func() []string
	// ReadFile returns the content of a host file or rank file.
	ReadFile func(name string) ([]byte, error)
	// ReadToken returns a file with a secret.
	ReadToken func(name string) (TokenFile, error)
	// UID is the user who runs the launcher.
	UID int
	// IsThisHost reports whether a name or address, other than a loopback one, means the launcher's host.
	IsThisHost func(name string) bool
	// LookPath finds a command as exec.LookPath does.
	LookPath func(name string) (path string, err error)
	// HasInterface reports whether this host has a network interface of this name. It may be nil.
	HasInterface func(name string) bool
	// Output runs a resource manager's command that only reads, and returns its standard output. It may be nil.
	Output func(argv ...string) ([]byte, error)
	// IsUnknown reports whether a resolver says that no host has this name. It may be nil.
	IsUnknown func(name string) bool
	// Commands returns gorun's commands, for help and completion. It may be nil.
	Commands func() []*cli.Command
}

func (around *Surroundings) commands() []*cli.Command {
	if around.Commands == nil {
		return nil
	}
	return around.Commands()
}

// UsageError holds every problem of one command line, one sentence each. The command exits with
// [job.ExitUsage].
type UsageError struct {
	Problems *multierror.Error
	Dialect  *Dialect
}

// Lines returns the problems. They repeat what the user typed, so they may hold control bytes.
func (e *UsageError) Lines() []string {
	lines := make([]string, len(e.Problems.Errors))
	for i, problem := range e.Problems.Errors {
		lines[i] = problem.Error()
	}
	return lines
}

// Error returns the problems, one on each line.
func (e *UsageError) Error() string { return strings.Join(e.Lines(), "\n") }

// Unwrap returns the problems.
func (e *UsageError) Unwrap() error { return e.Problems }

// Hint returns which command helps, or "" if the problems say what to do.
func (e *UsageError) Hint() string {
	if needed, ok := errors.AsType[helpNeeded](e.Problems); ok {
		return "run `" + cmp.Or(needed.command, e.Dialect.Name+" --help") + "`"
	}
	return ""
}

// helpNeeded is a mistake that help with options or commands answers.
type helpNeeded struct {
	error
	command string // that helps; "": the dialect's --help
}

func (e helpNeeded) Unwrap() error { return e.error }

// HelpNeeded adds a command that helps to a mistake on the command line.
func HelpNeeded(err error, command string) error { return helpNeeded{err, command} }
