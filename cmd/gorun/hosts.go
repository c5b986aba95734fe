package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/launcher"
	"gorun/launcher/doctor"
)

// hostsOptions are those of gorun hosts check. Its Spec has the hosts, how they are reached, and perhaps a program.
type hostsOptions struct {
	*commandLine
	isCheck bool // the only subcommand
}

func hostsCommand(c *commandLine) *command {
	if len(c.args) > 0 && c.args[0] == "quarantine" {
		return quarantineCommand(c)
	}
	o := &hostsOptions{commandLine: c}
	flags := c.Flags(append(append(c.JobOptions("host", "hostfile"), c.ReachOptions()...),
		append(c.group(dialect.GroupLook, c.jsonOption("print the report as JSON")), &option{
			Names: "quiet q", Group: dialect.GroupLook, Set: dialect.Switch(&c.Quiet),
			Help: "print only problems",
		})...)...)
	return &command{
		request: o,
		arrange: o.afterCheck,
		Command: cli.Command{
			Usage: "check hosts before a job: gorun hosts check; hosts that failed: gorun hosts quarantine",
			Description: "gorun hosts check tests hosts before a job: whether gorun reaches each, its system, clock, disk, " +
				"limits and GPUs, PROGRAM if you name one, and the network between the hosts.",
			UsageText: "gorun hosts check [options] [PROGRAM]",
			Flags:     append(flags, c.Flags(c.JobOptions("chdir", "verbose")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun hosts check -H node[1-4]", "four hosts"},
				{"gorun hosts check -H n1,n2 ./trainer", "and whether each has the program"},
				{"gorun hosts quarantine", "hosts that failed in your jobs; more: --help"},
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

// afterCheck returns what follows the word check. Without that word, only --help counts.
func (o *hostsOptions) afterCheck(args []string) []string {
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
		o.refuse("gorun hosts has two commands: gorun hosts check -H HOST,... and gorun hosts quarantine; gorun ./hosts " +
			"starts a program of that name")
		return
	}
	o.ResolveHosts()
	if !o.HasHosts() {
		o.refuse("no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE")
	}
	o.NoteUnknownVariables()
}

// exitHostsProblem is the exit code if something is wrong with a host.
const exitHostsProblem = 1

func (o *hostsOptions) run() error {
	report, err := launcher.CheckHosts(context.Background(), o.Spec, o.hostOptions())
	if err != nil {
		return exitWith(reportStartFailure(err).ExitCode)
	}
	err = o.printResult("hosts", report, func() string { return hostsText(report, o.Quiet, show.Width(o.stdout)) })
	if err == nil && !report.OK() {
		return exitWith(exitHostsProblem)
	}
	return err
}

// hostOptions are the launcher's options of every command that reaches hosts.
func hostOptions(inv dialect.Invocation) launcher.Options {
	o := launcher.Options{Notices: formatNotice(inv), Offline: inv.Offline, NVML: nvmlWorker()}
	if !inv.Offline && anyRemote(inv.Spec.Hosts) {
		screen := newProgressScreen(inv, os.Stderr, os.Getenv)
		o.Notices, o.Progress, o.Secrets = screen.wrapNotices(o.Notices), screen.begin, secretPrompt(screen)
	}
	return o
}

func (c *commandLine) hostOptions() launcher.Options {
	o := hostOptions(c.Invocation)
	o.Stdout, o.Stderr = c.stdout, c.stderr
	return o
}

// hostsText formats a report: the hosts, what they have in common, the network, and the problems. Unless width is 0,
// lines are broken there.
func hostsText(r *launcher.HostsReport, problemsOnly bool, width int) string {
	var parts []string
	if !problemsOnly {
		table := newHostTable(r)
		parts = append(parts, table.differences(width), table.commonalities(width))
		if n := r.Network; n != nil {
			parts = append(parts, networkText(n))
		}
	}
	return show.Messages{Width: width}.Wrap(show.Join("\n", append(parts, problemsText(r, problemsOnly))...))
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

// problemsText lists notes, then problems, with advice.
func problemsText(r *launcher.HostsReport, problemsOnly bool) string {
	var b strings.Builder
	var problems, notes []doctor.Problem
	for _, p := range r.Problems {
		if p.Note {
			notes = append(notes, p)
		} else {
			problems = append(problems, p)
		}
	}
	if len(notes) > 0 && !problemsOnly {
		writeProblems(&b, show.Count(len(notes), "note"), notes)
		b.WriteString("\n")
	}
	if len(problems) > 0 {
		writeProblems(&b, show.Count(len(problems), "problem"), problems)
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
