package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

func stopCommand(c *call) *command {
	r := &jobsRequest{call: c, Command: "stop"}
	r.act = r.stop
	return r.command(cli.Command{
		Usage:       "end jobs in order, and wait until they are gone",
		Description: "gorun stop ends jobs as SIGTERM to their gorun does, and waits until they are gone.",
		UsageText:   "gorun stop [options] JOB...",
		Flags: c.Flags(own(dialect.GroupEnd, option{
			Names: []string{"all"}, Set: dialect.Switch(&r.All),
			Help: "all jobs of this user on this host",
		}, option{
			Names: []string{"signal"}, Value: "NAME", Choices: []string{"TERM", "INT", "HUP", "KILL"},
			Help: "ask ranks to end by SIGINT or SIGHUP in place of SIGTERM; KILL: kill them",
			Set:  func(a dialect.Arg) error { return r.setSignal(a.Value) },
		}, option{
			Names: []string{"grace"}, Value: "D",
			Help: "time between that signal and SIGKILL (default: the job's own)",
			Set: func(a dialect.Arg) error {
				d, err := dialect.ParseDuration(a.Value)
				r.Grace = &d
				return err
			},
		})...),
	}, "the jobs have ended", jobIsNone,
		dialect.Example{"gorun stop 7f3a", "ends a job in order"},
		dialect.Example{"gorun stop --grace 0 7f3a", "kills it"},
		dialect.Example{"gorun stop --all", "ends all jobs of this user on this host"})
}

// setSignal takes a signal that ends a job in order, or KILL, which leaves no time.
func (r *jobsRequest) setSignal(name string) error {
	switch sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")); {
	case sig == syscall.SIGKILL:
		r.Signal, r.Grace = syscall.SIGTERM, new(time.Duration)
	case job.Ends(sig):
		r.Signal = sig
	case sig == 0:
		return errors.New("not one of TERM, INT, HUP, KILL")
	default:
		return errors.New("not one of TERM, INT, HUP, KILL; kill -SIGNAL PID of a job's gorun passes others on to its ranks")
	}
	return nil
}

// stop ends jobs, and waits until they are gone. Those that are there are ended, whatever else was named.
func (r *jobsRequest) stop() error {
	list, unknown := r.wanted()
	if len(list) == 0 && unknown == nil {
		return noJob(nothingRuns)
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
	return multierror.Append(nil, append(ended, unknown...)...).ErrorOrNil()
}

// wanted are the jobs that are to be ended, each once, and an error for each name that is of none.
func (r *jobsRequest) wanted() (list []registry.Handle, errs []error) {
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
			errs[i] = noJob("%s: nothing was stopped by that name; gorun ps lists the jobs that run", text)
		}
	}
	return list, errs
}

func (r *jobsRequest) stopOne(f registry.Handle) error {
	err := askJob(f, registry.JobRequest).err // one that is stopped would be waited for without an end
	var a *registry.Response
	if err == nil {
		a, err = f.Do(context.Background(), registry.Request{Kind: registry.StopRequest, Signal: r.Signal, Grace: r.Grace})
	}
	if errors.Is(err, registry.ErrEnded) {
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
	var w registry.Reply
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
