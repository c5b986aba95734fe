package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
	"gorun/placement"
)

// pastRun is a job of two attempts whose rank 1 failed in the first one, on a node that was lost then. Its names and
// texts contain another one.
func pastRun(numRanks int, text string) (record.Record, *run) {
	began := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	code := func(n int) *int { return &n }
	end := record.Event{At: at(10), Event: record.JobEnded, Code: code(0), Text: "done" + text}
	rec := record.Record{ID: "4b1d", End: &end, Start: record.Start{
		Command: []string{"gorun", text}, Dir: text, Host: text, Began: began, Versions: map[string]string{"gorun": text},
	}}
	r := &run{Start: rec.Start, report: reportJSON{Result: &job.Result{
		JobID: "4b1d", Class: "user" + text, Why: text, Goodput: new(job.Goodput), Attempts: []job.Attempt{{
			Class: "node", Why: text, First: &job.Failure{RankEnd: job.RankEnd{Rank: 1}, How: "exit code 3" + text},
		}},
	}}}
	r.printed.Report = "gorun: " + text
	r.plan = job.Plan{Nodes: []job.Node{{Name: "a" + text}, {Name: "b" + text}}, Apps: []job.AppRun{{}}}
	r.plan.Apps[0].Argv = []string{"./x", text}
	r.machines.Machines = []nodesMachine{{[]int{0, 1}, placement.Machine{GPUs: []placement.GPU{{Name: text}}}}}
	add := func(e record.Event) { r.events = append(r.events, e) }
	add(record.Event{At: began, Event: record.JobStarted})
	for attempt, from := range []float64{1, 5} {
		add(record.Event{At: at(from), Event: record.AttemptBegan, Attempt: attempt})
		for rank := range numRanks {
			host := []string{"a", "b"}[rank%2] + text
			add(record.Event{
				At: at(from + 0.5), Event: record.RankStarted, Attempt: attempt, Rank: &rank, Host: host, ClockAhead: 0.25,
			})
			e := record.Event{At: at(from + 2), Event: record.RankEnded, Attempt: attempt, Rank: &rank, Code: code(0)}
			if attempt == 0 {
				e.Code, e.Signal = nil, "SIGTERM"
				if rank == 1 {
					e.Code, e.Signal = code(3), ""
				}
			}
			if attempt > 0 || rank != 2 { // which nobody knows
				add(e)
			}
		}
		add(record.Event{At: at(from + 2), Event: record.NodeLost, Host: "b" + text, Text: text})
	}
	add(end)
	for rank := range numRanks {
		r.plan.Nodes[rank%2].Ranks = append(r.plan.Nodes[rank%2].Ranks, rank)
		k := job.Rank{Reason: text, GPU: text}
		k.Rank, k.Node = rank, rank%2
		r.plan.Ranks = append(r.plan.Ranks, k)
		r.printed.Lines = append(r.printed.Lines, registry.Line{Rank: rank, Stream: 1 + rank%2, Text: fmt.Sprint(rank, text)})
	}
	return rec, r
}

// elements returns the elements of a page with their attributes' names, and its text.
func elements(t *testing.T, page string) (names []string, text string) {
	d := xml.NewDecoder(strings.NewReader(page)) // pages are well-formed, too
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, text
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			for _, a := range token.Attr {
				name += " " + a.Name.Local
			}
			names = append(names, name)
		case xml.CharData:
			text += string(token)
		}
	}
}

