package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher"
	"gorun/launcher/doctor"
	"gorun/launcher/job"
)

// doctorOptions are those of gorun doctor. Its Spec has the hosts, how they are reached, and perhaps a program.
type doctorOptions struct {
	*commandLine
	list    bool     // list all checks
	explain []string // checks
}

func doctorCommand(c *commandLine) *command {
	o := &doctorOptions{commandLine: c}
	flags := c.group(dialect.GroupLook, option{
		Names: "list", Set: dialect.Switch(&o.list),
		Help: "list all checks and run none",
	}, c.jsonOption("print the hosts and findings as JSON"))
	flags = append(append(flags, c.JobOptions("host", "hostfile")...), c.ReachOptions()...)
	old := c.group(dialect.GroupLook, option{
		Names: "explain", Value: "CHECK", Set: appendTo(&o.explain), Help: "act as gorun explain CHECK",
	})
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.optionsFirstWith(args, "list", "explain") },
		Command: cli.Command{
			Usage: "find problems of this host or of others",
			Description: "gorun doctor finds what keeps jobs from running, slows them down or makes them fail later: limits, " +
				"memory, names, clocks, versions, GPUs, network adapters, leftovers. It changes nothing.",
			UsageText: "gorun doctor [options] [PROGRAM]",
			Flags: append(c.Flags(append(flags, c.JobOptions("chdir", "verbose")...)...),
				dialect.Hide(c.Flags(old...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun doctor", "check this host, or the nodes of your allocation"},
				{"gorun doctor -H node[1-4] ./trainer", "check four hosts, and whether each has the program"},
				{"gorun explain shm", "explain a check"},
			},
			Codes: []dialect.Example{
				{"0", "nothing is wrong; notes do not count"},
				{"1", "a warning or an error"},
				{"2", "a mistake on the command line"},
				{"125", "gorun's own error"},
			},
			Last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile. More: docs/nccl.md.",
		},
	}
}

func (o *doctorOptions) check(words []string) {
	switch {
	case o.list && o.explain != nil:
		o.refuse("--list and --explain contradict each other: keep one")
	case o.list && words != nil:
		o.refuse("--list takes no check: gorun explain %s explains single ones", strings.Join(words, " "))
	case o.explain != nil:
		o.explain = append(o.explain, words...)
	case !o.list:
		o.NoteTrailingOptions(words, "json", "list", "explain")
		o.ResolveHosts()
	}
	o.NoteUnknownVariables()
}

// exitFindings is the exit code of gorun doctor and gorun lint with findings.
const exitFindings = 1

func (o *doctorOptions) run() error {
	if o.list {
		return o.printResult("checks", checkList{doctor.Checks()},
			func() string { return listChecks(show.Width(o.stdout)) })
	}
	if o.explain != nil {
		return o.explainChecks(o.explain)
	}
	if err := checkProgram(o.Spec.Apps); err != nil {
		return exitError{job.ExitUsage, printable.Error(err)}
	}
	cluster, err := launcher.Examine(context.Background(), o.Spec, o.hostOptions())
	if err != nil {
		return exitWith(reportStartFailure(err).ExitCode)
	}
	cluster.Options, cluster.Spelled = reachWords(o.Spec)
	lintHosts(cluster, os.Environ())
	d := diagnosis{
		cluster, doctor.Diagnose(cluster), show.Style(o.stdout), o.Verbose > 0, o.Verbose > 0, verboseCommand(o.args),
	}
	err = o.printResult("doctor", d.json(), d.text)
	return d.exit(err)
}

// diagnosisJSON is what gorun doctor found.
type diagnosisJSON struct {
	Findings []doctor.Finding `json:"findings"` // the worst first
	*doctor.Cluster
	Network   networkJSON   `json:"network"`             // how the hosts reach each other
	Unreached []problemJSON `json:"unreached,omitempty"` // hosts that could not be inspected
}

// networkJSON is the network, and what is wrong with it.
type networkJSON struct {
	*doctor.Network
	Problems []problemJSON `json:"problems,omitempty"` // ordered by severity
	Hint     string        `json:"hint,omitempty"`     // what to do about the error
}

