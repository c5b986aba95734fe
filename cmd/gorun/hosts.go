package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher"
	"gorun/launcher/doctor"
)

// hostsOptions are those of gorun hosts check: which hosts, how they are reached, and a program, or none (Spec).
type hostsOptions struct {
	*call
	isCheck bool // it is the one thing that can be done with hosts
}

func hostsCommand(c *call) *command {
	o := &hostsOptions{call: c}
	flags := c.Flags(append(append(c.JobOptions("host", "hostfile"), c.ReachOptions()...),
		append(own(dialect.GroupLook, c.jsonOption("print everything as JSON in place of the tables")), &option{
			Names: []string{"quiet", "q"}, Group: dialect.GroupLook, Set: dialect.Switch(&c.Quiet),
			Help: "print problems alone, and nothing where nothing is wrong",
		})...)...)
	return &command{
		request: o,
		arrange: o.behindCheck,
		Command: cli.Command{
			Usage: "hosts check: look at hosts as a job on them would find them",
			Description: "gorun hosts check looks at hosts as a job on them would find them: whether each is reached, what " +
				"runs there, its clock, disk, limits and GPUs, PROGRAM where one is named, who reaches whom, and what those " +
				"ways carry and lose.",
			UsageText: "gorun hosts check [options] [PROGRAM]",
			Flags:     append(flags, c.Flags(c.JobOptions("chdir", "verbose")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun hosts check -H node[1-4]", "four hosts"},
				{"gorun hosts check -H n1,n2 ./trainer", "and whether each has the program"},
			},
			Codes: []dialect.Example{
				{"0", "nothing is wrong"},
				{"1", "something is wrong with a host"},
				{"2", "a mistake on the command line"},
				{"125", "gorun's own error"},
			},
			Last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile.",
		},
	}
}

// behindCheck takes what follows the word check; without it only help may be asked for.
func (o *hostsOptions) behindCheck(args []string) []string {
	if len(args) > 0 && args[0] == "check" {
		o.isCheck = true
		return args[1:]
	}
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		return args[:1]
	}
	return nil
}

func (o *hostsOptions) check([]string) {
	if !o.isCheck {
		o.problem("gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a program of that name")
		return
	}
	o.ResolveHosts()
	if !o.HasHosts() {
		o.problem("no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE")
	}
	o.NoteUnknownVariables()
}

// exitHostsProblem is gorun hosts check's exit code when something is wrong with a host.
const exitHostsProblem = 1

// run looks at hosts and prints what it found.
func (o *hostsOptions) run() error {
	options := append(hostOptions(o.Invocation), launcher.WithNVML(nvmlWorker()), launcher.WithOutput(o.stdout, o.stderr))
	report, err := launcher.CheckHosts(context.Background(), o.Spec, options...)
	if err != nil {
		return exitWith(beginFailed(err).ExitCode)
	}
	err = o.show(report, func() string { return hostsText(report, o.Quiet) })
	if err == nil && !report.OK() {
		return exitWith(exitHostsProblem)
	}
	return err
}

// hostOptions are those of everything that reaches hosts.
func hostOptions(inv dialect.Invocation) []launcher.Option {
	options := []launcher.Option{launcher.WithNotices(notices(inv))}
	if !isAway(inv.Spec.Hosts) {
		return options
	}
	screen := newProgressScreen(inv, os.Stderr, os.Getenv)
	options = []launcher.Option{launcher.WithNotices(screen.around(notices(inv))), launcher.WithProgress(screen.begin)}
	if ask := askOnTerminal(screen); ask != nil {
		options = append(options, launcher.WithSecrets(ask))
	}
	return options
}

// hostsText is a report for people: the hosts, those that are alike in one row; what is
// the same everywhere; who reaches whom; and last what is wrong.
func hostsText(r *launcher.HostsReport, problemsOnly bool) string {
	var parts []string
	if !problemsOnly {
		table := newHostTable(r)
		parts = append(parts, table.rows(), table.same())
		if n := r.Network; n != nil {
			parts = append(parts, networkText(n))
		}
	}
	return joined("\n", append(parts, problemsText(r, problemsOnly))...)
}

func networkText(n *launcher.NetworkReport) string {
	var b strings.Builder
	if grid := n.Grid(); grid != "" && len(n.Ways) > 2 {
		fmt.Fprintf(&b, "round trips by TCP in ms\n%s\n", grid)
	}
	if n.Summary != "" {
		fmt.Fprintf(&b, "%s\n", n.Summary)
	}
	if n.Transfers != "" {
		fmt.Fprintf(&b, "%s\n", n.Transfers)
	}
	if n.Address != "" {
		fmt.Fprintf(&b, "MASTER_ADDR would be %s\n", strings.TrimPrefix(n.Reason, "MASTER_ADDR "))
	}
	return b.String()
}

// problemsText lists what is wrong with what to do, then remarks.
func problemsText(r *launcher.HostsReport, problemsOnly bool) string {
	var b strings.Builder
	var wrong, remarks []doctor.Problem
	for _, p := range r.Problems {
		if p.Note {
			remarks = append(remarks, p)
		} else {
			wrong = append(wrong, p)
		}
	}
	if len(remarks) > 0 && !problemsOnly {
		writeProblems(&b, counted(len(remarks), "remark"), remarks)
		b.WriteString("\n")
	}
	if len(wrong) > 0 {
		writeProblems(&b, counted(len(wrong), "problem"), wrong)
	} else if !problemsOnly {
		b.WriteString("nothing is wrong\n")
	}
	return b.String()
}

func writeProblems(b *strings.Builder, title string, list []doctor.Problem) {
	fmt.Fprintf(b, "%s\n", title)
	for _, p := range list {
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(p.String(), "\n", "\n    "))
		if p.Advice != "" {
			fmt.Fprintf(b, "    %s\n", p.Advice)
		}
		if p.Hint != "" {
			fmt.Fprintf(b, "    hint: %s\n", p.Hint)
		}
	}
}

// counted is "1 problem", "2 problems".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
