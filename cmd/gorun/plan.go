package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// writePlan prints what would start, as JSON or as text: the plan, and with -v the ranks' variables. The same spec on
// the same host prints the same bytes.
func writePlan(w io.Writer, p *job.Plan, inv *dialect.Invocation) error {
	if inv.JSON {
		return show.JSON(w, "plan", planJSON{len(p.Ranks), p.Masked()})
	}
	width, mpi := show.Width(w), p.UsesMPI || inv.Spec.RequestsMPI()
	text := planText(p, mpi, width) + "\n"
	switch {
	case inv.Verbose == 0:
		text += "Add -v to see the variables of the ranks.\n"
	default:
		e := newEnvironment(p, inv.Spec.Tune)
		e.all, e.mpi, e.more = inv.Verbose > 1, mpi, "-vv"
		text += e.table(width)
	}
	_, err := io.WriteString(w, text)
	return err
}

// planText describes the ranks, their placement, their store and their command lines, wrapped to width unless that is
// 0; with mpi also how MPI programs start.
func planText(p *job.Plan, mpi bool, width int) string {
	return show.Table(jobRows(p, mpi), width) + "\n" + rankTable(p, width)
}

// planJSON is the document of --dry-run.
type planJSON struct {
	WorldSize int `json:"world_size"` // number of ranks
	*job.Plan
}

func jobRows(p *job.Plan, mpi bool) [][]string {
	port := ":" + p.Store.Port
	if p.Store.Port == job.AtStart {
		port = ", port chosen at start"
	}
	rows := append([][]string{{"ranks", p.Why}}, hostRows(p)...)
	rows = append(rows, commandRows(p)...)
	rows = append(rows, []string{"store", p.Store.Addr + port + ": " + p.Store.Why})
	if mpi || len(p.Worlds) > 1 {
		rows = append(rows, []string{"MPI", worlds(p) + ": " + cmp.Or(p.MPIWhy, "--mpi="+p.MPI.String())})
	}
	if p.Stdin != "rank 0" {
		rows = append(rows, []string{"stdin", p.Stdin})
	}
	if p.Logs != nil {
		rows = append(rows, []string{"logs", p.Logs.Dir})
	}
	ending := []string{fmt.Sprintf("ranks have %s to stop (--grace)", p.Grace)}
	if p.Timeout > 0 {
		ending = append(ending, fmt.Sprintf("the job has %s (--timeout)", p.Timeout))
	}
	if p.HangTimeout > 0 {
		ending = append(ending, fmt.Sprintf("it hangs after %s of silence (--hang-timeout)", p.HangTimeout))
	}
	if p.MaxRestarts > 0 {
		ending = append(ending, fmt.Sprintf("it restarts up to %s (--max-restarts)", show.Count(p.MaxRestarts, "time")))
	}
	if p.MinNodes > 0 {
		ending = append(ending, fmt.Sprintf("it goes on with %s or more (--min-nodes)", show.Count(p.MinNodes, "node")))
	}
	rows = append(rows, []string{"ending", strings.Join(ending, ", ")})
	if p.Offline {
		rows = append(rows, []string{"unchecked", "hosts, their CPUs, GPUs, addresses and programs (--offline)"})
	}
	return rows
}

// hostRows lists the hosts of a job on several.
func hostRows(p *job.Plan) (rows [][]string) {
	if names := p.Hosts(); len(names) > 1 {
		rows = append(rows, []string{"hosts", job.HostRanges(names)})
	}
	if len(p.Spares) > 0 {
		rows = append(rows, []string{"spares", job.HostRanges(p.Spares) + ": for lost hosts (--spares)"})
	}
	if len(p.Unused) > 0 {
		rows = append(rows, []string{"unused", job.HostRanges(p.Unused) + ": no rank is there"})
	}
	return rows
}

// commandRows lists the programs' command lines and directories, and those that some nodes start differently.
func commandRows(p *job.Plan) (rows [][]string) {
	for _, app := range p.Apps {
		rows = append(rows, commandRow(app, nil))
		if app.Dir != "" {
			rows = append(rows, []string{"directory", app.Dir})
		}
	}
	var others []job.AppRun
	hosts := make(map[string][]string) // by command line
	for _, n := range p.Nodes {
		for _, app := range n.Apps {
			line := shellwords.Join(app.Argv)
			if hosts[line] == nil {
				others = append(others, app)
			}
			hosts[line] = append(hosts[line], n.Name)
		}
	}
	for _, app := range others {
		rows = append(rows, commandRow(app, hosts[shellwords.Join(app.Argv)]))
	}
	return rows
}

