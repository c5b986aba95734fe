package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
	"gorun/launcher/quarantine"
	"gorun/launcher/record"
	"gorun/placement/draw"
)

// pageCSS needs nothing from outside the page.
//
//go:embed page.css
var pageCSS string

// Bounds of a page.
const (
	maxPageRows   = 64 // of ranks that are alike, of events, of attempts
	maxPageLines  = 40 // of a rank's output
	maxUngrouped  = 16 // ranks that each have a row
	maxShownRanks = 40 // characters
	maxPlans      = 8
)

// page is HTML. Its texts are untrusted: ranks, hosts and users wrote them.
type page struct{ strings.Builder }

// markup is HTML that add does not escape.
type markup string

// add formats HTML, and escapes arguments that are strings.
func (p *page) add(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			lines := strings.Split(text, "\n")
			for j := range lines {
				lines[j] = html.EscapeString(printable.Text(lines[j]))
			}
			args[i] = strings.Join(lines, "\n")
		}
	}
	_, _ = fmt.Fprintf(p, format, args...)
}

// table writes rows, the first of which are headings.
func (p *page) table(rows [][]string) {
	p.add(`<div class="scroll" tabindex="0" role="region" aria-label="table"><table>`)
	cell := "th"
	for _, row := range rows[:min(len(rows), maxPageRows+1)] {
		p.add("<tr>")
		for _, text := range row {
			p.add("<%s>%s</%[1]s>", cell, text)
		}
		p.add("</tr>\n")
		cell = "td"
	}
	p.add("</table></div>\n")
	p.more(len(rows)-maxPageRows-1, "more row")
}

// more says that n things are left out.
func (p *page) more(n int, thing string) {
	if n > 0 {
		p.add(`<p class="soft">… and %s</p>`, show.Count(n, thing))
	}
}

