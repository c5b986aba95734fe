package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/env"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

func diffCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "diff"}
	r.act = r.diff
	return r.define(cli.Command{
		Usage: "compare two of your last jobs",
		Description: "gorun diff prints what differs between two jobs: command, versions, hosts, settings, placement, " +
			"environment, rank 0's first line that differs, and times. Lines of GOOD begin with -, those of BAD with +.",
		UsageText: "gorun diff [options] GOOD BAD",
		Flags:     c.Flags(c.group(dialect.GroupShown, c.jsonOption("print the differences as JSON"))...),
	}, "they were compared", "there is no record of such a job",
		dialect.Example{"gorun diff 7f3a last", "what the last job did differently"})
}

// difference is a property that two jobs do not share.
type difference struct {
	Subject string `json:"subject"`         // such as "environment NCCL_DEBUG"
	Ranks   string `json:"ranks,omitempty"` // whose property it is, as "0-3"; absent: the job's
	Good    string `json:"good,omitempty"`  // value in GOOD; absent: none
	Bad     string `json:"bad,omitempty"`   // value in BAD; absent: none
}

// phase is a part of two jobs' time.
type phase struct {
	Phase string  `json:"phase"`                  // "plan", "start of the ranks" or "run of the ranks"
	Good  float64 `json:"good_seconds,omitempty"` // absent: unknown
	Bad   float64 `json:"bad_seconds,omitempty"`  // absent: unknown
}

// diffJSON is the document of gorun diff.
type diffJSON struct {
	Good        pastJob      `json:"good"`        // the first job
	Bad         pastJob      `json:"bad"`         // the second
	Differences []difference `json:"differences"` // in the order of their importance
	Phases      []phase      `json:"phases"`      // how long each took
}

func (r *jobsRequest) diff() error {
	var past [2]pastJob
	var runs [2]run
	for i, name := range r.names {
		rec, err := recorded(name)
		if err != nil {
			return err
		}
		past[i], runs[i] = newPastJob(rec), newRun(rec)
	}
	d := diffJSON{
		past[0], past[1], append([]difference{}, differences(&runs[0], &runs[1])...), phases(&runs[0], &runs[1]),
	}
	if r.JSON {
		return show.JSON(r.stdout, "diff", d)
	}
	var lines []string
	for i, sign := range []string{"- ", "+ "} {
		lines = append(lines, fmt.Sprintf("%sjob %s, %s: %s", sign, past[i].ID,
			past[i].Began.Local().Format(time.DateTime), past[i].Outcome))
	}
	for _, x := range d.Differences {
		lines = append(lines, "", x.Subject)
		if x.Ranks != "" {
			lines[len(lines)-1] += " of ranks " + x.Ranks
		}
		if x.Good != "" {
			lines = append(lines, "- "+x.Good)
		}
		if x.Bad != "" {
			lines = append(lines, "+ "+x.Bad)
		}
	}
	for i := range lines {
		lines[i] = printable.Text(lines[i])
	}
	rows := [][]string{{"time of", past[0].ID, past[1].ID}}
	for _, p := range d.Phases {
		rows = append(rows, []string{p.Phase, secondsText(p.Good), secondsText(p.Bad)})
	}
	return r.printLines(append(lines, "", strings.TrimSuffix(show.Table(rows, 0), "\n")))
}

// run is what is known of a job that has a record.
type run struct {
	record.Start
	events  []record.Event
	printed printedJSON
	// What they name by text remains empty in these: modes, causes and fates.
	placed
	later    []placed // for other hosts
	report   reportJSON
	settings map[string]any // of the plan: what is no list
}

// placed is the plan of an attempt, and of later ones for the same hosts.
type placed struct {
	plan     job.Plan
	machines recordedMachines
}

// plans returns all of a job's.
func (r *run) plans() []placed { return append([]placed{r.placed}, r.later...) }

// planOf returns the index in plans of an attempt's.
func (r *run) planOf(attempt int) (i int) {
	for i < len(r.later) && r.later[i].plan.Attempt <= attempt {
		i++
	}
	return i
}

