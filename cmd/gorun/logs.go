package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func logsCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "logs"}
	r.act = func() error { return r.runningOrPast(r.logs, r.pastLogs) }
	return r.define(cli.Command{
		Usage: "print the last lines of each rank; -f follows them",
		Description: "gorun logs prints the last lines of each rank, from the job's log files or from the memory of its " +
			"launcher, and those of a job that has ended from its record.",
		UsageText: "gorun logs [options] [JOB|last]",
		Flags: c.Flags(c.group(dialect.GroupShown, option{
			Names: "follow f", Set: dialect.Switch(&r.Follow),
			Help: "print new output until the job ends; a slow reader is disconnected",
		}, r.rankOption(), option{
			Names: "tail n", Value: "N", Set: dialect.Parsed(&r.Tail, parseNumber),
			Help: "print the last N lines of each stream of each rank (60)",
		}, option{
			Names: "stream", Value: "NAME", Choices: "stdout|stderr",
			Help: "print only stdout or stderr",
			Set: func(a dialect.Arg) error {
				err := dialect.Index(&r.stream)(a)
				r.stream++
				return err
			},
		})...),
	}, shownText, noJobText,
		dialect.Example{"gorun logs", "the only running job"},
		dialect.Example{"gorun logs -f --rank 0 7f3a", "follow rank 0"},
		dialect.Example{"gorun logs last", "the last job that has ended"},
		dialect.Example{"gorun logs -n 1 --stream stderr", "the last line of standard error of each rank"})
}

// logs prints the last lines of ranks and, with --follow, goes on until the job ends.
func (r *jobsRequest) logs() error {
	h, err := r.responsiveJob()
	if err != nil {
		return err
	}
	request := r.Request
	request.Kind = registry.LogsRequest
	response, err := h.Do(context.Background(), request)
	if err != nil {
		return err
	}
	defer response.Close()
	out := bufio.NewWriter(r.stdout)
	empty := true
	for {
		var logs registry.Logs
		switch err := response.Next(&logs); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return noJob("job %s closed the connection: this reader was too slow, or its gorun was killed; try gorun logs -f "+
				"again", r.shortID(h.ID))
		case err != nil:
			return err
		}
		for _, line := range logs.Lines {
			if r.stream == 0 || line.Stream == 0 || line.Stream == r.stream {
				empty = false
				r.printLogLine(out, line)
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		switch {
		case logs.Error != "":
			return noJob("%s", printable.Text(logs.Error))
		case logs.Dropped:
			return noJob("job %s prints faster than this reader reads, so it dropped the reader and goes on; reconnect: "+
				"gorun logs -f %s", r.shortID(h.ID), h.ID)
		case logs.Over:
			if empty && (r.Tail == nil || *r.Tail > 0) {
				r.notify(r.emptyLogText(r.shortID(h.ID)))
			}
			return nil
		}
	}
}

func (r *jobsRequest) emptyLogText(id string) string {
	text := "job " + id
	if r.Rank != nil {
		text = fmt.Sprintf("rank %d of job %s", *r.Rank, id)
	}
	text += " has printed nothing"
	if r.stream != 0 {
		text += " to " + []string{"standard output", "standard error"}[r.stream-1]
	}
	if !r.Follow {
		text += " yet; gorun logs -f waits for more"
	}
	return text
}

// printLogLine prints a line with its rank, unless all are one rank's. Notes of the job's gorun go to standard error.
func (r *jobsRequest) printLogLine(out *bufio.Writer, line registry.Line) {
	text := printable.Text(line.Text)
	switch {
	case line.Stream == 0:
		_ = out.Flush() // an error comes again
		if line.Rank >= 0 {
			text = fmt.Sprintf("rank %d %s", line.Rank, text)
		}
		r.notify(text)
	case r.Rank != nil:
		_, _ = fmt.Fprintln(out, text)
	default:
		_, _ = fmt.Fprintf(out, "[%d] %s\n", line.Rank, text)
	}
}