// pageHTML shows a job on one page that needs no other file, no network and no script.
func pageHTML(rec record.Record, r *run, t *timeline) string {
	p := new(page)
	state := map[bool]string{true: "done", false: "failed"}[rec.End != nil && rec.End.Code != nil && *rec.End.Code == 0]
	if rec.Running {
		state = "running"
	} else if rec.End == nil {
		state = "unknown"
	}
	p.add(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>gorun job %s: %s</title>
<style>%s</style>
<main>
`, rec.ID, ending(rec), markup(pageCSS))
	p.head(rec, r, t, state)
	p.report(rec, r)
	p.timeline(t)
	p.attempts(rec, r, t)
	p.placement(r, t)
	p.output(r, t)
	p.add("<footer>")
	for _, name := range []string{"gorun", "go", "Linux", "NVIDIA driver"} {
		if v := r.Versions[name]; v != "" {
			p.add("%s %s · ", name, v)
		}
	}
	p.add("times are %s</footer>\n</main>\n</html>\n", rec.Began.Local().Format("MST, UTC-07:00"))
	return p.String()
}

func (p *page) head(rec record.Record, r *run, t *timeline, state string) {
	outcome := ending(rec)
	p.add(`<header class="s-%s"><span class="soft">gorun job <code>%s</code></span><h1>%s</h1>`+"\n", state, rec.ID,
		strings.ToUpper(outcome[:1])+outcome[1:])
	if r.report.Class != "" {
		p.add(`<p><span class="state">%s</span>: %s</p>`+"\n", r.report.Class, r.report.Why)
	}
	ranks := show.Count(len(r.plan.Ranks), "rank")
	if hosts := r.plan.Hosts(); len(hosts) > 1 {
		ranks += fmt.Sprintf(" on %s: %s", show.Count(len(hosts), "node"), job.HostRanges(hosts))
	} else if len(hosts) == 1 {
		ranks += " on " + hosts[0]
	}
	code, goodput := "", ""
	if rec.End != nil && rec.End.Code != nil {
		code = fmt.Sprint(*rec.End.Code)
	}
	if g := r.report.Goodput; g != nil {
		goodput = fmt.Sprintf("%.0f %%", 100*g.Share)
	}
	p.add("<dl>")
	for _, row := range [][2]string{
		{"command", shellwords.Join(rec.Command)},
		{"ranks", ranks},
		{"started", rec.Began.Local().Format(quarantine.TimeFormat) + " on " + rec.Host + " in " + rec.Dir},
		{"took", spanText(t.ended.Sub(t.began))},
		{"exit code", code},
		{"goodput", goodput},
	} {
		if row[1] != "" {
			p.add("<dt>%s</dt><dd>%s</dd>\n", row[0], row[1])
		}
	}
	p.add("</dl></header>\n")
}

// report has the text that the job printed at its end.
func (p *page) report(rec record.Record, r *run) {
	dirs := evidenceDirs(rec)
	if r.printed.Report == "" && dirs == nil {
		return
	}
	p.add("<section><h2>Report</h2>")
	if r.printed.Report != "" {
		p.add("<pre>%s</pre>", strings.TrimSpace(r.printed.Report))
	}
	for _, dir := range dirs {
		p.add(`<p class="soft">evidence: <code>gorun explain %s</code></p>`, shellwords.Quote(dir))
	}
	p.add("</section>\n")
}

// spanText formats a duration with about three digits.
func spanText(d time.Duration) string {
	unit := time.Second
	for d < 100*unit && unit > time.Microsecond {
		unit /= 10
	}
	return d.Round(unit).String()
}

// at returns the place of a moment on the time axis, in percent.
func (t *timeline) at(moment time.Time) float64 {
	return 100 * float64(moment.Sub(t.began)) / float64(max(1, t.ended.Sub(t.began)))
}

func (p *page) timeline(t *timeline) {
	p.add(`<section><h2>Timeline</h2><div class="chart%s"><div class="over">`,
		map[bool]markup{true: " several"}[len(t.attempts) > 1])
	p.over(t)
	p.add(`</div><div class="row"><span>job</span><div class="track">`)
	sums, kinds := map[string]time.Duration{}, []string{}
	for _, part := range t.parts() {
		d := part.to.Sub(part.from)
		p.bar("p-"+firstWord(part.kind), t, part.from, part.to, part.kind+": "+spanText(d))
		if sums[part.kind] == 0 {
			kinds = append(kinds, part.kind)
		}
		sums[part.kind] += d
	}
	p.add("</div></div>\n")
	rows := t.rows()
	for _, row := range rows[:min(len(rows), maxPageRows)] {
		p.row(t, row)
	}
	p.add(`<div class="axis"></div></div>`)
	p.more(len(rows)-maxPageRows, "more group")
	p.add("<ul>")
	for _, kind := range kinds {
		p.add(`<li><i class="p-%s"></i>%s %s</li>`, firstWord(kind), kind, spanText(sums[kind]))
	}
	for _, state := range []string{stateDone, stateFailed, stateOther, stateUnknown, stateRunning} {
		if slices.ContainsFunc(t.lives, func(l life) bool { return l.state == state }) {
			p.add(`<li><i class="s-%s"></i>%s</li>`, firstWord(state), state)
		}
	}
	p.add("</ul>\n")
	table := [][]string{{"after", "event"}}
	for _, e := range t.marks {
		if e.Event != record.AttemptBegan { // they have a table of their own
			table = append(table, []string{spanText(e.At.Sub(t.began)), markText(e)})
		}
	}
	if len(table) > 1 {
		p.table(table)
	}
	p.add("</section>\n")
}

func (p *page) bar(class string, t *timeline, from, to time.Time, title string) {
	p.add(`<i class="%s" style="left:%.3f%%;width:%.3f%%" title="%s"></i>`, class, t.at(from), t.at(to)-t.at(from), title)
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// over draws what all ranks share: attempts, marks and the axis.
func (p *page) over(t *timeline) {
	if len(t.attempts) > 1 {
		for _, a := range t.attempts {
			p.add(`<div class="band" style="left:%.3f%%;width:%.3f%%" title="attempt %d"><b>attempt %[3]d</b></div>`,
				t.at(a.began), t.at(a.until)-t.at(a.began), a.number)
		}
	}
	for _, e := range t.marks[:min(len(t.marks), maxPageRows)] {
		if e.Event != record.AttemptBegan {
			p.add(`<div class="mark" style="left:%.3f%%"></div>`, t.at(e.At))
		}
	}
	step := tickStep(t.ended.Sub(t.began))
	for d := time.Duration(0); d < t.ended.Sub(t.began); d += step {
		p.add(`<span class="tick" style="left:%.3f%%">%s</span>`, t.at(t.began.Add(d)), d.String())
	}
}

// tickStep divides a time into at most five steps.
func tickStep(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		if unit == 100*time.Second {
			unit = time.Minute
		}
		for _, n := range []time.Duration{1, 2, 5} {
			if d <= 5*n*unit {
				return n * unit
			}
		}
	}
}

// pageRow is a rank, or ranks to which the same happened.
type pageRow struct {
	ranks []int
	lives []life // from the first start to the last end of an attempt
}

// rows returns those of the timeline, failed ones first if there are too many.
func (t *timeline) rows() (rows []*pageRow) {
	byRank, numbers := map[int][]life{}, []int{}
	for _, l := range t.lives {
		if byRank[*l.Rank] == nil {
			numbers = append(numbers, *l.Rank)
		}
		byRank[*l.Rank] = append(byRank[*l.Rank], l)
	}
	slices.Sort(numbers)
	known := map[string]*pageRow{}
	for _, rank := range numbers {
		key := ""
		for _, l := range byRank[rank] {
			key += fmt.Sprintln(l.Attempt, l.state, l.how)
		}
		row := known[key]
		if row == nil || len(numbers) <= maxUngrouped {
			row = &pageRow{lives: byRank[rank]}
			known[key], rows = row, append(rows, row)
		}
		row.ranks = append(row.ranks, rank)
		for i, l := range byRank[rank] {
			own := &row.lives[i]
			own.to = later(own.to, l.to)
			if l.At.Before(own.At) {
				own.At = l.At
			}
		}
	}
	if len(rows) > maxPageRows {
		slices.SortStableFunc(rows, func(a, b *pageRow) int { return cmp.Compare(b.failures(), a.failures()) })
	}
	return rows
}

func (r *pageRow) failures() (n int) {
	for _, l := range r.lives {
		if l.state == stateFailed {
			n++
		}
	}
	return n
}

func ranksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	return "ranks " + rangesText(ranks)
}

func rangesText(ranks []int) string {
	text := printable.Ranges(ranks)
	if len(text) > maxShownRanks {
		text = text[:maxShownRanks] + "…"
	}
	return text
}

func (p *page) row(t *timeline, r *pageRow) {
	name, last := ranksText(r.ranks), r.lives[len(r.lives)-1]
	p.add(`<div class="row"><span title="%s">%[1]s</span><div class="track">`, name)
	for _, l := range r.lives {
		title := fmt.Sprintf("%s, attempt %d: %s after %s", name, l.Attempt, l.how, spanText(l.to.Sub(l.At)))
		if len(r.ranks) == 1 {
			title += fmt.Sprintf(" (%s, pid %d)", l.Host, l.PID)
		}
		p.bar("s-"+firstWord(l.state), t, l.At, l.to, title)
	}
	p.add(`</div><span class="how s-%s" title="%s">%[2]s</span></div>`+"\n", firstWord(last.state), last.how)
}

func (p *page) attempts(rec record.Record, r *run, t *timeline) {
	if len(t.attempts) < 2 {
		return
	}
	rows := [][]string{{"attempt", "after", "ran", "class", "end"}}
	for i, a := range t.attempts {
		class, why := "", ""
		if i == len(t.attempts)-1 {
			class, why = r.report.Class, cmp.Or(r.report.Why, ending(rec))
		}
		for _, e := range r.report.Attempts {
			if e.Attempt == a.number {
				class, why = e.Class, cmp.Or(e.Why, e.Text)
			}
		}
		rows = append(rows, []string{
			fmt.Sprint(a.number), spanText(a.began.Sub(t.began)), spanText(max(0, a.ended.Sub(later(a.began, a.started)))),
			class, why,
		})
	}
	p.add("<section><h2>Attempts</h2>")
	p.table(rows)
	p.add("</section>\n")
}

// placement shows the last plans of a job, each with the last states of its ranks.
func (p *page) placement(r *run, t *timeline) {
	if len(r.plan.Ranks) == 0 {
		return
	}
	p.add(`<section><h2>Placement</h2>`)
	plans := r.plans()
	for i := max(0, len(plans)-maxPlans); i < len(plans); i++ {
		if len(plans) > 1 {
			p.add("<h3>Since attempt %d</h3>", plans[i].plan.Attempt)
		}
		ends := map[int]life{}
		for _, l := range t.lives {
			if r.planOf(l.Attempt) == i {
				ends[*l.Rank] = l
			}
		}
		p.placed(&plans[i], ends)
	}
	p.add("</section>\n")
}

// placed shows the nodes with the states of their ranks, then the plan and ranks on machines: one picture for all nodes
// of a kind.
func (p *page) placed(r *placed, ends map[int]life) {
	p.add(`<div class="nodes">`)
	nodes, hosts := map[string][]int{}, []string{}
	for _, rank := range slices.Sorted(maps.Keys(ends)) {
		host := ends[rank].Host
		if nodes[host] == nil {
			hosts = append(hosts, host)
		}
		nodes[host] = append(nodes[host], rank)
	}
	for _, host := range hosts[:min(len(hosts), maxPageRows)] {
		p.add(`<div><b>%s</b>`, host)
		p.ranks(nodes[host], ends)
		p.add("</div>\n")
	}
	p.add("</div>\n")
	p.more(len(hosts)-maxPageRows, "more node")
	p.table(rankRows(&r.plan))
	for _, m := range r.machines.Machines {
		n := r.plan.Nodes[m.Nodes[0]]
		var placed []draw.Placement
		for _, rank := range n.Ranks {
			k := r.plan.Ranks[rank]
			placed = append(placed, draw.Placement{Rank: rank, CPUs: k.CPUs})
		}
		_, svg, _ := strings.Cut(draw.SVG(m.Machine, placed), "?>\n")
		title := n.Name
		if more := len(m.Nodes) - 1; more > 0 {
			title += fmt.Sprintf(", and %s of its kind", show.Count(more, "other node"))
		}
		p.add(`<p class="soft">%s</p><div class="picture scroll" tabindex="0" role="img" aria-label="ranks on %[1]s">`, title)
		p.add("%s</div>", markup(svg))
	}
}

// ranks writes numbers of ranks, as ranges if there are too many.
func (p *page) ranks(numbers []int, ends map[int]life) {
	for i, chips := 0, 0; i < len(numbers) && chips < maxPageRows; chips++ {
		n, end := 1, ends[numbers[i]]
		for len(numbers) > maxPageRows && i+n < len(numbers) && ends[numbers[i+n]].how == end.how {
			n++
		}
		p.add(`<i class="s-%s" title="%s: %s">%s</i>`, firstWord(end.state), ranksText(numbers[i:i+n]), end.how,
			rangesText(numbers[i:i+n]))
		i += n
	}
}

// tail is the last output of ranks that printed the same or, in a large job, of the first of them that differ in
// numbers.
type tail struct {
	ranks    []int
	html     markup
	numLines int
	failed   bool // one of them
}

// tails returns those of ranks that failed before those of others.
func (r *run) tails(t *timeline) (list []*tail) {
	failed, known := map[int]bool{}, map[string]*tail{}
	for _, l := range t.lives {
		failed[*l.Rank] = l.state == stateFailed
	}
	for all := r.printed.Lines; len(all) > 0; {
		rank, n := all[0].Rank, 1
		for n < len(all) && all[n].Rank == rank {
			n++
		}
		own := all[max(0, n-maxPageLines):n]
		all = all[n:]
		var text page
		key := ""
		for _, l := range own {
			key += fmt.Sprintln(l.Stream, withoutNumbers(l.Text))
			class := "out"
			if l.Stream == 2 {
				class = "err"
			}
			text.add("<span class=\"%s\">%s</span>\n", class, l.Text)
		}
		same := known[key]
		if same == nil || len(r.plan.Ranks) <= maxUngrouped && string(same.html) != text.String() {
			same = &tail{html: markup(text.String()), numLines: len(own)}
			known[key], list = same, append(list, same)
		}
		same.ranks, same.failed = append(same.ranks, rank), same.failed || failed[rank]
	}
	slices.SortStableFunc(list, func(a, b *tail) int {
		switch {
		case a.failed == b.failed:
			return 0
		case a.failed:
			return -1
		}
		return 1
	})
	return list
}

func (p *page) output(r *run, t *timeline) {
	tails := r.tails(t)
	p.add("<section><h2>Last output</h2>")
	if len(tails) == 0 {
		p.add(`<p class="soft">none</p>`)
	}
	open := markup(` open=""`)
	for _, tail := range tails[:min(len(tails), maxPageRows)] {
		p.add("<details%s><summary>%s <span>%s</span></summary><pre>%s</pre></details>\n", open, ranksText(tail.ranks),
			show.Count(tail.numLines, "line"), tail.html)
		open = ""
	}
	p.more(len(tails)-maxPageRows, "more group")
	p.add("</section>\n")
}
