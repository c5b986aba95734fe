// Package record keeps what a user's last jobs did. Each job has a directory of its own, named by its id, with one file
// of JSON lines: how it began, its plan, its events, and how it ended.
package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// What is kept.
const (
	MaxJobs  = 50
	MaxBytes = 200 << 20
)

// slack is how many more jobs than MaxJobs there may be until a short one spends time on removing some.
const slack = 10

// fileName is the name of the file in each directory.
const fileName = "record.jsonl"

// Start is the first line of a record.
type Start struct {
	Command  []string          `json:"command"`    // the command line, with secrets hidden
	Dir      string            `json:"directory"`  // working directory of gorun
	Host     string            `json:"host"`       // where gorun ran
	PID      int               `json:"pid"`        // of gorun
	Began    time.Time         `json:"started_at"` // when gorun started
	Versions map[string]string `json:"versions"`   // of gorun, Go, Linux, NVIDIA's driver, Python, its packages, MPI
}

// Event is something that happened to a job.
type Event struct {
	// At is when it happened, at its source, by the clock of the launcher's host.
	At time.Time `json:"at"`
	// Event is what happened: "job started", "planned", "attempt began", "rank started", "rank ended", "start failed",
	// "node lost", "node joined", "fault", "hang suspected", "hang" or "job ended".
	Event   string `json:"event"`
	Attempt int    `json:"attempt,omitempty"`   // number of restarts before
	Rank    *int   `json:"rank,omitempty"`      // of which rank
	Host    string `json:"host,omitempty"`      // name of its node
	PID     int    `json:"pid,omitempty"`       // of the rank's first process
	Code    *int   `json:"exit_code,omitempty"` // of the rank or, at the end, of gorun
	// Signal is the name of the signal that ended it: "SIGKILL".
	Signal string `json:"signal_name,omitempty"`
	Text   string `json:"text,omitempty"` // more, for people
	// ClockAhead is by how many seconds the clock of its node was ahead of that of the launcher's host; At is corrected.
	ClockAhead float64 `json:"clock_ahead_seconds,omitempty"`
}

// What happened.
const (
	JobStarted   = "job started"
	Planned      = "planned"
	AttemptBegan = "attempt began"
	RankStarted  = "rank started"
	RankEnded    = "rank ended"
	StartFailed  = "start failed"
	NodeLost     = "node lost"
	NodeJoined   = "node joined"
	Fault        = "fault" // of --chaos
	Hang         = "hang"

	HangSuspected = "hang suspected" // the text says what ranks do
	JobEnded      = "job ended"
)

// Dir returns the directory of a job, given that of all records and the job's id.
func Dir(records, id string) string { return filepath.Join(records, id) }

// Create makes the file of a job's record. The job counts as running until the file is closed.
func Create(records, id string) (*os.File, error) {
	if records == "" {
		return nil, errors.New("neither XDG_STATE_HOME nor HOME is set")
	}
	dir := Dir(records, id)
	if os.Mkdir(dir, 0o700) != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // not all file systems can
	}
	return f, err
}

// isOpen reports whether the job that writes a record still runs.
func isOpen(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK)
}

// Prune removes the oldest records, beyond MaxJobs and MaxBytes. For a short job, it leaves a few of them to others and
// does not count the bytes of evidence.
func Prune(records string, short bool) {
	found, _ := os.ReadDir(records)
	if short && len(found) <= MaxJobs+slack {
		return
	}
	type job struct {
		dir   string
		ended time.Time
		bytes int64
	}
	var jobs []job
	for _, entry := range found {
		j := job{dir: filepath.Join(records, entry.Name())}
		info, err := os.Stat(filepath.Join(j.dir, fileName))
		if err != nil {
			info, err = entry.Info()
		}
		if err != nil || !entry.IsDir() { // others remove some, too
			continue
		}
		j.ended, j.bytes = info.ModTime(), info.Size()
		if !short { // there may be evidence
			j.bytes = 0
			_ = filepath.WalkDir(j.dir, func(_ string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					if info, err := e.Info(); err == nil {
						j.bytes += info.Size()
					}
				}
				return nil
			})
		}
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b job) int { return b.ended.Compare(a.ended) })
	var sum int64
	for i, j := range jobs {
		if sum += j.bytes; i > 0 && (i >= MaxJobs || sum > MaxBytes) && !runs(j.dir) {
			_ = os.RemoveAll(j.dir)
			sum -= j.bytes
		}
	}
}

func runs(dir string) bool {
	f, err := os.Open(filepath.Join(dir, fileName))
	if err != nil {
		return false
	}
	defer f.Close()
	return isOpen(f)
}
