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
	"gorun/launcher/internal/process"
)

// watchdog serves PyTorch's file timers (torch.distributed.elastic.timer.FileTimerServer). A client opens the named
// pipe TORCHELASTIC_TIMER_FILE, writes one line, and closes it:
//
//	{"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1764000000.5, "signal": 9}
//
// expiration_time is in seconds since 1970. A timer replaces an earlier one of the same process and scope; a
// negative time cancels it. startRanks opens the watchdog; then the goroutine of watchTimers owns it, except for
// path.
type watchdog struct {
	path    string // "" without one
	pipe    *os.File
	timers  map[timerKey]fileTimer
	noticed map[string]bool // kinds of notices already sent
	done    chan struct{}   // closed when watchTimers returns; nil: not open
}

type timerKey struct {
	pid   int
	scope string
}

// fileTimer is a timer request.
type fileTimer struct {
	PID    int     `json:"pid"`
	Scope  string  `json:"scope_id"`
	At     float64 `json:"expiration_time"`
	Signal int     `json:"signal"`
}

// Limits of what ranks may request.
const (
	timerLine  = 4096 // bytes of a line: PIPE_BUF, up to which writes are atomic
	maxTimers  = 1 << 14
	timerTick  = time.Second      // bounds the delay after a step of the clock
	timerGrace = 30 * time.Second // before SIGKILL, after the timer's signal, as in torchrun
)

// wantsTimers reports whether the user has enabled the watchdog, with torchrun's variable.
func (j *job) wantsTimers() bool {
	return lookup(j.start.Common, env.VarTorchelasticEnableFileTimer) == "1"
}

// openWatchdog makes the named pipe before the ranks, which may write to it.
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
		return fmt.Errorf("make the named pipe of %s=1: %w; unset %s, and each node makes its own",
			env.VarTorchelasticEnableFileTimer, err, env.VarTorchelasticTimerFile)
	}
	j.guard.addPath(w.path)
	w.timers, w.noticed, w.done = map[timerKey]fileTimer{}, map[string]bool{}, make(chan struct{})
	go j.watchTimers()
	return nil
}

// open makes the pipe. It replaces an orphaned pipe of an earlier launcher, but nothing else.
func (w *watchdog) open() error {
	err := unix.Mkfifo(w.path, 0o600)
	if err == unix.EEXIST {
		info, statErr := os.Lstat(w.path)
		if statErr != nil || info.Mode().Type() != os.ModeNamedPipe {
			return fmt.Errorf("%s exists and is not a named pipe", w.path)
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
	// Open for writing, too, the pipe has no end-of-file when clients close it.
	w.pipe, err = os.OpenFile(w.path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	return err
}

// environ returns the ranks' environment with the pipe's path instead of the user's value.
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

// watchTimers reads requests and ends ranks whose timers have expired.
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
		if len(rest) > timerLine { // a violation of the protocol
			rest, skip = nil, true
		}
		used = copy(buffer, rest)
		j.expireTimers(time.Now())
	}
}

func (t fileTimer) moment() time.Time {
	const most = 1 << 33 // seconds, the year 2242: the range of nanoseconds in an int64
	return time.Unix(0, int64(min(max(t.At, 0), most)*float64(time.Second)))
}

// takeTimer handles a request, if it is about a process of this node's ranks.
func (j *job) takeTimer(line []byte) {
	w, t := &j.watchdog, fileTimer{}
	if err := json.Unmarshal(line, &t); err != nil || t.PID <= 0 {
		j.noticeOnce("line", "ignored a line in %s that is not a timer request: %.80q", w.path, line)
		return
	}
	key := timerKey{t.PID, t.Scope}
	if t.At < 0 {
		delete(w.timers, key)
		return
	}
	if j.rankOf(t.PID) == nil && !j.hasStarted(t.PID) {
		j.noticeOnce("pid",
			"ignored the timer %.80q of process %d, which does not belong to a rank on this node", t.Scope, t.PID)
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
		j.noticeOnce("many", "ranks have %d timers, the limit: ignored the timer %.80q, and all later ones",
			maxTimers, t.Scope)
		return
	}
	w.timers[key] = t
}

// hasStarted waits for a pending start and reports whether a process belongs to a running rank: a rank can write here
// before its pid is known.
func (j *job) hasStarted(pid int) bool {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	return j.rankOf(pid) != nil
}

// noticeOnce sends the first notice of its kind, as a rank can write any number of lines.
func (j *job) noticeOnce(kind, format string, args ...any) {
	if !j.watchdog.noticed[kind] {
		j.watchdog.noticed[kind] = true
		j.agent.notice(format, args...)
	}
}

// rankOf returns the running rank in whose session a process is; nil: none.
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

// expireTimers ends ranks like torchrun's watchdog: the first expired timer of a process with a signal counts, and
// all its timers are removed.
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
			j.noticeOnce("signal", "the timer %.200q of rank %d has expired; it names no signal, so the rank keeps running",
				timers[0].Scope, r.row.Rank)
		}
		if i >= 0 {
			j.endExpired(r, timers[i])
		}
	}
}

// endExpired sends a timer's signal to its process and, if that is another one, to the rank. A rank that does not
// end is killed later.
func (j *job) endExpired(r *rank, t fileTimer) {
	if !r.expired.CompareAndSwap(nil, &t.Scope) {
		return
	}
	sig := syscall.Signal(t.Signal)
	if p, err := process.Describe(t.PID); err == nil && t.PID != int(r.pid.Load()) && j.rankOf(t.PID) == r {
		_ = p.Signal(sig) // and to none that reuses the pid
	}
	_ = j.group.SignalProcess(r.row.Rank, sig) // it may have exited
	j.timers.after(timerGrace, func() {
		if r.end.Load() == nil {
			_ = j.group.Signal(r.row.Rank, syscall.SIGKILL)
		}
	})
}
