package job

import (
	"fmt"
	"strings"

	"gorun/placement"
)

// maxRanks is how many ranks a command line may ask for on a node.
const maxRanks = 1 << 20

// maxRole bounds the name of a role in bytes.
const maxRole = 4096

// FactsError is that a host says of itself what no agent of ours says.
type FactsError struct {
	Host string
	Err  error
}

func (e *FactsError) Error() string { return fmt.Sprintf("take facts of %s: %v", e.Host, e.Err) }

// Unwrap returns what is wrong with them.
func (e *FactsError) Unwrap() error { return e.Err }

// checkFacts refuses what no agent of ours says of its host: facts are other hosts' word,
// and a wrong one must lose that host, not end this process.
func (s *Spec) checkFacts(facts []Facts) error {
	good := map[*placement.Topology]bool{nil: true} // hosts that are built alike share one
	for i := range facts {
		f := &facts[i]
		if err := f.checkPrograms(len(s.Apps)); err != nil {
			return &FactsError{f.Host, err}
		}
		if f.Ranks < 0 || f.Ranks > maxRanks {
			err := fmt.Errorf("its command line asks for %d ranks: a node has at most %d", f.Ranks, maxRanks)
			return &FactsError{f.Host, err}
		}
		if len(f.Role) > maxRole || strings.ContainsRune(f.Role, 0) {
			err := fmt.Errorf("its role has %d bytes, or a null byte: at most %d are taken", len(f.Role), maxRole)
			return &FactsError{f.Host, err}
		}
		if t := f.Machine.Topology; !good[t] {
			if err := t.Check(); err != nil {
				return &FactsError{f.Host, err}
			}
			good[t] = true
		}
	}
	return nil
}

// checkPrograms refuses an agent that does not answer for each of the job's programs.
func (f *Facts) checkPrograms(apps int) error {
	if len(f.Programs) != apps {
		return fmt.Errorf("its agent names %s, the job has %d", plural(len(f.Programs), "program"), apps)
	}
	for i, p := range f.Programs {
		if p.ScriptArg < 0 || p.ScriptArg > len(p.Argv) {
			return fmt.Errorf("the arguments of program %d begin at word %d of %d", i, p.ScriptArg, len(p.Argv))
		}
	}
	return nil
}
