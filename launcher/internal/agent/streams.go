package agent

import (
	"context"
	"fmt"
	"os"
	"slices"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// streams are the standard streams of a rank.
func (j *job) streams(row wire.Row) (in, out, err process.Stream, failed error) {
	io := j.start.Stdio
	switch {
	case io.Terminal:
		return inherit(j.agent.cfg.Stdin), inherit(j.agent.cfg.Stdout), inherit(j.agent.cfg.Stderr), nil
	case io.PTY:
		pty := process.Stream{Kind: process.PTY}
		return pty, pty, pty, nil
	}
	if out, failed = j.outputStream(row, output.Stdout); failed == nil {
		err, failed = j.outputStream(row, output.Stderr)
	}
	return j.read(row.Rank), out, err, failed
}

// read is what a rank reads.
func (j *job) read(rank int) process.Stream {
	switch {
	case rank == j.start.Stdio.Direct:
		return inherit(j.agent.cfg.Stdin)
	case slices.Contains(j.start.Stdio.Piped, rank):
		return process.Stream{Kind: process.Pipe}
	}
	return process.Stream{Kind: process.Null}
}

// written is where a rank's stream goes: to us, or straight into a file.
func (j *job) outputStream(row wire.Row, stream int) (process.Stream, error) {
	if j.logs == nil || row.Spawned || !j.logs.Files() || !redirected(j.start.Logs, row.LocalRank, stream) {
		j.open.add(1)
		j.rank(row.Rank).streams.Add(1)
		return process.Stream{Kind: process.Pipe}, nil
	}
	f, err := j.logs.Redirect(row.LocalRank, stream)
	if err != nil {
		return process.Stream{}, err
	}
	j.files = append(j.files, f)
	return inherit(f), nil
}

// redirected reports whether a stream goes to its file alone; tee wins.
func redirected(l *wire.Logs, localRank, stream int) bool {
	return (l.Redirect[localRank] &^ l.Tee[localRank]).Has(stream)
}

func inherit(f *os.File) process.Stream {
	if f == nil {
		return process.Stream{Kind: process.Null}
	}
	return process.Stream{Kind: process.FD, FD: int(f.Fd())}
}

// openLogs makes the log files of this attempt.
func (j *job) openLogs() error {
	l := j.start.Logs
	if l == nil {
		return nil
	}
	template, err := output.ParseTemplate(l.Template)
	if err != nil {
		return err
	}
	names, err := output.ParsePatterns(l.Names)
	if err != nil {
		return err
	}
	plan := output.LogPlan{
		Names: names, Digits: l.Digits,
		RunDir: l.Base, Attempt: j.start.Attempt, Ranks: j.rankInfos(), Redirects: l.Redirect,
		Tee:           l.Tee,
		StdoutFilters: l.DuplicateStdout, StderrFilters: l.DuplicateStderr, Template: template, Show: shows(l.Show),
		Consumed: func(_, stream, n int) { j.credit.add(stream, n) },
		Failed:   func(path string, err error) { j.agent.notice("log file %s is incomplete from here on: %v", path, err) },
	}
	if j.agent.cfg.Joined != nil && l.Base != os.DevNull {
		if j.logRoot, err = openDir(j.agent.logBase()); err != nil {
			return err
		}
		plan.Root = j.logRoot
	}
	j.logs, err = output.OpenLogs(plan)
	return err
}

// openDir makes and opens a directory that the user named.
func openDir(dir string) (*os.Root, error) {
	err := os.MkdirAll(dir, 0o777)
	if err != nil {
		return nil, fmt.Errorf("make log directory: %w; --log-dir takes a directory that can be written to", err)
	}
	return os.OpenRoot(dir)
}

func shows(localRanks []int) func(output.RankInfo) bool {
	if localRanks == nil {
		return nil
	}
	return func(r output.RankInfo) bool { return slices.Contains(localRanks, r.LocalRank) }
}

func (j *job) rankInfos() []output.RankInfo {
	l := j.start.Logs
	infos := make([]output.RankInfo, len(j.start.Ranks))
	for i, row := range j.start.Ranks {
		infos[i] = output.RankInfo{Rank: row.Rank, LocalRank: row.LocalRank, Host: l.Host, Role: l.Role, Node: l.Node}
	}
	return infos
}

// closeFiles gives up the files that are the ranks' own by now.
func (j *job) closeFiles() {
	for _, f := range j.files {
		_ = f.Close()
	}
	j.files = nil
}

// closeLogs waits until what ranks wrote is in their files; a disk that hangs is
// given up before long.
func (j *job) closeLogs() {
	if j.logRoot != nil {
		defer j.logRoot.Close()
	}
	if j.logs == nil {
		return
	}
	if err := j.logs.Close(context.Background()); err != nil {
		j.agent.notice("%v", err)
	}
}
