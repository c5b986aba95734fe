package pmix

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// abort serves ABORT: MPI_Abort. The answer does not matter, the job ends.
func (s *Server) abort(q *request) error {
	code := q.body.oneStatus()
	message := q.body.oneString()
	q.body.procList() // whom the caller means: a job ends as a whole
	if q.body.err != nil {
		return q.body.err
	}
	s.cfg.Launcher.Abort(q.from(), int(code), message)
	q.status(statusSuccess)
	return nil
}

// finalize serves FINALIZE. The launcher hears of it before the rank does, which may end at
// once.
func (s *Server) finalize(q *request) error {
	s.lock()
	first := !q.conn.finalized
	q.conn.finalized = true
	q.conn.stopMonitors("")
	s.endPulls(q.conn)
	s.unlock()
	if first {
		s.cfg.Launcher.Finalized(q.from())
	}
	q.status(statusSuccess)
	return nil
}

// helpText reads a text that Open MPI 4 has from its help files, as of MPI_Abort, in what its
// mpirun expects: file, topic, whether there is a text, text, each behind a count of one. A
// topic is shown once, of whatever rank, as mpirun does: "" is one that was.
func (s *Server) helpText(blob []byte) (text string, ok bool) {
	d := decoder{b: blob}
	counted := func() bool { return d.uint32() == 1 && d.err == nil }
	if !counted() {
		return "", false
	}
	topic := d.string()
	if !counted() {
		return "", false
	}
	topic += "/" + d.string()
	if !counted() || d.uint8() != 1 || !counted() {
		return "", false
	}
	if text = d.string(); d.err != nil {
		return "", false
	}
	s.lock()
	defer s.unlock()
	if s.helped[topic] {
		return "", true
	}
	if len(s.helped) < maxHelped {
		s.helped[topic] = true
	}
	return text, true
}

// maxHelped is how many topics of help are remembered; Open MPI has some hundred.
const maxHelped = 1 << 10

// log serves LOG: text for the user, and where it is to go. The answer is the head's, which
// it has after the text: a rank that has much to say waits so.
func (s *Server) log(q *request) error {
	q.body.one()
	q.body.uint64() // when, in seconds since 1970
	texts := q.body.infoList()
	q.body.infoList() // directives
	if q.body.err != nil {
		return q.body.err
	}
	said := false
	for _, t := range texts {
		// pmix.log.stderr, .stdout, .syslog and .msg hold text.
		text, ok := t.value.string()
		if blob, is := t.value.bytes(); is {
			text, ok = s.helpText(blob)
		}
		if !ok || !strings.HasPrefix(t.key, "pmix.log.") {
			continue
		}
		said = true
		if text != "" {
			s.cfg.Launcher.Say(q.from(), text)
		}
	}
	switch {
	case said:
		s.echo(func() { q.status(statusSuccess) })
	case len(texts) == 0:
		q.status(statusSuccess)
	default:
		q.status(statusNotSupported)
	}
	return nil
}

// echo calls when the head has answered, whatever it is: it has what was sent to it before.
func (s *Server) echo(done func()) {
	exchange.Lookup(s.cfg.Plane, exchange.Wanted{}, func(exchange.Published, error) { done() })
}

// Attributes of JOB CONTROL that say what to remove when a rank or its world has ended, and
// how. Names are separated by commas.
const (
	keyCleanUp       = "pmix.reg.cleanup"
	keyCleanUpDir    = "pmix.reg.cleanupdir"
	keyCleanUpPrefix = "pmix.clnup."
	// maxCleanUp is how many files a rank may have removed.
	maxCleanUp = 4096
)

// keySignal is a signal for processes. A host is trusted with its own ranks alone (docs/security.md):
// those of other nodes get none.
const keySignal = "pmix.jctrl.sig"

// lastSignal is the largest number of a signal, SIGRTMAX.
const lastSignal = 64

// jobControl serves JOB CONTROL. Of what it can be asked for, ranks ask to have files
// removed that they leave when they are killed: shared memory in /dev/shm, and directories
// below those that they got, which are removed with these. And they send signals to ranks.
func (s *Server) jobControl(q *request) error {
	targets := q.body.procList()
	infos := q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	defer s.unlock()
	code := statusSuccess
	for _, i := range infos {
		if i.key == keySignal {
			code = s.signal(q, targets, i.value)
		} else if !s.arrange(q, i) {
			code = statusNotSupported
		}
	}
	var e encoder
	e.oneStatus(code)
	e.infoList(nil)
	q.reply(e.b)
	return nil
}

// signal sends a signal to ranks of this node; none are all of the caller's world.
func (s *Server) signal(q *request, targets []proc, v value) status {
	number, _ := v.integer()
	if number <= 0 || number > lastSignal {
		return statusBadParameter
	}
	if len(targets) == 0 {
		targets = []proc{q.conn.space.wildcard()}
	}
	who, ok := s.canonical(s.withoutGroups(q.from(), targets))
	if !ok {
		return statusNotFound
	}
	var here []world.Proc
	for _, p := range s.each(fromWorlds(who)) {
		if s.spaces[p.nspace].world.Ranks[p.rank].Node != s.cfg.Node {
			return statusNoPermissions
		}
		here = append(here, p.toWorld())
	}
	s.afterUnlock(func() {
		for _, p := range here {
			s.cfg.Launcher.Signal(p, int(number))
		}
	})
	return statusSuccess
}

// arrange reports whether a wish can be met.
func (s *Server) arrange(q *request, i info) bool {
	names, _ := i.value.string()
	switch {
	case i.key == keyCleanUp:
		before := len(q.conn.member.leftovers)
		for name := range strings.SplitSeq(names, ",") {
			if !filepath.IsAbs(name) || len(q.conn.member.leftovers) >= maxCleanUp {
				return false
			}
			q.conn.member.leftovers = append(q.conn.member.leftovers, name)
		}
		if s.cfg.Leaves != nil {
			s.cfg.Leaves(q.conn.member.leftovers[before:])
		}
		return true
	case i.key == keyCleanUpDir:
		for name := range strings.SplitSeq(names, ",") {
			if !s.directories.hold(name) {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(i.key, keyCleanUpPrefix)
}

// hold reports whether a name is below the directories that are removed.
func (d *directories) hold(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	within, err := filepath.Rel(d.top, filepath.Clean(name))
	return d.top != "" && err == nil && within != ".." && !strings.HasPrefix(within, "../")
}

// removeLeftovers removes files that a rank has named, of those that are this user's.
func (s *Server) removeLeftovers(names []string) {
	for _, name := range names {
		if f, err := os.Lstat(name); err == nil && f.Mode().IsRegular() {
			if owner, ok := f.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == s.cfg.UID {
				os.Remove(name)
			}
		}
	}
}
