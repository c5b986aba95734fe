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
	"gorun/placement"
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

func (o *hostsOptions) run() error {
	cluster, err := launcher.CheckHosts(context.Background(), o.Spec, o.hostOptions())
	if err != nil {
		return exitWith(reportStartFailure(err).ExitCode)
	}
	cluster.Options, cluster.Spelled = reachWords(o.Spec)
	d := diagnosis{
		cluster: cluster, findings: doctor.Diagnose(cluster, doctor.Start...), style: show.Style(o.stdout),
		all: true, evidence: o.Verbose > 0,
	}
	err = o.printResult("hosts", d.hostsJSON(), func() string { return d.hostsText(o.Quiet) })
	return d.exit(err)
}

// hostsJSON is what gorun hosts check found.
type hostsJSON struct {
	Program  string           `json:"program,omitempty"` // the program that was looked for, "" for none
	Hosts    []hostJSON       `json:"hosts"`             // in the order of the command line
	Network  *networkJSON     `json:"network,omitempty"` // absent with fewer than two hosts
	Findings []doctor.Finding `json:"findings"`          // the worst first
	Problems []problemJSON    `json:"problems"`          // the findings, under their former names
}

// hostJSON describes one host. Unknown values are zero.
type hostJSON struct {
	doctor.Reached
	Hostname     string `json:"hostname,omitempty"`      // its own name for itself
	Version      string `json:"gorun_version,omitempty"` // version of gorun on the host; absent if unknown
	Executable   string `json:"executable,omitempty"`    // gorun's path there
	Architecture string `json:"architecture,omitempty"`  // such as "x86_64"
	Kernel       string `json:"kernel,omitempty"`        // release, such as "6.8.0-45-generic"
	CPUs         int    `json:"cpu_count,omitempty"`     // available to ranks
	// Clock is the offset of its clock from this host's; nil if unknown.
	Clock   *doctor.Clock      `json:"clock,omitempty"`
	Rooms   []doctor.DiskSpace `json:"disk_space,omitempty"`      // free space in the folders that gorun uses
	Limits  []limitJSON        `json:"limits,omitempty"`          // resource limits of ranks
	Dir     string             `json:"directory,omitempty"`       // the ranks' working directory
	Missing string             `json:"directory_error,omitempty"` // why Dir cannot be used
	Program *doctor.Program    `json:"program,omitempty"`         // the program of the command line; absent without one
	// GPUs have names and whether a process uses them.
	GPUs       []placement.GPU `json:"gpus,omitempty"`
	InfiniBand bool            `json:"infiniband,omitempty"` // whether it has an InfiniBand port
	Notes      []string        `json:"notes,omitempty"`      // what could not be determined
}

// limitJSON is a resource limit of ranks: "memlock" (bytes), "nofile" or "nproc".
type limitJSON struct {
	Name string `json:"name"` // "memlock", "nofile" or "nproc"
	doctor.Limit
}

func (d diagnosis) hostsJSON() hostsJSON {
	j := hostsJSON{
		Program: d.cluster.Program, Hosts: []hostJSON{}, Findings: append([]doctor.Finding{}, d.findings...),
		Problems: d.problems(doctor.Start...),
	}
	if d.cluster.Network != nil {
		network := d.network()
		j.Network = &network
	}
	for _, r := range d.cluster.Reached {
		host := hostJSON{Reached: r}
		if h := r.Host; h != nil {
			host = hostJSON{
				Reached: r, Hostname: h.Hostname, Version: h.Gorun, Executable: h.Executable, Architecture: h.Architecture,
				Kernel: h.Kernel, CPUs: h.Machine.CPUs.Len(), Clock: h.Clock, Rooms: h.DiskSpace, Dir: h.Dir,
				GPUs: h.Machine.GPUs, InfiniBand: len(h.RDMA) > 0, Notes: h.Unknown,
			}
			for _, name := range limitNames {
				if limit, ok := h.Limits[name]; ok {
					host.Limits = append(host.Limits, limitJSON{name, limit})
				}
			}
			if h.Program != nil {
				host.Missing = h.Program.NoDir
			}
			if j.Program != "" {
				host.Program = h.Program
			}
		}
		j.Hosts = append(j.Hosts, host)
	}
	return j
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

// hostsText formats the hosts, what they have in common, the network, and the findings.
func (d diagnosis) hostsText(problemsOnly bool) string {
	var parts []string
	if !problemsOnly {
		table, messages := newHostTable(d), show.Messages{Width: d.style.Width}
		parts = append(parts, table.differences(d.style.Width), table.commonalities(d.style.Width))
		if n := d.cluster.Network; n != nil {
			parts = append(parts, networkText(n))
		}
		for i := range parts {
			parts[i] = messages.Wrap(parts[i])
		}
	}
	var lines []string
	for _, f := range d.findings {
		if f.Severity != doctor.Note || !problemsOnly {
			lines = append(lines, d.finding(f)...)
		}
	}
	if doctor.CountProblems(d.findings) == 0 && !problemsOnly {
		lines = append(lines, "nothing is wrong")
	}
	if lines != nil {
		parts = append(parts, strings.Join(lines, "\n")+"\n")
	}
	return show.Join("\n", parts...)
}

func networkText(n *doctor.Network) string {
	var b strings.Builder
	if n.Grid != "" && len(n.Paths) > 2 {
		fmt.Fprintf(&b, "round trips by TCP in ms\n%s\n", n.Grid)
	}
	for _, line := range []string{n.Summary, n.Transfers} {
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	if n.Address != "" {
		fmt.Fprintf(&b, "MASTER_ADDR would be %s\n", n.Reason)
	}
	return b.String()
}
