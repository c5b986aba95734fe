package pmix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// MONITOR is PMIx_Process_monitor: a rank has its server watch for its signs of life, which are
// heartbeats (PMIx_Heartbeat) or changes of a file.
//
//	MONITOR    group{info what} group{status} infos    answer: status, infos
//	heartbeat  a frame with tagHeartbeat and no body; it has no answer
//
// The status is the code for the event, which PMIx's own server ignores, too: it tells an alert,
// and goes on. Here the job fails where no rank has registered for that code, unless the rank
// has said that the application decides.

// tagHeartbeat is the tag of heartbeats (PMIX_PTL_TAG_HEARTBEAT).
const tagHeartbeat = 1

// Attributes of MONITOR.
const (
	keyMonitorID      = "pmix.monitor.id"
	keyMonitorCancel  = "pmix.monitor.cancel"
	keyMonitorControl = "pmix.monitor.appctrl"
	keyHeartbeat      = "pmix.monitor.mbeat"
	keyHeartbeatTime  = "pmix.monitor.btime"
	keyHeartbeatDrops = "pmix.monitor.bdrop"
	keyFile           = "pmix.monitor.fmon"
	keyFileTime       = "pmix.monitor.ftime"
	keyFileDrops      = "pmix.monitor.fdrop"
)

// maxMonitors is how many monitors a client may have at a time.
const maxMonitors = 64

// monitor watches for a rank's signs of life.
type monitor struct {
	id    string
	alert event
	// decides says that the application decides what an alert means.
	decides bool
	// limit is how long the rank may show no sign of life, drops periods of time. wait is how long the timer runs: as
	// long for heartbeats, and one period where a file is looked at.
	limit, wait time.Duration
	timer       *time.Timer
	// file is watched, if it is not "": sign is what changes where the rank lives, as was seen
	// at last, and drops and misses are how often it may be the same, and was, every period.
	file          *watchedFile
	drops, misses int64
}

// watchedFile is a file of which something is to change.
type watchedFile struct {
	name, what string
	sign       func(os.FileInfo) int64
	last       int64
}

// fileSigns are the signs of life of a file. The first that is asked for counts.
var fileSigns = []struct {
	key, what string
	sign      func(os.FileInfo) int64
}{
	{"pmix.monitor.fsize", "size", os.FileInfo.Size},
	{"pmix.monitor.faccess", "time of access", accessTime},
	{"pmix.monitor.fmod", "time of modification", func(f os.FileInfo) int64 { return f.ModTime().UnixNano() }},
}

func accessTime(f os.FileInfo) int64 {
	stat, ok := f.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return time.Unix(stat.Atim.Unix()).UnixNano()
}

// monitor serves MONITOR.
func (s *Server) monitor(q *request, d *decoder) func() status {
	d.one()
	what := d.info()
	d.oneStatus()
	infos := d.infoList()
	return func() status { return q.statusAndInfos(s.startMonitor(q.conn, what, infos)) }
}

// startMonitor begins to watch, or ends it.
func (s *Server) startMonitor(c *conn, what info, infos []info) status {
	text, _ := what.value.string()
	m := readMonitor(infos, fromWorld(c.who))
	seconds, drops := keyHeartbeatTime, keyHeartbeatDrops
	switch what.key {
	case keyMonitorCancel:
		c.stopMonitors(text)
		return statusSuccess
	case keyHeartbeat:
		m.alert.code = alertHeartbeat
	case keyFile:
		seconds, drops, m.alert.code = keyFileTime, keyFileDrops, alertFile
		if m.file = readFile(infos, s.pathOf(c, text)); text == "" || m.file == nil {
			return statusBadParameter
		}
	default:
		return statusNotSupported
	}
	if n, ok := integerOf(infos, drops); ok {
		m.drops = max(1, min(n, 1<<31))
	}
	period := secondsOf(infos, seconds)
	switch {
	case period <= 0:
		return statusBadParameter
	case len(c.monitors) >= maxMonitors:
		return statusOutOfResource
	}
	m.limit = time.Duration(min(int64(maxTimeout/period), m.drops)) * period
	if m.wait = m.limit; m.file != nil {
		m.wait = period
	}
	c.monitors = append(c.monitors, m)
	m.timer = time.AfterFunc(m.wait, func() { s.checkMonitor(c, m) })
	return statusSuccess
}

