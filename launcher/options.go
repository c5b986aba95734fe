package launcher

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
	nvml "gorun/placement/nvml/worker"
)

// Spec describes a job; see [job.Spec].
type Spec = job.Spec

// Result describes how a job ended; see [job.Result].
type Result = job.Result

// Option configures [Run], [Plan], [CheckHosts], [Examine], [ServeAgent] and [JoinAgent].
type Option func(*settings)

// settings are what the options set.
type settings struct {
	stdin          *os.File
	stdout, stderr io.Writer
	subscribe      func(chan<- os.Signal)
	hold           func()
	notice         func(Notice) string
	console        atomic.Pointer[output.Console] // notices go through it while it is open
	wholeProcess   bool
	subreaper      bool
	executable     string
	reacher        reacher // starts agents on other hosts
	prompt         func(prompt string) (string, error)
	answerLimit    time.Duration // for a host to answer one request of a check
	loginLimit     time.Duration // for a login if Spec.Reach has no timeout; 0: as long as reaching the host may take
	progress       func(*Progress) (end func())
	nvml           nvml.Program
	colour         [2]bool // of stdout and stderr
	ascii          bool
	planned        func(*job.Plan)
	started        func(*job.Plan, []int)
	registry       []string
	metrics        string
	quarantine     string
	events         func(record.Event)
	lastLines      func([]registry.Line)
	evidence       func() func(registry.File)
	frames         bool
	offline        bool
}

// Notice is a message for the user of a job.
type Notice struct {
	Text string
	// Detail is set for a message that only -v shows.
	Detail bool
	// Note is set for information about a choice: nothing is wrong.
	Note bool
	// Plain is set for lines that other programs parse. Print them without a prefix.
	Plain bool
}

// WithStdin gives the job a standard input. By default ranks read end-of-file.
func WithStdin(f *os.File) Option { return func(s *settings) { s.stdin = f } }

// WithOutput sets where the ranks' standard output and error go; the default is those of this
// process. A *os.File that is a terminal gets coloured labels.
func WithOutput(stdout, stderr io.Writer) Option {
	return func(s *settings) { s.stdout, s.stderr = stdout, stderr }
}

// WithSignals passes signals to the job: SIGTERM and others that end a job end it, the rest is
// forwarded to the ranks. Run calls subscribe once, with a channel for signal.Notify, when ranks
// run. Until then signals have their default effect, unless [WithSignalsHeld] prevents that.
func WithSignals(subscribe func(chan<- os.Signal)) Option {
	return func(s *settings) { s.subscribe = subscribe }
}

// WithSignalsHeld has Run call hold once, before it starts the first rank. From then on signals
// must be kept for the function of [WithSignals].
func WithSignalsHeld(hold func()) Option { return func(s *settings) { s.hold = hold } }

// WithNotices receives the messages of the job. f returns the line to print on standard error,
// between the lines of ranks, or "" for none. It is called on several goroutines. By default
// messages are dropped.
func WithNotices(f func(Notice) string) Option { return func(s *settings) { s.notice = f } }

// WithFrames sends a detail for each message between the launcher and its agents, except the ranks' output.
func WithFrames() Option { return func(s *settings) { s.frames = true } }

// WithExecutable names a program that calls [Main], for the guard to run if this process is killed.
func WithExecutable(path string) Option { return func(s *settings) { s.executable = path } }

// WithNVML names the program that queries NVIDIA's library, for jobs that depend on it, for
// instance to find free GPUs. The default is gorun-gpu beside the program of [WithExecutable] or
// beside this one, or in PATH.
func WithNVML(p nvml.Program) Option { return func(s *settings) { s.nvml = p } }

// WithSecrets asks the user for secrets such as the passphrase of an SSH key. Calls of ask do not
// overlap. By default such keys are not used.
func WithSecrets(ask func(prompt string) (string, error)) Option {
	return func(s *settings) { s.prompt = ask }
}

// WithStarted has f called when all ranks of an attempt have been started. pids is indexed by rank;
// 0 is a rank that could not be started.
func WithStarted(f func(p *job.Plan, pids []int)) Option {
	return func(s *settings) { s.started = f }
}

// WithPlanned has f called with the plan before the first rank is started.
func WithPlanned(f func(*job.Plan)) Option { return func(s *settings) { s.planned = f } }

// WithRegistry lists the job for gorun ps, top, stop, stacks and logs, in the first usable one of
// places (see registry.Places). By default the job is not listed.
func WithRegistry(places []string) Option { return func(s *settings) { s.registry = places } }

// WithQuarantine names the file that has the hosts that failed, see package quarantine. Jobs that can lose nodes, or
// check them, add to it and leave out hosts in quarantine. By default failures are not kept.
func WithQuarantine(file string) Option { return func(s *settings) { s.quarantine = file } }

// WithEvents has f called with what happens to the job, on several goroutines. f must not block.
func WithEvents(f func(record.Event)) Option { return func(s *settings) { s.events = f } }

// WithLastLines has f called with the last lines of all ranks whenever an attempt has ended.
func WithLastLines(f func([]registry.Line)) Option { return func(s *settings) { s.lastLines = f } }

// WithEvidence has begin called when ranks fail, hang or seem to hang, and the function that it returns, if any, with
// what the hosts know of that, file by file, at last with one that has no name. The end of the job waits for it for a
// moment. By default nothing is collected.
func WithEvidence(begin func() func(registry.File)) Option {
	return func(s *settings) { s.evidence = begin }
}

// WithColour colours the labels on standard output and standard error.
func WithColour(stdout, stderr bool) Option {
	return func(s *settings) { s.colour = [2]bool{stdout, stderr} }
}

// WithASCII draws with ASCII characters only.
func WithASCII(on bool) Option { return func(s *settings) { s.ascii = on } }

// AsWholeProcess says that this process exists for the job alone. It becomes a child subreaper,
// which finds orphans of ranks whatever they did to their session and environment, and ranks
// inherit no file descriptors but 0, 1 and 2.
func AsWholeProcess() Option { return func(s *settings) { s.wholeProcess = true } }

// notify sends a message that every user should see.
func (s *settings) notify(text string) { s.send(Notice{Text: printable.Text(text)}) }

// note sends information about a choice.
func (s *settings) note(text string) { s.send(Notice{Text: printable.Text(text), Note: true}) }

// detail sends a message for -v.
func (s *settings) detail(text string) { s.send(Notice{Text: printable.Text(text), Detail: true}) }

func (s *settings) send(n Notice) {
	if s.notice == nil {
		return
	}
	line, console := s.notice(n), s.console.Load()
	switch {
	case line == "":
	case console != nil:
		console.Notice(line)
	default:
		_, _ = io.WriteString(s.stderr, line+"\n") // nobody to report to
	}
}
