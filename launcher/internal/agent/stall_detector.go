package agent

import (
	"slices"
	"time"

	"gorun/launcher/internal/process"
)

// quiet finds out that nothing has gone on for a while. It counts looks that saw
// nothing new, and not the time between them: a job that was suspended in between
// (Ctrl-Z, and fg an hour later) has not been quiet for that hour.
type stallDetector struct {
	job   *job
	limit time.Duration
	// signs are different whenever something has gone on; nil says that there is
	// nothing to wait for.
	signs func() []int64
	// report is called once, with what CPU time was used between two moments.
	report func(from, to cpuSample)

	seen []int64 // what was seen last
	same int     // looks in a row that saw nothing new
}

const (
	// looks is how often it is looked within the limit.
	checksPerLimit = 4
	// usageTime is how long the ranks' use of CPUs is measured.
	cpuSampleTime = time.Second
)

func (w *stallDetector) watch() {
	w.seen = w.signs()
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

// unchanged looks once.
func (w *stallDetector) unchanged() bool {
	signs := w.signs()
	if signs == nil || !slices.Equal(signs, w.seen) {
		w.seen, w.same = signs, 0
		return false
	}
	w.same++
	return true
}

// cpuSample is what the ranks' sessions had used at a moment; none where it could not be read.
type cpuSample struct {
	at   time.Time
	used map[int]process.Load
}

func sampleCPU(sessions []int) cpuSample {
	used, err := process.Loads(sessions)
	if err != nil {
		used = nil
	}
	return cpuSample{at: time.Now(), used: used}
}

// percent is the part of one CPU that a session has used since an earlier sample, -1
// where that is not known.
func (s cpuSample) percent(from cpuSample, session int) int {
	now, known := s.used[session]
	before, ok2 := from.used[session]
	if !known || !ok2 {
		return -1
	}
	return int((now.CPU - before.CPU) * 100 / max(s.at.Sub(from.at), 1))
}
