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

// Joined is the command line of a node that joined a job by itself. The head assigns ranks and sets the launcher's own
// variables; the node's command line decides what is run and where files are written.
type Joined struct {
	Programs []spec.Command
	// Ranks is the number of ranks; 0: as the head decides, or one per device of type Device.
	Ranks  int
	Device string
	// Task is set if this process is a single rank of the job.
	Task *spec.Task
	// Dir is the ranks' working directory; "": the agent's.
	Dir string
	// LogDir is the directory of log files; "": the temporary directory. LogNames are patterns for their names, as in
	// wire.Logs.
	LogDir   string
	LogNames []string
	// Role is the ranks' role (--role).
	Role string
	// WarmImports are Python modules to import while ranks run (--warm-imports).
	WarmImports []string
	// Decides reports whether the launcher sets a variable. Ranks get all others from Config.Environ.
	Decides func(name string) bool
	// Accepts reports whether the head may set a variable to a value. It must not accept variables from which a library,
	// or a launcher started by a rank, would take a program or a file.
	Accepts func(name, value string) bool
	// Reports reports whether the head must know a variable of this node's environment.
	Reports func(name string) bool
	// Exports are launcher variables that ranks get nevertheless (-x GORUN_…), as NAME=VALUE.
	Exports []string
}

// localRankFlag is the argument that torch.distributed.launch adds.
const localRankFlag = "--local-rank="

// replacePrograms replaces the head's programs by those of the command line.
func (o *Joined) replacePrograms(h *wire.Hello) {
	h.Dir, h.Environ, h.Device, h.Programs = "", nil, o.Device, o.Programs
	if o.Ranks > 0 {
		h.Ranks = o.Ranks
	}
}

// reportedEnviron returns the variables to report to the head.
func (o *Joined) reportedEnviron(environ []string) []string {
	return filterEnviron(environ, func(name, _ string) bool { return o.Reports(name) })
}

// filterEnviron returns the variables (NAME=VALUE) to keep.
func filterEnviron(environ []string, keep func(name, value string) bool) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return !keep(name, value)
	})
}

// applyJoined makes a node that joined start only its own programs with its own environment, and write files only
// where its user expects them.
func (a *Agent) applyJoined(s *wire.Start) error {
	joined := a.cfg.Joined
	if joined == nil {
		return nil
	}
	if len(s.Apps) != len(a.programs) || len(joined.Programs) != len(a.programs) {
		return fmt.Errorf("node 0 names %d programs, this node's command line has %d: give all nodes the same command line",
			len(s.Apps), len(a.programs))
	}
	for i, p := range a.programs {
		s.Apps[i] = spec.App{Path: p.Path, Argv: p.Argv, Dir: joined.Dir, Build: p.Build != nil}
	}
	if most := cmp.Or(joined.Ranks, int(a.counted.Load())); most > 0 && len(s.Ranks) > most {
		return fmt.Errorf("node 0 requests %d ranks here, this node's command line allows %d", len(s.Ranks), most)
	}
	if task := joined.Task; task != nil && len(s.Ranks) > 0 &&
		(s.Ranks[0].Rank != task.Rank || s.Ranks[0].LocalRank != task.LocalRank) {
		return fmt.Errorf("node 0 requests rank %d here, this process is rank %d", s.Ranks[0].Rank, task.Rank)
	}
	if process.Marker(lookup(a.cfg.Environ, process.MarkerVar)).Has(s.JobID) { // its processes would count as this job's
		return errors.New("node 0's job has the id of a job that this node already runs in: start gorun outside that job")
	}
	s.Common = slices.Concat(joined.inherited(a.cfg.Environ), joined.Exports,
		joined.workingDir(a.cfg.Environ, joined.Dir), joined.acceptedEnviron(s.Common, a.cfg.Environ))
	for i := range s.Ranks {
		r := &s.Ranks[i]
		r.Env = joined.acceptedEnviron(r.Env, a.cfg.Environ)
		if r.App < 0 || r.App >= len(a.programs) {
			return fmt.Errorf("the launcher assigns rank %d to program %d of %d", r.Rank, r.App, len(a.programs))
		}
		if r.Argv != nil && !matchesArgv(r.Argv, a.programs[r.App], r.LocalRank) {
			return fmt.Errorf("node 0 requests another command line for rank %d than this node has: give all nodes "+
				"the same program and arguments", r.Rank)
		}
	}
	return a.applyJoinedLogs(joined, s)
}

