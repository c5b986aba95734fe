package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/job"
	"gorun/launcher/registry"
	"gorun/placement/draw"
)

// jobTable formats running jobs and their ranks.
type jobTable struct{ draw.Style }

// jobs has a row for each job; short abbreviates ids.
func (t jobTable) jobs(jobs []jobReply, short func(id string) string) []string {
	rows := [][]string{{"JOB", "STATE", "RANKS", "HOSTS", "AGE", "PROGRAM"}}
	for _, j := range jobs {
		if j.err != nil {
			rows = append(rows, []string{short(j.ID), "no answer", "", "", "", ""})
			continue
		}
		rows = append(rows, []string{
			short(j.ID), stateText(j.Job), rankCount(j.Job), nodesText(j.Job), ageText(j.At.Sub(j.Began)),
			commandText(j.Job),
		})
	}
	return t.lines(rows)
}

func stateText(j registry.Job) string {
	switch {
	case j.Generation > 0:
		return fmt.Sprintf("%s (restart %d, generation %d)", j.State, j.Attempt, j.Generation)
	case j.Attempt > 0:
		return fmt.Sprintf("%s (restart %d)", j.State, j.Attempt)
	}
	return j.State
}

// nodesText lists the hosts with ranks, and those that an elastic job keeps or has lost.
func nodesText(j registry.Job) string {
	text := job.HostRanges(j.Hosts)
	if len(j.Spares) > 0 {
		text += ", spare " + job.HostRanges(j.Spares)
	}
	if len(j.Lost) > 0 {
		text += ", lost " + job.HostRanges(j.Lost)
	}
	return text
}

func rankCount(j registry.Job) string { return fmt.Sprintf("%d/%d", j.Running, j.NumRanks) }

func commandText(j registry.Job) string {
	return strings.Join(append([]string{j.Program}, j.Args...), " ")
}

// title describes a job in one line.
func (t jobTable) title(j registry.Job, id string) string {
	return t.clip(printable.Text(fmt.Sprintf("job %s  %s  %s ranks  %s  pid %d  %s  %s",
		id, stateText(j), rankCount(j), nodesText(j), j.PID, ageText(j.At.Sub(j.Began)), commandText(j))))
}

// ranks has a row for each rank of a job. usage is nil after a single observation, gpus if nothing is known of them.
func (t jobTable) ranks(j registry.Job, usage []rankUsage, gpus gpuLoads) []string {
	heading := []string{"RANK", "HOST", "PID", "STATE", "TIME", "MEM", "OUT", "LAST LINE"}
	if usage != nil {
		heading = []string{"RANK", "HOST", "STATE", "CPU%", "MEM", "OUT/S", "LAST LINE"}
	}
	if gpus != nil {
		heading = slices.Insert(heading, len(heading)-1, "GPU%", "GPUMEM")
	}
	rows := [][]string{heading}
	for i, r := range j.Ranks {
		row := []string{
			strconv.Itoa(r.Rank), r.Host, strconv.Itoa(r.PID), rankState(r), cpuTimeText(r.CPU), sizeText(r.Memory),
			sizeText(r.Output),
		}
		if usage != nil {
			row = []string{row[0], row[1], row[3], usage[i].cpuText(), row[5], usage[i].outputText()}
		}
		if gpus != nil {
			busy, memory := gpus.cells(r)
			row = append(row, busy, memory)
		}
		if usage == nil || !usage[i].straggler {
			rows = append(rows, append(row, r.Last))
			continue
		}
		mark := "◄ straggler"
		if t.ASCII {
			mark = "< straggler"
		}
		rows = slices.Insert(rows, 1, append(row, show.Join(" ", mark, usage[i].lagText())+"  "+r.Last))
	}
	lines := t.lines(rows)
	for _, host := range j.Silent {
		lines = append(lines, t.clip("host "+printable.Text(host)+" does not say what its ranks use"))
	}
	return lines
}

func rankState(r registry.Rank) string {
	if r.Code != nil {
		return "exit " + strconv.Itoa(*r.Code)
	}
	return cmp.Or(r.Signal, r.State)
}

func (t jobTable) lines(rows [][]string) (lines []string) {
	for line := range strings.Lines(show.Table(rows, 0)) {
		lines = append(lines, t.clip(strings.TrimSuffix(line, "\n")))
	}
	return lines
}

func (t jobTable) clip(line string) string {
	if t.Width <= 0 {
		return line
	}
	return show.Clip(line, t.Width, map[bool]string{true: ">", false: "…"}[t.ASCII])
}

// ageText formats a duration in its one or two largest units: 14s, 14m, 2h05m, 3d4h.
func ageText(d time.Duration) string {
	switch s := int(max(d, 0) / time.Second); {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
	}
}

// cpuTimeText formats seconds as ps does: 0:07, 12:33, 3:04:05.
func cpuTimeText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	s := int(*seconds)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// sizeText formats a number of bytes in at most five characters: 512, 4.0K, 61G.
func sizeText(n *int64) string {
	if n == nil {
		return "-"
	}
	if *n < 1024 {
		return strconv.FormatInt(*n, 10)
	}
	value, unit := float64(*n)/1024, 0
	for ; value >= 1024 && unit < 3; unit++ {
		value /= 1024
	}
	if value < 10 {
		return fmt.Sprintf("%.1f%c", value, "KMGT"[unit])
	}
	return fmt.Sprintf("%.0f%c", value, "KMGT"[unit])
}
