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

// standardStreams returns the streams to start a rank with.
func (j *job) standardStreams(row wire.Row) (in, out, err process.Stream, failed error) {
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
	return j.inputStream(row.Rank), out, err, failed
}

func (j *job) inputStream(rank int) process.Stream {
	switch {
	case rank == j.start.Stdio.Direct:
		return inherit(j.agent.cfg.Stdin)
	case slices.Contains(j.start.Stdio.Piped, rank):
		return process.Stream{Kind: process.Pipe}
	}
	return process.Stream{Kind: process.Null}
}

// outputStream returns a pipe to the agent or, if the stream is redirected, a log file.
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
	j.redirected = append(j.redirected, f)
	return inherit(f), nil
}

// redirected reports whether a stream goes only to its file. Tee takes precedence.
func redirected(l *wire.Logs, localRank, stream int) bool {
	return (l.Redirect[localRank] &^ l.Tee[localRank]).Has(stream)
}

func inherit(f *os.File) process.Stream {
	if f == nil {
		return process.Stream{Kind: process.Null}
	}
	return process.Stream{Kind: process.FD, FD: int(f.Fd())}
}

// openLogs opens the attempt's log files.
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

// openDir makes and opens a directory.
func openDir(dir string) (*os.Root, error) {
	err := os.MkdirAll(dir, 0o777)
	if err != nil {
		return nil, fmt.Errorf("make log directory: %w; give --log-dir a writable directory", err)
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

// closeRedirected closes our descriptors of files that the ranks have inherited.
func (j *job) closeRedirected() {
	for _, f := range j.redirected {
		_ = f.Close()
	}
	j.redirected = nil
}

// closeLogs waits until all output is written; it gives up soon on a disk that hangs.
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
