package engine

import (
	"strconv"
	"strings"
	"time"
)

// Scheduler has the commands that tell a job how much time it has, and run it again.
type Scheduler struct {
	// Job is the job's name for users: "Slurm job 17".
	Job string
	// Requeue puts the job back into the queue. Restarts is how often that has happened.
	Requeue  []string
	Restarts int
	// Limits print what TimeLeft reads.
	Limits [][]string
}

// findScheduler finds Slurm's commands for a job.
func (s *slurm) findScheduler() {
	if _, err := s.LookPath("scontrol"); err != nil {
		return
	}
	restarts, _ := s.optional("SLURM_RESTART_COUNT")
	s.found.Scheduler = &Scheduler{
		Job: s.found.Job, Requeue: []string{"scontrol", "requeue", s.name}, Restarts: restarts,
		Limits: [][]string{{"scontrol", "show", "job", "--oneliner", s.name}, {"scontrol", "show", "config"}},
	}
}

// slurmReserve is the part of KillWait in which a job kills ranks and reports.
const slurmReserve = 2 * time.Second

// endless is longer than any job's time limit: Slurm says of one without a limit that it ends after a year.
const endless = 300 * 24 * time.Hour

// TimeLeft reads the output of Limits: the time to the job's end, EndTime, and from Slurm's SIGTERM to its SIGKILL,
// KillWait. It returns false if it finds neither, or if nobody ends a job without a time limit. EndTime of a job that
// is back in the queue is that of its next run.
func TimeLeft(limits string, now time.Time) (left time.Duration, ok bool) {
	var wait time.Duration
	queued := false
	words := strings.Fields(limits)
	for i, word := range words {
		queued = queued || word == "JobState=PENDING"
		if text, is := strings.CutPrefix(word, "EndTime="); is && !queued {
			end, err := time.ParseInLocation("2006-01-02T15:04:05", text, now.Location())
			if err != nil || end.Sub(now) > endless {
				return 0, false
			}
			left, ok = max(end.Sub(now), 0), true
		}
		if word == "KillWait" && i+2 < len(words) {
			if n, err := strconv.Atoi(words[i+2]); err == nil {
				wait, ok = time.Duration(n)*time.Second, true
			}
		}
	}
	return left + max(wait-slurmReserve, 0), ok
}