func newRun(rec record.Record) (r run) {
	r.Start = rec.Start
	for _, line := range rec.Lines("event") {
		var e record.Event
		ofRank := []string{record.RankStarted, record.RankEnded}
		if json.Unmarshal(line, &e) == nil && (e.Rank != nil || !slices.Contains(ofRank, e.Event)) {
			r.events = append(r.events, e)
		}
	}
	r.report.Result = new(job.Result)
	for kind, into := range map[string]any{
		"printed": &r.printed, "report": &r.report,
	} {
		_, _ = recordLine(rec, kind, into) // a job that was killed lacks some
	}
	machines := rec.Lines("machines")
	for i, line := range rec.Lines("plan") {
		var p placed
		_ = json.Unmarshal(line, &p.plan)
		if i < len(machines) {
			_ = json.Unmarshal(machines[i], &p.machines)
		}
		if i > 0 {
			r.later = append(r.later, p)
			continue
		}
		r.placed = p
		_ = json.Unmarshal(line, &r.settings)
	}
	return r
}

// fact is a property of a job, or of one of its ranks.
type fact struct {
	subject string
	rank    int // -1: none
	value   string
}

// noSettings are fields of a recorded plan that are no decisions.
var noSettings = []string{"schema", "gorun", "kind", "job", "run_id", "attempt"}

// perJob are the parts of values of gorun's own variables that differ in any two jobs: ids, ports, directories.
const perJob = `[0-9a-f]{12,}|:[0-9]+|gorun-[0-9a-z]{8}`

