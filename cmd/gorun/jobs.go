package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/launcher/registry"
)

// exitNoJob is the exit code if there is no such job, or it has ended.
const exitNoJob = 1

// jobTimeout bounds how long a job may take to reply. A suspended gorun does not reply at all.
const jobTimeout = 3 * time.Second

// registryPlaces are the directories with the user's running jobs.
func registryPlaces() []string {
	if place := os.Getenv("GORUN_RUNTIME_DIR"); place != "" {
		return []string{place}
	}
	return registry.Places(os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp")
}

// jobsRequest is the request of gorun ps, top, stop, stacks and logs.
type jobsRequest struct {
	*commandLine
	registry.Request // its options
	command          string
	names            []string // ids of jobs, or their beginnings
	all              bool     // stop all jobs, or list those that have ended, too
	nccl             bool
	stream           int    // 1: standard output, 2: standard error, 0: both
	dir              string // of evidence
	html, trace      string // files; "-" is standard output
	act              func() error
	found            []registry.Handle
}

// define makes the command. Its help says what exit codes 0 and 1 mean.
func (r *jobsRequest) define(c cli.Command, success, failure string, examples ...dialect.Example) *command {
	if c.UsageText == "" {
		c.UsageText = "gorun " + r.command + " [options] [JOB]"
	}
	return &command{request: r, Command: c, Page: dialect.Page{
		Examples: append(examples,
			dialect.Example{"gorun run " + r.command, "start a program of that name"}),
		Codes: []dialect.Example{
			{"0", success}, {"1", failure}, {"2", "a mistake on the command line"}, {"125", "gorun's own error"},
		},
		Last: "JOB is a job ID or any unambiguous prefix. More: docs/output.md.",
	}}
}

// What exit codes 0 and 1 mean for most of these commands.
const (
	shownText = "it was shown"
	noJobText = "there is no such job, or it has ended meanwhile"
)

func (r *jobsRequest) rankOption() option {
	return option{
		Names: "rank", Value: "N", Help: "show only rank N",
		Set: dialect.Parsed(&r.Rank, parseNumber),
	}
}

func (r *jobsRequest) check(words []string) {
	r.names = words
	r.oneOutput(choice{r.html == "-", "--html -"}, choice{r.trace == "-", "--trace -"}, choice{r.JSON, "--json"})
	if slices.Contains(words, "") {
		r.refuse("the name of a job is empty: an unset variable?")
	}
	switch stop := r.command == "stop"; {
	case r.command == "diff":
		if len(words) != 2 {
			r.refuse("%s: gorun diff compares two jobs: gorun diff GOOD BAD; `gorun ps -a` lists them", dialect.Typed(words))
		}
	case r.all && len(words) > 0:
		r.refuse("--all and %s contradict each other", dialect.Typed(words))
	case stop && !r.all && len(words) == 0:
		r.refuse("no job given: gorun stop JOB..., or --all; gorun ps lists them")
	case !stop && len(words) > 1:
		r.refuse("%s: one job at a time; gorun ./%s starts a program of that name", dialect.Typed(words[1:]), r.command)
	}
}

func (r *jobsRequest) run() error {
	r.found = registry.Find(registryPlaces())
	return r.act()
}

func noJob(format string, args ...any) error {
	return exitError{exitNoJob, fmt.Sprintf(format, args...)}
}

const noJobsText = "you have no running jobs on this host"

// noJobs is the error where no job runs, so that none has the names of the command line.
func (r *jobsRequest) noJobs() error {
	text := noJobsText
	if r.names != nil {
		text = "no job " + strings.Join(r.names, ", ") + ": " + text
	}
	return noJob("%s", text)
}

// theJob is the job that the command line names, or the only one.
func (r *jobsRequest) theJob() (registry.Handle, error) {
	name := ""
	if len(r.names) > 0 {
		name = r.names[0]
	}
	return r.findJob(name)
}

// findJob finds the one job whose id begins with name.
func (r *jobsRequest) findJob(name string) (registry.Handle, error) {
	matches := r.withPrefix(strings.ToLower(name))
	switch {
	case len(r.found) == 0:
		return registry.Handle{}, r.noJobs()
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) == 0:
		return registry.Handle{}, noJob("no job %s: there is %s; gorun ps lists them", name, r.listIDs(r.found))
	case name == "":
		command := r.command
		if r.nccl {
			command += " --nccl"
		}
		return registry.Handle{},
			noJob("there are several jobs: gorun %s JOB, with JOB one of %s", command, r.listIDs(r.found))
	}
	return registry.Handle{}, noJob("several jobs begin with %s: %s", name, r.listIDs(matches))
}

