package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/quarantine"
	"gorun/launcher/record"
)

// lastJob names the job that began last of those that have ended.
const lastJob = "last"

func reportCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "report"}
	r.act = r.report
	return r.define(cli.Command{
		Usage:       "print how a job ended",
		Description: "gorun report prints the report of one of your last jobs, as at its end.",
		UsageText:   "gorun report [options] [JOB|last]",
		Flags: c.Flags(c.group(dialect.GroupShown,
			c.jsonOption("print what --report writes"), option{
				Names: "html", Value: "FILE", Set: dialect.Text(&r.html),
				Help: "write a page with timeline, placement and output to FILE (- is stdout)",
			}, option{
				Names: "trace", Value: "FILE", Set: dialect.Text(&r.trace),
				Help: "write a trace for https://ui.perfetto.dev to FILE (- is stdout)",
			})...),
	}, shownText, "there is no record of such a job, or it has no report",
		dialect.Example{"gorun report", "the last job"},
		dialect.Example{"gorun report --json 7f3a", "all about one, for programs"},
		dialect.Example{"gorun report --html job.html", "for a browser"})
}

// past returns the record of the job of the command line, or of the last one.
func (r *jobsRequest) past() (record.Record, error) {
	if len(r.names) == 0 {
		return recorded(lastJob)
	}
	return recorded(r.names[0])
}

// recorded returns the record of a job, given the beginning of its id.
func recorded(name string) (found record.Record, err error) {
	var ids []string
	for _, rec := range record.List(recordsDir()) {
		if name == lastJob && !rec.Running {
			return rec, nil
		}
		if name != lastJob && strings.HasPrefix(rec.ID, strings.ToLower(name)) {
			found, ids = rec, append(ids, rec.ID)
		}
	}
	switch {
	case len(ids) == 0:
		return found, noJob("no record of job %s; `gorun ps -a` lists your last jobs", name)
	case len(ids) > 1:
		return found, noJob("several jobs begin with %s: %s", name, strings.Join(ids, ", "))
	}
	return found, nil
}

// runningOrPast acts on a running job, or on one that has ended if the command line names none that runs.
func (r *jobsRequest) runningOrPast(running, past func() error) error {
	if len(r.names) > 0 && (r.names[0] == lastJob || len(r.withPrefix(strings.ToLower(r.names[0]))) == 0) {
		return past()
	}
	return running()
}

// recordLine decodes the last line of a kind of a record, unless into is nil.
func recordLine(rec record.Record, kind string, into any) ([]byte, error) {
	lines := rec.Lines(kind)
	switch {
	case len(lines) == 0 && rec.Running:
		return nil, noJob("job %s still runs", rec.ID)
	case len(lines) == 0:
		return nil, noJob("job %s: %s", rec.ID, ending(rec))
	}
	line := lines[len(lines)-1]
	if into == nil {
		return line, nil
	}
	return line, json.Unmarshal(line, into)
}

func (r *jobsRequest) report() error {
	rec, err := r.past()
	if err != nil {
		return err
	}
	if r.html != "" || r.trace != "" {
		if err := r.writeReports(rec); err != nil || !r.JSON {
			return err
		}
	}
	if r.JSON {
		line, err := recordLine(rec, "report", nil)
		var text bytes.Buffer
		if err == nil {
			err = json.Indent(&text, line, "", "  ")
		}
		if err != nil {
			return err
		}
		return r.print(text.String())
	}
	text := fmt.Sprintf("job %s: %s\n%s, %s: %s\n", rec.ID, shellwords.Join(rec.Command),
		rec.Began.Local().Format(quarantine.TimeFormat), tookText(rec), ending(rec))
	var printed printedJSON
	if _, err := recordLine(rec, "printed", &printed); err != nil {
		text += strings.Join(lastEvents(rec), "\n")
	}
	lines := strings.Split(strings.TrimSuffix(text+printed.Report, "\n"), "\n")
	for i := range lines {
		lines[i] = printable.Text(lines[i])
	}
	return r.printLines(append(lines, evidenceLines(evidenceDirs(rec))...))
}

// writeReports writes --html and --trace.
func (r *jobsRequest) writeReports(rec record.Record) error {
	now := time.Time{}
	if rec.Running {
		now = time.Now()
	}
	known := newRun(rec)
	times := newTimeline(&known, now)
	for _, file := range []struct {
		option, name string
		text         func() string
	}{
		{"--html", r.html, func() string { return pageHTML(rec, &known, times) }},
		{"--trace", r.trace, func() string { return traceJSON(rec, &known, times) }},
	} {
		var err error
		switch file.name {
		case "":
		case "-":
			err = r.print(file.text())
		default:
			err = writeTo(file.name, file.text())
		}
		if err != nil {
			return optionError(file.option, err)
		}
	}
	return nil
}

