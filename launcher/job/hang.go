package job

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/internal/spec"
)

// OnHang says what happens when a job hangs.
type OnHang uint8

const (
	// HangStop ends the job with exit code ExitTimeout.
	HangStop OnHang = iota
	// HangReport reports it and lets the job go on.
	HangReport
	// HangStopBusy is HangStop also for a job whose ranks work and print nothing.
	HangStopBusy
)

// Hang describes a job that has made no progress.
type Hang struct {
	spec.Hang
	// NCCL has the findings from NCCL's RAS servers in the ranks, if they answered.
	NCCL []string `json:"nccl,omitempty"`
	// Hint says how to see more.
	Hint string `json:"-"`
}

// waitText describes a wait: "waits in MPI_Init for rank 1".
func waitText(w *spec.MPIWait) string {
	switch {
	case w == nil:
		return ""
	case w.Spawns:
		return "waits in MPI_Comm_spawn for its new ranks"
	case len(w.For) == 0:
		return "waits in MPI for ranks on other nodes"
	}
	where := "MPI"
	if w.Init {
		where = "MPI_Init"
	}
	return "waits in " + where + " for " + rankNames(w.For)
}

// Limits of the description of a hang.
const (
	hangGroups  = 4
	hangFrames  = 3
	hangNCCL    = 4
	longestNCCL = 180 // characters
)

// Lines describes in at most 20 lines what ranks do. Ranks that do the same are one group, and the smallest groups
// come first. The texts must be free of control bytes.
func (h *Hang) Lines() []string { return h.lines(hangGroups) }

// lines has at most that many groups, and fewer if there are findings of NCCL.
func (h *Hang) lines(most int) []string {
	lines := []string{fmt.Sprintf("hang: no output and no rendezvous progress for %s (--hang-timeout)", round(h.Quiet))}
	nccl := h.NCCL[:min(len(h.NCCL), hangNCCL)]
	most -= (len(nccl) + hangFrames) / (1 + hangFrames) // a group has as many lines at most
	groups := groupRanks(h.Ranks)
	if text := verdict(groups); text != "" {
		lines = append(lines, "  verdict  "+text)
	}
	for _, g := range groups[:min(len(groups), most)] {
		lines = append(lines, g.lines(hangFrames)...)
	}
	if rest := len(groups) - most; rest > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more (--report has all)", plural(rest, "group")))
	}
	for _, line := range nccl {
		lines = append(lines, "  NCCL: "+clip(line, longestNCCL))
	}
	if h.Hint != "" {
		lines = append(lines, "  hint     "+h.Hint)
	}
	return lines
}

// Verdict names the ranks that differ from the others, and what they do; "" if that says nothing.
func Verdict(ranks []spec.Activity) string { return verdict(groupRanks(ranks)) }

// DescribeActivity describes what ranks do, as Hang.Lines but all of it.
func DescribeActivity(ranks []spec.Activity) (lines []string) {
	groups := groupRanks(ranks)
	if text := verdict(groups); text != "" {
		lines = []string{"verdict  " + text}
	}
	for _, g := range groups {
		for _, line := range g.lines(len(g.Stack)) {
			lines = append(lines, strings.TrimPrefix(line, "  "))
		}
	}
	return lines
}

// kernelFrame ends each line of a stack in the kernel.
const kernelFrame = " (kernel)"

// inKernel reports whether nothing better than its stack in the kernel is known of a rank.
func inKernel(stack []string) bool { return len(stack) > 0 && strings.HasSuffix(stack[0], kernelFrame) }

// StackHint says how to see more frames of a rank; "" if there is no such rank, or no way.
func StackHint(ranks []spec.Activity) string {
	for _, a := range ranks {
		if a.Obstacle != "" {
			return a.Obstacle
		}
	}
	return ""
}

// hangGroup are ranks that do the same.
type hangGroup struct {
	spec.Activity
	ranks []int
	situation
}

// situation is what ranks do, in words that are equal for ranks in the same situation.
type situation struct {
	doing      string // "in data.py:41 (next)", "waiting in all_reduce (train.py:6)"
	collective string // the end of doing, if it is a collective operation: "all_reduce (train.py:6)"
	waits      bool   // others may be what it waits for
}

