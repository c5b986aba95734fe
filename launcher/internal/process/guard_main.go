package process

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

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
	}
	records, _ := io.ReadAll(os.Stdin) // what could be read is what we know
	if state, ok := decodeState(records); ok {
		state.finish()
	}
	return true
}

// finish ends a job without grace and removes its files with its last process.
func (s *guardState) finish() {
	s.target().KillAll(guardLimit)
	for _, p := range s.paths {
		p.remove()
	}
	for _, prefix := range s.numbered {
		RemoveNumbered(prefix)
	}
	if s.cgroup != "" {
		_ = cgroup.Open(s.cgroup).Remove() // nobody is left to hear about an error
	}
}

func (s *guardState) target() Target {
	t := Target{ID: s.id, Since: s.since}
	if s.cgroup != "" {
		t.Cgroup = cgroup.Open(s.cgroup)
	}
	for _, pid := range s.ranks {
		t.Sessions = append(t.Sessions, Session{SID: pid, Since: s.since})
	}
	return t
}

// remove deletes what was recorded and nothing else: a symbolic link itself and
// not what it points to, nothing that took the place of what was there, nothing
// of another user.
func (p guardedPath) remove() {
	var st unix.Stat_t
	if unix.Lstat(p.path, &st) != nil || int(st.Uid) != os.Geteuid() {
		return
	}
	if p.inode != 0 && (st.Dev != p.device || st.Ino != p.inode) {
		return
	}
	_ = os.RemoveAll(p.path) // nobody is left to hear about an error
}
