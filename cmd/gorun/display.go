package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// displayPlan prints what options of mpirun and mpiexec ask for about a plan, before the first rank starts.
func displayPlan(inv dialect.Invocation, p *job.Plan) {
	if !inv.Quiet {
		writeDisplay(os.Stderr, inv.Display, &inv.Spec, p)
	}
	if !inv.DryRun {
		notifyError("--report-uri", writeTo(inv.Display.URI, p.JobID+".0;tcp://"+p.Store.Own+"\n"))
	}
}

// writeDisplay prints where ranks are, as tables or in Intel MPI's format.
func writeDisplay(w io.Writer, d dialect.Display, spec *job.Spec, p *job.Plan) {
	if d.Hosts {
		_, _ = fmt.Fprintln(w, hostSlots(spec.Hosts, p))
	}
	if d.Map {
		_, _ = fmt.Fprintln(w, rankTable(p, show.Width(w)))
	}
	if d.RankMap {
		for _, n := range p.Nodes {
			_, _ = fmt.Fprintf(w, "(%s:%s)\n", printable.Text(n.Name), joinNumbers(n.Ranks))
		}
	}
}

// hostSlots lists the hosts with their slots, as far as they were given, and ranks.
func hostSlots(given []hosts.Host, p *job.Plan) string {
	rows := [][]string{{"HOST", "SLOTS", "RANKS", "CPUS"}}
	for _, n := range p.Nodes {
		slots := "-"
		if n.Fact < len(given) && given[n.Fact].Slots > 0 {
			slots = strconv.Itoa(given[n.Fact].Slots)
		}
		rows = append(rows, []string{n.Name, slots, job.RankRanges(n.Ranks), show.OrDash(n.CPUs)})
	}
	for _, name := range p.Unused {
		rows = append(rows, []string{name, "-", "-", "-"})
	}
	return show.Table(rows, 0)
}

// processTable has a line for each rank, in Open MPI's format.
func processTable(p *job.Plan, pids []int) string {
	var b strings.Builder
	for i, r := range p.Ranks {
		fmt.Fprintf(&b, "(rank, host, exe, pid) = (%d, %s, %s, %d)\n",
			r.Rank, printable.Text(p.Nodes[r.Node].Name), printable.Text(p.AppsOf(r.Node)[r.App].Path), pids[i])
	}
	return b.String()
}

// exitCodes lists the wait statuses of each host's ranks, in Hydra's format.
func exitCodes(p *job.Plan, ends []job.RankEnd) string {
	status := make(map[int]int, len(ends))
	for _, e := range ends {
		if status[e.Rank] = e.Code << 8; e.Signal != 0 {
			status[e.Rank] = int(e.Signal)
		}
		if e.Core {
			status[e.Rank] |= 0x80
		}
	}
	host, _ := os.Hostname()
	var b strings.Builder
	fmt.Fprintf(&b, "[mpiexec@%s] Exit codes: ", host)
	for _, n := range p.Nodes {
		list := make([]int, len(n.Ranks))
		for i, rank := range n.Ranks {
			list[i] = status[rank]
		}
		fmt.Fprintf(&b, "[%s] %s\n", printable.Text(n.Name), joinNumbers(list))
	}
	return b.String()
}

func joinNumbers(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
