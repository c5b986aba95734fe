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

// abort serves ABORT: MPI_Abort. The launcher is notified before the reply, after which the rank exits.
func (s *Server) abort(q *request, d *decoder) func() status {
	code, message := d.oneStatus(), d.oneString()
	d.procList() // the targets: a job ends as a whole
	return func() status {
		return s.replyAfter(q, func() { s.cfg.Launcher.Abort(q.proc, int(code), message) })
	}
}

// finalize serves FINALIZE. The launcher is notified before the reply, after which the rank may exit.
func (s *Server) finalize(q *request, _ *decoder) func() status {
	return func() status {
		first := !q.finalized
		q.finalized = true
		q.stopMonitors("")
		s.endPulls(q.conn)
		return s.replyAfter(q, func() {
			if first {
				s.cfg.Launcher.Finalized(q.proc)
			}
		})
	}
}

// replyAfter replies success after a call without the lock.
func (s *Server) replyAfter(q *request, notify func()) status {
	s.node.AfterUnlock(func() {
		notify()
		q.status(statusSuccess)
	})
	return replied
}

// helpText decodes a text from Open MPI 4's help files, as for MPI_Abort, in the form that its mpirun expects: file,
// topic, whether there is a text, text, each after a count of one. Like mpirun it shows each topic once: the text is ""
// from then on.
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
	if s.shownHelp[topic] {
		return "", true
	}
	if len(s.shownHelp) < maxHelpTopics {
		s.shownHelp[topic] = true
	}
	return text, true
}

// maxHelpTopics bounds the topics that are remembered. Open MPI has some hundred.
const maxHelpTopics = 1 << 10

// log serves LOG, a text for the user. The reply comes after a round trip to the head, behind the text, which slows
// down a rank that logs without end.
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
				s.node.Say(q.proc, text)
			}
		}
		if code == replied {
			s.node.AfterUnlock(func() {
				s.cfg.Exchange.Lookup(exchange.Query{}, func([]exchange.Name, error) { q.status(statusSuccess) })
			})
		}
		return code
	}
}

// Attributes of JOB CONTROL that register files for removal when a rank or its world has exited. Names are separated by
// commas.
const (
	keyCleanUp       = "pmix.reg.cleanup"
	keyCleanUpDir    = "pmix.reg.cleanupdir"
	keyCleanUpPrefix = "pmix.clnup."
	// maxCleanUp bounds the files of a rank.
	maxCleanUp = 4096
)

// keySignal is a signal for processes. A host is trusted with its own ranks only (docs/internals/security.md), so that
// ranks of other nodes get none.
const keySignal = "pmix.jctrl.sig"

// lastSignal is SIGRTMAX, the largest number of a signal.
const lastSignal = 64

// jobControl serves JOB CONTROL, as far as ranks use it: they register files that a killed rank leaves (shared memory
// in /dev/shm, and directories below their own, which are removed with those), and they send signals.
func (s *Server) jobControl(q *request, d *decoder) func() status {
	targets, infos := d.procList(), d.infoList()
	return func() status {
		code := statusSuccess
		for _, i := range infos {
			if i.key == keySignal {
				code = s.signal(q, targets, i.value)
			} else if !s.registerCleanup(q, i) {
				code = statusNotSupported
			}
		}
		return q.statusAndInfos(code)
	}
}

// statusAndInfos replies a status and an empty list of infos.
func (q *request) statusAndInfos(code status) status {
	var e encoder
	e.oneStatus(code)
	e.infoList(nil)
	q.reply(e.b)
	return replied
}

// signal sends a signal to ranks of this node, by default to the caller's world.
func (s *Server) signal(q *request, targets []world.Proc, v value) status {
	number, _ := v.integer()
	if number <= 0 || number > lastSignal {
		return statusBadParameter
	}
	if len(targets) == 0 {
		targets = []world.Proc{q.space.wildcard()}
	}
	procs, ok := s.resolve(q, targets)
	if !ok {
		return statusNotFound
	}
	procs = s.expand(procs)
	for _, p := range procs {
		if !s.spaces[p.World].IsLocal(p.Rank) {
			return statusNoPermissions
		}
	}
	s.node.AfterUnlock(func() {
		for _, p := range procs {
			s.cfg.Launcher.Signal(p, int(number))
		}
	})
	return statusSuccess
}

// registerCleanup registers files for removal, and reports whether it did.
func (s *Server) registerCleanup(q *request, i info) bool {
	text, _ := i.value.string()
	names := strings.Split(text, ",")
	switch i.key {
	case keyCleanUp:
		ok := len(q.member.cleanup)+len(names) <= maxCleanUp && !slices.ContainsFunc(names, isRelative)
		if ok {
			q.member.cleanup = append(q.member.cleanup, names...)
			if s.cfg.OnCleanup != nil {
				s.cfg.OnCleanup(names)
			}
		}
		return ok
	case keyCleanUpDir:
		return !slices.ContainsFunc(names, func(name string) bool { return !s.directories.contains(name) })
	}
	return strings.HasPrefix(i.key, keyCleanUpPrefix)
}

func isRelative(name string) bool { return !filepath.IsAbs(name) }

// removeFiles removes the files that a rank has registered, as far as this user owns them.
func (s *Server) removeFiles(m *member) {
	names := m.cleanup
	m.cleanup = nil
	s.node.AfterUnlock(func() {
		for _, name := range names {
			if f, err := os.Lstat(name); err == nil && f.Mode().IsRegular() {
				if owner, ok := f.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == s.cfg.UID {
					os.Remove(name)
				}
			}
		}
	})
}
