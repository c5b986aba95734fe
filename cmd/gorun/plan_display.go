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
		t.row(n.Name, slots, job.Fold(n.Ranks), orDash(n.CPUs))
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
