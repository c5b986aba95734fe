package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/registry"
)

// exitNoJob is the exit code where there is no such job, or none any more.
const exitNoJob = 1

// jobPatience is how long a job may take to answer: one whose gorun is stopped does not.
const jobPatience = 3 * time.Second

// jobPlaces are where the user's running jobs are listed: where that is said, there alone.
func jobPlaces() []string {
	if place := os.Getenv("GORUN_RUNTIME_DIR"); place != "" {
		return []string{place}
	}
	return registry.Places(os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp")
}

// jobsRequest is one call of gorun ps, top, stop, stacks or logs.
type jobsRequest struct {
	*call
	Command string // its name
	act     func() error
	found   []registry.Handle

	Names  []string // of the jobs, or what their names begin with
	All    bool     // all jobs
	Follow bool
	NCCL   bool // what NCCL says of a job
	Rank   *int // nil: all
	// Tail is how many last lines of each stream are shown, nil: what there is. Stream is 1 for
	// standard output alone, 2 for standard error, 0 for both.
	Tail   *int
	Stream int
	// Signal is the one that ends a job, 0: SIGTERM; Grace what its ranks get, nil: the job's
	// own.
	Signal syscall.Signal
	Grace  *time.Duration
}

// command is what these commands have in common; done is their exit code 0, none is 1.
func (r *jobsRequest) command(c cli.Command, done, none string, examples ...dialect.Example) *command {
	if c.UsageText == "" {
		c.UsageText = "gorun " + r.Command + " [options] [JOB]"
	}
	return &command{request: r, Command: c, Page: dialect.Page{
		Examples: append(examples,
			dialect.Example{fmt.Sprintf("gorun ./%[1]s, gorun -- %[1]s", r.Command), "start a program of that name"}),
		Codes: []dialect.Example{
			{"0", done}, {"1", none}, {"2", "a mistake on the command line"}, {"125", "gorun's own error"},
		},
		Last: "A job is known here by its id, or by what no other's begins with. More: docs/output.md.",
	}}
}

// What most of these commands say to their exit codes.
const (
	wasShown  = "it was shown"
	jobIsNone = "there is no such job, or it has ended meanwhile"
)

// rankOption chooses one rank.
func (r *jobsRequest) rankOption() option {
	return option{
		Names: []string{"rank"}, Value: "N", Help: "of rank N alone",
		Set: dialect.Parsed(&r.Rank, parseRank),
	}
}

// parseRank reads a number from 0 on.
func parseRank(value string) (*int, error) {
	n, err := dialect.ParseAtLeast(value, 0)
	return &n, err
}

func (r *jobsRequest) check(words []string) {
	r.Names = words
	if slices.Contains(words, "") {
		r.problem("the name of a job is empty: an unset variable?")
	}
	switch stops := r.Command == "stop"; {
	case stops && r.All && len(words) > 0:
		r.problem("--all and %s contradict each other", dialect.Typed(words))
	case stops && !r.All && len(words) == 0:
		r.problem("no job given: gorun stop JOB..., or --all; gorun ps lists them")
	case !stops && len(words) > 1:
		r.problem("%s: one job at a time; gorun ./%s starts a program of that name", dialect.Typed(words[1:]), r.Command)
	}
}

// run does what is wished with jobs that run.
func (r *jobsRequest) run() error {
	r.found = registry.Find(jobPlaces())
	return r.act()
}

// noJob is the error of a job that there is not.
func noJob(format string, args ...any) error { return failure{exitNoJob, fmt.Sprintf(format, args...)} }

// nothingRuns is said where there is no job at all.
const nothingRuns = "no job of this user that was started on this host runs"

// one is the job that the command line names, or the only one.
func (r *jobsRequest) one() (registry.Handle, error) {
	name := ""
	if len(r.Names) > 0 {
		name = r.Names[0]
	}
	return r.named(name)
}

// named is the one job whose id begins so.
func (r *jobsRequest) named(name string) (registry.Handle, error) {
	those := r.beginning(strings.ToLower(name))
	switch {
	case len(r.found) == 0:
		return registry.Handle{}, noJob(nothingRuns)
	case len(those) == 1:
		return those[0], nil
	case len(those) == 0:
		return registry.Handle{}, noJob("no job %s: there is %s; gorun ps lists them", name, r.ids(r.found))
	case name == "":
		command := r.Command
		if r.NCCL {
			command += " --nccl"
		}
		return registry.Handle{},
			noJob("there are several jobs: gorun %s JOB, with JOB one of %s", command, r.ids(r.found))
	}
	return registry.Handle{}, noJob("several jobs begin with %s: %s", name, r.ids(those))
}

// beginning are the jobs whose ids begin so.
func (r *jobsRequest) beginning(id string) []registry.Handle {
	return slices.DeleteFunc(slices.Clone(r.found), func(f registry.Handle) bool { return !strings.HasPrefix(f.ID, id) })
}

// ids are the names of jobs, as short as they may be.
func (r *jobsRequest) ids(list []registry.Handle) string {
	const most = 10
	var names []string
	for _, f := range list[:min(len(list), most)] {
		names = append(names, r.short(f.ID))
	}
	if len(list) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// short is the beginning of an id that no other has.
func (r *jobsRequest) short(id string) string {
	for n := 4; n < len(id); n++ {
		if len(r.beginning(id[:n])) <= 1 {
			return id[:n]
		}
	}
	return id
}

// jobAnswer is a job with what it said of itself.
type jobAnswer struct {
	registry.Job
	err error
}

// askAll asks jobs, all at once; those that have ended meanwhile are left out.
func askAll(list []registry.Handle, question string) (jobs []jobAnswer) {
	all := make([]jobAnswer, len(list))
	var busy sync.WaitGroup
	for i, f := range list {
		busy.Go(func() { all[i] = askJob(f, question) })
	}
	busy.Wait()
	for i, a := range all {
		if a.ID = list[i].ID; !errors.Is(a.err, registry.ErrEnded) {
			jobs = append(jobs, a)
		}
	}
	return jobs
}

func askJob(f registry.Handle, question string) (a jobAnswer) {
	ctx, cancel := context.WithTimeout(context.Background(), jobPatience)
	defer cancel()
	pid := 0
	a.Job, pid, a.err = registry.OneOf[registry.Job](ctx, f, registry.Request{Kind: question})
	if errors.Is(a.err, os.ErrDeadlineExceeded) || errors.Is(a.err, context.DeadlineExceeded) {
		a.err = silentJob(f, pid)
	}
	return a
}

// silentJob is the error of a job that says nothing; pid is its gorun, 0: not known.
func silentJob(f registry.Handle, pid int) error {
	if pid == 0 {
		return fmt.Errorf("job %s does not answer: is its gorun stopped?", f.ID)
	}
	return fmt.Errorf("job %s does not answer: is its gorun stopped? kill -CONT %d has it go on", f.ID, pid)
}

// askOne asks the job of the command line, which has that long to answer.
func askOne[T any](r *jobsRequest, patience time.Duration, q registry.Request) (answer T, err error) {
	f, err := r.awake()
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return registry.One[T](ctx, f, q)
}

// awake is the job of the command line, which answers: others would be waited for without an end.
func (r *jobsRequest) awake() (registry.Handle, error) {
	f, err := r.one()
	if err == nil {
		err = askJob(f, registry.JobRequest).err
	}
	return f, err
}

func (r *jobsRequest) print(lines []string) error { return r.write(strings.Join(lines, "\n") + "\n") }