func groupRanks(ranks []spec.Activity) (groups []*hangGroup) {
	known := map[string]*hangGroup{}
	for _, r := range ranks {
		if len(r.Keys) > 0 && len(r.Stack) > 0 && strings.HasPrefix(r.Stack[0], "Work.wait (") {
			r.Stack = r.Stack[1:] // the store's wait looks like that
		}
		r.Stack = withoutEventLoop(r.Stack)
		key := activityKey(&r)
		g := known[key]
		if g == nil {
			g = &hangGroup{Activity: r}
			known[key] = g
			groups = append(groups, g)
		}
		g.ranks = append(g.ranks, r.Rank)
	}
	for _, g := range groups {
		g.situation = g.summary()
	}
	slices.SortStableFunc(groups, compareOddity)
	return groups
}

// compareOddity puts the smallest group first, and of two a group that does not wait.
func compareOddity(a, b *hangGroup) int {
	switch {
	case len(a.ranks) != len(b.ranks) || a.waits == b.waits:
		return len(a.ranks) - len(b.ranks)
	case a.waits:
		return 1
	}
	return -1
}

// verdict names the ranks that differ from the others: "rank 1 never reached all_reduce (train.py:6); it is in
// data.py:41 (next)". It is "" unless they may keep the others waiting or wait for them in a collective, or all wait in
// the same one.
func verdict(groups []*hangGroup) string {
	var kinds []*hangGroup
	for _, g := range groups {
		i := slices.IndexFunc(kinds, func(k *hangGroup) bool { return k.doing == g.doing })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, &hangGroup{situation: g.situation})
		}
		kinds[i].ranks = append(kinds[i].ranks, g.ranks...)
	}
	for _, k := range kinds {
		slices.Sort(k.ranks)
	}
	slices.SortStableFunc(kinds, compareOddity)
	if len(kinds) < 2 {
		if len(kinds) == 0 || kinds[0].collective == "" || len(kinds[0].ranks) < 2 {
			return ""
		}
		why := "its sizes or types may differ, or a connection is broken"
		if strings.Contains(strings.ToLower(kinds[0].collective), "recv (") {
			why = "each may wait for another to send"
		}
		return fmt.Sprintf("all %d ranks: %s; %s", len(kinds[0].ranks), kinds[0].doing, why)
	}
	odd, most := kinds[:len(kinds)-1], kinds[len(kinds)-1]
	switch {
	case most.collective != "" && !slices.ContainsFunc(odd, func(k *hangGroup) bool { return k.waits }):
		return absentRanks(odd, len(most.ranks), most.collective)
	case len(odd) > 1, odd[0].waits && !most.waits && odd[0].collective == "",
		len(odd[0].ranks) == len(most.ranks) && odd[0].waits == most.waits:
		return ""
	}
	others := rankNames(most.ranks)
	if n := len(most.ranks); n > 1 {
		others = fmt.Sprintf("the other %d ranks", n)
	}
	return fmt.Sprintf("%s: %s; %s: %s", rankNames(odd[0].ranks), odd[0].doing, others, most.doing)
}

// absentRanks names ranks that a collective operation lacks, if fewer than those that wait in it.
func absentRanks(odd []*hangGroup, waiting int, collective string) string {
	var all []int
	for _, k := range odd {
		all = append(all, k.ranks...)
	}
	slices.Sort(all)
	if len(all) > waiting {
		return ""
	}
	var parts []string
	for _, k := range odd[:min(len(odd), hangGroups)] {
		subject, verb, ended := rankNames(k.ranks), " is ", " has "
		if len(odd) == 1 {
			subject = "it"
		}
		if len(k.ranks) > 1 {
			subject, verb, ended = strings.Replace(subject, "it", "they", 1), " are ", " have "
		}
		if strings.HasPrefix(k.doing, "ended") {
			verb = ended
		}
		parts = append(parts, subject+verb+k.doing)
	}
	return rankNames(all) + " never reached " + collective + "; " + strings.Join(parts, ", ")
}

