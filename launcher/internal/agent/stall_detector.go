package agent

import (
	"slices"
	"time"

	"gorun/launcher/internal/process"
)

// stallDetector reports that there was no progress for a while. It counts checks without progress instead of time:
// a job that was suspended (Ctrl-Z, and fg an hour later) has not stalled for that hour. Its checks run one after
// the other.
type stallDetector struct {
	job   *job
	limit time.Duration
	// progress returns numbers that change with every progress; nil: there is nothing to wait for.
	progress func() []int64
	// report is called once, with two samples of CPU time.
	report func(from, to cpuSample)

	seen []int64 // at the last check
	same int     // checks in a row without progress
}

const (
	checksPerLimit = 4
	cpuSampleTime  = time.Second // between the samples for report
)

func (w *stallDetector) watch() {
	w.seen = w.progress()
	w.schedule()
}

func (w *stallDetector) schedule() { w.job.timers.after(w.limit/checksPerLimit, w.check) }

func (w *stallDetector) check() {
	if !w.unchanged() || w.same < checksPerLimit {
		w.schedule()
		return
	}
	from := sampleCPU(w.job.rankPIDs())
	w.job.timers.after(cpuSampleTime, func() {
		if w.unchanged() {
			w.report(from, sampleCPU(w.job.rankPIDs()))
		} else {
			w.schedule()
		}
	})
}

// unchanged checks once.
func (w *stallDetector) unchanged() bool {
	progress := w.progress()
	if progress == nil || !slices.Equal(progress, w.seen) {
		w.seen, w.same = progress, 0
		return false
	}
	w.same++
	return true
}

// cpuSample is the resource usage of the ranks' sessions at a time.
type cpuSample struct {
	at   time.Time
	used map[int]process.Load // nil: could not be read
}

func sampleCPU(sessions []int) cpuSample {
	used, err := process.Loads(sessions, nil, nil)
	if err != nil {
		used = nil
	}
	return cpuSample{at: time.Now(), used: used}
}

// percent returns a session's use of CPUs since an earlier sample, in percent of one CPU; -1: unknown.
func (s cpuSample) percent(from cpuSample, session int) int {
	now, hasNow := s.used[session]
	before, hasBefore := from.used[session]
	if !hasNow || !hasBefore {
		return -1
	}
	return int((now.CPU - before.CPU) * 100 / max(s.at.Sub(from.at), 1))
}
