package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement/draw"
)

// doctorOptions are those of gorun doctor: which hosts, how they are reached, and a program, or none (Spec); or what of
// the checks themselves is to be told.
type doctorOptions struct {
	*call
	list    bool     // name all checks
	explain []string // what these do, and why
}

func doctorCommand(c *call) *command {
	o := &doctorOptions{call: c}
	flags := own(dialect.GroupLook, option{
		Names: []string{"list"}, Set: dialect.Switch(&o.list),
		Help: "list all checks with what they look at, and look at nothing",
	}, option{
		Names: []string{"explain"}, Value: "CHECK", Set: added(&o.explain),
		Help: "say what a check looks at, and why, and look at nothing; its name stands in brackets behind what it found, " +
			"and more may follow",
	}, c.jsonOption("print all that was found of the hosts, and what is wrong with them, as JSON; with --list or "+
		"--explain the checks"))
	flags = append(append(flags, c.JobOptions("host", "hostfile")...), c.ReachOptions()...)
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.askedFirst(args, "list", "explain") },
		Command: cli.Command{
			Usage: "look for what is wrong with this host, or with others",
			Description: "gorun doctor looks for what keeps jobs from running, slows them down, or has them fail later: " +
				"limits, memory, names, clocks, versions, GPUs, adapters, leftovers. It reads, and changes nothing.",
			UsageText: "gorun doctor [options] [PROGRAM]",
			Flags:     c.Flags(append(flags, c.JobOptions("chdir", "verbose")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun doctor", "this host, or the nodes of a resource manager's job"},
				{"gorun doctor -H node[1-4] ./trainer", "four hosts, and whether each has the program"},
				{"gorun doctor --explain shm", "what a check looks at, and why"},
			},
			Codes: []dialect.Example{
				{"0", "nothing was found; notes (-v shows them) are nothing"},
				{"1", "something was found"},
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
		o.problem("--list and --explain contradict each other: the one tells of all checks, the other of those that " +
			"are named")
	case o.list && words != nil:
		o.problem("--list names all checks: gorun doctor --explain %s tells of single ones", strings.Join(words, " "))
	case o.explain != nil:
		o.explain = append(o.explain, words...)
	case !o.list:
		o.NoteTrailingOptions(words, "--json", "--list", "--explain")
		o.ResolveHosts()
	}
	o.NoteUnknownVariables()
}

// exitFindings is the exit code of gorun doctor and gorun env --lint when they found something.
const exitFindings = 1

// run looks for what is wrong with hosts and prints it.
func (o *doctorOptions) run() error {
	if o.list || o.explain != nil {
		return o.tellChecks()
	}
	if err := noProgramHere(o.Spec.Apps); err != nil {
		return failure{job.ExitUsage, err.Error()}
	}
	options := append(hostOptions(o.Invocation), launcher.WithNVML(nvmlWorker()), launcher.WithOutput(o.stdout, o.stderr))
	cluster, err := launcher.Examine(context.Background(), o.Spec, options...)
	if err != nil {
		return exitWith(beginFailed(err).ExitCode)
	}
	cluster.Options, cluster.Spelled = reachWords(o.Spec)
	judgeEnvironment(cluster, os.Environ())
	findings := doctor.Diagnose(cluster)
	err = o.show(examined{append([]doctor.Finding{}, findings...), cluster}, // [] as JSON
		diagnosis{cluster, findings, textStyle(o.stdout), o.Verbose > 0, again(o.args)}.text)
	if err == nil && doctor.CountProblems(findings) > 0 {
		return exitWith(exitFindings)
	}
	return err
}

// examined is all that is known of hosts, for programs.
type examined struct {
	Findings []doctor.Finding `json:"findings"`
	*doctor.Cluster
}

// again is the command line by which the same hosts are looked at, and all is told.
func again(args []string) string {
	return shellwords.Join(append([]string{"gorun", "doctor", "-v"}, args...))
}

// reachWords spell how the hosts of a wish are reached, and how those are named of which
// more than the name counts.
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

// noProgramHere is the error of a program's name that is a check's, or as that of gorun hosts check: no program of that
// name is here.
func noProgramHere(apps []job.App) error {
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
		return fmt.Errorf(
			"%s is a check and no program here: gorun doctor --explain %s says what it looks at; gorun doctor makes all checks",
			name, name)
	}
	return fmt.Errorf("%s is no program here: gorun doctor makes all checks by itself, and gorun doctor --list names "+
		"them; ./%s is a program", name, name)
}

