package job

import (
	"fmt"
	"math"
	"strings"

	"gorun/env/plan"
	"gorun/launcher/internal/spec"
	"gorun/placement"
)

const (
	maxRanks = 1 << 20 // that a command line may request for a node
	maxRole  = 4096    // bytes in the name of a role
)

// Facts are what a node reports about itself, as far as the head trusts it, and what the head knows about it.
type Facts struct {
	spec.Facts
	// Remote reports that the node is another host than the launcher's, Joined that somebody started gorun there by its
	// own command line.
	Remote, Joined bool
	// Endpoint is where other nodes reach this one.
	plan.Endpoint
}

// FactsError reports facts that no agent of this gorun sends.
type FactsError struct {
	Host string
	Err  error
}

func (e *FactsError) Error() string { return fmt.Sprintf("take facts of %s: %v", e.Host, e.Err) }

// Unwrap returns what is wrong with them.
func (e *FactsError) Unwrap() error { return e.Err }

// checkFacts validates facts of other hosts: wrong ones must lose that host, not crash this process.
func (s *Spec) checkFacts(facts []Facts) error {
	valid := map[*placement.Topology]bool{nil: true} // hosts of one kind share theirs
	for i := range facts {
		f := &facts[i]
		err := f.Check(len(s.Apps))
		if t := f.Machine.Topology; err == nil && !valid[t] {
			err, valid[t] = t.Check(), true
		}
		if err != nil {
			return &FactsError{f.Host, err}
		}
	}
	return nil
}

// Check returns what no node with that number of programs reports, but for its topology.
func (f *Facts) Check(apps int) error {
	switch {
	case len(f.Programs) != apps:
		return fmt.Errorf("its agent reports %s, the job has %d", plural(len(f.Programs), "program"), apps)
	case f.Ranks < 0 || f.Ranks > maxRanks:
		return fmt.Errorf("its command line asks for %d ranks: a node has at most %d", f.Ranks, maxRanks)
	case len(f.Role) > maxRole || strings.ContainsRune(f.Role, 0):
		return fmt.Errorf("its role has %d bytes, or a null byte: at most %d are taken", len(f.Role), maxRole)
	}
	for i, p := range f.Programs {
		switch {
		case p.ScriptArg < 0 || p.ScriptArg > len(p.Argv):
			return fmt.Errorf("the arguments of program %d begin at word %d of %d", i, p.ScriptArg, len(p.Argv))
		case p.Error == "" && len(p.Argv) == 0:
			return fmt.Errorf("program %d has no command line", i)
		case p.Port < 0 || p.Port > math.MaxUint16:
			return fmt.Errorf("program %d assigns port %d", i, p.Port)
		}
	}
	return nil
}
