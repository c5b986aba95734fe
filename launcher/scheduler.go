package launcher

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/job"
)

// schedulerLimit bounds one command of a scheduler. Its controller may be busy.
const schedulerLimit = 10 * time.Second

// askScheduler runs a command of the scheduler and returns its output, standard error included.
func (c *call) askScheduler(argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), schedulerLimit)
	defer cancel()
	cmd := child.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.WaitDelay = c.spec.Environ, time.Second
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		err = fmt.Errorf("%s: %w", printable.Text(printable.Short(text)), err)
	}
	return string(out), err
}

// requeue puts the job into the scheduler's queue again, where it goes on from its checkpoint. It returns false if the
// job is to go on here: there is no scheduler, or it refuses before any notice of the end.
func (s *session) requeue(r *job.Result) bool {
	if s.spec.Scheduler == nil {
		return false
	}
	_, err := s.askScheduler(s.spec.Scheduler.Requeue)
	if err != nil && !endedBySIGTERM(err) {
		text := s.spec.Scheduler.Job + " cannot be requeued: " + printable.Error(err)
		if r.Cause != job.CausePreempted {
			s.settings.notify(text)
			return false
		}
		r.GaveUp = text
		return true
	}
	r.Requeued = s.spec.Scheduler.Job + " is in the queue again"
	return true
}

// endedBySIGTERM tells whether SIGTERM ended a command. Slurm sends it to all processes of a job that it requeues, the
// command that asked for it among them, often before that has its answer.
func endedBySIGTERM(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM
}

// queryTimeLeft finds out, once, how long the scheduler leaves the job that it ends.
func (h *head) queryTimeLeft() {
	if h.spec.Scheduler == nil || h.timeLeftQueried.Swap(true) {
		return
	}
	go func() {
		var said []string
		for _, argv := range h.spec.Scheduler.Limits {
			out, err := h.askScheduler(argv)
			if err != nil {
				h.settings.detail(strings.Join(argv, " ") + ": " + printable.Error(err))
			}
			said = append(said, out)
		}
		if left, ok := engine.TimeLeft(strings.Join(said, " "), time.Now()); ok {
			left = left.Round(time.Second)
			h.settings.detail(h.spec.Scheduler.Job + " leaves ranks " + left.String() + " to end")
			h.post(job.GraceKnown{Grace: left})
		}
	}()
}