// lastEvents describes what happened last to a job.
func lastEvents(rec record.Record) (lines []string) {
	const most = 20
	list := rec.Lines("event")
	for _, line := range list[max(0, len(list)-most):] {
		var e record.Event
		if json.Unmarshal(line, &e) == nil {
			lines = append(lines, eventText(e))
		}
	}
	return lines
}

// markText describes an event but for its time.
func markText(e record.Event) string {
	if e.Event == record.AttemptBegan {
		return fmt.Sprint("restart ", e.Attempt)
	}
	host := e.Host
	if strings.HasPrefix(e.Text, host) {
		host = ""
	}
	return show.Join(": ", e.Event, show.Join(", ", host, e.Text))
}

func eventText(e record.Event) string {
	var about []string
	if e.Rank != nil {
		about = append(about, fmt.Sprint("rank ", *e.Rank))
	}
	if e.PID != 0 {
		about = append(about, fmt.Sprint("pid ", e.PID))
	}
	if e.Code != nil {
		about = append(about, fmt.Sprint("exit code ", *e.Code))
	}
	about = slices.DeleteFunc(append(about, e.Host, e.Signal, e.Text), func(text string) bool { return text == "" })
	return strings.TrimSuffix(e.At.Local().Format(time.TimeOnly)+" "+e.Event+": "+strings.Join(about, ", "), ": ")
}

// ending says how a job ended.
func ending(rec record.Record) string {
	host, _ := os.Hostname()
	switch {
	case rec.End != nil:
		return rec.End.Text
	case rec.Running:
		return "running"
	case rec.Host != host:
		return "no report, from " + rec.Host
	}
	return "no report: gorun was killed, or could not write it"
}

// tookText says how long a job took, or has taken.
func tookText(rec record.Record) string {
	switch {
	case rec.End != nil:
		return ageText(rec.End.At.Sub(rec.Began))
	case rec.Running:
		return ageText(time.Since(rec.Began))
	}
	return "-"
}

// pastJob is a job that has a record.
type pastJob struct {
	ID      string   `json:"job"`     // id
	Command []string `json:"command"` // the command line, with secrets hidden
	// Began and Ended are when gorun started and ended.
	Began   time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at,omitzero"`
	Code    *int      `json:"exit_code,omitempty"` // of gorun; absent without a report
	Outcome string    `json:"outcome"`             // how it ended, in a few words
}

func newPastJob(rec record.Record) pastJob {
	j := pastJob{ID: rec.ID, Command: rec.Command, Began: rec.Began, Outcome: ending(rec)}
	if rec.End != nil {
		j.Ended, j.Code = rec.End.At, rec.End.Code
	}
	return j
}

type pastJobs struct {
	Jobs []pastJob `json:"jobs"` // the last jobs of this user that have a record, the latest first
}

// psAll lists the jobs that have records.
func (r *jobsRequest) psAll() error {
	past := pastJobs{[]pastJob{}}
	rows := [][]string{{"JOB", "STARTED", "TIME", "OUTCOME", "COMMAND"}}
	table := jobTable{show.Style(r.stdout)}
	outcomes := table
	outcomes.Width /= 3 // leaves room for commands
	for _, rec := range record.List(recordsDir()) {
		j := newPastJob(rec)
		past.Jobs = append(past.Jobs, j)
		rows = append(rows, []string{
			j.ID, j.Began.Local().Format(quarantine.TimeFormat), tookText(rec),
			outcomes.clip(printable.Text(j.Outcome)), printable.Text(shellwords.Join(j.Command)),
		})
	}
	if r.JSON {
		return show.JSON(r.stdout, "history", past)
	}
	if len(past.Jobs) == 0 {
		r.notify("there are no records of jobs")
		return nil
	}
	return r.printLines(table.lines(rows))
}

// pastLogs prints the last lines of a job that has ended.
func (r *jobsRequest) pastLogs() error {
	rec, err := r.past()
	if err != nil {
		return err
	}
	var printed printedJSON
	if _, err := recordLine(rec, "printed", &printed); err != nil {
		return err
	}
	out, silent := bufio.NewWriter(r.stdout), true
	for i, line := range printed.Lines {
		later := 0 // of the same stream
		for _, other := range printed.Lines[i+1:] {
			if other.Rank != line.Rank || other.Stream != line.Stream {
				break
			}
			later++
		}
		if (r.stream == 0 || r.stream == line.Stream) && (r.Rank == nil || *r.Rank == line.Rank) &&
			(r.Tail == nil || later < *r.Tail) {
			r.printLogLine(out, line)
			silent = false
		}
	}
	if silent {
		r.notify("the record of job " + rec.ID + " has no such output: see the files of --log-dir, if the job had any")
	}
	return out.Flush()
}
