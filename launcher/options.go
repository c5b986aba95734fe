package launcher

import (
	"io"
	"os"
	"sync"
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

// Options are what [Run], [Plan], [CheckHosts], [Examine], [ServeAgent] and [JoinAgent] need besides a job. The zero
// value is ready to use.
type Options struct {
	Stdin *os.File // the job's standard input; by default ranks read end-of-file
	// Stdout and Stderr are where the ranks' output goes; the default is those of this process. A *os.File that is
	// a terminal gets coloured labels.
	Stdout, Stderr io.Writer
	// Signals passes signals to the job: SIGTERM and others that end a job end it, the rest is forwarded to the
	// ranks. Run calls it once, with a channel for signal.Notify, when ranks run. Until then signals have their
	// default effect, unless HoldSignals prevents that.
	Signals func(chan<- os.Signal)
	// HoldSignals is called once, before the first rank starts. From then on signals must be kept for Signals.
	HoldSignals func()
	// Notices receives the messages of the job. It returns the line to print on standard error, between the lines
	// of ranks, or "" for none. It is called on several goroutines. By default messages are dropped.
	Notices func(Notice) string
	Frames  bool // send a detail for each message between the launcher and its agents, except the ranks' output
	// Executable is a program that calls [Main], for the guard to run if this process is killed.
	Executable string
	// NVML is the program that queries NVIDIA's library, for jobs that depend on it, for instance to find free
	// GPUs. The default is gorun-gpu beside Executable or beside this program, or in PATH.
	NVML nvml.Program
	// Secrets asks the user for secrets such as the passphrase of an SSH key. Calls do not overlap. By default
	// such keys are not used.
	Secrets func(prompt string) (string, error)
	// Started is called when all ranks of an attempt have been started. pids is indexed by rank; 0 is a rank that
	// could not be started.
	Started func(p *job.Plan, pids []int)
	Planned func(*job.Plan) // is called with each attempt's plan before its first rank is started
	// Progress is called when hosts are about to be reached, and the function that it returns when that is over,
	// before any message about it. Nothing is called for a job on this host alone.
	Progress func(p *Progress) (end func())
	// Registry lists the job for gorun ps, top, stop, stacks and logs, in the first usable one of these places
	// (see registry.Places). By default the job is not listed.
	Registry []string
	// Metrics is an address (host:port) at which OpenMetrics are served over HTTP while the job runs, at /metrics.
	// A node that joins another one does not.
	Metrics string
	// Quarantine is the file that has the hosts that failed, see package quarantine. Jobs that can lose nodes, or
	// check them, add to it and leave out hosts in quarantine. By default failures are not kept.
	Quarantine string
	Events     func(record.Event)    // is called with what happens to the job, on several goroutines, and must not block
	LastLines  func([]registry.Line) // is called with the last lines of all ranks whenever an attempt has ended
	// Evidence is called when ranks fail, hang or seem to hang, and the function that it returns, if any, with
	// what the hosts know of that, file by file, at last with one that has no name. The end of the job waits for
	// it for a moment. By default nothing is collected.
	Evidence func() func(registry.File)
	Colour   [2]bool // of the labels on standard output and standard error
	ASCII    bool    // draw with ASCII characters only
	// WholeProcess says that this process exists for the job alone. It becomes a child subreaper, which finds
	// orphans of ranks whatever they did to their session and environment, and ranks inherit no file descriptors
	// but 0, 1 and 2.
	WholeProcess bool
	// Offline has [Plan] contact no host. It assumes that hosts exist and can start the programs, and knows
	// nothing of their CPUs, GPUs and addresses.
	Offline bool

	reacher     reacher       // starts agents on other hosts
	answerLimit time.Duration // for a host to answer one request of a check
	loginLimit  time.Duration // for a login if Spec.Reach has no timeout; 0: as long as reaching the host may take
}

// settings are the options of a call and what it makes of them.
type settings struct {
	Options
	console   atomic.Pointer[output.Console] // notices go through it while it is open
	stderr    sync.Mutex                     // for notices that do not
	subreaper bool
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

// notify sends a message that every user should see.
func (s *settings) notify(text string) { s.send(Notice{Text: printable.Text(text)}) }

// note sends information about a choice.
func (s *settings) note(text string) { s.send(Notice{Text: printable.Text(text), Note: true}) }

// detail sends a message for -v.
func (s *settings) detail(text string) { s.send(Notice{Text: printable.Text(text), Detail: true}) }

func (s *settings) send(n Notice) {
	if s.Notices == nil {
		return
	}
	line, console := s.Notices(n), s.console.Load()
	switch {
	case line == "":
	case console != nil:
		console.Notice(line)
	default:
		s.stderr.Lock()
		defer s.stderr.Unlock()
		_, _ = io.WriteString(s.Stderr, line+"\n") // nobody to report to
	}
}