// problemJSON has a finding of the launcher under its former names.
type problemJSON struct {
	// Check is what was measured of the network: "reach", "mtu", "loss", "speed" or "interface".
	Check string   `json:"check,omitempty"`
	Hosts []string `json:"hosts,omitempty"` // hosts that it is about; absent for all
	Text  string   `json:"text"`            // one line, without the hosts
	// Advice says what to do; Hint is a command that repairs it or shows more.
	Advice string `json:"advice,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Note says that jobs run all the same.
	Note bool `json:"note,omitempty"`
}

var formerChecks = map[string]string{
	doctor.Unreachable: "reach", doctor.PathMTU: "mtu", doctor.PacketLoss: "loss", doctor.NetworkSpeed: "speed",
	doctor.NetworkInterface: "interface",
}

// problems returns the findings of those checks.
func (d diagnosis) problems(checks ...string) []problemJSON {
	list := []problemJSON{} // [] as JSON
	for _, f := range d.findings {
		if slices.Contains(checks, f.Check) {
			list = append(list, problemJSON{
				formerChecks[f.Check], f.Hosts, f.Text, f.Advice, f.Fix, f.Severity == doctor.Note,
			})
		}
	}
	return list
}

func (d diagnosis) network() networkJSON {
	j := networkJSON{
		Network:  cmp.Or(d.cluster.Network, &doctor.Network{}),
		Problems: d.problems(slices.Collect(maps.Keys(formerChecks))...),
	}
	for _, p := range d.problems(doctor.NoAddress) {
		j.Hint = p.Advice
	}
	return j
}

func (d diagnosis) json() diagnosisJSON {
	// [] as JSON
	d.cluster.Hosts = append([]*doctor.Host{}, d.cluster.Hosts...)
	return diagnosisJSON{
		append([]doctor.Finding{}, d.findings...), d.cluster, d.network(), d.problems(doctor.Reach),
	}
}

type checkList struct {
	Checks []doctor.Check `json:"checks"` // what doctor can check, in the order of its reports
}

// verboseCommand is the command line that prints everything about the same hosts.
func verboseCommand(args []string) string {
	return shellwords.Join(append([]string{"gorun", "doctor", "-v"}, args...))
}

// reachWords returns the options that say how a spec reaches its hosts, for commands that fixes suggest, and how its
// hosts are written with user and port.
func reachWords(spec job.Spec) (options string, spelled map[string]string) {
	var words []string
	r := spec.Reach
	if r.SSHConfig != "" {
		words = append(words, "--ssh-config", r.SSHConfig)
	}
	if r.Command != nil {
		words = append(words, "--ssh", shellwords.Join(r.Command))
	}
	if r.AcceptNew {
		words = append(words, "--ssh-accept-new")
	}
	if r.Agent != "" {
		words = append(words, "--agent", r.Agent)
	}
	spelled = map[string]string{}
	for _, h := range spec.Hosts {
		name := h.Name
		if strings.Contains(name, ":") && h.Port != 0 {
			name = "[" + name + "]"
		}
		if h.User != "" {
			name = h.User + "@" + name
		}
		if h.Port != 0 {
			name += ":" + strconv.Itoa(h.Port) + ":1"
		}
		spelled[h.Name] = name
	}
	return shellwords.Join(words), spelled
}

// checkProgram refuses a program that does not exist and has the name of a check, or of gorun hosts check.
func checkProgram(apps []job.App) error {
	if len(apps) == 0 {
		return nil
	}
	name := apps[0].Program
	_, known := doctor.Find(name)
	if !known && name != "check" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(apps[0].Dir, name)); err == nil {
		return nil
	}
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	if known {
		return fmt.Errorf("%s is a check, and not a program on this host: gorun explain %[1]s says what it looks "+
			"at; gorun doctor makes all checks", name)
	}
	return fmt.Errorf("%s is not a program on this host: gorun doctor makes all checks by itself, and gorun doctor "+
		"--list names them; ./%[1]s is a program", name)
}

func (c *commandLine) explainChecks(names []string) error {
	var texts []string
	var unknown *multierror.Error
	checks := []doctor.Check{} // [] as JSON
	for _, name := range names {
		check, ok := doctor.Find(name)
		if !ok {
			unknown = multierror.Append(unknown, exitError{
				job.ExitUsage, fmt.Sprintf("unknown check %s: gorun doctor --list names all", name),
			})
			continue
		}
		why := strings.Join(printable.Wrap(check.Why, textWidth(show.Style(c.stdout))), "\n")
		checks, texts = append(checks, check), append(texts, check.ID+": "+check.What+"\n\n"+why+"\n")
	}
	err := c.printResult("checks", checkList{checks}, func() string { return strings.Join(texts, "\n") })
	if err != nil {
		return err
	}
	return unknown.ErrorOrNil()
}

func listChecks(width int) string {
	rows := [][]string{{"check", "subject", "looks at"}}
	for _, c := range doctor.Checks() {
		rows = append(rows, []string{c.ID, c.Group, c.What})
	}
	return show.Table(rows, width)
}
