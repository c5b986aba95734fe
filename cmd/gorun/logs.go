package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func logsCommand(c *call) *command {
	r := &jobsRequest{call: c, Command: "logs"}
	r.act = r.logs
	return r.command(cli.Command{
		Usage: "print what the ranks of a job printed last; -f goes on",
		Description: "gorun logs prints the last lines of each rank, from the job's log files or else from what its gorun " +
			"remembers.",
		Flags: c.Flags(own(dialect.GroupShown, option{
			Names: []string{"follow", "f"}, Set: dialect.Switch(&r.Follow),
			Help: "go on with what ranks print from now on, until the job has ended; whoever reads too slowly is dropped, the " +
				"job never waits",
		}, r.rankOption(), option{
			Names: []string{"tail", "n"}, Value: "N", Set: dialect.Parsed(&r.Tail, parseRank),
			Help: "the last N lines of each stream of each rank, as far as they are kept (default: 60)",
		}, option{
			Names: []string{"stream"}, Value: "NAME", Choices: []string{"stdout", "stderr"},
			Help: "what ranks print to standard output alone, or to standard error",
			Set: func(a dialect.Arg) error {
				r.Stream = slices.Index([]string{"stdout", "stderr"}, a.Value) + 1
				return dialect.OneOf(a.Value, "stdout", "stderr")
			},
		})...),
	}, wasShown, jobIsNone,
		dialect.Example{"gorun logs", "the only job there is"},
		dialect.Example{"gorun logs -f --rank 0 7f3a", "what rank 0 prints from now on, too"},
		dialect.Example{"gorun logs -n 1 --stream stderr", "the last line of standard error of each rank"})
}

// logs prints what ranks printed last, and goes on where that is wished.
func (r *jobsRequest) logs() error {
	f, err := r.awake()
	if err != nil {
		return err
	}
	a, err := f.Do(context.Background(), registry.Request{
		Kind: registry.LogsRequest, Rank: r.Rank, Follow: r.Follow,
		Tail: r.Tail,
	})
	if err != nil {
		return err
	}
	defer a.Close()
	out := bufio.NewWriter(r.stdout)
	silent := true
	for {
		var logs registry.Logs
		switch err := a.Next(&logs); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return noJob("job %s says no more: this reader was too slow for it, or its gorun was killed; gorun logs -f "+
				"goes on", r.short(f.ID))
		case err != nil:
			return err
		}
		for _, line := range logs.Lines {
			if r.Stream == 0 || line.Stream == 0 || line.Stream == r.Stream {
				silent = false
				r.logLine(out, line)
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		switch {
		case logs.Error != "":
			return noJob("%s", printable.Text(logs.Error))
		case logs.Dropped:
			return noJob("job %s prints faster than this reader reads: it was dropped, the job goes on; gorun logs -f %s "+
				"begins anew", r.short(f.ID), f.ID)
		case logs.Over:
			if silent && (r.Tail == nil || *r.Tail > 0) {
				say(r.stderr, r.nothing(r.short(f.ID)))
			}
			return nil
		}
	}
}

// nothing says that there is no line of what was asked for.
func (r *jobsRequest) nothing(id string) string {
	who, where := "job "+id, ""
	if r.Rank != nil {
		who = fmt.Sprintf("rank %d of job %s", *r.Rank, id)
	}
	if r.Stream != 0 {
		where = " to " + []string{"standard output", "standard error"}[r.Stream-1]
	}
	if r.Follow {
		return who + " has printed nothing" + where
	}
	return who + " has printed nothing" + where + " yet; gorun logs -f waits for more"
}

// logLine prints a line with its rank; those of gorun's own go to standard error.
func (r *jobsRequest) logLine(out *bufio.Writer, line registry.Line) {
	text := printable.Text(line.Text)
	switch {
	case line.Stream == 0 && line.Rank >= 0:
		_ = out.Flush() // the next one tells
		say(r.stderr, fmt.Sprintf("rank %d %s", line.Rank, text))
	case line.Stream == 0:
		say(r.stderr, text)
	case r.Rank != nil: // it is plain whose it is
		_, _ = fmt.Fprintln(out, text)
	default:
		_, _ = fmt.Fprintf(out, "[%d] %s\n", line.Rank, text)
	}
}
