package pmix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gorun/rendezvous/world"
)

// MONITOR is PMIx_Process_monitor: a rank has its server watch for its heartbeats (PMIx_Heartbeat) or for changes of a
// file.
//
//	MONITOR    group{info what} group{status} infos    reply: status, infos
//	heartbeat  a frame with tagHeartbeat and no body; it has no reply
//
// The status is the code for the event, which PMIx's own server ignores, too. That server sends an alert and goes on.
// This one fails the job if no rank has registered for the alert, unless the rank has left the decision to the
// application.

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

// maxMonitors bounds the monitors of a client.
const maxMonitors = 64

// monitor watches a rank.
type monitor struct {
	id         string
	alert      event
	appDecides bool // what an alert means
	// limit is how long the rank may be silent: drops periods. interval is that of the timer: limit for heartbeats, one
	// period for a file.
	limit, interval time.Duration
	timer           *time.Timer
	file            *watchedFile // nil for heartbeats
	drops, misses   int64        // periods for which the file may be, and has been, unchanged
}

// watchedFile is a file of which a property has to change.
type watchedFile struct {
	name, property string
	read           func(os.FileInfo) int64
	last           int64
}

// fileProperties can be watched. The first that is requested counts.
var fileProperties = []struct {
	key, name string
	read      func(os.FileInfo) int64
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

// startMonitor starts a monitor, or stops some.
func (s *Server) startMonitor(c *conn, what info, infos []info) status {
	text, _ := what.value.string()
	m := newMonitor(infos, c.proc)
	seconds, drops := keyHeartbeatTime, keyHeartbeatDrops
	switch what.key {
	case keyMonitorCancel:
		c.stopMonitors(text)
		return statusSuccess
	case keyHeartbeat:
		m.alert.code = alertHeartbeat
	case keyFile:
		seconds, drops, m.alert.code = keyFileTime, keyFileDrops, alertFile
		if m.file = newWatchedFile(infos, c.path(text)); text == "" || m.file == nil {
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
	if m.interval = m.limit; m.file != nil {
		m.interval = period
	}
	c.monitors = append(c.monitors, m)
	m.timer = time.AfterFunc(m.interval, func() { s.checkMonitor(c, m) })
	return statusSuccess
}

// newMonitor returns a monitor with what is common to all kinds.
func newMonitor(infos []info, of world.Proc) *monitor {
	m := &monitor{appDecides: isTrue(infos, keyMonitorControl), drops: 1}
	id, _ := find(infos, keyMonitorID)
	m.id, _ = id.string()
	m.alert = event{source: of, to: rangeNamespace, alert: true}
	m.alert.infos = []info{attr(keyEventNotDefault, true)}
	if n, ok := integerOf(infos, keyRange); ok {
		m.alert.to = dataRange(n)
	}
	return m
}

// newWatchedFile returns a file with the property to watch, nil if none is requested.
func newWatchedFile(infos []info, name string) *watchedFile {
	for _, p := range fileProperties {
		if isTrue(infos, p.key) {
			return &watchedFile{name: name, property: p.name, read: p.read}
		}
	}
	return nil
}

// path resolves a file name of a rank against its working directory.
func (c *conn) path(name string) string {
	if dir := c.space.Apps[c.space.Ranks[c.proc.Rank].App].Dir; !filepath.IsAbs(name) {
		return filepath.Join(dir, name)
	}
	return name
}

// Suspend reports that the ranks are stopped, or go on. Monitors are off meanwhile, and then start over.
func (s *Server) Suspend(suspended bool) {
	s.node.Lock()
	defer s.node.Unlock()
	s.suspended = suspended
	for c := range s.conns {
		for _, m := range c.monitors {
			m.timer.Reset(m.interval)
		}
	}
}

// heartbeat restarts the timers of a rank.
func (s *Server) heartbeat(q *request) {
	q.noReply()
	s.node.Lock()
	defer s.node.Unlock()
	for _, m := range q.monitors {
		if m.file == nil {
			m.timer.Reset(m.interval)
		}
	}
}

// checkMonitor handles a monitor's timer. It looks at the file without the lock, since the file system may hang.
func (s *Server) checkMonitor(c *conn, m *monitor) {
	s.node.Lock()
	suspended := s.suspended
	s.node.Unlock()
	if suspended {
		return // Suspend sets the timer again
	}
	why := fmt.Sprintf("sent no heartbeat for %s", m.limit)
	missed := true
	if f := m.file; f != nil {
		missed = m.fileMissed()
		why = fmt.Sprintf("did not change the %s of %s for %s", f.property, f.name, m.limit)
	}
	s.node.Lock()
	defer s.node.Unlock()
	switch {
	case s.closed || !slices.Contains(c.monitors, m):
		return
	case !missed:
		m.timer.Reset(m.interval)
		return
	case m.file != nil:
		c.removeMonitor(m)
	}
	s.publishEvent(m.alert, func(handled bool) {
		if !handled && !m.appDecides {
			s.node.AfterUnlock(func() { s.cfg.Launcher.Failed(c.proc, why) })
		}
	})
}

// fileMissed reports whether a file has been unchanged for too long. A file that cannot be read may appear yet.
func (m *monitor) fileMissed() bool {
	info, err := os.Stat(m.file.name)
	if err != nil {
		return false
	}
	if value := m.file.read(info); value != m.file.last {
		m.file.last, m.misses = value, 0
		return false
	}
	m.misses++
	return m.misses >= m.drops
}

// stopMonitors stops the monitors with an ID, or all if it is "". The caller holds the lock.
func (c *conn) stopMonitors(id string) {
	for _, m := range slices.Clone(c.monitors) {
		if id == "" || m.id == id {
			m.timer.Stop()
			c.removeMonitor(m)
		}
	}
}

func (c *conn) removeMonitor(m *monitor) {
	c.monitors = slices.DeleteFunc(c.monitors, func(other *monitor) bool { return other == m })
}