func TestPageEscapes(t *testing.T) {
	plain, run := pastRun(4, "x")
	names, _ := elements(t, pageHTML(plain, run, newTimeline(run, time.Time{})))
	require.False(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "script") }))
	for _, evil := range []string{
		`</pre><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "]]><!--",
		"</style></title>", "a\x1b[31m\u202eb\xff", "&lt;%s%d", "`${1}`",
	} {
		rec, run := pastRun(4, evil)
		own, text := elements(t, pageHTML(rec, run, newTimeline(run, time.Time{})))
		require.Equal(t, names, own, evil)
		require.NotContains(t, text, "\x1b")
		if strings.Contains(evil, "script") {
			require.Contains(t, text, evil)
		}
	}
}

// Each plan is drawn with the ranks of its attempts.
func TestPageOfAReplacedNode(t *testing.T) {
	rec, run := pastRun(4, "")
	next := run.placed
	next.plan.Attempt, next.plan.Nodes = 1, []job.Node{next.plan.Nodes[0], {Name: "spare"}}
	run.later = []placed{next}
	_, page, _ := strings.Cut(pageHTML(rec, run, newTimeline(run, time.Time{})), "Since attempt 0")
	first, second, found := strings.Cut(page, "Since attempt 1")
	require.True(t, found)
	require.NotContains(t, first, "spare")
	require.Contains(t, first, "rank 1: exit code 3")
	require.Contains(t, second, "<td>spare</td>")
	require.Contains(t, second, "rank 1: exit code 0")
}

// A page stays small, and shows what differs.
func TestPageMergesRanks(t *testing.T) {
	rec, run := pastRun(4096, "")
	for i := range run.plan.Ranks {
		run.plan.Ranks[i].Env = []plan.Variable{{Name: "RANK", Value: fmt.Sprint(i)}}
	}
	page := pageHTML(rec, run, newTimeline(run, time.Time{}))
	require.Less(t, len(page), 100_000)
	for _, want := range []string{
		`>rank 1</span>`, `exit code 3 after 1.5s`, `>rank 2</span>`, `title="ranks 0,3-4095"`, "ranks 0,2,", "ranks 1,3,",
	} {
		require.True(t, strings.Contains(page, want), want)
	}
	rec, run = pastRun(0, "")
	run.plan, run.events, rec.End, rec.Running = job.Plan{}, nil, nil, true
	page = pageHTML(rec, run, newTimeline(run, rec.Began))
	require.Contains(t, page, "<h1>Running</h1>")
	require.NotContains(t, page, "NaN")
}

func TestTimeline(t *testing.T) {
	_, r := pastRun(4, "")
	times := newTimeline(r, time.Time{})
	var parts, lives []string
	for _, p := range times.parts() {
		parts = append(parts, fmt.Sprint(p.kind, " ", p.attempt, " ", p.to.Sub(p.from)))
	}
	for _, l := range times.lives {
		lives = append(lives, fmt.Sprint(*l.Rank, " ", l.state, " ", l.how, " ", l.to.Sub(l.At)))
	}
	require.Equal(t, []string{
		"plan 0 1s", "start of the ranks 0 500ms", "run of the ranks 0 3.5s", "start of the ranks 1 500ms",
		"run of the ranks 1 1.5s", "end 1 3s",
	}, parts)
	require.Equal(t, []string{
		"0 other end SIGTERM 1.5s", "1 failed first exit code 3 1.5s", "2 unknown unknown 3.5s", "3 other end SIGTERM 1.5s",
		"0 done exit code 0 1.5s", "1 done exit code 0 1.5s", "2 done exit code 0 1.5s", "3 done exit code 0 1.5s",
	}, lives)
	r.events[2], r.events[3] = r.events[3], r.events[2]
	r.events[2].At = r.events[3].At.Add(-time.Millisecond)
	first := newTimeline(r, time.Time{}).lives[0]
	require.Equal(t, "SIGTERM", first.how, "an end that is known before the start")
	require.Equal(t, r.events[2].At, first.At)
	r.events[2], r.events[3] = r.events[3], r.events[2]
	r.report.Result = new(job.Result) // gorun was killed, but the first failure is plain
	require.Equal(t, stateFailed, newTimeline(r, time.Time{}).lives[0].state)
	r.events = r.events[:3]
	require.Equal(t, stateRunning, newTimeline(r, r.Began.Add(time.Minute)).lives[0].state)
}

func TestTrace(t *testing.T) {
	rec, r := pastRun(4, "x")
	var got trace
	require.NoError(t, json.Unmarshal([]byte(traceJSON(rec, r, newTimeline(r, time.Time{}))), &got))
	named, slices := map[[2]int]string{}, map[string]float64{}
	for _, e := range got.Events {
		track := [2]int{e.PID, e.TID}
		if e.Phase == "M" {
			named[track] = e.Args["name"].(string)
			continue
		}
		require.NotEmpty(t, named[track], "a name comes first")
		slices[fmt.Sprint(named[[2]int{e.PID, 0}], " ", named[track], " ", e.Phase, " ", e.Name)] += e.Length
		if e.Category == "rank" {
			require.Equal(t, 0.25, e.Args["clock_ahead_seconds"])
		}
	}
	for want, micros := range map[string]float64{
		"gorun job X job 4b1d": 10e6, "gorun job X plan": 1e6, "ax rank 0 X attempt 0": 1.5e6, "bx rank 1 X attempt 1": 1.5e6,
		"gorun events i restart 1": 0, "gorun events i node lost: bx, x": 0, "bx rank 1 i failed: exit code 3x": 0,
	} {
		length, found := slices[want]
		require.True(t, found, "%s in %v", want, slices)
		require.InDelta(t, micros, length, 1e-3)
	}
}