func (r *jobsRequest) withPrefix(id string) []registry.Handle {
	return slices.DeleteFunc(slices.Clone(r.found), func(h registry.Handle) bool { return !strings.HasPrefix(h.ID, id) })
}

// listIDs lists a few short ids.
func (r *jobsRequest) listIDs(list []registry.Handle) string {
	const maxIDs = 10
	var ids []string
	for _, h := range list[:min(len(list), maxIDs)] {
		ids = append(ids, r.shortID(h.ID))
	}
	if len(list) > maxIDs {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}

// shortID is the shortest beginning of an id, from 4 characters on, that no other job has.
func (r *jobsRequest) shortID(id string) string {
	for n := 4; n < len(id); n++ {
		if len(r.withPrefix(id[:n])) <= 1 {
			return id[:n]
		}
	}
	return id
}

// jobReply is what a job reports of itself.
type jobReply struct {
	registry.Job
	err error
}

// queryJobs queries jobs at the same time and leaves out those that have ended.
func queryJobs(list []registry.Handle, kind string) (jobs []jobReply) {
	replies := make([]jobReply, len(list))
	var queries sync.WaitGroup
	for i, h := range list {
		queries.Go(func() { replies[i] = queryJob(h, kind) })
	}
	queries.Wait()
	for i, reply := range replies {
		if reply.ID = list[i].ID; !errors.Is(reply.err, registry.ErrEnded) {
			jobs = append(jobs, reply)
		}
	}
	return jobs
}

func queryJob(h registry.Handle, kind string) (reply jobReply) {
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	pid := 0
	reply.Job, pid, reply.err = registry.Get[registry.Job](ctx, h, registry.Request{Kind: kind})
	if errors.Is(reply.err, os.ErrDeadlineExceeded) || errors.Is(reply.err, context.DeadlineExceeded) {
		reply.err = unresponsive(h, pid)
	}
	return reply
}

// unresponsive is the error of a job that does not reply; pid is its gorun's, or 0.
func unresponsive(h registry.Handle, pid int) error {
	if pid == 0 {
		return fmt.Errorf("job %s does not respond; is its gorun suspended?", h.ID)
	}
	return fmt.Errorf("job %s does not respond; if its gorun is suspended, resume it: kill -CONT %d", h.ID, pid)
}

// query sends the request to the job of the command line.
func query[T any](r *jobsRequest, timeout time.Duration, kind string) (reply T, err error) {
	h, err := r.responsiveJob()
	if err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request := r.Request
	request.Kind = kind
	reply, _, err = registry.Get[T](ctx, h, request)
	return reply, err
}

// responsiveJob is the job of the command line if it replies. Requests without a time limit would wait for others for
// ever.
func (r *jobsRequest) responsiveJob() (registry.Handle, error) {
	h, err := r.theJob()
	if err == nil {
		err = queryJob(h, registry.JobRequest).err
	}
	return h, err
}

func (r *jobsRequest) printLines(lines []string) error {
	return r.print(strings.Join(lines, "\n") + "\n")
}

// rankLines describe a job and its ranks, see jobTable.ranks.
func (r *jobsRequest) rankLines(j registry.Job, usage []rankUsage, gpus gpuLoads) []string {
	t := jobTable{show.Style(r.stdout)}
	return append([]string{t.title(j, r.shortID(j.ID)), ""}, t.ranks(j, usage, gpus)...)
}
