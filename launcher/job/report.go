package job

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
	"time"

	"gorun/internal/printable"
)

// Lines of parts of the report, which has at most 25 in all.
const (
	reportTraceback = 6
	reportLast      = 5
	reportOrphans   = 1
)

// SignalNamer returns a signal's name and its usual meaning, such as "SIGSEGV", "invalid memory access".
type SignalNamer func(syscall.Signal) (name, meaning string)

// Report explains in at most 25 lines how a job failed; it is "" for one that succeeded, or whose reader went away.
// Every text of the result must be free of control bytes.
func (r *Result) Report(name SignalNamer) string {
	var b reportBuilder
	switch {
	case r.First != nil && r.Cause == CauseRank:
		b.rankFailed(r, name)
	case r.First != nil && r.Cause == CauseDone:
		b.headline(r.enough())
	case r.Cause == CauseNode, r.Cause == CauseStuck:
		b.headline(r.Text)
		if r.First == nil {
			b.others(r)
		}
	case r.Cause == CauseStart, r.Cause == CauseEarly, r.Cause == CauseEngine:
		b.headline(r.Text)
	case r.Cause == CauseHang && r.Hang != nil:
		b.hung(r)
	case r.Cause == CauseTimeout:
		b.headline(fmt.Sprintf("the job ran into its deadline (--timeout) after %s", round(r.After)))
		if r.First == nil {
			b.nccl(r.ncclWarnings())
		}
	case r.Cause == CauseSignal:
		n, _ := name(r.Signal)
		text := fmt.Sprintf("ended by %s after %s", n, round(r.After))
		if r.Text != "" {
			text += ", " + r.Text
		}
		b.headline(text)
	}
	if r.First != nil && (r.Cause == CauseTimeout || r.Cause == CauseSignal || r.Cause == CauseEarly ||
		r.Cause == CauseNode || r.Cause == CauseEngine) {
		b.rankFailed(r, name) // with --on-failure continue, before the cause
	}
	b.killed(r)
	b.attempts(r)
	b.end(r)
	return b.String()
}

// enough lists the failed ranks that --min-success allows.
func (r *Result) enough() string {
	var failed []int
	for _, e := range r.Ranks {
		if e.Fate != FateSucceeded {
			failed = append(failed, e.Rank)
		}
	}
	return fmt.Sprintf("%s failed, which is allowed (--min-success): %s", plural(len(failed), "rank"), shortRanges(failed))
}

// Summary describes in one line how an attempt failed.
func (r *Result) Summary(name SignalNamer) string {
	if r.Cause == CauseNode {
		return fmt.Sprintf("%s, after %s", r.Text, round(r.After))
	}
	return fmt.Sprintf("%s failed after %s, %s", r.First.name(), round(r.After), how(r.First.RankEnd, name))
}

// name returns the rank, with its host if there are several.
func (e RankEnd) name() string {
	if e.Host == "" {
		return fmt.Sprintf("rank %d", e.Rank)
	}
	return fmt.Sprintf("rank %d (%s)", e.Rank, e.Host)
}

// reportBuilder collects the lines of a report.
type reportBuilder struct{ strings.Builder }

func (b *reportBuilder) headline(text string) {
	for i, line := range strings.Split(text, "\n") {
		if i > 6 {
			break
		}
		fmt.Fprintf(b, "gorun: %s\n", line)
	}
}

func (b *reportBuilder) row(name, text string) {
	fmt.Fprintf(b, "  %-8s %s\n", name, text)
}

func (b *reportBuilder) block(name string, lines []string, most int) {
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	for _, l := range lines {
		b.row(name, "│ "+clip(l, 160))
		name = ""
	}
}

func (b *reportBuilder) rankFailed(r *Result, name SignalNamer) {
	f := r.First
	where := ""
	if f.Host != "" {
		where = f.Host + ", "
	}
	what := "the program failed"
	if len(r.Ranks) > 1 {
		what = fmt.Sprintf("rank %d failed first", f.Rank)
	}
	if n := len(r.Attempts); n > 0 {
		what = fmt.Sprintf("attempt %d: %s", n, what)
	}
	fmt.Fprintf(b, "gorun: %s (%spid %d) after %s\n", what, where, f.PID, round(cmp.Or(f.After, r.After)))
	b.row("how", how(f.RankEnd, name))
	warnings, last := r.ncclWarnings(), reportLast
	if len(f.Traceback) > 0 || len(r.Attempts) > 0 || r.Cause != CauseRank { // there is no room for all
		last -= len(warnings)
	}
	b.block("error", f.Traceback, reportTraceback)
	b.block("last", f.LastLines, last)
	b.nccl(warnings)
	if f.Log != "" {
		b.row("log", f.Log)
	}
	b.others(r)
	if f.Hint != "" {
		b.row("hint", f.Hint)
	}
}