// inherited returns this node's environment without the launcher's variables.
func (o *Joined) inherited(environ []string) []string {
	return filterEnviron(environ, func(name, _ string) bool { return !o.Decides(name) })
}

// workingDir returns PWD for ranks that start in dir, relative to this node's own.
func (o *Joined) workingDir(environ []string, dir string) []string {
	if joined := lookup(environ, "PWD"); !filepath.IsAbs(dir) && joined != "" {
		dir = filepath.Join(joined, dir)
	}
	if !filepath.IsAbs(dir) {
		return nil
	}
	return []string{"PWD=" + dir}
}

// acceptedEnviron returns the variables that the head may set, including those that this node has reported itself.
func (o *Joined) acceptedEnviron(sent, environ []string) []string {
	return filterEnviron(sent, func(name, value string) bool {
		return o.Accepts(name, value) || o.Reports(name) && slices.Contains(environ, name+"="+value)
	})
}

// matchesArgv reports whether a rank's arguments are those of its program, apart from the local rank that torchrun and
// torch.distributed.launch insert.
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

// maxDigits is the number of digits of the highest rank.
const maxDigits = 20

// applyJoinedLogs puts log files below the directory of this node's command line. The head names the run and the node.
func (a *Agent) applyJoinedLogs(joined *Joined, s *wire.Start) error {
	l := s.Logs
	if l == nil {
		return nil
	}
	if l.Digits < 0 || l.Digits > maxDigits || l.Host != "" && !isName(l.Host) {
		return fmt.Errorf("node 0 requests log files with %d digits of host %q", l.Digits, l.Host)
	}
	switch named := l.Named(); {
	case l.Base == os.DevNull || joined.LogDir == os.DevNull:
		l.Base, l.Names = os.DevNull, nil
		return nil
	case named && len(joined.LogNames) == 0:
		return errors.New("node 0 writes log files, and this node names none: give all nodes the same log options")
	case named:
		l.Base, l.Names = joined.LogDir, joined.LogNames
		return nil
	}
	return a.checkRunDir(l.Base, s.Attempt)
}

// maxRunNames bounds the path elements of a run's directory below the user's: the run, its node and, in the temporary
// directory, one for all logs.
const maxRunNames = 3

// checkRunDir refuses a directory that is elsewhere or differs from that of earlier attempts.
func (a *Agent) checkRunDir(dir string, attempt int) error {
	rel, err := filepath.Rel(a.logBase(), dir)
	names := strings.Split(rel, "/")
	switch {
	case err != nil, len(names) > maxRunNames, slices.ContainsFunc(names, func(name string) bool { return !isName(name) }):
		return fmt.Errorf("node 0 requests log files in %s, outside this node's log directory %s: give all nodes the "+
			"same log options", dir, a.logBase())
	case attempt != 0 && dir != a.runDir:
		return fmt.Errorf("node 0 requests log files of attempt %d in %s, not in the directory of earlier attempts",
			attempt, dir)
	}
	a.runDir = dir
	return nil
}

// logBase returns the base directory of log files on a node that joined.
func (a *Agent) logBase() string { return cmp.Or(a.cfg.Joined.LogDir, a.cfg.TempDir) }

// isName reports whether text is a valid name of a visible file: one printable path element.
func isName(text string) bool {
	return text != "" && len(text) <= unix.NAME_MAX && text[0] != '.' && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == '/' || !unicode.IsPrint(r) })
}

// OverError is returned by [Serve] on a node that joined when the job is over.
type OverError struct {
	Code int
	Text string
	// First is the exit of the rank on this node whose error file is the earliest; nil: none.
	First *spec.Exit
}

func (e *OverError) Error() string { return e.Text }

// forwardSignals reports this process's signals to the head until over is closed. A second SIGINT ends this node at
// once, whatever the head does, and however long ranks may take to end.
func (a *Agent) forwardSignals(over <-chan struct{}) {
	if a.cfg.Engine != NoEngine {
		a.reportSignals()
		return
	}
	asked := false
	for {
		select {
		case <-over:
			return
		case sig := <-a.cfg.Signals:
			if asked && sig == syscall.SIGINT {
				a.lease.ended.Store(true)
				_ = a.link.Close()
				if j := a.active.Load(); j != nil && !j.cleanedUp.Load() {
					j.kill()
				}
				return
			}
			asked = asked || sig == syscall.SIGINT
			_ = a.link.Send(&wire.Signal{Signal: spec.Signal{Number: sig}})
		}
	}
}
