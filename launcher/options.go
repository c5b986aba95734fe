package launcher

import (
	"io"
	"os"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/job"
	nvml "gorun/placement/nvml/worker"
)

// Spec is the wish for a job; see [job.Spec].
type Spec = job.Spec

// Result is how a job ended; see [job.Result].
type Result = job.Result

// Option changes what Run uses of the process that it runs in.
type Option func(*settings)

// settings are what Run may use of its process.
type settings struct {
	stdin          *os.File
	stdout, stderr io.Writer
	subscribe      func(chan<- os.Signal)
	hold           func()
	notice         func(Notice) string
	console        *output.Console // once it exists, what is told goes through it
	wholeProcess   bool
	subreaper      bool
	executable     string
	reacher        reacher // to other hosts
	prompt         func(prompt string) (string, error)
	answerLimit    time.Duration // for a host to answer one question of a check
	loginLimit     time.Duration // for a host to let us in, where the wish says nothing; 0: as long as reaching it
	progress       func(*Progress) (end func())
	nvml           nvml.Program
	colour         bool
	ascii          bool
	planned        func(*job.Plan)
	started        func(*job.Plan, []int)
	registry       []string
}

// Notice is something to tell the user while the job runs.
type Notice struct {
	Text string
	// Detail notices are for those who asked for more (-v).
	Detail bool
	// Note says that it is about what was chosen, and nothing is wrong.
	Note bool
	// Plain ones are to stand as they are: other programs read them.
	Plain bool
}

// WithStdin gives the job a standard input; without it ranks read end-of-file.
func WithStdin(f *os.File) Option { return func(s *settings) { s.stdin = f } }

// WithOutput says where the ranks' standard output and error go; without it,
// to those of this process. A *os.File that is a terminal gets coloured labels.
func WithOutput(stdout, stderr io.Writer) Option {
	return func(s *settings) { s.stdout, s.stderr = stdout, stderr }
}

// WithSignals passes signals to the job: those that end a job end it, others are
// forwarded to the ranks. The function subscribes the channel to the signals, by
// signal.Notify. It is called once, beside the job's start or before the first
// word of a rank is passed on, whichever comes first; until then signals do
// what they did, unless hold keeps them.
func WithSignals(subscribe func(chan<- os.Signal)) Option {
	return func(s *settings) { s.subscribe = subscribe }
}

// WithSignalsHeld has hold called once, before the first rank is started. What
// comes from then on is the job's, and for subscribe to pass on.
func WithSignalsHeld(hold func()) Option { return func(s *settings) { s.hold = hold } }

// WithNotices receives what there is to tell while the job runs, and returns
// the line that is to stand on standard error about it, where it tears no line of
// a rank; "" tells nothing. Without this option nothing is told. The function
// is called on several goroutines.
func WithNotices(f func(Notice) string) Option { return func(s *settings) { s.notice = f } }

// WithExecutable names a program that calls [Main], for the guard to become
// when this process is killed.
func WithExecutable(path string) Option { return func(s *settings) { s.executable = path } }

// WithNVML names the program that asks NVIDIA's library where a job depends on
// what only that knows, such as which GPUs are free. Without this option it is
// gorun-gpu beside the program of [WithExecutable], or else beside this one, or in
// PATH.
func WithNVML(p nvml.Program) Option { return func(s *settings) { s.nvml = p } }

// WithSecrets asks for what only a person knows, such as the passphrase of a key; the
// function is called once at a time. Without this option such keys are not used.
func WithSecrets(ask func(prompt string) (string, error)) Option {
	return func(s *settings) { s.prompt = ask }
}

// WithStarted has f called when all ranks of an attempt have been started, with their process ids; 0 is a
// rank that could not be.
func WithStarted(f func(p *job.Plan, pids []int)) Option {
	return func(s *settings) { s.started = f }
}

// WithPlanned has f called with what was decided, before the first rank is started.
func WithPlanned(f func(*job.Plan)) Option { return func(s *settings) { s.planned = f } }

// WithRegistry lists the job among those of this user, in the first of some directories
// that allows it (registry.Places has them), for gorun ps, top, stop, stacks and logs.
// Without this option the job is not listed.
func WithRegistry(places []string) Option { return func(s *settings) { s.registry = places } }

// WithColour colours labels on terminals.
func WithColour(on bool) Option { return func(s *settings) { s.colour = on } }

// WithASCII keeps what is drawn of a job to ASCII, for terminals whose characters
// are not those of UTF-8.
func WithASCII(on bool) Option { return func(s *settings) { s.ascii = on } }

// AsWholeProcess says that this process exists for the job alone. It becomes a
// subreaper, so that orphans of ranks come to it and are found whatever they did
// to their session and environment, and ranks inherit no descriptor beside 0, 1
// and 2 that its parent had left open.
func AsWholeProcess() Option { return func(s *settings) { s.wholeProcess = true } }

// tell passes on something that the user should know.
func (s *settings) notify(text string) { s.send(Notice{Text: printable.Text(text)}) }

// note passes on what was chosen.
func (s *settings) note(text string) { s.send(Notice{Text: printable.Text(text), Note: true}) }

// detail passes on something for those who asked for more.
func (s *settings) detail(text string) { s.send(Notice{Text: printable.Text(text), Detail: true}) }

func (s *settings) send(n Notice) {
	if s.notice == nil {
		return
	}
	line := s.notice(n)
	switch {
	case line == "":
	case s.console != nil:
		s.console.Notice(line)
	default:
		_, _ = io.WriteString(s.stderr, line+"\n") // nowhere to complain about a lost complaint
	}
}
