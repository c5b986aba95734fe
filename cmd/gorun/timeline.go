package main

import (
	"cmp"
	"fmt"
	"time"

	"gorun/launcher/job"
	"gorun/launcher/record"
)

// timeline is what the events of a job say about its time.
type timeline struct {
	began, ended time.Time
	attempts     []attemptTime
	lives        []life
	marks        []record.Event // restarts, and what happened to nodes and to the job
}

// attemptTime is when all ranks of an attempt were started, and when the last one ended. Without them: at until.
type attemptTime struct {
	number                       int
	began, started, ended, until time.Time
	first                        *job.Failure // nil: none is known
}

// States of a life.
const (
	stateDone    = "done"
	stateFailed  = "failed first"
	stateOther   = "other end"
	stateUnknown = "unknown"
	stateRunning = "running"
)

// life is a rank in one attempt.
type life struct {
	record.Event // its start
	to           time.Time
	state        string
	how          string // it ended
}

// newTimeline takes the time now of a job that still runs, else 0.
func newTimeline(r *run, now time.Time) *timeline {
	t := &timeline{began: r.Began, ended: now}
	lives := map[[2]int]int{} // by attempt and rank
	for _, e := range r.events {
		t.ended = later(t.ended, e.At)
		switch e.Event {
		case record.JobStarted, record.JobEnded, record.Planned, record.RankEnded:
		case record.AttemptBegan:
			if e.Attempt > 0 {
				t.marks = append(t.marks, e)
			}
			t.begin(r, e)
		case record.RankStarted:
			lives[[2]int{e.Attempt, *e.Rank}] = len(t.lives)
			t.lives = append(t.lives, life{Event: e})
			planned := r.plans()[r.planOf(e.Attempt)].plan.Ranks // others were spawned
			if a := t.attempt(e.Attempt); a != nil && *e.Rank < len(planned) {
				a.started = later(a.started, e.At)
			}
		default:
			t.marks = append(t.marks, e)
		}
	}
	for _, e := range r.events { // a rank's end may be known before its start
		if e.Event == record.RankEnded {
			i, known := lives[[2]int{e.Attempt, *e.Rank}]
			if a := t.attempt(e.Attempt); known && a != nil {
				t.lives[i].end(e, a, r.report.JobID != "")
			}
		}
	}
	state := stateUnknown
	if !now.IsZero() {
		state = stateRunning
	}
	t.complete(state)
	return t
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// attempt returns nil if a record lacks it.
func (t *timeline) attempt(number int) *attemptTime {
	for i := range t.attempts {
		if t.attempts[i].number == number {
			return &t.attempts[i]
		}
	}
	return nil
}

func (t *timeline) begin(r *run, e record.Event) {
	if n := len(t.attempts); n > 0 {
		t.attempts[n-1].until = e.At
	}
	a := attemptTime{number: e.Attempt, began: e.At, first: r.report.First}
	for _, earlier := range r.report.Attempts {
		if earlier.Attempt == e.Attempt {
			a.first = earlier.First
		}
	}
	t.attempts = append(t.attempts, a)
}

// complete ends the lives whose end nobody knows, and the last attempt, in which they have a state.
func (t *timeline) complete(state string) {
	if n := len(t.attempts); n > 0 {
		t.attempts[n-1].until = t.ended
	}
	for i := range t.lives {
		l := &t.lives[i]
		a := t.attempt(l.Attempt)
		if l.to.IsZero() {
			l.to, l.state, l.how = t.ended, stateUnknown, stateUnknown
			if a != nil && a == &t.attempts[len(t.attempts)-1] {
				l.state, l.how = state, state
			} else if a != nil {
				l.to = a.until
			}
		}
		if a != nil {
			a.ended = later(a.ended, l.to)
		}
	}
}

func (l *life) end(e record.Event, a *attemptTime, reported bool) {
	if e.At.Before(l.At) { // starts are known when all ranks of a node run
		l.At = e.At
	}
	l.to, l.Signal, l.Code, l.state, l.how = e.At, e.Signal, e.Code, stateOther, e.Signal
	if e.Code != nil {
		l.how = fmt.Sprint("exit code ", *e.Code)
		if *e.Code == 0 {
			l.state = stateDone
		}
	}
	if a.first == nil && !reported && l.state != stateDone {
		a.first = &job.Failure{RankEnd: job.RankEnd{Rank: *e.Rank}}
	}
	if a.first != nil && a.first.Rank == *e.Rank {
		l.state, l.how = stateFailed, cmp.Or(a.first.How, l.how)
	}
}

// Parts of a job's time.
const (
	partPlan    = "plan"
	partStart   = "start of the ranks"
	partRun     = "run of the ranks"
	partRestart = "wait for a restart"
	partEnd     = "end"
)

// part is a part of a job's time.
type part struct {
	kind     string
	attempt  int
	from, to time.Time
}

// parts divides the time of a job.
func (t *timeline) parts() (list []part) {
	at := t.began
	add := func(kind string, attempt int, to time.Time) {
		if to.After(at) {
			list, at = append(list, part{kind, attempt, at, to}), to
		}
	}
	for i, a := range t.attempts {
		add(partPlan, a.number, a.began)
		add(partStart, a.number, a.started)
		add(partRun, a.number, a.ended)
		if i < len(t.attempts)-1 {
			add(partRestart, a.number, a.until)
		}
	}
	if len(t.attempts) == 0 {
		add(partPlan, 0, t.ended)
	}
	add(partEnd, max(0, len(t.attempts)-1), t.ended)
	return list
}
