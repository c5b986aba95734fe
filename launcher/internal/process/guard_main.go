package process

import (
	"io"
	"os"
	"time"

	"gorun/launcher/internal/process/cgroup"
)

const (
	// guardVerb is the one argument of the program that a guard becomes.
	guardVerb = "sweep"
	// guardLimit is how long a guard tries. Promised is a second; what the kernel
	// cannot end by then (state D) may still come back.
	guardLimit = 30 * time.Second
)

// EnterGuard has to be called first of all by a main function whose program may
// serve as a guard, which must return when it reports true: a guard whose
// launcher died has executed the program, and it has done its work.
func EnterGuard() bool {
	if len(os.Args) != 2 || os.Args[0] != guardName || os.Args[1] != guardVerb {
		return false
	}
	// The kernel calls us after the file now.
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0)
	if awaitsLauncher() {
		getReady()
		go endWithLink()
	}
	records, _ := io.ReadAll(os.Stdin) // what could be read is what we know
	if state, ok := decodeState(records); ok {
		state.finish()
	}
	return true
}

// finish ends a job without grace and removes its files with its last process.
func (s *Guarded) finish() {
	s.target().KillAll(guardLimit)
	s.remove()
	if s.Cgroup != "" {
		_ = cgroup.Open(s.Cgroup).Remove() // nobody is left to hear about an error
	}
}

// remove removes the job's files.
func (s *Guarded) remove() {
	for _, o := range s.Owned {
		o.Remove() // what cannot be removed is the user's to see
	}
	for _, prefix := range s.Numbered {
		RemoveNumbered(prefix)
	}
}

func (s *Guarded) target() Target {
	t := Target{ID: s.ID, Since: s.Since}
	if s.Cgroup != "" {
		t.Cgroup = cgroup.Open(s.Cgroup)
	}
	for _, pid := range s.Ranks {
		t.Sessions = append(t.Sessions, Session{SID: pid, Since: s.Since})
	}
	return t
}