func how(e RankEnd, name SignalNamer) string {
	if text := e.mpiHow(); text != "" {
		return text
	}
	timer := ""
	if e.Timer != "" {
		timer = fmt.Sprintf(", as its timer %q had expired", e.Timer)
	}
	if e.Signal == 0 {
		return fmt.Sprintf("exit code %d", e.Code) + timer
	}
	n, meaning := name(e.Signal)
	text := "killed by " + n
	switch {
	case timer != "":
		text += timer
	case e.Raised:
		return "it raised an error, and " + n + " of gorun's ended it later"
	case e.OOM != "":
		text += ", by the kernel: out of memory (" + e.OOM + ")"
	case e.FromEngine != "":
		text += ", which " + e.FromEngine + " had sent to all ranks"
	case e.Forwarded:
		text += ", which gorun had passed on to all ranks"
	case e.Signal == syscall.SIGKILL || Ends(e.Signal): // a program hardly sends these to itself
		text += ", from outside: not by gorun"
	case meaning != "":
		text += " (" + meaning + ")"
	}
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// others lists the other ranks, a line for each fate.
func (b *reportBuilder) others(r *Result) {
	label := "others"
	if r.First == nil {
		label = "ranks"
	}
	for fate := FateSucceeded; fate <= FateUnknown; fate++ {
		var ranks []int
		for _, e := range r.Ranks {
			if e.Fate == fate && (r.First == nil || e.Rank != r.First.Rank) {
				ranks = append(ranks, e.Rank)
			}
		}
		if len(ranks) > 0 {
			text := fateText[fate]
			if fate == FateUnknown {
				text += r.lostHosts()
			}
			b.row(label, fmt.Sprintf("%s %s: %s", plural(len(ranks), "rank"), text, shortRanges(ranks)))
			label = ""
		}
	}
}

// lostHosts names the hosts of ranks with an unknown fate.
func (r *Result) lostHosts() string {
	var hosts []string
	seen := map[string]bool{"": true}
	for _, e := range r.Ranks {
		if e.Fate != FateUnknown { // the host is up, and only one of its agents is lost
			seen[e.Host] = true
		}
	}
	for _, e := range r.Ranks {
		if e.Fate == FateUnknown && !seen[e.Host] {
			hosts = append(hosts, e.Host)
			seen[e.Host] = true
		}
	}
	switch len(hosts) {
	case 0:
		return ""
	case 1:
		return ", " + hosts[0] + " was lost"
	}
	return ", " + HostRanges(hosts) + " were lost"
}

// killed lists the ranks that did not stop gracefully: a checkpoint that they were writing is torn.
func (b *reportBuilder) killed(r *Result) {
	var ranks []int
	for _, e := range r.Ranks {
		if e.Killed {
			ranks = append(ranks, e.Rank)
		}
	}
	if b.Len() > 0 && len(ranks) > 0 {
		b.row("killed", fmt.Sprintf("%s by SIGKILL, not having ended when asked to: %s", plural(len(ranks), "rank"),
			shortRanges(ranks)))
	}
}

var fateText = [...]string{
	FateSucceeded: "had succeeded", FateFailed: "failed as well", FateStopped: "stopped by gorun",
	FateFollowed:   "failed when gorun stopped them",
	FateNotStarted: "not started", FateUnknown: "unknown",
}

// attempts lists the last of the earlier attempts.
func (b *reportBuilder) attempts(r *Result) {
	most := 3
	if r.Hang != nil { // its report is long
		most = 2
	}
	if len(r.ncclWarnings()) > 0 {
		most = 1
	}
	list := r.Attempts
	if b.Len() == 0 { // the last attempt succeeded
		return
	}
	if len(list) > most {
		b.row("before", fmt.Sprintf("%s, the last of them:", plural(len(list), "attempt")))
		list = list[len(list)-most:]
	}
	for _, a := range list {
		switch {
		case a.Text != "":
			b.row("before", fmt.Sprintf("attempt %d: %s, after %s", a.Attempt, a.Text, round(a.After)))
		case a.First != nil:
			b.row("before", fmt.Sprintf("attempt %d: %s failed after %s, %s", a.Attempt, a.First.name(), round(a.After), a.how))
		}
	}
}

func (b *reportBuilder) hung(r *Result) {
	warnings, most := r.ncclWarnings(), hangGroups
	if len(warnings) > 0 {
		most--
	}
	for i, line := range r.Hang.lines(most) {
		if i == 0 {
			line = "gorun: " + line
		}
		b.WriteString(line + "\n")
	}
	b.nccl(warnings)
}

// end has what any cause may have.
func (b *reportBuilder) end(r *Result) {
	if r.Hint != "" {
		b.row("hint", r.Hint)
	}
	if r.OutputLost != "" {
		b.headline("output was lost: " + r.OutputLost)
	}
	for _, l := range r.Orphans[:min(len(r.Orphans), reportOrphans)] {
		b.headline("still alive after SIGKILL: " + clip(l, 160))
	}
	if b.Len() > 0 {
		fmt.Fprintf(b, "exit %d\n", r.ExitCode)
	}
}

func plural(n int, noun string) string { return counted(n, noun, noun+"s") }

// counted returns a number with the words for one or for many.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clip cuts a long line, which the console has in full.
func clip(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// round returns a duration with the digits that a reader needs.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// shortRanges is RankRanges cut to the length of a report's line.
func shortRanges(ranks []int) string {
	const most = 100
	text := RankRanges(ranks)
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndexByte(text[:most], ',')] + ",…]"
}

// RankRanges returns sorted ranks as ranges: [0-136,138-511].
func RankRanges(ranks []int) string { return "[" + printable.Ranges(ranks) + "]" }
