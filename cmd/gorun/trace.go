package main

import (
	"encoding/json"
	"fmt"
	"time"

	"gorun/internal/shellwords"
	"gorun/launcher/record"
)

// traceEvent is an event of Chrome's JSON trace format, which Perfetto reads:
// https://perfetto.dev/docs/getting-started/other-formats#chrome-json-format
type traceEvent struct {
	Phase    string         `json:"ph"` // X: a slice, i: an instant, M: a name
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	PID      int            `json:"pid"` // jobTrack, then one for each node: to readers, 0 is a kernel's own
	TID      int            `json:"tid"` // jobTrack or eventTrack, or a rank's number and 1
	Start    float64        `json:"ts"`  // microseconds since the job began
	Length   float64        `json:"dur"`
	Scope    string         `json:"s,omitempty"` // of an instant: t, its thread
	Args     map[string]any `json:"args,omitempty"`
}

// Tracks of what concerns the whole job. The first is a process, too.
const (
	jobTrack = 1 + iota
	eventTrack
)

type trace struct {
	began time.Time
	nodes map[string]int // by host
	named map[[2]int]bool
	Unit  string            `json:"displayTimeUnit"`
	Data  map[string]string `json:"otherData"`

	Events []traceEvent `json:"traceEvents"`
}

func (t *trace) micros(at time.Time) float64 { return float64(at.Sub(t.began).Nanoseconds()) / 1e3 }

func (t *trace) name(kind, of string, pid, tid int) {
	t.Events = append(t.Events, traceEvent{
		Phase: "M", Name: kind, PID: pid, TID: tid, Args: map[string]any{"name": of},
	})
}

func (t *trace) slice(name, category string, pid, tid int, from, to time.Time, args map[string]any) {
	start := t.micros(from)
	t.Events = append(t.Events, traceEvent{
		"X", name, category, pid, tid, start, t.micros(to) - start, "", args,
	})
}

func (t *trace) instant(name string, pid, tid int, at time.Time, args map[string]any) {
	t.Events = append(t.Events, traceEvent{"i", name, "event", pid, tid, t.micros(at), 0, "t", args})
}

// node returns the number of a host's track, which it names.
func (t *trace) node(host string) int {
	pid, known := t.nodes[host]
	if !known {
		pid = jobTrack + 1 + len(t.nodes)
		t.nodes[host] = pid
		t.name("process_name", host, pid, 0)
	}
	return pid
}

// traceJSON shows a job on a track of its own, and each rank on one below its node.
func traceJSON(rec record.Record, r *run, times *timeline) string {
	t := &trace{
		began: times.began, nodes: map[string]int{}, named: map[[2]int]bool{}, Unit: "ms",
		Data: map[string]string{"job": rec.ID, "command": shellwords.Join(rec.Command), "outcome": ending(rec)},
	}
	t.name("process_name", "gorun", jobTrack, 0)
	t.name("thread_name", "job", jobTrack, jobTrack)
	t.name("thread_name", "events", jobTrack, eventTrack)
	t.slice("job "+rec.ID, "job", jobTrack, jobTrack, times.began, times.ended, map[string]any{
		"command": t.Data["command"], "outcome": t.Data["outcome"], "class": r.report.Class, "why": r.report.Why,
	})
	for _, n := range r.plan.Nodes { // in their order
		t.node(n.Name)
	}
	for _, p := range times.parts() {
		t.slice(p.kind, "phase", jobTrack, jobTrack, p.from, p.to, map[string]any{"attempt": p.attempt})
	}
	for _, l := range times.lives {
		t.life(l)
	}
	for _, e := range times.marks {
		t.instant(markText(e), jobTrack, eventTrack, e.At, eventArgs(e))
	}
	text, _ := json.Marshal(t) // it always succeeds
	return string(text) + "\n"
}

func (t *trace) life(l life) {
	pid, tid := t.node(l.Host), *l.Rank+1
	if !t.named[[2]int{pid, tid}] {
		t.named[[2]int{pid, tid}] = true
		t.name("thread_name", fmt.Sprint("rank ", *l.Rank), pid, tid)
	}
	args := eventArgs(l.Event)
	args["end"] = l.how
	t.slice(fmt.Sprint("attempt ", l.Attempt), "rank", pid, tid, l.At, l.to, args)
	if l.state == stateFailed {
		t.instant("failed: "+l.how, pid, tid, l.to, args)
	}
}

// eventArgs has all fields of an event.
func eventArgs(e record.Event) (args map[string]any) {
	text, _ := json.Marshal(e) // it always succeeds
	_ = json.Unmarshal(text, &args)
	return args
}
