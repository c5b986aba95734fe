package output

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorun/internal/printable"
)

// LogPlan describes the log files of a node's ranks in one attempt. Unless Names has the user's own, the layout is
// torchrun's:
//
//	<RunDir>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//	<RunDir>/attempt_<n>/{filtered_stdout.log,filtered_stderr.log}
type LogPlan struct {
	// Names are those of the files of stdout and stderr; a stream with an empty one has no file. The first attempt makes
	// the files, and later ones append. If both are empty, the layout is torchrun's.
	Names [2]Pattern
	// Root keeps all files below a directory; nil: they may be anywhere. It needs a RunDir, or Names.
	Root *os.Root
	// Digits are those of the job's highest rank, for Names.
	Digits int
	// RunDir is made by the first attempt; the null device means no files at all.
	RunDir  string
	Attempt int // counted from 0
	Ranks   []RankInfo

	Redirects, Tee StreamMap // by local rank; a stream in both is tee'd

	// Lines of tee'd streams that contain any of these texts also go to one file per attempt, with their tag. Show leaves
	// out ranks (--local-ranks-filter); nil: none.
	StdoutFilters, StderrFilters []string
	Show                         func(RankInfo) bool
	Template                     Pattern // of the tag; empty for torchrun's own

	// Consumed gives back credit for n bytes of a tee that have been written or dropped.
	Consumed func(rank, stream, n int)

	// Failed reports a log file that is incomplete from then on, once for each cause.
	Failed func(path string, err error)
}

func (p LogPlan) logRoot() logRoot { return logRoot{p.Root} }

// Enabled reports whether there are files.
func (p LogPlan) Enabled() bool {
	return (p.named() || p.RunDir != "") && filepath.Clean(p.RunDir) != os.DevNull
}

// named reports whether the user named the files.
func (p LogPlan) named() bool { return !p.Names[0].Empty() || !p.Names[1].Empty() }

// name returns the user's name of a stream's file; "" if it has none.
func (p LogPlan) name(localRank, stream int) string {
	pattern := p.Names[streamIndex(stream)]
	if pattern.Empty() {
		return ""
	}
	for _, r := range p.Ranks {
		if r.LocalRank == localRank {
			r.Host = hostInPath(r.Host)
			return pattern.expand(r, stream, max(p.Digits, 1), time.Time{})
		}
	}
	return ""
}

// hostInPath returns a host's name as an element of a path. A node that joins names its host itself, and the kernel
// accepts any bytes: it must lead to no other directory.
func hostInPath(host string) string {
	host = strings.ReplaceAll(host, "/", "_")
	if strings.Trim(host, ".") == "" {
		return strings.Repeat("_", max(len(host), 1))
	}
	return host
}

// File returns the log file of a stream of one of Ranks, in the attempt's directory; "" for a stream without one.
func (p LogPlan) File(attempt string, localRank, stream int) string {
	switch {
	case !(p.Redirects.Of(localRank) | p.Tee.Of(localRank)).Has(stream):
		return ""
	case p.named():
		return p.name(localRank, stream)
	}
	return filepath.Join(attempt, strconv.Itoa(localRank), streamName(stream)+".log")
}

// makeNamed makes the directories of files that the user named, and empty files for the first attempt.
func (p LogPlan) makeNamed() error {
	for _, r := range p.Ranks {
		for _, stream := range []int{Stdout, Stderr} {
			name := p.File("", r.LocalRank, stream)
			if name == "" {
				continue
			}
			if dir := filepath.Dir(name); filepath.Dir(dir) == filepath.Clean(os.TempDir()) {
				_ = p.logRoot().mkdir(dir, 0o700) // others use the temporary directory, too; if this fails so does what follows
			}
			if err := p.logRoot().mkdirAll(filepath.Dir(name)); err != nil {
				dir := printable.Text(filepath.Dir(name)) // --log-dir does not name it
				return fmt.Errorf("make log directory %s: %w", dir, printable.Cause(err))
			}
			if p.Attempt > 0 {
				continue
			}
			f, err := p.logRoot().open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
			if err != nil {
				return fmt.Errorf("open log %s: %w", printable.Text(name), printable.Cause(err))
			}
			f.Close()
		}
	}
	return nil
}

// makeRunDir makes the run's directory, which must not exist. It is private, like torchrun's (Python's mkdtemp).
func (p LogPlan) makeRunDir() error {
	err := p.logRoot().mkdirAll(filepath.Dir(p.RunDir))
	if err == nil {
		err = p.logRoot().mkdir(p.RunDir, 0o700)
	}
	if err != nil {
		return dirError(err)
	}
	return nil
}

// makeRankDirs makes the attempt's directory and those of its ranks.
func (p LogPlan) makeRankDirs(attempt string) error {
	if err := p.logRoot().mkdir(attempt, 0o777); err != nil {
		return dirError(err)
	}
	for _, r := range p.Ranks {
		if err := p.logRoot().mkdir(filepath.Join(attempt, strconv.Itoa(r.LocalRank)), 0o777); err != nil {
			return dirError(err)
		}
	}
	return nil
}

func dirError(err error) error {
	return fmt.Errorf("make log directory %s; give --log-dir a writable directory", printable.Text(printable.Error(err)))
}
