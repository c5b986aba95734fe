package pmix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// abort serves ABORT: MPI_Abort. The launcher hears of it before the rank does, which ends then.
func (s *Server) abort(q *request, d *decoder) func() status {
	code, message := d.oneStatus(), d.oneString()
	d.procList() // whom the caller means: a job ends as a whole
	return func() status {
		return s.afterHearing(q, func() { s.cfg.Launcher.Abort(q.who, int(code), message) })
	}
}

// finalize serves FINALIZE. The launcher hears of it before the rank does, which may end at
// once.
func (s *Server) finalize(q *request, _ *decoder) func() status {
	return func() status {
		first := !q.finalized
		q.finalized = true
		q.stopMonitors("")
		s.endPulls(q.conn)
		return s.afterHearing(q, func() {
			if first {
				s.cfg.Launcher.Finalized(q.who)
			}
		})
	}
}

// afterHearing answers a request with success when the launcher has heard of it.
func (s *Server) afterHearing(q *request, tell func()) status {
	s.afterUnlock(func() {
		tell()
		q.status(statusSuccess)
	})
	return replied
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
func (s *Server) log(q *request, d *decoder) func() status {
	d.one()
	d.uint64() // when, in seconds since 1970
	texts := d.infoList()
	d.infoList() // directives
	return func() status {
		code := statusSuccess
		if len(texts) > 0 {
			code = statusNotSupported
		}
		for _, t := range texts {
			// pmix.log.stderr, .stdout, .syslog and .msg hold text.
			text, ok := t.value.string()
			if blob, is := t.value.bytes(); is {
				text, ok = s.helpText(blob)
			}
			if !ok || !strings.HasPrefix(t.key, "pmix.log.") {
				continue
			}
			code = replied
			if text != "" {
				s.say(q.who, text)
			}
		}
		if code == replied {
			s.afterUnlock(func() {
				exchange.Lookup(s.cfg.Plane, exchange.Wanted{}, func(exchange.Published, error) { q.status(statusSuccess) })
			})
		}
		return code
	}
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

// keySignal is a signal for processes. A host is trusted with its own ranks alone (docs/internals/security.md):
// those of other nodes get none.
const keySignal = "pmix.jctrl.sig"

// lastSignal is the largest number of a signal, SIGRTMAX.
const lastSignal = 64

// jobControl serves JOB CONTROL. Of what it can be asked for, ranks ask to have files
// removed that they leave when they are killed: shared memory in /dev/shm, and directories
// below those that they got, which are removed with these. And they send signals to ranks.
func (s *Server) jobControl(q *request, d *decoder) func() status {
	targets, infos := d.procList(), d.infoList()
	return func() status {
		code := statusSuccess
		for _, i := range infos {
			if i.key == keySignal {
				code = s.signal(q, targets, i.value)
			} else if !s.arrange(q, i) {
				code = statusNotSupported
			}
		}
		return q.statusAndInfos(code)
	}
}

// statusAndInfos answers with a status and a list of infos, of which there are none.
func (q *request) statusAndInfos(code status) status {
	var e encoder
	e.oneStatus(code)
	e.infoList(nil)
	q.reply(e.b)
	return replied
}

// signal sends a signal to ranks of this node; none are all of the caller's world.
func (s *Server) signal(q *request, targets []proc, v value) status {
	number, _ := v.integer()
	if number <= 0 || number > lastSignal {
		return statusBadParameter
	}
	if len(targets) == 0 {
		targets = []proc{q.space.wildcard()}
	}
	who, ok := s.named(q, targets)
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
	text, _ := i.value.string()
	names := strings.Split(text, ",")
	switch i.key {
	case keyCleanUp:
		ok := len(q.member.leftovers)+len(names) <= maxCleanUp && !slices.ContainsFunc(names, isRelative)
		if ok {
			q.member.leftovers = append(q.member.leftovers, names...)
			if s.cfg.Leaves != nil {
				s.cfg.Leaves(names)
			}
		}
		return ok
	case keyCleanUpDir:
		return !slices.ContainsFunc(names, func(name string) bool { return !s.directories.hold(name) })
	}
	return strings.HasPrefix(i.key, keyCleanUpPrefix)
}

func isRelative(name string) bool { return !filepath.IsAbs(name) }

// removeLeftovers removes files that a rank has named, of those that are this user's.
func (s *Server) removeLeftovers(m *member) {
	names := m.leftovers
	m.leftovers = nil
	s.afterUnlock(func() {
		for _, name := range names {
			if f, err := os.Lstat(name); err == nil && f.Mode().IsRegular() {
				if owner, ok := f.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == s.cfg.UID {
					os.Remove(name)
				}
			}
		}
	})
}