// readMonitor is what all monitors of a rank have in common.
func readMonitor(infos []info, of proc) *monitor {
	m := &monitor{decides: isTrue(infos, keyMonitorControl), drops: 1}
	id, _ := find(infos, keyMonitorID)
	m.id, _ = id.string()
	m.alert = event{source: of, to: rangeNamespace, alert: true}
	m.alert.infos = []info{attr(keyEventNotDefault, true)}
	if n, ok := integerOf(infos, keyRange); ok {
		m.alert.to = dataRange(n)
	}
	return m
}

// readFile is what of a file is to change; nil: that is not said.
func readFile(infos []info, name string) *watchedFile {
	for _, f := range fileSigns {
		if isTrue(infos, f.key) {
			return &watchedFile{name: name, what: f.what, sign: f.sign}
		}
	}
	return nil
}

// pathOf is a file as a rank names it, from its directory on.
func (s *Server) pathOf(c *conn, name string) string {
	w := c.space.world
	if dir := w.Apps[w.Ranks[c.who.Rank].App].Dir; !filepath.IsAbs(name) {
		return filepath.Join(dir, name)
	}
	return name
}

// Suspend says that the ranks have been stopped, or go on: meanwhile they show no sign of life, and
// after that they have as much time as at first.
func (s *Server) Suspend(suspended bool) {
	s.lock()
	defer s.unlock()
	s.suspended = suspended
	for c := range s.conns {
		for _, m := range c.monitors {
			m.timer.Reset(m.wait)
		}
	}
}

// beat hears a heartbeat.
func (s *Server) beat(q *request) {
	q.noReply()
	s.lock()
	defer s.unlock()
	for _, m := range q.monitors {
		if m.file == nil {
			m.timer.Reset(m.wait)
		}
	}
}

// checkMonitor is called when a monitor's timer has run out. A file system that does not answer
// keeps nobody else waiting.
func (s *Server) checkMonitor(c *conn, m *monitor) {
	s.lock()
	suspended := s.suspended
	s.unlock()
	if suspended {
		return // Suspend sets the timer again
	}
	why := fmt.Sprintf("sent no heartbeat for %s", m.limit)
	missed := true
	if f := m.file; f != nil {
		missed = m.fileMissed()
		why = fmt.Sprintf("did not change the %s of %s for %s", f.what, f.name, m.limit)
	}
	s.lock()
	defer s.unlock()
	switch {
	case s.closed || !slices.Contains(c.monitors, m):
		return
	case !missed:
		m.timer.Reset(m.wait)
		return
	case m.file != nil:
		c.forgetMonitor(m)
	}
	s.tell(m.alert, func(wanted bool) {
		if !wanted && !m.decides {
			s.afterUnlock(func() { s.cfg.Launcher.Failed(c.who, why) })
		}
	})
}

// fileMissed reports whether a file has been the same too often. One that cannot be looked at may
// come yet.
func (m *monitor) fileMissed() bool {
	info, err := os.Stat(m.file.name)
	if err != nil {
		return false
	}
	if sign := m.file.sign(info); sign != m.file.last {
		m.file.last, m.misses = sign, 0
		return false
	}
	m.misses++
	return m.misses >= m.drops
}

// stopMonitors ends those with an id; "": all. The caller holds the server's lock.
func (c *conn) stopMonitors(id string) {
	for _, m := range slices.Clone(c.monitors) {
		if id == "" || m.id == id {
			m.timer.Stop()
			c.forgetMonitor(m)
		}
	}
}

func (c *conn) forgetMonitor(m *monitor) {
	c.monitors = slices.DeleteFunc(c.monitors, func(other *monitor) bool { return other == m })
}
