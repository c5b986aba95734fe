package job

import (
	"fmt"

	"github.com/hashicorp/go-multierror"
)

// Validate reports everything that is wrong with a spec on any nodes, as a *multierror.Error.
func (s *Spec) Validate() error {
	var all *multierror.Error
	wrong := func(is bool, format string, args ...any) {
		if is {
			all = multierror.Append(all, fmt.Errorf(format, args...))
		}
	}
	wrong(len(s.Apps) == 0, "no program to run")
	for i, app := range s.Apps {
		switch {
		case app.Program == "":
			wrong(true, "program %d has no name", i+1)
		case app.NumRanks < 0:
			wrong(true, "%s: %d ranks: must not be negative", app.Program, app.NumRanks)
		default:
			wrong(app.NumRanks == 0 && len(s.Apps) > 1, "%s: each of several programs needs its own number of ranks",
				app.Program)
		}
	}
	wrong(s.PerNode.Kind == CountFixed && s.PerNode.N < 1, "%d ranks per node: at least 1 is needed", s.PerNode.N)
	for _, err := range s.taskErrors() {
		wrong(true, "%w", err)
	}
	wrong(s.Store.Port < 0 || s.Store.Port > 65535, "port %d: ports are 0 to 65535", s.Store.Port)
	if err := s.Policy.validate(); err != nil {
		wrong(true, "%w", err)
	}
	wrong(s.MinNodes > 0 && (s.IsTask() || s.StartedByEngine() && !s.Reach.Engine.NodesMayFail),
		"a minimum of %d nodes: a job can lose nodes only if gorun starts them by SSH (-H or --hostfile) or in Slurm, or "+
			"if they join", s.MinNodes)
	wrong(s.Grow && s.MinNodes == 0, "--grow: the number of nodes is fixed: give a range, --nnodes MIN:MAX")
	if err := s.chaosError(); err != nil {
		wrong(true, "%w", err)
	}
	wrong(s.Check && s.Join != nil, "--check: gorun checks hosts that it reaches itself: add -H or --hostfile")
	wrong(s.Restarts.Max < 0, "--max-restarts %d: must not be negative", s.Restarts.Max)
	wrong(s.HangTimeout < 0, "--hang-timeout %v: must not be negative", s.HangTimeout)
	wrong(s.Timeout < 0, "--timeout %v: must not be negative", s.Timeout)
	return all.ErrorOrNil()
}
