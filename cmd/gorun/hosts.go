package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher"
	"gorun/launcher/doctor"
)

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
	var wrong, remarks []doctor.Flaw
	for _, p := range r.Problems {
		if p.Remark {
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

func writeProblems(b *strings.Builder, title string, list []doctor.Flaw) {
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
