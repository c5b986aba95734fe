package dialect

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/job"
)

// Action is what a command line asks for.
type Action uint8

// The actions.
const (
	Run        Action = iota // run the job of Invocation.Spec
	DryRun                   // print its plan and stop
	Help                     // print Invocation.Dialect.Help()
	Version                  // print the version
	Completion               // print Invocation.Dialect.Completion(Invocation.Shell)
	Serve                    // serve the store of Invocation.Store alone
	Show                     // show the machine of Invocation.Topo
	AskNVML                  // print what NVIDIA's library tells, for a gorun of the version Invocation.Wished
	// look at the hosts of Invocation.Spec, as Spec.Reach says; its Apps are the program to look for, or none
	HostsCheck
	MakeToken     // write a new token to the file Invocation.Wished, "" is standard output
	Agent         // be an agent, on standard input and output; Invocation.Wished is how, "" as the head says
	BenchRank     // measure as one rank what Invocation.Wished says
	Submit        // submit the batch job of Invocation.Batch
	ShowEnv       // show the environment of the ranks of Invocation.Spec, or do what else Env says
	ExplainErrors // say what Invocation.Explain asks about
	Jobs          // do what Invocation.Jobs says with jobs that run
	// look for what is wrong with the hosts of Invocation.Spec, as for HostsCheck, or say what Invocation.Checks wishes
	Doctor
)

// Invocation is a command line that was understood.
type Invocation struct {
	Action  Action
	Dialect *Dialect
	// Spec is the wish, with Run and DryRun.
	Spec job.Spec
	// Store is the store to serve, with Serve.
	Store StoreServer
	// Topo is what to show, with Show.
	Topo TopoWish
	// Explain is what is asked about errors, with ExplainErrors.
	Explain ExplainWish
	// Jobs is what to do with jobs that run, with Jobs.
	Jobs JobsWish
	// Bench is what to measure, with Run and DryRun: the program of Spec is then to be filled in. Nil: a job.
	Bench *BenchWish
	// Batch is the job to submit, with Submit and DryRun. Nil: no batch job.
	Batch *BatchWish
	// Env is what to do, with ShowEnv.
	Env *EnvWish

	// Checks is what of gorun doctor's own checks is to be told, with Doctor.
	Checks ChecksWish

	Display Display // what is shown of the job

	Unlisted bool   // the job is in no registry
	JSON     bool   // print the plan as JSON, with DryRun, or the machine, with Show, or what was measured
	Quiet    bool   // no remarks
	Verbose  int    // how often -v was given
	Report   string // file for the result as JSON; "" writes none
	Shell    string // with Completion: bash, zsh or fish
	// with AskNVML a version, "" is any; with Agent how; with BenchRank JSON; with MakeToken a file, "" is standard output
	Wished string
	Saved  bool // with MakeToken: the file is the user's own, and its directories may be missing

	// Notes are remarks for the user, with what was typed, as in UsageError.Lines.
	Notes []string
}

// IsSilent reports whether a job says nothing of its own as long as nothing is wrong.
func (inv *Invocation) IsSilent() bool {
	return inv.Dialect.silent && inv.Verbose == 0 && inv.Action == Run
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

// StoreServer is the wish for a store that is served alone. Limits that are zero have the server's own defaults.
type StoreServer struct {
	Host  string         // IP address to listen at; "" is loopback
	Port  int            // TCP port; 0 is a free one
	Allow []netip.Prefix // peers on other hosts that are accepted

	AllowLocalUsers bool // every user of this host is accepted

	MaxKey, MaxValue int   // bytes of a key and of a value in one request
	MaxKeys          int   // keys in one request
	MaxMemory        int64 // bytes that everything together may take
	MaxConnections   int
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