// tellChecks says what checks there are, or what some of them are for.
func (o *doctorOptions) tellChecks() error {
	if o.list {
		return o.show(map[string]any{"checks": doctor.Checks()}, func() string { return checksText(columnsOf(o.stdout)) })
	}
	var texts []string
	var unknown *multierror.Error
	checks := []doctor.Check{} // [] as JSON
	for _, name := range o.explain {
		check, ok := doctor.Find(name)
		if !ok {
			unknown = multierror.Append(unknown, failure{
				job.ExitUsage, fmt.Sprintf("--explain: there is no check %q; gorun doctor --list names all", name),
			})
			continue
		}
		checks, texts = append(checks, check), append(texts, explainedText(check, textStyle(o.stdout)))
	}
	if err := o.show(map[string]any{"checks": checks}, func() string { return strings.Join(texts, "\n") }); err != nil {
		return err
	}
	return unknown.ErrorOrNil()
}

// checksText lists all checks.
func checksText(width int) string {
	table := [][]string{{"check", "subject", "looks at"}}
	for _, c := range doctor.Checks() {
		table = append(table, []string{c.ID, c.Group, c.What})
	}
	return aligned(fitted(table, width))
}

// explainedText says what a check is for.
func explainedText(c doctor.Check, style draw.Style) string {
	return strings.Join([]string{c.ID + ": " + c.What, "", strings.Join(wrapped(c.Why, widthOf(style)), "\n"), ""}, "\n")
}

// widthOf is how wide text is on this output.
func widthOf(style draw.Style) int {
	if style.Width == 0 {
		return draw.DefaultWidth
	}
	return max(style.Width, draw.MinWidth)
}

// wrapped are the lines of a text.
func wrapped(text string, width int) []string { return wrappedWords(strings.Fields(text), " ", width) }

// wrappedWords sets words in lines of at most width characters, at least one; a longer word has a line for itself.
func wrappedWords(words []string, between string, width int) []string {
	if len(words) == 0 {
		return []string{""}
	}
	lines := []string{words[0]}
	for _, word := range words[1:] {
		line := lines[len(lines)-1] + between + word
		if utf8.RuneCountInString(line) > width {
			lines = append(lines, word)
		} else {
			lines[len(lines)-1] = line
		}
	}
	return lines
}

// diagnosis is what a terminal gets.
type diagnosis struct {
	cluster  *doctor.Cluster
	findings []doctor.Finding
	style    draw.Style
	all      bool   // what there is to say, and not twenty lines of it
	again    string // the command that says it
}

// mostFindings are told of where not all are wished: each takes two lines of twenty.
const mostFindings = 7

// mostLines are those of the summary; findings, what is left over and notes leave some to
// what is well.
const mostLines = 20

// likes are findings of one check that say the same of other hosts but for numbers: clocks
// that are off by one second and by two.
type likes []doctor.Finding

// gather adds a finding to those that it is like.
func gather(all []likes, f doctor.Finding) []likes {
	for i, l := range all {
		if l[0].Check == f.Check && l[0].Severity == f.Severity && withoutNumbers(l[0].Text) == withoutNumbers(f.Text) &&
			!l.of(f.Hosts) {
			all[i] = append(l, f)
			return all
		}
	}
	return append(all, likes{f})
}

// of reports whether one of the hosts is told of already.
func (l likes) of(names []string) bool {
	return slices.ContainsFunc(l, func(f doctor.Finding) bool {
		return slices.ContainsFunc(f.Hosts, func(name string) bool { return slices.Contains(names, name) })
	})
}

// told is the first, with the hosts of which the others say the like.
func (l likes) told() doctor.Finding {
	f := l[0]
	var others []string
	for _, o := range l[1:] {
		others = append(others, o.Hosts...)
	}
	if others != nil {
		f.Text += "; the like on " + hosts.Fold(others)
	}
	return f
}

func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}

