package job

import (
	"cmp"
	"fmt"
	"slices"
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
// Below the output of ranks it does not repeat what the failed rank had printed there, unless that may be mixed with
// what others printed, without labels. Every text of the result must be free of control bytes.
func (r *Result) Report(name SignalNamer, below bool) string {
	b := reportBuilder{below: below}
	switch {
	case r.Requeued != "" && r.First == nil:
		return fmt.Sprintf("gorun: preempted after %s, while no ranks ran: %s\n", round(r.After), r.Requeued)
	case r.Requeued != "":
		return fmt.Sprintf("gorun: checkpointed with exit code %d after %s: %s\n", r.ExitCode, round(r.After), r.Requeued)
	}
	switch r.Cause {
	case CauseRank:
		b.rankFailed(r, name)
	case CauseDone:
		if r.First != nil {
			b.headline(r.enough())
		}
	case CauseNode, CauseJoined, CauseStuck:
		b.headline(r.Text)
		if r.First == nil {
			b.others(r, nil)
		}
	case CauseStart, CauseEarly, CauseEngine:
		b.headline(r.Text)
	case CauseHang:
		b.hung(r)
	case CauseTimeout:
		b.headline(fmt.Sprintf("timed out after %s (--timeout)", round(r.After)))
		if r.First == nil {
			b.nccl(r.ncclWarnings())
			b.ended(r)
		}
	case CauseSignal:
		n, _ := name(r.Signal)
		text := fmt.Sprintf("stopped by %s after %s", n, round(r.After))
		if r.Text != "" {
			text += ", " + r.Text
		}
		b.headline(text)
	case CausePreempted:
		n, _ := name(r.Signal)
		b.headline(fmt.Sprintf("preempted after %s: %s (--preempt-signal)", round(r.After), n))
		if r.First == nil {
			b.others(r, nil)
		}
	}
	switch r.Cause {
	case CausePreempted, CauseTimeout, CauseSignal, CauseEarly, CauseNode, CauseEngine:
		b.rankFailed(r, name) // with --on-failure continue, before the cause
	}
	b.killed(r)
	b.attempts(r)
	if b.Len() > 0 && r.Goodput != nil {
		b.row("goodput", r.Goodput.String())
	}
	b.end(r)
	b.chaos(r.Chaos)
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

// summary describes a failure: "rank 1 (node2) failed after 14s: exit code 3".
func (e RankEnd) summary(how string, after Seconds) string {
	return fmt.Sprintf("%s failed after %s: %s", e.name(), round(after), how)
}

// name returns the rank, with its host if there are several.
func (e RankEnd) name() string {
	if e.Host == "" {
		return fmt.Sprintf("rank %d", e.Rank)
	}
	return fmt.Sprintf("rank %d (%s)", e.Rank, e.Host)
}

// reportBuilder collects the lines of a report.
type reportBuilder struct {
	strings.Builder
	below bool
}

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

// quote has the last lines of a rank, each after mark.
func (b *reportBuilder) quote(name, mark string, lines []string, most int) {
	for _, l := range lines[max(0, len(lines)-most):] {
		b.row(name, mark+clip(l, 160))
		name = ""
	}
}

func (b *reportBuilder) rankFailed(r *Result, name SignalNamer) {
	f := r.First
	if f == nil {
		return
	}
	alike := r.failedAlike(name)
	text := r.failureHeadline(len(alike)+1, how(f.RankEnd, name))
	if n := len(r.Attempts); n > 0 {
		text = fmt.Sprintf("attempt %d: %s", n, text)
	}
	b.headline(text)
	if r.Cause == CauseRank {
		b.why(r)
	}
	warnings := r.ncclWarnings()
	b.output(r, len(warnings))
	b.nccl(warnings)
	if f.Log != "" {
		b.row("log", f.Log)
	}
	b.others(r, alike)
	if f.Hint != "" {
		b.row("hint", f.Hint)
	}
}

// failureHeadline names the rank that failed first, or all of them if all failed in the same way.
func (r *Result) failureHeadline(alike int, how string) string {
	f, after := r.First, round(cmp.Or(r.First.After, r.After))
	where := fmt.Sprintf("pid %d, after %s", f.PID, after)
	switch {
	case len(r.Ranks) <= 1:
		return fmt.Sprintf("the program failed: %s (%s)", how, where)
	case alike == len(r.Ranks) && f.mpiHow() == "":
		how = strings.NewReplacer("exit code", "exited", "killed", "were killed").Replace(how)
		return fmt.Sprintf("all %d ranks %s (rank %d first) after %s", alike, how, f.Rank, after)
	case f.Host != "":
		where = f.Host + ", " + where
	}
	if len(f.EndedFirst) > 0 {
		return fmt.Sprintf("%s ended first, with exit code 0, while the others still ran; then rank %d lost a connection: "+
			"%s (%s)", rankNames(f.EndedFirst), f.Rank, how, where)
	}
	return fmt.Sprintf("rank %d failed first: %s (%s)", f.Rank, how, where)
}

func (f *Failure) earlyHint() string {
	if len(f.EndedFirst) == 0 {
		return ""
	}
	return fmt.Sprintf("check why %s ended before the others: each rank must take part in every collective",
		rankNames(f.EndedFirst))
}

// failedAlike returns the other ranks that failed as the first one did. A rank that exited with the same code after it
// was sent a signal belongs to them: the signal would have killed it.
func (r *Result) failedAlike(name SignalNamer) (ranks []int) {
	first := how(r.First.RankEnd, name)
	for _, e := range r.Ranks {
		if r.failedToo(e) && how(e, name) == first {
			ranks = append(ranks, e.Rank)
		}
	}
	return ranks
}

// output quotes what the rank that failed first said last, with less room if there are warnings of NCCL.
func (b *reportBuilder) output(r *Result, warnings int) {
	f, mark, most := r.First, cmp.Or(r.First.Label, "│ "), reportLast
	if len(f.Traceback) > 0 || len(r.Attempts) > 0 || r.Cause != CauseRank { // there is no room for all
		most -= warnings
	}
	switch last := f.LastLines; {
	case !b.below || !f.Shown || f.Label != "" && (len(f.Traceback) == 0 || slices.ContainsFunc(r.Ranks, r.failedToo)):
		b.quote("error", mark, f.Traceback, reportTraceback)
		b.quote("last", mark, last, most)
	case len(r.Ranks) <= 1: // it is right above
	case len(f.Traceback) > 0:
		b.row("error", f.Label+clip(strings.TrimSpace(f.Traceback[len(f.Traceback)-1]), 160)+" (see above)")
	default:
		b.quote("last", "", last, 1)
	}
}

// failedToo reports whether a rank is not the one that failed first, but may have printed an error as well.
func (r *Result) failedToo(e RankEnd) bool {
	return e.Rank != r.First.Rank && (e.Fate == FateFailed || e.Fate == FateFollowed)
}

func how(e RankEnd, name SignalNamer) string {
	if text := e.mpiHow(); text != "" {
		return text
	}
	timer := ""
	if e.Timer != "" {
		timer = fmt.Sprintf(" when its timer %q expired", e.Timer)
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
		return "raised an error and hung until gorun sent " + n
	case e.OOM != "":
		text = "killed by the kernel, out of memory"
	case e.FromEngine != "":
		text += ", which " + e.FromEngine + " sent to all ranks"
	case e.Forwarded:
		text += ", which gorun forwarded to all ranks"
	case e.Signal == syscall.SIGKILL || Ends(e.Signal): // a program hardly sends these to itself
		text += " from outside gorun"
	case meaning != "":
		text += ", " + meaning
	}
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// others lists the other ranks, a line for each fate and one for those that failed as the first one did.
func (b *reportBuilder) others(r *Result, alike []int) {
	label, named := "ranks", alike
	if r.First != nil {
		label, named = "others", slices.Concat(alike, r.First.EndedFirst, []int{r.First.Rank})
	}
	line := func(ranks []int, text string) {
		if len(ranks) > 0 {
			b.row(label, fmt.Sprintf("%s %s: %s", plural(len(ranks), "rank"), text, shortRanges(ranks)))
			label = ""
		}
	}
	if len(alike)+1 < len(r.Ranks) {
		line(alike, "failed in the same way")
	}
	for fate := FateSucceeded; fate <= FateUnknown; fate++ {
		var ranks []int
		for _, e := range r.Ranks {
			if e.Fate == fate && !slices.Contains(named, e.Rank) {
				ranks = append(ranks, e.Rank)
			}
		}
		text := fateText[fate]
		switch {
		case fate == FateUnknown:
			text += r.lostHosts()
		case fate == FateFollowed && len(ranks) == 1:
			text = "failed after gorun stopped it"
		}
		line(ranks, text)
	}
}

// ended lists all ranks if some had ended with 0 while others waited, perhaps for them.
func (b *reportBuilder) ended(r *Result) {
	if slices.ContainsFunc(r.Ranks, func(e RankEnd) bool { return e.Fate == FateSucceeded }) {
		b.others(r, nil)
	}
}

// lostHosts names the hosts of ranks with an unknown fate.
func (r *Result) lostHosts() string {
	if hosts := r.unknownHosts(); hosts != nil {
		return " with " + HostRanges(hosts)
	}
	return ""
}

// unknownHosts returns the hosts whose ranks all have an unknown fate.
func (r *Result) unknownHosts() (hosts []string) {
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
	return hosts
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
		b.row("killed", fmt.Sprintf("%s by SIGKILL, still running after --grace: %s", plural(len(ranks), "rank"),
			shortRanges(ranks)))
	}
}

var fateText = [...]string{
	FateSucceeded: "succeeded", FateFailed: "failed, too", FateStopped: "stopped by gorun",
	FateFollowed: "failed after gorun stopped them", FateNotStarted: "not started", FateUnknown: "lost",
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
		b.row("before", fmt.Sprintf("%s; the last %d:", plural(len(list), "attempt"), most))
		list = list[len(list)-most:]
	}
	for _, a := range list {
		if a.Text != "" || a.First != nil {
			b.row("before", fmt.Sprintf("attempt %d: %s", a.Attempt, a.Summary()))
		}
	}
}

func (b *reportBuilder) hung(r *Result) {
	if r.Hang == nil {
		return
	}
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
	if r.Cause != CauseRank && b.Len() > 0 {
		b.why(r)
	}
	if r.Hint != "" {
		b.row("hint", r.Hint)
	}
	if r.GaveUp != "" {
		b.headline(r.GaveUp)
	}
	if r.OutputLost != "" {
		b.headline("output was lost: " + r.OutputLost)
	}
	for _, l := range r.Orphans[:min(len(r.Orphans), reportOrphans)] {
		b.headline("still alive after SIGKILL: " + clip(l, 160))
	}
	if b.Len() > 0 && !r.exitNamed() {
		fmt.Fprintf(b, "exit %d\n", r.ExitCode)
	}
}

// exitNamed reports whether the headline has the exit code.
func (r *Result) exitNamed() bool {
	return r.Cause == CauseRank && r.First != nil && r.First.mpiHow() == "" && r.First.Signal == 0 &&
		r.First.Code == r.ExitCode
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

// round formats a duration with the digits that a reader needs.
func round(s Seconds) string {
	d := time.Duration(s)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return strings.ReplaceAll(d.Round(time.Second).String(), "m0s", "m")
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

func rankNames(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return "ranks " + shortRanges(ranks)
}

// RankRanges returns sorted ranks as ranges: [0-136,138-511].
func RankRanges(ranks []int) string { return "[" + printable.Ranges(ranks) + "]" }
