// Package launcher runs jobs: processes (ranks) on one or several hosts that know of each other and
// end together. It is to MPI and PyTorch programs what os/exec is to a single process.
//
//	result, err := launcher.Run(ctx, launcher.Spec{
//		Apps:    []job.App{{Program: "./trainer"}},
//		PerNode: job.Count{Kind: job.CountFixed, N: 4},
//	}, launcher.Options{})
//
// Run plans the job, starts an agent on every host, has the agents start the ranks, and waits until
// nothing of the job is left. Ranks get the environment that package env describes, and meet at a
// store that gorun serves. [Plan] only plans, and [CheckHosts] and [Examine] only look at hosts.
//
// A program that calls Run must call [Main] first in its main function: if the program is killed, a
// guard process runs it again to end the job.
package launcher

import (
	"context"
	"fmt"

	"gorun/launcher/job"
)

// Run runs a job and returns when nothing of it is left.
//
// An error means that the job could not start; it is an *Error or a list of them (see errors.As).
// Otherwise the Result says how the job ended, successfully or not. Cancelling ctx ends the job as
// SIGTERM does.
func Run(ctx context.Context, spec Spec, o Options) (*Result, error) {
	s, err := open(ctx, spec, false, o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	run := s.run
	if s.joined != nil {
		run = s.followEach
	}
	r, err := run(ctx)
	if err == nil {
		r.Classify()
	}
	if s.spec.Join != nil && s.joined == nil {
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
	result.Chaos = s.chaos.result()
	return &result, nil
}

// Plan plans a job like Run but starts no rank. Values that exist only after a start, such as free
// ports and the job's id, are job.AtStart. Errors are those of Run.
func Plan(ctx context.Context, spec Spec, o Options) (*job.Plan, error) {
	if spec.Join != nil {
		hint := "use `-H HOST,...`: gorun then queries the hosts itself"
		if spec.Join.EngineSignals {
			hint = "run `gorun --dry-run PROGRAM` in the allocation, without srun"
		}
		return nil, &Error{
			Code: job.ExitUsage, Text: "--dry-run: nodes that join each other are unknown yet",
			Hint: hint,
		}
	}
	s, err := open(ctx, spec, true, o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.decide(); err != nil {
		return nil, err
	}
	return s.plan, nil
}