// facts lists what may differ, in the order in which people want to know.
func (r *run) facts() (list []fact) {
	random := regexp.MustCompile(perJob)
	add := func(subject, value string) { list = append(list, fact{subject, -1, value}) }
	addEnv := func(vars []plan.Variable, suffix string, rank int) {
		for _, v := range vars {
			if v.Origin == plan.Gorun {
				if v.Name == env.VarMasterPort {
					continue
				}
				v.Value = random.ReplaceAllLiteralString(v.Value, "…")
			}
			value := fmt.Sprintf("%s (%s)", shellwords.Quote(v.Value), v.Origin)
			list = append(list, fact{"environment " + v.Name + suffix, rank, value})
		}
	}
	add("command", shellwords.Join(r.Command))
	add("directory", r.Dir)
	add("launcher's host", r.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		add("version of "+name, r.Versions[name])
	}
	if r.report.NCCL != nil {
		for _, s := range r.report.NCCL.Summaries {
			add("NCCL of ranks "+printable.Ranges(s.Ranks), s.Text)
		}
	}
	for i, p := range r.plan.Apps {
		add(fmt.Sprintf("program %d", i), p.Path+" ("+p.Kind+")")
	}
	for i, n := range r.plan.Nodes {
		add(fmt.Sprintf("node %d", i), n.Name+", CPUs "+cmp.Or(n.CPUs, "unknown"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.settings)) {
		switch value := r.settings[name].(type) {
		case float64, bool, string:
			if !slices.Contains(noSettings, name) && !strings.HasSuffix(name, "_reason") {
				add("setting "+name, fmt.Sprint(value))
			}
		}
	}
	for i, rank := range r.plan.Ranks {
		list = append(list, fact{"node", i, fmt.Sprint(rank.Node)}, fact{"CPUs", i, rank.CPUs.String()},
			fact{"GPUs", i, rank.GPU})
	}
	addEnv(r.plan.Common, "", -1)
	for _, n := range r.plan.Nodes {
		addEnv(n.Env, " on "+n.Name, -1)
	}
	for i, rank := range r.plan.Ranks {
		addEnv(rank.Env, "", i)
	}
	return list
}

// differences compares two jobs. Ranks that only one of them has are not compared.
func differences(good, bad *run) (list []difference) {
	type key struct {
		subject string
		rank    int
	}
	numRanks := min(len(good.plan.Ranks), len(bad.plan.Ranks))
	values, order := map[key]*[2]string{}, []key{}
	for i, r := range []*run{good, bad} {
		for _, f := range r.facts() {
			k := key{f.subject, f.rank}
			if values[k] == nil {
				values[k], order = &[2]string{}, append(order, k)
			}
			values[k][i] = f.value
		}
	}
	ranks := map[difference][]int{}
	for _, k := range order {
		v := values[k]
		d := difference{Subject: k.subject, Good: v[0], Bad: v[1]}
		if v[0] == v[1] || k.rank >= numRanks {
			continue
		}
		if ranks[d] == nil {
			list = append(list, d)
		}
		ranks[d] = append(ranks[d], k.rank)
	}
	byGorun := func(d difference) int { // what gorun sets follows from the rest
		if strings.HasSuffix(cmp.Or(d.Good, d.Bad), "(gorun)") && strings.HasSuffix(cmp.Or(d.Bad, d.Good), "(gorun)") {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b difference) int { return cmp.Compare(byGorun(a), byGorun(b)) })
	for i, d := range list {
		if ranks[d][0] >= 0 {
			list[i].Ranks = printable.Ranges(ranks[d])
		}
	}
	for stream, name := range []string{"standard output", "standard error"} {
		if x, y := divergence(good.lines(stream+1), bad.lines(stream+1)); x != y {
			list = append(list, difference{"first line of rank 0's " + name + " that differs", "", x, y})
		}
	}
	return list
}

// lines returns the last lines of rank 0 to a stream.
func (r *run) lines(stream int) (lines []string) {
	for _, line := range r.printed.Lines {
		if line.Rank == 0 && line.Stream == stream {
			lines = append(lines, line.Text)
		}
	}
	return lines
}

// divergence returns the first lines that differ by more than numbers, or else those that differ at all.
func divergence(good, bad []string) (x, y string) {
	for _, same := range []func(a, b string) bool{sameWords, func(a, b string) bool { return a == b }} {
		i, j := 0, 0
		if len(good) > 0 && len(bad) > 0 { // of the longer output only the end is known
			i = max(0, slices.IndexFunc(good, func(line string) bool { return same(line, bad[0]) }))
			if i == 0 {
				j = max(0, slices.IndexFunc(bad, func(line string) bool { return same(line, good[0]) }))
			}
		}
		for ; i < len(good) || j < len(bad); i, j = i+1, j+1 {
			x, y = "", ""
			if i < len(good) {
				x = good[i]
			}
			if j < len(bad) {
				y = bad[j]
			}
			if i >= len(good) || j >= len(bad) || !same(x, y) {
				return x, y
			}
		}
	}
	return "", ""
}

// sameWords compares lines without the words that have digits: times, losses, addresses.
func sameWords(a, b string) bool {
	words := func(line string) []string {
		list := strings.Fields(line)
		for i, word := range list {
			if strings.ContainsAny(word, "0123456789") {
				list[i] = "0"
			}
		}
		return list
	}
	return slices.Equal(words(a), words(b))
}

// phases returns how long the parts of two jobs took.
func phases(good, bad *run) []phase {
	x, y := good.times(), bad.times()
	return []phase{
		{"plan", x[0], y[0]}, {"start of the ranks", x[1], y[1]}, {"run of the ranks", x[2], y[2]},
	}
}

// times are those of phases, in seconds, for the last attempt; 0: unknown.
func (r *run) times() (seconds [3]float64) {
	var began, started time.Time
	for _, e := range r.events {
		switch e.Event {
		case record.Planned:
			seconds[0] = e.At.Sub(r.Began).Seconds()
		case record.AttemptBegan:
			began, started = e.At, e.At
		case record.RankStarted:
			started = e.At
		}
	}
	if started.After(began) {
		seconds[1] = started.Sub(began).Seconds()
	}
	seconds[2] = time.Duration(r.report.Elapsed).Seconds()
	return seconds
}

func secondsText(s float64) string {
	if s == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
