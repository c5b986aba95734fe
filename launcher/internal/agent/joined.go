package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// Own is the command line of a node that joined a job by itself. The head decides
// ranks and variables of the launcher's own; what is run, and where files are written, is
// decided here.
type Joined struct {
	Programs []wire.Program
	// Ranks is how many the node is to have, 0: as the head says; or as many as it has of Device.
	Ranks  int
	Device string
	// Seat is set where the node is one rank of the job's.
	Task *spec.Task
	// Dir is the ranks' working directory, "": the agent's.
	Dir string
	// LogDir is where log files are, "" for the temporary directory. LogNames are patterns for their names, as
	// wire.Logs has them.
	LogDir   string
	LogNames []string
	// Role is the ranks' (--role).
	Role string
	// Decides reports whether a variable is one of the launcher's; all others ranks have
	// from Config.Environ.
	Decides func(name string) bool
	// Accepts reports whether the head may set a variable to a value: it may not have
	// ranks inherit what a launcher in them, or a library, would take for a program, nor
	// what names a file.
	Accepts func(name, value string) bool
	// Tells reports whether the head has to know what this node's environment has.
	Reports func(name string) bool
	// Exports has the launcher's variables that ranks get nevertheless (-x GORUN_…),
	// NAME=VALUE.
	Exports []string
}

// localRankFlag is the argument that torch.distributed.launch adds.
const localRankFlag = "--local-rank="

// replace has the node find what its own command line names.
func (o *Joined) replacePrograms(h *wire.Hello) {
	scan := slices.ContainsFunc(h.Programs, func(p wire.Program) bool { return p.ScanStore })
	h.Dir, h.Environ, h.Device = "", nil, o.Device
	h.Programs = slices.Clone(o.Programs)
	for i := range h.Programs {
		h.Programs[i].ScanStore = scan
	}
	if o.Ranks > 0 {
		h.Ranks = o.Ranks
	}
}

// told is what of this node's environment the head has to know.
func (o *Joined) reportedEnviron(environ []string) (reportedEnviron []string) {
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); o.Reports(name) {
			reportedEnviron = append(reportedEnviron, v)
		}
	}
	return reportedEnviron
}

// keepOwn has a node that joined start nothing but its own program, with its own
// environment, and write no file where its user does not expect one.
func (a *Agent) applyJoined(s *wire.Start) error {
	joined := a.cfg.Joined
	if joined == nil {
		return nil
	}
	if len(s.Apps) != len(a.programs) || len(joined.Programs) != len(a.programs) {
		return fmt.Errorf("the head names %d programs, this node's command line %d", len(s.Apps), len(a.programs))
	}
	for i, p := range a.programs {
		s.Apps[i] = spec.App{Path: p.Path, Argv: p.Argv, Dir: joined.Dir, Build: p.Build != nil}
	}
	if most := cmp.Or(joined.Ranks, int(a.counted.Load())); most > 0 && len(s.Ranks) > most {
		return fmt.Errorf("the head wants %d ranks, this node's command line %d", len(s.Ranks), most)
	}
	if task := joined.Task; task != nil && len(s.Ranks) > 0 &&
		(s.Ranks[0].Rank != task.Rank || s.Ranks[0].LocalRank != task.LocalRank) {
		return fmt.Errorf("the head wants rank %d here, this process is rank %d", s.Ranks[0].Rank, task.Rank)
	}
	if process.Marker(lookup(a.cfg.Environ, process.MarkerVar)).Has(s.JobID) { // processes would pass for this one's
		return errors.New("the head gives the job the id of a job that this node is in")
	}
	s.Common = slices.Concat(joined.inherited(a.cfg.Environ), joined.Exports,
		joined.workingDir(a.cfg.Environ, joined.Dir), joined.acceptedEnviron(s.Common, a.cfg.Environ))
	for i := range s.Ranks {
		r := &s.Ranks[i]
		r.Env = joined.acceptedEnviron(r.Env, a.cfg.Environ)
		if r.App < 0 || r.App >= len(a.programs) {
			return fmt.Errorf("the head has rank %d run program %d of %d", r.Rank, r.App, len(a.programs))
		}
		if r.Argv != nil && !matchesArgv(r.Argv, a.programs[r.App], r.LocalRank) {
			return fmt.Errorf("the head has rank %d run another command line than this node's", r.Rank)
		}
	}
	return a.applyJoinedLogs(joined, s)
}

// inherited is this node's environment without what the head decides about.
func (o *Joined) inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return o.Decides(name)
	})
}

