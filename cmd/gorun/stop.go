package main

import (
	"context"
	"errors"
	"slices"
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

func stopCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "stop"}
	r.act = r.stop
	return r.define(cli.Command{
		Usage:       "stop jobs gracefully",
		Description: "gorun stop sends SIGTERM to jobs and waits until they have ended.",
		UsageText:   "gorun stop [options] JOB...",
		Flags: c.Flags(c.group(dialect.GroupEnd, option{
			Names: "all", Set: dialect.Switch(&r.all),
			Help: "stop all jobs of this user on this host",
		}, option{
			Names: "signal", Value: "NAME", Choices: "TERM|INT|HUP|KILL",
			Help: "stop ranks by SIGINT, SIGHUP or KILL (SIGTERM)",
			Set:  func(a dialect.Arg) error { return r.setSignal(a.Value) },
		}, option{
			Names: "grace", Value: "D",
			Help: "wait D between the signal and SIGKILL (the job's own)",
			Set: func(a dialect.Arg) error {
				d, err := dialect.ParseDuration(a.Value)
				r.Grace = &d
				return err
			},
		})...),
	}, "the jobs have ended", noJobText,
		dialect.Example{"gorun stop 7f3a", "stop a job gracefully"},
		dialect.Example{"gorun stop --grace 0 7f3a", "kill it"},
		dialect.Example{"gorun stop --all", "stop all your jobs on this host"})
}

// setSignal takes a signal that ends a job gracefully, or KILL, which leaves no time.
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

// stop stops the named jobs that exist, even if others do not, and waits for their end.
func (r *jobsRequest) stop() error {
	list, unknown := r.jobsToStop()
	if len(list) == 0 && unknown == nil {
		return r.noJobs()
	}
	errs := make([]error, len(list))
	var stops sync.WaitGroup
	for i, h := range list {
		stops.Go(func() {
			if errs[i] = r.stopJob(h); errs[i] == nil {
				r.notify("job " + r.shortID(h.ID) + " has ended")
			}
		})
	}
	stops.Wait()
	return multierror.Append(nil, append(errs, unknown...)...).ErrorOrNil()
}

// jobsToStop returns the jobs, each once, and an error for each name that is no job's.
func (r *jobsRequest) jobsToStop() (list []registry.Handle, errs []error) {
	if r.all {
		return r.found, nil
	}
	for _, name := range r.names {
		h, err := r.findJob(name)
		switch {
		case err != nil && len(r.found) == 0: // the same for each name
			return nil, []error{err}
		case err != nil:
			errs = append(errs, err)
		case !slices.Contains(list, h):
			list = append(list, h)
		}
	}
	if len(list) > 0 { // errors must not list these, which will have ended
		for i, err := range errs {
			text, _, _ := strings.Cut(err.Error(), ":")
			errs[i] = noJob("%s: nothing was stopped by that name; gorun ps lists the jobs that run", text)
		}
	}
	return list, errs
}

func (r *jobsRequest) stopJob(h registry.Handle) error {
	err := queryJob(h, registry.JobRequest).err // a suspended job would never end
	var response *registry.Response
	if err == nil {
		request := r.Request
		request.Kind = registry.StopRequest
		response, err = h.Do(context.Background(), request)
	}
	if errors.Is(err, registry.ErrEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	defer response.Close()
	pidfd := -1
	if response.PID > 0 {
		if pidfd, err = unix.PidfdOpen(response.PID, 0); err == nil {
			defer unix.Close(pidfd)
		}
	}
	var reply registry.Reply
	for err = response.Next(&reply); err == nil; err = response.Next(&reply) {
		if reply.Error != "" {
			return errors.New(reply.Error)
		}
	}
	if reply.Whole && pidfd >= 0 { // the job's gorun ends in an instant
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				break
			}
		}
	}
	return nil
}
