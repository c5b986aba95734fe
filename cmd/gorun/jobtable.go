package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gorun/internal/printable"
	"gorun/launcher/job"
	"gorun/launcher/registry"
	"gorun/placement/draw"
)

// jobView lays out what is shown of jobs.
type jobView struct {
	width int // columns; 0: any number
	ascii bool
}

func newJobView(style draw.Style) jobView { return jobView{style.Width, style.ASCII} }

// jobs is the table of jobs.
func (v jobView) jobs(jobs []jobAnswer, short func(id string) string) []string {
	rows := [][]string{{"JOB", "STATE", "RANKS", "HOSTS", "AGE", "PROGRAM"}}
	for _, j := range jobs {
		if j.err != nil {
			rows = append(rows, []string{short(j.ID), "no answer", "", "", "", ""})
			continue
		}
		rows = append(rows, []string{
			short(j.ID), state(j.Job), jobRanks(j.Job), printable.Text(job.HostRanges(j.Hosts)),
			age(j.At.Sub(j.Began)), programOf(j.Job),
		})
	}
	return v.table(rows)
}

func state(j registry.Job) string {
	text := printable.Text(j.State)
	if j.Attempt > 0 {
		text += fmt.Sprintf(" (restart %d)", j.Attempt)
	}
	return text
}

func jobRanks(j registry.Job) string { return fmt.Sprintf("%d/%d", j.Running, j.NumRanks) }

func programOf(j registry.Job) string {
	return printable.Text(strings.Join(append([]string{j.Program}, j.Args...), " "))
}

// title is what stands above a job's ranks.
func (v jobView) title(j registry.Job, id string) string {
	return v.clip(fmt.Sprintf("job %s  %s  %s ranks  %s  pid %d  %s  %s",
		id, state(j), jobRanks(j), printable.Text(job.HostRanges(j.Hosts)), j.PID, age(j.At.Sub(j.Began)), programOf(j)))
}

// ranks is the table of a job's ranks; use is what was seen of them between two looks,
// nil: there was one; gpus what is used of GPUs.
func (v jobView) ranks(j registry.Job, use []rankUse, gpus gpuLoads) []string {
	head := []string{"RANK", "HOST", "PID", "STATE", "TIME", "MEM", "OUT", "LAST LINE"}
	if use != nil {
		head = []string{"RANK", "HOST", "STATE", "CPU%", "MEM", "OUT/S", "LAST LINE"}
	}
	if gpus != nil {
		head = slices.Insert(head, len(head)-1, "GPU%", "GPUMEM")
	}
	rows := [][]string{head}
	var behind [][]string // stands first
	for i, r := range j.Ranks {
		row := []string{
			strconv.Itoa(r.Rank), printable.Text(r.Host), strconv.Itoa(r.PID), rankState(r), cpuTime(r.CPU),
			size(r.Memory), size(r.Output), printable.Text(r.Last),
		}
		if gpus != nil {
			busy, memory := gpus.of(r)
			row = slices.Insert(row, len(row)-1, busy, memory)
		}
		if use != nil {
			row = slices.Concat([]string{row[0], row[1], row[3], use[i].percent(), row[5], use[i].rate()}, row[7:])
			if use[i].straggler { // its mark stands before its last line
				row[len(row)-1] = strings.TrimSpace(v.mark()+" "+use[i].lagText()) + "  " + row[len(row)-1]
				behind = [][]string{row}
				continue
			}
		}
		rows = append(rows, row)
	}
	lines := v.table(slices.Insert(rows, 1, behind...))
	for _, host := range j.Silent {
		lines = append(lines, v.clip("host "+printable.Text(host)+" does not say what its ranks use"))
	}
	return lines
}

func (v jobView) mark() string {
	if v.ascii {
		return "< straggler"
	}
	return "◄ straggler"
}

func rankState(r registry.Rank) string {
	if r.Code != nil {
		return "exit " + strconv.Itoa(*r.Code)
	}
	return printable.Text(cmp.Or(r.Signal, r.State))
}

// table lays out rows in columns; the last one takes what room is left.
func (v jobView) table(rows [][]string) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(aligned(rows), "\t", " ")) {
		lines = append(lines, v.clip(strings.TrimRight(line, " \n")))
	}
	return lines
}

// clip cuts a line to the width.
func (v jobView) clip(line string) string {
	if v.width <= 0 || utf8.RuneCountInString(line) <= v.width {
		return line
	}
	return string([]rune(line)[:max(v.width-1, 0)]) + map[bool]string{true: ">", false: "…"}[v.ascii]
}

// age is a time in its greatest unit or two: 14s, 14m, 2h05m, 3d4h.
func age(d time.Duration) string {
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

// cpuTime is a time as ps shows it: 0:07, 12:33, 3:04:05.
func cpuTime(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	s := int(*d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// size is a number of bytes in at most five characters: 512, 4.0K, 61G.
func size(n *int64) string {
	if n == nil {
		return "-"
	}
	value := float64(*n)
	for _, unit := range []string{"", "K", "M", "G", "T"} {
		switch {
		case value < 1024 && unit == "":
			return strconv.FormatInt(*n, 10)
		case value < 10:
			return fmt.Sprintf("%.1f%s", value, unit)
		case value < 1024 || unit == "T":
			return fmt.Sprintf("%.0f%s", value, unit)
		}
		value /= 1024
	}
	return ""
}
