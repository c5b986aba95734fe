package job

import (
	"fmt"
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
		err := f.check(len(s.Apps))
		if t := f.Machine.Topology; err == nil && !valid[t] {
			err, valid[t] = t.Check(), true
		}
		if err != nil {
			return &FactsError{f.Host, err}
		}
	}
	return nil
}

func (f *Facts) check(apps int) error {
	switch {
	case len(f.Programs) != apps:
		return fmt.Errorf("its agent reports %s, the job has %d", plural(len(f.Programs), "program"), apps)
	case f.Ranks < 0 || f.Ranks > maxRanks:
		return fmt.Errorf("its command line asks for %d ranks: a node has at most %d", f.Ranks, maxRanks)
	case len(f.Role) > maxRole || strings.ContainsRune(f.Role, 0):
		return fmt.Errorf("its role has %d bytes, or a null byte: at most %d are taken", len(f.Role), maxRole)
	}
	for i, p := range f.Programs {
		if p.ScriptArg < 0 || p.ScriptArg > len(p.Argv) {
			return fmt.Errorf("the arguments of program %d begin at word %d of %d", i, p.ScriptArg, len(p.Argv))
		}
	}
	return nil
}
