// Package launcher runs jobs: several processes, the ranks, that know of each
// other and end together.
//
//	result, err := launcher.Run(ctx, launcher.Spec{
//		Apps:    []job.App{{Program: "./trainer"}},
//		PerNode: job.Count{Kind: job.CountFixed, N: 4},
//	})
//
// Run takes a wish and wires the parts that fulfil it: the pure core in
// package job decides, an agent per node acts, and frames over one byte stream
// lie between them. The ranks find each other by the environment that package
// env describes, and meet in a store that the launcher serves.
//
// A program that calls Run should call [Main] first thing in main: should it be
// killed by SIGKILL, the job's guard re-executes it to end what is left.
package launcher

import (
	"context"
	"fmt"

	"gorun/launcher/job"
)

// Run runs a job and returns when nothing of it is left. An error means that
// the job could not begin, and is an *Error or a list of them; how a job ended
// that did begin, well or not, is in its Result. Cancelling ctx ends the job as
// SIGTERM would.
func Run(ctx context.Context, spec Spec, options ...Option) (*Result, error) {
	s, err := open(ctx, spec, options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.joined != nil {
		return s.follow(ctx)
	}
	r, err := s.run(ctx)
	if s.spec.Join != nil {
		s.announce(r, err)
	}
	return r, err
}

func (s *session) run(ctx context.Context) (*Result, error) {
	if err := s.decide(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", s.spec.Apps[0].Program, err)
	}
	result, err := s.runAttempts(ctx)
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// Plan decides everything about a job, as Run would, and starts nothing. What
// only a start can tell (free ports, the job's id) stands as "<at start>".
func Plan(ctx context.Context, spec Spec, options ...Option) (*job.Plan, error) {
	if spec.Join != nil {
		hint := "-H HOST,... asks hosts for a plan without their being started"
		if spec.Join.EngineSignals { // in a step
			hint = "without srun, gorun --dry-run in the allocation shows the plan"
		}
		return nil, &Error{Code: job.ExitUsage, Text: "--dry-run: nodes that join each other are decided about when they " +
			"have come", Hint: hint}
	}
	s, err := open(ctx, spec, options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.dryRun = true
	if err := s.decide(); err != nil {
		return nil, err
	}
	return s.plan, nil
}
