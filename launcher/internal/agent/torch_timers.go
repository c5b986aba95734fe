package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/env"
)

// watchdog is the server of PyTorch's file timers (torch.distributed.elastic.timer.FileTimerServer). A client opens the
// named pipe of TORCHELASTIC_TIMER_FILE, writes one line, and closes it:
//
//	{"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1764000000.5, "signal": 9}
//
// expiration_time is in seconds since 1970. A timer of the same process and scope replaces the one before; a negative
// time takes it back.
type watchdog struct {
	path    string // "": there is none
	pipe    *os.File
	timers  map[timerKey]fileTimer
	noticed map[string]bool // kinds of notices that the user has had
	done    chan struct{}   // closed when nobody reads any more; nil: nobody did
}

type timerKey struct {
	pid   int
	scope string
}

// fileTimer is a line of a client's.
type fileTimer struct {
	PID    int     `json:"pid"`
	Scope  string  `json:"scope_id"`
	At     float64 `json:"expiration_time"`
	Signal int     `json:"signal"`
}

// Bounds of what ranks may have the watchdog keep.
const (
	timerLine  = 4096 // bytes of a line: PIPE_BUF, up to which a write is one piece
	maxTimers  = 1 << 14
	timerTick  = time.Second      // how long a step of the clock may go unnoticed
	timerGrace = 30 * time.Second // what a rank gets that does not end by its timer's signal, as torchrun gives it
)

// wantsTimers reports whether the user asks for a watchdog, by torchrun's value.
func (j *job) wantsTimers() bool {
	return lookup(j.start.Common, env.VarTorchelasticEnableFileTimer) == "1"
}

// openWatchdog makes the named pipe before the first rank exists that may write to it.
func (j *job) openWatchdog() error {
	if !j.wantsTimers() {
		return nil
	}
	w := &j.watchdog
	var err error
	if named := lookup(j.start.Common, env.VarTorchelasticTimerFile); named != "" {
		w.path, err = filepath.Abs(named)
	} else {
		w.path = filepath.Join(j.privateDir.dir, "timer")
	}
	j.guard.start(j)
	<-j.guard.started
	if err == nil {
		err = j.makePrivateDir()
	}
	if err == nil {
		err = w.open()
	}
	if err != nil {
		w.path = ""
		return fmt.Errorf("make the named pipe of %s=1: %w; without %s each node makes one of its own",
			env.VarTorchelasticEnableFileTimer, err, env.VarTorchelasticTimerFile)
	}
	j.guard.addPath(w.path)
	w.timers, w.noticed, w.done = map[timerKey]fileTimer{}, map[string]bool{}, make(chan struct{})
	go j.watchTimers()
	return nil
}

// open makes the pipe, in place of one that an earlier launcher left behind, and of nothing else.
func (w *watchdog) open() error {
	err := unix.Mkfifo(w.path, 0o600)
	if err == unix.EEXIST {
		info, statErr := os.Lstat(w.path)
		if statErr != nil || info.Mode().Type() != os.ModeNamedPipe {
			return fmt.Errorf("%s is there already, and is no named pipe", w.path)
		}
		if fd, openErr := unix.Open(w.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); openErr == nil {
			unix.Close(fd)
			return fmt.Errorf("another process reads %s", w.path)
		}
		if err = unix.Unlink(w.path); err == nil {
			err = unix.Mkfifo(w.path, 0o600)
		}
	}
	if err != nil {
		return &os.PathError{Op: "mkfifo", Path: w.path, Err: err}
	}
	// A pipe that is open for writing, too, never ends when a client has closed it.
	w.pipe, err = os.OpenFile(w.path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	return err
}

// environ is the environment of ranks with where the pipe is, in place of what the user said of it.
func (w *watchdog) environ(common []string) []string {
	if w.path == "" {
		return common
	}
	const name = env.VarTorchelasticTimerFile + "="
	common = slices.DeleteFunc(slices.Clone(common), func(v string) bool { return strings.HasPrefix(v, name) })
	return append(common, name+w.path)
}

func (w *watchdog) close() {
	if w.done == nil {
		return
	}
	_ = w.pipe.Close()
	<-w.done // the guard removes the pipe
}

// watchTimers reads what clients write, and ends ranks whose timers have expired.
func (j *job) watchTimers() {
	w := &j.watchdog
	defer close(w.done)
	buffer, used, skip := make([]byte, 16*timerLine), 0, false
	for {
		wait := time.Hour
		if len(w.timers) > 0 {
			wait = timerTick
			for _, t := range w.timers {
				wait = min(wait, time.Until(t.moment()))
			}
		}
		_ = w.pipe.SetReadDeadline(time.Now().Add(max(wait, 0)))
		n, err := w.pipe.Read(buffer[used:])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		used += n
		rest := buffer[:used]
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			if !skip {
				j.takeTimer(line)
			}
			rest, skip = after, false
		}
		if len(rest) > timerLine { // nobody who follows the protocol writes that
			rest, skip = nil, true
		}
		used = copy(buffer, rest)
		j.expireTimers(time.Now())
	}
}

