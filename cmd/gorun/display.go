package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// showPlanned shows what was asked for of the plan of a job, on standard error before its first rank is started.
func showPlanned(inv dialect.Invocation, p *job.Plan) {
	if !inv.Quiet {
		writeDisplay(os.Stderr, inv.Display, &inv.Spec, p)
	}
	if inv.DryRun {
		return
	}
	tellWritten("--report-uri", writeWhere(inv.Display.URI, p.JobID+".0;tcp://"+p.Store.Own+"\n"))
}

// writeWhere writes to standard output ("-"), standard error ("+") or a file; "" is nowhere.
func writeWhere(where, text string) (err error) {
	switch where {
	case "":
	case "-":
		_, err = os.Stdout.WriteString(text)
	case "+":
		_, err = os.Stderr.WriteString(text)
	default:
		err = os.WriteFile(where, []byte(text), 0o666) // #nosec G306 -- what the umask leaves is the user's choice
	}
	return err
}

func tellWritten(option string, err error) {
	if err != nil {
		say(os.Stderr, option+": "+err.Error())
	}
}

// processTable is a line for each rank, as Open MPI writes it.
func processTable(p *job.Plan, pids []int) string {
	var b strings.Builder
	for i, r := range p.Ranks {
		fmt.Fprintf(&b, "(rank, host, exe, pid) = (%d, %s, %s, %d)\n",
			r.Rank, printable.Text(p.Nodes[r.Node].Name), printable.Text(p.AppsOf(r.Node)[r.App].Path), pids[i])
	}
	return b.String()
}

// exitCodes are how the ranks of each host ended, as Hydra writes it: the status that wait gives.
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
	b := strings.Builder{}
	fmt.Fprintf(&b, "[mpiexec@%s] Exit codes: ", host)
	for _, n := range p.Nodes {
		list := make([]int, len(n.Ranks))
		for i, rank := range n.Ranks {
			list[i] = status[rank]
		}
		fmt.Fprintf(&b, "[%s] %s\n", printable.Text(n.Name), numberList(list))
	}
	return b.String()
}

// writeDisplay writes where ranks are, as tables or in Intel's form.
func writeDisplay(w io.Writer, d dialect.Display, spec *job.Spec, p *job.Plan) {
	t := planTable{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if d.Hosts {
		t.hosts(spec.Hosts, p)
	}
	if d.Map {
		t.ranks(p)
	}
	_ = t.Flush() // nowhere to complain
	if d.RankMap {
		for _, n := range p.Nodes {
			fmt.Fprintf(w, "(%s:%s)\n", printable.Text(n.Name), numberList(n.Ranks))
		}
	}
}

// hosts has a line for each host: how many ranks it is meant for, as far as somebody said so, and which it has.
func (t planTable) hosts(given []hosts.Host, p *job.Plan) {
	t.row("HOST", "SLOTS", "RANKS", "CPUS")
	for _, n := range p.Nodes {
		slots := "-"
		if n.Fact < len(given) && given[n.Fact].Slots > 0 {
			slots = strconv.Itoa(given[n.Fact].Slots)
		}
		t.row(n.Name, slots, job.RankRanges(n.Ranks), orDash(n.CPUs))
	}
	for _, name := range p.Unused {
		t.row(name, "-", "-", "-")
	}
	t.row("")
}

// numberList writes numbers with commas between them.
func numberList(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