// checksOf names the checks of findings, each once.
func checksOf(all []likes) string {
	const most = 5
	var names []string
	for _, l := range all {
		if !slices.Contains(names, l[0].Check) {
			names = append(names, l[0].Check)
		}
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// text is what is well, in a few lines, then what was found, the worst first.
func (d diagnosis) text() string {
	var lines []string
	notes := 0
	var wrong []likes
	for _, f := range d.findings {
		switch {
		case d.all:
			lines = append(lines, d.finding(f)...)
		case f.Severity == doctor.Note:
			notes++
		default:
			wrong = gather(wrong, f)
		}
	}
	for i, l := range wrong {
		if i == mostFindings {
			lines = append(lines, fmt.Sprintf("and %s (%s): %s", counted(len(wrong)-i, "more finding"), checksOf(wrong[i:]),
				d.again))
			break
		}
		lines = append(lines, d.finding(l.told())...)
	}
	if text := d.missed(); text != "" && !d.all {
		lines = append(lines, text)
	}
	if doctor.CountProblems(d.findings) == 0 {
		lines = append(lines, "nothing is wrong")
	}
	if notes > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s", counted(notes, "note"), d.again))
	}
	healthy := d.healthy()
	if most := mostLines - len(lines); len(healthy) > most && !d.all { // a narrow terminal
		healthy = append(healthy[:most-1], d.mark("")+" ...")
	}
	return strings.Join(append(healthy, lines...), "\n") + "\n"
}

// missed is a line on what could not be looked at, "" for nothing: who reads that nothing
// is wrong has to know it.
func (d diagnosis) missed() string {
	const most = 3
	var words []string
	for _, f := range d.findings {
		if f.Check != doctor.Skipped {
			continue
		}
		where := ""
		if d.cluster.Asked > 1 {
			where = f.Where() + ": "
		}
		words = append(words, where+f.Text)
	}
	if words == nil {
		return ""
	}
	more := ""
	if len(words) > most {
		more = fmt.Sprintf("; and %d more", len(words)-most)
	}
	return "not looked at: " + strings.Join(words[:min(most, len(words))], "; ") + more
}

// marks stand before what is well and before findings, by their severity.
func (d diagnosis) mark(s doctor.Severity) string {
	if d.style.ASCII {
		return map[doctor.Severity]string{"": "ok", doctor.Error: "X", doctor.Warning: "!", doctor.Note: "-"}[s]
	}
	return map[doctor.Severity]string{"": "✓", doctor.Error: "✗", doctor.Warning: "⚠", doctor.Note: "·"}[s]
}

// healthy are the groups of checks that found nothing.
func (d diagnosis) healthy() []string {
	words := doctor.Healthy(d.cluster, d.findings)
	if words == nil {
		return nil
	}
	for i := range words {
		words[i] = d.mark("") + " " + words[i]
	}
	return wrappedWords(words, "  ", widthOf(d.style))
}

// finding is one in two lines, or three: what and where, the command, what was read.
func (d diagnosis) finding(f doctor.Finding) []string {
	where := ""
	if d.cluster.Asked > 1 && len(f.Hosts) > 0 {
		where = f.Where() + ": "
	}
	lines := d.folded(fmt.Sprintf("%s %s%s [%s]", d.mark(f.Severity), where, strings.ReplaceAll(f.Text, "\n", " "),
		f.Check), "  ")
	if d.all && f.Evidence != "" {
		lines = append(lines, d.folded("    read: "+strings.ReplaceAll(f.Evidence, "\n", " "), "          ")...)
	}
	if f.Fix != "" {
		lines = append(lines, "    try:  "+printable.Text(strings.ReplaceAll(f.Fix, "\n", " ")))
	}
	return lines
}

// folded is what stands in several lines where all is told on a terminal that is too narrow for one.
// Without a terminal it stays one, for those who search it; a command does in any case, to be copied.
func (d diagnosis) folded(line, indent string) []string {
	const narrowest = 40
	if !d.all || d.style.Width == 0 || utf8.RuneCountInString(line) <= d.style.Width {
		return []string{line}
	}
	begin := line[:len(line)-len(strings.TrimLeft(line, " "))]
	lines := wrapped(line, max(d.style.Width, narrowest)-len(indent))
	for i := range lines {
		if i == 0 {
			lines[i] = begin + lines[i]
			continue
		}
		lines[i] = indent + lines[i]
	}
	return lines
}
