package job

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/spec"
)

// OnHang says what happens when a job hangs.
type OnHang uint8

const (
	// HangStop ends the job with exit code ExitTimeout.
	HangStop OnHang = iota
	// HangReport reports it and lets the job go on.
	HangReport
)

// Hang describes a job that has made no progress: no rank printed and nothing changed in the store for Quiet.
type Hang struct {
	Quiet Seconds         `json:"quiet_seconds"`   // time without output and progress
	At    time.Time       `json:"at"`              // when gorun noticed
	Ranks []spec.Activity `json:"ranks,omitempty"` // what each rank did then
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
	groups := h.groups()
	for _, g := range groups[:min(len(groups), most)] {
		lines = append(lines, g.lines()...)
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

// DescribeActivity describes what ranks do, as Hang.Lines but all of it.
func DescribeActivity(ranks []spec.Activity) (lines []string) {
	for _, g := range (&Hang{Ranks: ranks}).groups() {
		lines = append(lines, strings.TrimPrefix(g.lines()[0], "  "))
		for _, f := range g.Stack {
			lines = append(lines, "         │ "+f)
		}
	}
	return lines
}

// StackHint says how to get the frames of Python programs that have none; "" if there is no such rank. dumped reports
// that ranks were asked for them by a signal, too.
func (p *Plan) StackHint(ranks []spec.Activity, dumped bool) string {
	for _, a := range ranks {
		r := &p.Ranks[a.Rank]
		program := path.Base(p.AppsOf(r.Node)[r.App].Path)
		switch {
		case !strings.HasPrefix(program, "python"), len(a.Stack) > 0 && !strings.HasSuffix(a.Stack[0], "(kernel)"):
		case dumped:
			return "run `pip install py-spy`, or add `-x PYTHONFAULTHANDLER=1`, to see Python's frames"
		default:
			return "run `pip install py-spy` to see Python's frames"
		}
	}
	return ""
}

// hangGroup are ranks that do the same.
type hangGroup struct {
	spec.Activity
	ranks []int
}

func (h *Hang) groups() (groups []*hangGroup) {
	known := map[string]*hangGroup{}
	for _, r := range h.Ranks {
		key := activityKey(&r)
		g := known[key]
		if g == nil {
			g = &hangGroup{Activity: r}
			known[key] = g
			groups = append(groups, g)
		}
		g.ranks = append(g.ranks, r.Rank)
	}
	slices.SortStableFunc(groups, func(a, b *hangGroup) int { return cmp.Compare(len(a.ranks), len(b.ranks)) })
	return groups
}

// activityKey is equal for ranks that do the same. For ranks with a stack it makes no difference whether they slept in
// the kernel at that moment, and where.
func activityKey(r *spec.Activity) string {
	state, wait := r.State, r.Wait
	if len(r.Stack) > 0 {
		wait = ""
		if state == "sleeping" {
			state = "running"
		}
	}
	return fmt.Sprintf("%q", []string{
		state, wait, fmt.Sprint(r.CPU > busyCPU), strings.Join(r.Keys, "\n"),
		waitText(r.MPI), strings.Join(r.Stack, "\n"),
	})
}

// busyCPU is the use of a CPU, in percent, above which a rank computes.
const busyCPU = 20

func (g *hangGroup) lines() []string {
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
	for _, f := range g.Stack[:min(len(g.Stack), hangFrames)] {
		lines = append(lines, "           │ "+clip(f, 120))
	}
	return lines
}