// workingDir is PWD for ranks that begin in a directory, which counts from the node's own; "" is that.
func (o *Joined) workingDir(environ []string, dir string) []string {
	if joined := lookup(environ, "PWD"); !filepath.IsAbs(dir) && joined != "" {
		dir = filepath.Join(joined, dir)
	}
	if !filepath.IsAbs(dir) {
		return nil
	}
	return []string{"PWD=" + dir}
}

// decided is what the head may set of what it sent: what this node has itself, too, since the head was told of it.
func (o *Joined) acceptedEnviron(sent, environ []string) []string {
	return slices.DeleteFunc(slices.Clone(sent), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return !o.Accepts(name, value) && !(o.Reports(name) && slices.Contains(environ, v))
	})
}

// isOwnArgv reports whether a rank's argument vector is its program's but for the local
// rank, as torchrun and torch.distributed.launch put it there.
func matchesArgv(argv []string, p program.Resolved, localRank int) bool {
	number := strconv.Itoa(localRank)
	joined := make([]string, len(p.Argv))
	for i, arg := range p.Argv {
		joined[i] = arg
		if i >= p.ScriptArg {
			joined[i] = strings.ReplaceAll(arg, "${local_rank}", number)
		}
	}
	if slices.Equal(argv, joined) {
		return true
	}
	return slices.Equal(argv, slices.Insert(joined, p.ScriptArg, localRankFlag+number))
}

// maxDigits are those of the highest number.
const maxDigits = 20

// keepOwnLogs has log files below the directory that this node's command line names. The head says what the run and the
// node are called.
func (a *Agent) applyJoinedLogs(joined *Joined, s *wire.Start) error {
	l := s.Logs
	if l == nil {
		return nil
	}
	if l.Digits < 0 || l.Digits > maxDigits || l.Host != "" && !isName(l.Host) {
		return fmt.Errorf("the head wants files with %d digits of host %q", l.Digits, l.Host)
	}
	switch named := l.Named(); {
	case l.Base == os.DevNull || joined.LogDir == os.DevNull:
		l.Base, l.Names = os.DevNull, nil
		return nil
	case named && len(joined.LogNames) == 0:
		return errors.New("node 0's command line has patterns for the names of log files, and this node's has none: " +
			"give it the same options")
	case named:
		l.Base, l.Names = joined.LogDir, joined.LogNames
		return nil
	}
	return a.checkRunDir(l.Base, s.Attempt)
}

// maxRunNames are those that a run's directory has below the user's: of the run, of its node and, where that is the
// temporary directory, of all its logs.
const maxRunNames = 3

// checkRunDir refuses a directory elsewhere, and another one than that of the attempts before.
func (a *Agent) checkRunDir(dir string, attempt int) error {
	rel, err := filepath.Rel(a.logBase(), dir)
	names := strings.Split(rel, "/")
	switch {
	case err != nil, len(names) > maxRunNames, slices.ContainsFunc(names, func(name string) bool { return !isName(name) }):
		return fmt.Errorf("the head wants log files at %s, and this node has them below %s", dir, a.logBase())
	case attempt != 0 && dir != a.runDir:
		return fmt.Errorf("the head wants log files of attempt %d at %s, which is not where those before are", attempt, dir)
	}
	a.runDir = dir
	return nil
}

// logBase is where log files of a node that joined are.
func (a *Agent) logBase() string { return cmp.Or(a.cfg.Joined.LogDir, a.cfg.TempDir) }

// isName reports whether a text may be the name of a file that the user is going to see: one component, not hidden.
func isName(text string) bool {
	return text != "" && len(text) <= unix.NAME_MAX && text[0] != '.' && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == '/' || !unicode.IsPrint(r) })
}

// OverError ends [Serve] on a node that joined: the job is over.
type OverError struct {
	Code int
	Text string
	// First is how the first rank of this node failed that left an error file; nil: none did.
	First *spec.Exit
}

func (e *OverError) Error() string { return e.Text }

// passSignals tells the head of the signals that this process got. A second one that
// ends a job ends this node at once, whatever the head does.
func (a *Agent) forwardSignals() {
	if a.cfg.Engine != NoEngine {
		a.reportSignals()
		return
	}
	asked := false
	for {
		select {
		case <-a.lease.linkClosed:
			return
		case sig := <-a.cfg.Signals:
			if asked && sig == syscall.SIGINT {
				_ = a.link.Close()
				return
			}
			asked = asked || sig == syscall.SIGINT
			_ = a.link.Send(&wire.Signal{Signal: sig})
		}
	}
}
