package dialect

import (
	"errors"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/launcher/job"
)

// Invocation is a command line that was understood.
type Invocation struct {
	Dialect *Dialect
	// Print makes the text that is printed in place of all else: help, version, completion; nil is a job.
	Print func() string
	Spec  job.Spec // the wish

	Display Display // what is shown of the job

	DryRun   bool   // print the plan and stop
	Unlisted bool   // the job is in no registry
	JSON     bool   // print what is printed as JSON
	Quiet    bool   // no remarks
	Verbose  int    // how often -v was given
	Report   string // file for the result as JSON; "" writes none

	// Notes are remarks for the user, with what was typed, as in UsageError.Lines.
	Notes []string
}

// IsSilent reports whether a job says nothing of its own as long as nothing is wrong.
func (inv *Invocation) IsSilent() bool {
	return inv.Dialect.colons && inv.Verbose == 0 && !inv.DryRun
}

// Display is what is shown of a job beside its output.
type Display struct {
	Map     bool // each rank's place
	RankMap bool // the ranks of each host, in Intel's form
	Hosts   bool // the hosts, with their slots

	ExitCodes bool // how each rank ended, in Hydra's form, when the job is over

	// Where else something is written: "-" is standard output, "+" standard error; "" is nowhere.
	PID       string // the launcher's process id
	URI       string // where the job's own store listens
	Processes string // the processes of all ranks, in Open MPI's form
}

// Surroundings is what a command line may depend on beside itself.
type Surroundings struct {
	// Lookup returns a variable of the launcher's environment.
	Lookup func(name string) (value string, found bool)
	// Names returns the names of its variables, in any order.
	Names func() []string
	// ReadFile returns the content of a host file or a rank file.
	ReadFile func(name string) ([]byte, error)
	// ReadToken returns a file with a secret, and whose it is.
	ReadToken func(name string) (TokenFile, error)
	// UID is the user as whom the launcher runs.
	UID int
	// IsThisHost reports whether a name or address that is not a loopback one
	// means the host that the launcher runs on.
	IsThisHost func(name string) bool
	// LookPath finds a command, as exec.LookPath does.
	LookPath func(name string) (path string, err error)
	// HasInterface reports whether this host has a network interface of a name; nil: it is
	// not known.
	HasInterface func(name string) bool
	// Output runs a command of a resource manager's that only reads, and returns its
	// standard output.
	Output func(argv ...string) ([]byte, error)
	// IsUnknown reports whether a resolver says that there is no host of a name; nil:
	// nobody is asked.
	IsUnknown func(name string) bool
	// Commands are gorun's own, for its help and completion; nil: none.
	Commands func() []*cli.Command
}

func (around *Surroundings) commands() []*cli.Command {
	if around.Commands == nil {
		return nil
	}
	return around.Commands()
}

// UsageError holds every problem of one command line. The command exits with
// [job.ExitUsage].
type UsageError struct {
	// Problems are *[multierror.Error]'s, one sentence each.
	Problems *multierror.Error
	// Dialect is the one whose help has the answer.
	Dialect *Dialect
}

// Lines returns the problems, one by one. They repeat what the user typed, so
// they may hold control bytes.
func (e *UsageError) Lines() []string {
	lines := make([]string, len(e.Problems.Errors))
	for i, problem := range e.Problems.Errors {
		lines[i] = problem.Error()
	}
	return lines
}

// Error returns the problems, a line each.
func (e *UsageError) Error() string { return strings.Join(e.Lines(), "\n") }

// Unwrap returns the problems.
func (e *UsageError) Unwrap() error { return e.Problems }

// Hint says where to look next, "" where the problems say themselves what to do.
func (e *UsageError) Hint() string {
	for _, problem := range e.Problems.Errors {
		if errors.As(problem, new(helpNeeded)) {
			return "run " + e.Dialect.Name + " --help"
		}
	}
	return ""
}

// helpNeeded is a mistake of somebody who does not know what there is.
type helpNeeded struct{ error }

// Unwrap returns the mistake.
func (e helpNeeded) Unwrap() error { return e.error }