// commandRow shows a command line with what it does not tell: the kind of program, and the hosts that have it so.
func commandRow(app job.AppRun, hosts []string) []string {
	var notes []string
	if app.Kind != "executable" {
		notes = append(notes, app.Kind)
	}
	if hosts != nil {
		notes = append(notes, "on "+job.HostRanges(hosts))
	}
	text := shellwords.Join(app.Argv)
	if notes != nil {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	return []string{"command", text}
}

// worlds describes the job's MPI_COMM_WORLDs and the protocol that makes them.
func worlds(p *job.Plan) string {
	by := cmp.Or(p.MPI.Only(), "PMI or PMIx")
	switch n := len(p.Worlds); n {
	case 0:
		return "none"
	case 1:
		return "one MPI_COMM_WORLD by " + by
	default:
		return fmt.Sprintf("%d MPI_COMM_WORLDs, one for each program, by %s", n, by)
	}
}

// maxUnfolded is the largest number of ranks of which each has a row.
const maxUnfolded = 16

// rankTable lists where ranks run, and why there. In large jobs, ranks that differ in nothing share a row. It leaves
// out what is the same for all ranks or is not known.
func rankTable(p *job.Plan, width int) string { return show.Table(rankRows(p), width) }

func rankRows(p *job.Plan) [][]string {
	rows := [][]string{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "MEMORY", "PLACEMENT", "PROGRAM"}}
	if len(p.Ranks) > maxUnfolded {
		for _, row := range mergeRanks(p) {
			rows = append(rows, row.cells())
		}
	} else {
		for i := range p.Ranks {
			rows = append(rows, rankRowOf(p, i).cells())
		}
	}
	const local, program = 2, 7
	first := rows[1][program]
	same := !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[program] != first })
	for _, row := range rows[1:] {
		if len(p.Nodes) == 1 {
			row[local] = ""
		}
		if same {
			row[program] = ""
		}
	}
	return show.WithoutEmpty(rows, local, program)
}

// rankRow is the row of one rank, or of successive ranks of a node that are placed alike, on one or several hosts.
type rankRow struct {
	hosts  []string
	ranks  [][]int // by host
	locals []int   // the same on each host
	shared []string
}

func rankRowOf(p *job.Plan, rank int) rankRow {
	r := &p.Ranks[rank]
	n := &p.Nodes[r.Node]
	argv := r.Argv
	if argv == nil {
		argv = p.AppsOf(r.Node)[r.App].Argv
	}
	memory := "-"
	if r.MemoryPolicy != 0 {
		memory = fmt.Sprintf("%s %s", r.MemoryPolicy, r.Memories)
	}
	return rankRow{[]string{n.Name}, [][]int{{r.Rank}}, []int{r.LocalRank}, []string{
		show.OrDash(r.GPU), show.OrDash(cmp.Or(r.CPUs.String(), n.CPUs)), memory, show.OrDash(r.Reason),
		shellwords.Join(argv),
	}}
}

func (r rankRow) cells() []string {
	hosts := r.hosts[0]
	if len(r.hosts) > 1 {
		hosts = job.HostRanges(r.hosts)
	}
	return append([]string{joinRanks(r.ranks), hosts, printable.Ranges(r.locals)}, r.shared...)
}

func mergeRanks(p *job.Plan) (rows []rankRow) {
	alike := func(a, b rankRow) bool { return slices.Equal(a.locals, b.locals) && slices.Equal(a.shared, b.shared) }
	var previous []rankRow // of the preceding hosts, which are alike
	for node := range p.Nodes {
		own := mergeNode(p, node)
		if !slices.EqualFunc(previous, own, alike) {
			rows, previous = append(rows, previous...), own
			continue
		}
		for i := range own {
			previous[i].hosts = append(previous[i].hosts, own[i].hosts...)
			previous[i].ranks = append(previous[i].ranks, own[i].ranks...)
		}
	}
	return append(rows, previous...)
}

func mergeNode(p *job.Plan, node int) (rows []rankRow) {
	for i, rank := range p.Nodes[node].Ranks {
		row := rankRowOf(p, rank)
		if i > 0 && p.Nodes[node].Ranks[i-1]+1 == rank {
			if last := &rows[len(rows)-1]; slices.Equal(last.shared, row.shared) {
				last.ranks[0], last.locals = append(last.ranks[0], rank), append(last.locals, row.locals...)
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// joinRanks formats the ranks of several hosts: "0-31" if each continues the previous one, otherwise "0,8,…,24".
func joinRanks(ranks [][]int) string {
	const maxHosts = 3
	texts := make([]string, len(ranks))
	for i, own := range ranks {
		texts[i] = printable.Ranges(own)
	}
	switch all := slices.Concat(ranks...); {
	case slices.IsSorted(all) && all[len(all)-1]-all[0] == len(all)-1:
		return printable.Ranges(all)
	case len(texts) > maxHosts:
		return texts[0] + "," + texts[1] + ",…," + texts[len(texts)-1]
	}
	return strings.Join(texts, ",")
}

// environments returns the variables that each node and each rank has for itself.
func environments(p *job.Plan) (nodes, ranks [][]plan.Variable) {
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Env)
	}
	for _, r := range p.Ranks {
		ranks = append(ranks, r.Env)
	}
	return nodes, ranks
}
