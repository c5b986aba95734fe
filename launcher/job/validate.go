package job

import (
	"fmt"

	"github.com/hashicorp/go-multierror"
)

// Validate reports everything that is wrong with a wish in itself, whatever the
// nodes are like, as a *multierror.Error.
func (s *Spec) Validate() error {
	var all *multierror.Error
	wrong := func(format string, args ...any) {
		all = multierror.Append(all, fmt.Errorf(format, args...))
	}
	if len(s.Apps) == 0 {
		wrong("no program to run")
	}
	for i, app := range s.Apps {
		switch {
		case app.Program == "":
			wrong("program %d has no name", i+1)
		case app.NumRanks < 0:
			wrong("%s: %d ranks: the number cannot be negative", app.Program, app.NumRanks)
		case app.NumRanks == 0 && len(s.Apps) > 1:
			wrong("%s: each of several programs needs its own number of ranks", app.Program)
		}
	}
	if s.PerNode.Kind == CountFixed && s.PerNode.N < 1 {
		wrong("%d ranks per node: at least one is needed", s.PerNode.N)
	}
	for _, err := range s.oneRank() {
		wrong("%v", err)
	}
	if s.Store.Port < 0 || s.Store.Port > 65535 {
		wrong("port %d: ports are 0 to 65535", s.Store.Port)
	}
	if err := s.Policy.validate(); err != nil {
		wrong("%v", err)
	}
	if s.Restarts.Max < 0 {
		wrong("--max-restarts %d: it cannot be negative", s.Restarts.Max)
	}
	if s.HangTimeout < 0 {
		wrong("hang timeout %v is negative", s.HangTimeout)
	}
	if s.Timeout < 0 {
		wrong("timeout %v is negative", s.Timeout)
	}
	return all.ErrorOrNil()
}