func (t fileTimer) moment() time.Time {
	const most = 1 << 33 // seconds, the year 2242: what a time.Time in nanoseconds can say
	return time.Unix(0, int64(min(max(t.At, 0), most)*float64(time.Second)))
}

// takeTimer does what a line says, if it is about a process of this node's ranks.
func (j *job) takeTimer(line []byte) {
	w, t := &j.watchdog, fileTimer{}
	if err := json.Unmarshal(line, &t); err != nil || t.PID <= 0 {
		j.noticeOnce("line", "a line in %s is no timer request, and ignored: %.80q", w.path, line)
		return
	}
	key := timerKey{t.PID, t.Scope}
	if t.At < 0 {
		delete(w.timers, key)
		return
	}
	if j.rankOf(t.PID) == nil && !j.hasStarted(t.PID) {
		j.noticeOnce("pid",
			"the timer %.80q names process %d, which is no process of this job's ranks here: it is ignored", t.Scope, t.PID)
		return
	}
	if len(w.timers) >= maxTimers {
		for k := range w.timers {
			if j.rankOf(k.pid) == nil {
				delete(w.timers, k)
			}
		}
	}
	if _, known := w.timers[key]; !known && len(w.timers) >= maxTimers {
		j.noticeOnce("many", "ranks have %d timers: the timer %.80q and others are ignored", maxTimers, t.Scope)
		return
	}
	w.timers[key] = t
}

// hasStarted reports, once no rank is being started any more, whether a process is one of a rank that runs: a rank can
// have written here before its own process is known.
func (j *job) hasStarted(pid int) bool {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	return j.rankOf(pid) != nil
}

// noticeOnce tells the user of the first of its kind: a rank can write as many lines as it likes.
func (j *job) noticeOnce(kind, format string, args ...any) {
	if !j.watchdog.noticed[kind] {
		j.watchdog.noticed[kind] = true
		j.agent.notice(format, args...)
	}
}

// rankOf is the rank that a process belongs to: ranks have sessions of their own. nil: none that still runs.
func (j *job) rankOf(pid int) *rank {
	session, err := unix.Getsid(pid)
	if err != nil {
		return nil
	}
	for _, r := range j.roster.Load().ranks {
		if own := int(r.pid.Load()); own != 0 && (own == session || own == pid) && r.end.Load() == nil {
			return r
		}
	}
	return nil
}

// expireTimers ends ranks as torchrun's watchdog does: of a process's expired timers the first one counts that names a
// signal, and then none is left.
func (j *job) expireTimers(now time.Time) {
	expired := map[int][]fileTimer{}
	for _, t := range j.watchdog.timers {
		if !t.moment().After(now) {
			expired[t.PID] = append(expired[t.PID], t)
		}
	}
	for pid, timers := range expired {
		for k := range j.watchdog.timers {
			if k.pid == pid {
				delete(j.watchdog.timers, k)
			}
		}
		slices.SortFunc(timers, func(a, b fileTimer) int { return a.moment().Compare(b.moment()) })
		r := j.rankOf(pid)
		if r == nil {
			continue
		}
		i := slices.IndexFunc(timers, func(t fileTimer) bool { return t.Signal > 0 && t.Signal < 65 })
		if i != 0 {
			j.noticeOnce("signal", "the timer %.200q of rank %d has expired; it names no signal, so the rank goes on",
				timers[0].Scope, r.row.Rank)
		}
		if i >= 0 {
			j.endExpired(r, timers[i])
		}
	}
}

// endExpired sends a timer's signal to its process, and to the rank itself where that is another one. A rank that goes
// on is ended as one that does not end when torchrun asks it to.
func (j *job) endExpired(r *rank, t fileTimer) {
	if !r.expired.CompareAndSwap(nil, &t.Scope) {
		return
	}
	sig := syscall.Signal(t.Signal)
	if fd, err := unix.PidfdOpen(t.PID, 0); err == nil {
		if t.PID != int(r.pid.Load()) && j.rankOf(t.PID) == r { // it is the process that it was
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		unix.Close(fd)
	}
	_ = j.group.SignalProcess(r.row.Rank, sig) // it may have ended meanwhile
	j.timers.after(timerGrace, func() {
		if r.end.Load() == nil {
			_ = j.group.Signal(r.row.Rank, syscall.SIGKILL)
		}
	})
}