// summary says what a group does.
func (g *hangGroup) summary() situation {
	if !inKernel(g.Stack) {
		if function, place := collectiveCall(g.Stack); function != "" {
			call := clip(function, longestKey) + " (" + clip(place, longestKey) + ")"
			return situation{"waiting in " + call, call, true}
		}
	}
	switch {
	case len(g.Keys) > 0:
		return situation{doing: "waiting in the store", waits: true}
	case len(g.Stack) > 1 && g.Stack[0] == eventLoop:
		_, place := cutFrame(g.Stack[1])
		return situation{doing: "waiting in asyncio's event loop (" + clip(place, longestKey) + ")", waits: true}
	case g.MPI != nil:
		return situation{doing: strings.Replace(waitText(g.MPI), "waits", "waiting", 1), waits: true}
	case len(g.Stack) > 0 && !inKernel(g.Stack):
		function, place := cutFrame(g.Stack[max(ownFrame(g.Stack), 0)])
		if place != "" {
			function = place + " (" + function + ")"
		}
		return situation{doing: "in " + clip(function, longestKey)}
	case g.Computes():
		return situation{doing: "busy on a CPU"}
	case strings.Contains(g.Wait, "nanosleep"):
		return situation{doing: "sleeping for a set time"}
	}
	for _, part := range []string{"futex", "poll", "select", "sk_wait", "wait_woken", "unix_stream"} {
		if strings.Contains(g.Wait, part) {
			return situation{doing: "waiting for a thread or connection", waits: true}
		}
	}
	return situation{doing: strings.TrimSuffix(g.State+" in "+clip(g.Wait, longestKey), " in ")}
}

// eventLoop replaces the frames of asyncio's event loop. What its tasks wait for is in none of them.
const eventLoop = "asyncio's event loop, whose tasks are not shown"

// withoutEventLoop returns the frame of the user's own that entered the event loop, and its callers, if no task runs.
func withoutEventLoop(stack []string) []string {
	loop := slices.IndexFunc(stack[:min(len(stack), 2)], func(frame string) bool {
		return strings.HasPrefix(frame, "_run_once (python3.")
	})
	own := ownFrame(stack)
	if loop < 0 || own < loop || loop == 1 && !strings.HasPrefix(stack[0], "select (python3.") {
		return stack
	}
	return append([]string{eventLoop}, stack[own:]...)
}

// ownFrame returns the index of the innermost frame that belongs neither to Python nor to a library, -1 for none. Their
// places have directories, or are frozen modules or libc.so.6.
func ownFrame(stack []string) int {
	return slices.IndexFunc(stack, func(frame string) bool {
		_, place := cutFrame(frame)
		return place != "" && !strings.Contains(place, "/") && !strings.Contains(place, ".so") &&
			!strings.HasPrefix(place, "<frozen ")
	})
}

// cutFrame splits "step (train.py:6) [running]" into a function and its place.
func cutFrame(frame string) (function, place string) {
	frame = strings.TrimPrefix(frame, "in another thread: ")
	at := strings.LastIndex(frame, " (")
	if at < 0 {
		return frame, ""
	}
	place, _, _ = strings.Cut(frame[at+2:], ")")
	return frame[:at], place
}

// activityKey is equal for ranks that do the same. For ranks with a stack it makes no difference whether they slept in
// the kernel at that moment, and where.
func activityKey(r *spec.Activity) string {
	state, wait, stack := r.State, r.Wait, r.Stack
	if inKernel(stack) {
		stack = nil
	}
	if len(stack) > 0 {
		wait = ""
		if state == "sleeping" {
			state = "running"
		}
	}
	return fmt.Sprintf("%q", []string{
		state, wait, fmt.Sprint(r.Computes()), strings.Join(r.Keys, "\n"),
		waitText(r.MPI), strings.Join(stack, "\n"),
	})
}

// lines has at most that many frames, the program's own among them, or those of the kernel in one line.
func (g *hangGroup) lines(most int) []string {
	text := fmt.Sprintf("  %-8s %s", clip(RankRanges(g.ranks), longestKey), g.State)
	if g.Wait != "" {
		text += " in " + clip(g.Wait, longestKey)
	}
	if g.CPU >= 0 {
		text += fmt.Sprintf(", %d %% CPU", g.CPU)
	}
	if len(g.Keys) > 0 {
		text += fmt.Sprintf(", waits in the store for %q", clip(g.Keys[0], longestKey))
	}
	if g.MPI != nil {
		text += ", " + waitText(g.MPI)
	}
	if g.LastLine != "" {
		text += "; last line: " + clip(strings.TrimSpace(g.LastLine), longestKey)
	}
	lines := []string{text}
	stack := slices.DeleteFunc(slices.Clone(g.Stack), func(frame string) bool { // around each collective of PyTorch
		return strings.HasPrefix(frame, "wrapper (torch/distributed/")
	})
	if inKernel(stack) {
		stack = []string{strings.ReplaceAll(strings.Join(stack, " < "), kernelFrame, "") + kernelFrame}
	}
	shown := slices.Clone(stack[:min(len(stack), most)])
	if own := ownFrame(stack); own >= most {
		shown[most-1] = "… " + stack[own]
	}
	for _, f := range shown {
		lines = append(lines, "           │ "+clip(f, 120))
	}
	return lines
}
