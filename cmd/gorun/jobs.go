package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/job"
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
	dialect.JobsWish
	json           bool
	stdout, stderr io.Writer
	found          []registry.Found
}

// runJobs does what is wished with jobs that run, and returns the exit code.
func runJobs(inv dialect.Invocation, stdout, stderr io.Writer) int {
	r := &jobsRequest{inv.Jobs, inv.JSON, stdout, stderr, registry.Find(jobPlaces())}
	act := map[string]func() error{"ps": r.ps, "top": r.top, "stop": r.stop, "stacks": r.stacks, "logs": r.logs}[r.Command]
	code := 0
	for _, err := range each(act()) {
		var none noJobError
		switch {
		case errors.Is(err, unix.EPIPE): // a reader that went away
			code = job.ExitLauncher
			continue
		case errors.As(err, &none), errors.Is(err, registry.ErrGone):
			code = max(code, exitNoJob)
		default:
			code = job.ExitLauncher
		}
		say(stderr, err.Error())
	}
	return code
}

// errorsOfJobs are those of several jobs, each to be said for itself.
type errorsOfJobs []error

func (e errorsOfJobs) Error() string { return errors.Join(e...).Error() }

// each are the errors to be said, none of nil.
func each(err error) []error {
	if several, ok := err.(errorsOfJobs); ok {
		return several
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// noJobError is a job that there is not.
type noJobError string

func (e noJobError) Error() string { return string(e) }

// nothingRuns is said where there is no job at all.
const nothingRuns = "no job of this user that was started on this host runs"

// one is the job that the command line names, or the only one.
func (r *jobsRequest) one() (registry.Found, error) {
	name := ""
	if len(r.Names) > 0 {
		name = r.Names[0]
	}
	return r.named(name)
}

// named is the one job whose id begins so.
func (r *jobsRequest) named(name string) (registry.Found, error) {
	var those []registry.Found
	for _, f := range r.found {
		if strings.HasPrefix(f.ID, strings.ToLower(name)) {
			those = append(those, f)
		}
	}
	switch {
	case len(r.found) == 0:
		return registry.Found{}, noJobError(nothingRuns)
	case len(those) == 1:
		return those[0], nil
	case len(those) == 0:
		return registry.Found{}, noJobError(fmt.Sprintf("no job %s: there is %s; gorun ps lists them", name, r.ids(r.found)))
	case name == "":
		command := r.Command
		if r.NCCL {
			command += " --nccl"
		}
		return registry.Found{},
			noJobError(fmt.Sprintf("there are several jobs: gorun %s JOB, with JOB one of %s", command, r.ids(r.found)))
	}
	return registry.Found{}, noJobError(fmt.Sprintf("several jobs begin with %s: %s", name, r.ids(those)))
}

// ids are the names of jobs, as short as they may be.
func (r *jobsRequest) ids(list []registry.Found) string {
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
		others := 0
		for _, f := range r.found {
			if strings.HasPrefix(f.ID, id[:n]) {
				others++
			}
		}
		if others <= 1 {
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
func askAll(list []registry.Found, question string) (jobs []jobAnswer) {
	all := make([]jobAnswer, len(list))
	var busy sync.WaitGroup
	for i, f := range list {
		busy.Go(func() { all[i] = askJob(f, question) })
	}
	busy.Wait()
	for i, a := range all {
		if a.ID = list[i].ID; !errors.Is(a.err, registry.ErrGone) {
			jobs = append(jobs, a)
		}
	}
	return jobs
}

func askJob(f registry.Found, question string) (a jobAnswer) {
	ctx, cancel := context.WithTimeout(context.Background(), jobPatience)
	defer cancel()
	pid := 0
	a.Job, pid, a.err = registry.OneOf[registry.Job](ctx, f, registry.Question{Ask: question})
	if errors.Is(a.err, os.ErrDeadlineExceeded) || errors.Is(a.err, context.DeadlineExceeded) {
		a.err = silentJob(f, pid)
	}
	return a
}

// silentJob is the error of a job that says nothing; pid is its gorun, 0: not known.
func silentJob(f registry.Found, pid int) error {
	if pid == 0 {
		return fmt.Errorf("job %s does not answer: is its gorun stopped?", f.ID)
	}
	return fmt.Errorf("job %s does not answer: is its gorun stopped? kill -CONT %d has it go on", f.ID, pid)
}

// awake is the job of the command line, which answers: others would be waited for without an end.
func (r *jobsRequest) awake() (registry.Found, error) {
	f, err := r.one()
	if err == nil {
		err = askJob(f, registry.AskJob).err
	}
	return f, err
}

// ps lists the jobs, or the ranks of one.
func (r *jobsRequest) ps() error {
	if r.NCCL {
		return r.nccl()
	}
	list := r.found
	if len(r.Names) > 0 {
		f, err := r.one()
		if err != nil {
			return err
		}
		list = []registry.Found{f}
	}
	question := registry.AskJob
	if r.json || len(r.Names) > 0 {
		question = registry.AskRanks
	}
	jobs := askAll(list, question)
	switch {
	case len(jobs) == 0 && len(r.Names) > 0:
		return registry.ErrGone
	case len(r.Names) > 0 && jobs[0].err != nil:
		return jobs[0].err
	case r.json:
		return r.psJSON(jobs)
	case len(jobs) == 0:
		say(r.stderr, nothingRuns)
		return nil
	case len(r.Names) > 0:
		v := newJobView(textStyle(r.stdout))
		return r.print(append([]string{v.title(jobs[0].Job, r.short(jobs[0].ID)), ""},
			v.ranks(jobs[0].Job, nil, askGPUs(jobs[0].Job))...))
	}
	return r.print(newJobView(textStyle(r.stdout)).jobs(jobs, r.short))
}

// psJSON prints all that jobs said.
func (r *jobsRequest) psJSON(jobs []jobAnswer) error {
	said := []registry.Job{}
	for _, a := range jobs {
		if a.err != nil {
			say(r.stderr, a.err.Error())
			continue
		}
		said = append(said, a.Job)
	}
	return r.printJSON(said)
}

func (r *jobsRequest) printJSON(said any) error {
	text, err := json.MarshalIndent(said, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(r.stdout, "%s\n", text)
	}
	return err
}

func (r *jobsRequest) print(lines []string) error {
	_, err := io.WriteString(r.stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// stacks prints what ranks do right now.
func (r *jobsRequest) stacks() error {
	f, err := r.awake()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stacksPatience)
	defer cancel()
	w, err := registry.One[registry.Word](ctx, f, registry.Question{Ask: registry.AskStacks, Rank: r.Rank})
	switch {
	case err != nil:
		return err
	case w.Error != "":
		return noJobError(w.Error)
	}
	for i, line := range w.Lines {
		w.Lines[i] = printable.Text(line)
	}
	return r.print(w.Lines)
}

// stacksPatience is how long looking into all ranks may take.
const stacksPatience = 30 * time.Second

// stop ends jobs, and waits until they are gone. Those that are there are ended, whatever else was named.
func (r *jobsRequest) stop() error {
	list, errs := r.wanted()
	if len(list) == 0 && errs == nil {
		return noJobError(nothingRuns)
	}
	ended := make([]error, len(list))
	var busy sync.WaitGroup
	for i, f := range list {
		busy.Go(func() {
			if ended[i] = r.stopOne(f); ended[i] == nil {
				say(r.stderr, "job "+r.short(f.ID)+" has ended")
			}
		})
	}
	busy.Wait()
	if errs = append(slices.DeleteFunc(ended, func(err error) bool { return err == nil }), errs...); len(errs) > 0 {
		return errorsOfJobs(errs)
	}
	return nil
}

// wanted are the jobs that are to be ended, each once, and an error for each name that is of none.
func (r *jobsRequest) wanted() (list []registry.Found, errs []error) {
	if r.All {
		return r.found, nil
	}
	seen := map[string]bool{}
	for _, name := range r.Names {
		f, err := r.named(name)
		switch {
		case err != nil && len(r.found) == 0: // said of each alike
			return nil, []error{err}
		case err != nil:
			errs = append(errs, err)
		case !seen[f.ID]:
			seen[f.ID] = true
			list = append(list, f)
		}
	}
	if len(list) > 0 { // which are none any more when it is said
		for i, err := range errs {
			text, _, _ := strings.Cut(err.Error(), ":")
			errs[i] = noJobError(text + ": nothing was stopped by that name; gorun ps lists the jobs that run")
		}
	}
	return list, errs
}

func (r *jobsRequest) stopOne(f registry.Found) error {
	err := askJob(f, registry.AskJob).err // one that is stopped would be waited for without an end
	var a *registry.Answers
	if err == nil {
		a, err = f.Ask(context.Background(), registry.Question{Ask: registry.AskStop, Signal: r.Signal, Grace: r.Grace})
	}
	if errors.Is(err, registry.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.Close()
	pidfd := -1
	if a.PID > 0 {
		if pidfd, err = unix.PidfdOpen(a.PID, 0); err == nil {
			defer unix.Close(pidfd)
		}
	}
	var w registry.Word
	for err = a.Next(&w); err == nil; err = a.Next(&w) {
		if w.Error != "" {
			return errors.New(w.Error)
		}
	}
	if w.Whole && pidfd >= 0 { // it has ended the job, and itself in an instant
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				break
			}
		}
	}
	return nil
}
