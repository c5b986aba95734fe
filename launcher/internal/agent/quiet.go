package agent

import (
	"slices"
	"time"

	"gorun/launcher/internal/process"
)

// quiet finds out that nothing has gone on for a while. It counts looks that saw
// nothing new, and not the time between them: a job that was suspended in between
// (Ctrl-Z, and fg an hour later) has not been quiet for that hour.
type quiet struct {
	job   *running
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
	looks = 4
	// usageTime is how long the ranks' use of CPUs is measured.
	usageTime = time.Second
)

func (w *quiet) watch() {
	w.seen = w.signs()
	w.again()
}

func (w *quiet) again() { w.job.timers.after(w.limit/looks, w.look) }

func (w *quiet) look() {
	if !w.unchanged() || w.same < looks {
		w.again()
		return
	}
	from := sampleCPU(w.job.rankPIDs())
	w.job.timers.after(usageTime, func() {
		if w.unchanged() {
			w.report(from, sampleCPU(w.job.rankPIDs()))
		} else {
			w.again()
		}
	})
}

// unchanged looks once.
func (w *quiet) unchanged() bool {
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
	before, knew := from.used[session]
	if !known || !knew {
		return -1
	}
	return int((now.CPU - before.CPU) * 100 / max(s.at.Sub(from.at), 1))
}
