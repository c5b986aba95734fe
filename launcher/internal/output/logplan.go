package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorun/internal/printable"
)

// LogPlan says which files a node writes for its ranks, in one attempt. The layout is torchrun's:
//
//	<RunDir>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//	<RunDir>/attempt_<n>/{filtered_stdout.log,filtered_stderr.log}
//
// Where Names says so it is the user's own.
type LogPlan struct {
	// Names are those of the files of stdout and stderr; an empty one: the stream has no file. They are made anew by
	// the first attempt, and continued by later ones. Both empty: the layout is torchrun's.
	Names [2]Pattern
	// Root keeps all files below the directory that it opened; nil: they may be anywhere. With it there is a RunDir, or
	// Names.
	Root *os.Root
	// Digits are those of the job's highest rank, for Names.
	Digits int
	// RunDir is made by the first attempt; the null device: no files at all.
	RunDir  string
	Attempt int // counted from 0
	Ranks   []RankInfo

	Redirects, Tee StreamMap // by local rank; a stream in both is tee'd

	// Lines of tee'd streams that hold any of the texts also go to one file an attempt, with their tag. Show, which is
	// --local-ranks-filter, leaves ranks out, as torchrun does; nil means none.
	StdoutFilters, StderrFilters []string
	Show                         func(RankInfo) bool
	Template                     Pattern // of the tag; empty for torchrun's own

	// Consumed gives back credit: n bytes that a tee got have been written or dropped.
	Consumed func(rank, stream, n int)

	// Failed reports a log file that is incomplete from here on, once for each cause. Nothing else suffers.
	Failed func(path string, err error)
}

func (p LogPlan) place() place { return place{p.Root} }

// Wanted tells whether the plan asks for files.
func (p LogPlan) Wanted() bool {
	return (p.named() || p.RunDir != "") && filepath.Clean(p.RunDir) != os.DevNull
}

// named tells whether the files have names of the user's own.
func (p LogPlan) named() bool { return !p.Names[0].Empty() || !p.Names[1].Empty() }

// name is that of a stream's file; empty where it has none.
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

// hostInPath is a host's name as a part of a path. A node that joins names its host itself, and
// the kernel takes any bytes as a host name: it must lead to no other directory.
func hostInPath(host string) string {
	host = strings.ReplaceAll(host, "/", "_")
	if strings.Trim(host, ".") == "" {
		return strings.Repeat("_", max(len(host), 1))
	}
	return host
}

// File is the log file of a stream of one of Ranks, in the attempt's directory; "" for a stream without one.
func (p LogPlan) File(attempt string, localRank, stream int) string {
	switch {
	case !(p.Redirects.Of(localRank) | p.Tee.Of(localRank)).Has(stream):
		return ""
	case p.named():
		return p.name(localRank, stream)
	}
	return filepath.Join(attempt, strconv.Itoa(localRank), streamName(stream)+".log")
}

// makeNamed makes the directories of files with names of the user's own, and empty files for the first attempt.
func (p LogPlan) makeNamed() error {
	for _, r := range p.Ranks {
		for _, stream := range []int{Stdout, Stderr} {
			name := p.name(r.LocalRank, stream)
			if name == "" {
				continue
			}
			if err := p.place().mkdirAll(filepath.Dir(name)); err != nil {
				return fmt.Errorf("make the directory of %s: %w", printable.Text(name), cause(err)) // no --log-dir named it
			}
			if p.Attempt > 0 {
				continue
			}
			f, err := p.place().open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
			if err != nil {
				return fmt.Errorf("open log %s: %w", printable.Text(name), cause(err))
			}
			f.Close()
		}
	}
	return nil
}

// makeRunDir makes the run's directory where nothing has that name yet. It is private, like torchrun's (Python's
// mkdtemp).
func (p LogPlan) makeRunDir() error {
	err := p.place().mkdirAll(filepath.Dir(p.RunDir))
	if err == nil {
		err = p.place().mkdir(p.RunDir, 0o700)
	}
	if err != nil {
		return dirError(err)
	}
	return nil
}

// makeRankDirs makes the attempt's directory and those of its ranks.
func (p LogPlan) makeRankDirs(attempt string) error {
	if err := p.place().mkdir(attempt, 0o777); err != nil {
		return dirError(err)
	}
	for _, r := range p.Ranks {
		if err := p.place().mkdir(filepath.Join(attempt, strconv.Itoa(r.LocalRank)), 0o777); err != nil {
			return dirError(err)
		}
	}
	return nil
}

// dirError names the directory that cannot be made, why, and the way out.
func dirError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("make log directory %s: %w; --log-dir takes a directory that can be written to",
			printable.Text(path.Path), path.Err)
	}
	return fmt.Errorf("make log directory: %w", err)
}
