package agent

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gorun/launcher/internal/program"
	"gorun/launcher/internal/wire"
)

// Own is the command line of a node that joined a job by itself. The head decides
// ranks and variables of the launcher's own; what is run, and where files are written, is
// decided here.
type Own struct {
	Programs []wire.Program
	// Ranks is how many the node is to have, 0: as the head says.
	Ranks int
	// Seat is set where the node is one rank of the job's.
	Seat *wire.Seat
	// Dir is the ranks' working directory, "": the agent's.
	Dir string
	// LogDir is where log files may be, "" for the temporary directory.
	LogDir string
	// Decides reports whether a variable is one of the launcher's; all others ranks have
	// from Config.Environ. Sets reports whether the head may set it: it may not have
	// ranks inherit what a launcher in them, or a library, would take for a program.
	Decides, Sets func(name string) bool
	// Tells reports whether the head has to know what this node's environment has.
	Tells func(name string) bool
	// Exports has the launcher's variables that ranks get nevertheless (-x GORUN_…),
	// NAME=VALUE.
	Exports []string
}

// localRankFlag is the argument that torch.distributed.launch adds.
const localRankFlag = "--local-rank="

// replace has the node find what its own command line names.
func (o *Own) replace(h *wire.Hello) {
	scan := slices.ContainsFunc(h.Programs, func(p wire.Program) bool { return p.ScanStore })
	h.Dir, h.Environ = "", nil
	h.Programs = slices.Clone(o.Programs)
	for i := range h.Programs {
		h.Programs[i].ScanStore = scan
	}
	if o.Ranks > 0 {
		h.Ranks = o.Ranks
	}
}

// told is what of this node's environment the head has to know.
func (o *Own) told(environ []string) (told []string) {
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); o.Tells(name) {
			told = append(told, v)
		}
	}
	return told
}

// keepOwn has a node that joined start nothing but its own program, with its own
// environment, and write no file where its user does not expect one.
func (a *Agent) keepOwn(s *wire.Start) error {
	own := a.cfg.Own
	if own == nil {
		return nil
	}
	if len(s.Apps) != len(a.programs) || len(own.Programs) != len(a.programs) {
		return fmt.Errorf("the head names %d programs, this node's command line %d", len(s.Apps), len(a.programs))
	}
	for i, p := range a.programs {
		s.Apps[i] = wire.App{Path: p.Path, Argv: p.Argv, Dir: own.Dir}
		if p.Build != nil {
			s.Apps[i].Build = i + 1
		}
	}
	if own.Ranks > 0 && len(s.Ranks) > own.Ranks {
		return fmt.Errorf("the head wants %d ranks, this node's command line %d", len(s.Ranks), own.Ranks)
	}
	if seat := own.Seat; seat != nil && len(s.Ranks) > 0 && (s.Ranks[0].Rank != seat.Rank || s.Ranks[0].LocalRank != seat.LocalRank) {
		return fmt.Errorf("the head wants rank %d here, this process is rank %d", s.Ranks[0].Rank, seat.Rank)
	}
	s.Common = slices.Concat(own.inherited(a.cfg.Environ), own.Exports, own.decided(s.Common))
	for i := range s.Ranks {
		r := &s.Ranks[i]
		r.Env = own.decided(r.Env)
		if r.App < 0 || r.App >= len(a.programs) {
			return fmt.Errorf("the head has rank %d run program %d of %d", r.Rank, r.App, len(a.programs))
		}
		if r.Args != nil && !isOwnArgv(r.Args, a.programs[r.App], r.LocalRank) {
			return fmt.Errorf("the head has rank %d run another command line than this node's", r.Rank)
		}
	}
	return a.checkPlaces(own, s)
}

// inherited is this node's environment without what the head decides about.
func (o *Own) inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return o.Decides(name)
	})
}

// decided is what the head may set of what it sent.
func (o *Own) decided(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !o.Sets(name)
	})
}

// isOwnArgv reports whether a rank's argument vector is its program's but for the local
// rank, as torchrun and torch.distributed.launch put it there.
func isOwnArgv(argv []string, p program.Resolved, localRank int) bool {
	number := strconv.Itoa(localRank)
	own := make([]string, len(p.Argv))
	for i, arg := range p.Argv {
		own[i] = arg
		if i >= p.ScriptArg {
			own[i] = strings.ReplaceAll(arg, "${local_rank}", number)
		}
	}
	if slices.Equal(argv, own) {
		return true
	}
	return slices.Equal(argv, slices.Insert(own, p.ScriptArg, localRankFlag+number))
}

// checkPlaces refuses files elsewhere than where this node's command line wants them.
func (a *Agent) checkPlaces(own *Own, s *wire.Start) error {
	logs := cmp.Or(own.LogDir, a.cfg.TempDir)
	if s.Logs != nil && slices.ContainsFunc(s.Logs.Names, func(name string) bool { return name != "" && !within(name, logs) }) {
		return fmt.Errorf("log files would be at %s, and this node's own command line has them below %s: give all nodes the same --log-dir", s.Logs.Names[0], logs)
	}
	if s.Logs != nil && s.Logs.Base != os.DevNull && !within(s.Logs.Base, logs) {
		return fmt.Errorf("log files would be at %s, and this node's own command line has them below %s: give all nodes the same --log-dir", s.Logs.Base, logs)
	}
	places := map[string]string{s.PrivateDir: a.cfg.TempDir, s.KeyFile: s.PrivateDir}
	for _, r := range s.Ranks {
		if !within(r.ErrorFile, s.PrivateDir) && (s.Logs == nil || !within(r.ErrorFile, s.Logs.Base)) {
			return fmt.Errorf("the head wants rank %d's error file at %s", r.Rank, r.ErrorFile)
		}
	}
	for place, in := range places {
		if !within(place, in) {
			return fmt.Errorf("the head wants files at %s, and this node allows them below %s alone", place, cmp.Or(in, "no directory"))
		}
	}
	if _, err := os.Lstat(s.PrivateDir); err == nil && s.PrivateDir != "" { // it is removed in the end
		return fmt.Errorf("the head wants private files at %s, which is there already", s.PrivateDir)
	}
	return nil
}

// within reports whether a path lies below a directory; "" is no path, and lies anywhere.
func within(path, dir string) bool {
	if path == "" {
		return true
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && dir != "" && filepath.IsLocal(rel) && rel != "."
}

// OverError ends [Serve] on a node that joined: the job is over.
type OverError struct {
	Code int
	Text string
}

func (e *OverError) Error() string { return e.Text }

// passSignals tells the head of the signals that this process got. A second one that
// ends a job ends this node at once, whatever the head does.
func (a *Agent) passSignals() {
	if a.cfg.Engine != NoEngine {
		a.reportSignals()
		return
	}
	asked := false
	for {
		select {
		case <-a.lease.over:
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
