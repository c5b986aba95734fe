package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher"
	"gorun/launcher/job"
)

// envOptions are those of gorun env: gorun's own for a job whose ranks' environment is shown (Spec), and what is asked
// of single variables.
type envOptions struct {
	*call
	explain []string // names and patterns of variables to explain
	lint    bool     // find what is wrong with
	files   []string // these; "-" is standard input, none: the environment and the libraries' own files
	library string   // with lint: the library that is meant; "": the one that would be loaded
	shell   bool     // print the settings of the job as a shell's commands
}

func envCommand(c *call) *command {
	o := &envOptions{call: c}
	shared := []string{"np", "host", "hostfile", "nproc-per-node", "quiet", "verbose"}
	flags := append(own(dialect.GroupShown, option{
		Names: []string{"explain"}, Value: "NAME", Set: added(&o.explain),
		Help: "what a variable means: default, values, versions, when it helps and when it hurts; NAME may be a pattern " +
			"('NCCL_IB_*'), and more may follow",
	}, option{
		Names: []string{"lint"}, Set: dialect.Switch(&o.lint),
		Help: "what is wrong with settings: of the files that follow (scripts, Dockerfiles, Python programs, batch " +
			"scripts, nccl.conf; - is standard input), or of this environment and the nccl.conf of user and host",
	}, option{
		Names: []string{"library"}, Value: "FILE", Set: dialect.Text(&o.library),
		Help: "with --lint: the libnccl.so or librccl.so that is meant, in place of the one that would be loaded; none " +
			"for none",
	}, option{
		Names: []string{"shell"}, Set: dialect.Switch(&o.shell),
		Help: "print the settings that gorun would add as export lines, for eval; what says who a rank is is left out",
	}, c.jsonOption("print everything as JSON")), c.JobOptions(shared...)...)
	taken := c.JobOptionsExcept(true, append(shared, "json", "version", "help", "print-completion", "report")...)
	return &command{
		request:  o,
		programs: true,
		arrange:  func(args []string) []string { return c.askedFirst(args, "explain", "lint") },
		Command: cli.Command{
			Usage: "what ranks find in their environment; explain and check settings",
			Description: "gorun env shows what the ranks of a job would find in their environment, and why; explains " +
				"variables of NCCL, RCCL, PyTorch and others; and finds settings " +
				"that are wrong, dead or of no use. It starts no rank.",
			UsageText: "gorun env [options] [PROGRAM [ARGS...]]\n       gorun env --explain NAME...\n" +
				"       gorun env --lint [FILE...]",
			Flags: append(c.Flags(flags...), dialect.Hide(c.Flags(taken...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun env", "what gorun would set here"},
				{"gorun env -H a:2,b:2 train.py", "for a job on two hosts"},
				{"gorun env --shell", "the same for a shell's eval, where another launcher starts the program"},
				{"gorun env --explain NCCL_IB_HCA", "what a variable means"},
				{"gorun env --explain 'NCCL_IB_*'", "which there are"},
				{"gorun env --lint", "what is wrong with this environment and its nccl.conf"},
				{"gorun env --lint job.sbatch Dockerfile", "and with what these files set"},
			},
			Ranks: dialect.RanksOfJobs,
			Codes: []dialect.Example{
				{"0", "it was shown; with --lint: nothing is wrong"},
				{"1", "--lint found something"},
				{"2", "a mistake on the command line; with --explain: nothing is known of such a variable"},
				{"125", "gorun's own error"},
				{"126, 127", "PROGRAM cannot be executed, or was not found"},
			},
			Last: "gorun's own options for jobs are taken, too (gorun --help): -n, -H, --nproc-per-node, --gpus, -x and " +
				"others; without PROGRAM any will do. More: docs/nccl.md.",
		},
	}
}

// anyProgram stands for the program of a job where none was named: every host has it.
const anyProgram = "/bin/sh"

func (o *envOptions) check(words []string) {
	given := slices.DeleteFunc([]string{
		ifGiven(o.explain != nil, "--explain"), ifGiven(o.lint, "--lint"), ifGiven(o.shell, "--shell"),
		ifGiven(o.shell && o.JSON, "--json"),
	}, func(name string) bool { return name == "" })
	if len(given) > 1 {
		o.problem("%s contradict each other: ask for one at a time", strings.Join(given, " and "))
	}
	switch {
	case o.explain != nil:
		o.explain = append(o.explain, words...)
	case o.lint:
		o.files = words
	default:
		if words == nil && len(o.Spec.Apps) == 1 {
			app := &o.Spec.Apps[0]
			app.Program, app.Args, app.Start = anyProgram, []string{}, job.StartExec
		}
		o.NoteTrailingOptions(words, "--json", "--shell", "--lint", "--explain")
		o.DryRun = true
		o.ResolveJob()
	}
	if o.library != "" && !o.lint {
		o.problem("--library says what --lint is to compare with: add --lint")
	}
}

// run does what a command line of gorun env asks for.
func (o *envOptions) run() error {
	switch {
	case o.explain != nil:
		return o.explainVariables()
	case o.lint:
		return o.lintSettings()
	}
	options := append(hostOptions(o.Invocation), launcher.WithStdin(os.Stdin), launcher.WithOutput(o.stdout, o.stderr),
		launcher.WithNVML(nvmlWorker()))
	p, err := launcher.Plan(context.Background(), o.Spec, options...)
	if err != nil {
		code := beginFailed(err).ExitCode
		if name := o.Spec.Apps[0].Program; len(nccl.Matching(name)) == 1 {
			o.say("hint: gorun env --explain " + name)
		}
		return exitWith(code)
	}
	e := environmentOf(p, o.Spec.Tune)
	if o.shell {
		return o.write(e.shell())
	}
	return o.show(e, func() string { return e.table(columnsOf(o.stdout)) })
}

// jobEnvironment is what the ranks of a job find, each name once.
type jobEnvironment struct {
	Ranks     int            `json:"ranks"`
	Variables []jobVariable  `json:"variables"`
	Removed   []plan.Removal `json:"removed,omitempty"`
	Withheld  []string       `json:"withheld,omitempty"` // inherited ones that other hosts do not get
	Conf      []confVariable `json:"conf,omitempty"`     // what files of the hosts add where nobody sets it
	Left      []leftVariable `json:"left,omitempty"`     // settings that gorun knows and leaves alone
	hosts     []string
}

// jobVariable is one name.
type jobVariable struct {
	Name string `json:"name"`
	// Value is what all ranks have; Values are those of each rank, or of each host, where
	// they differ; null where one has none.
	Value  *string     `json:"value,omitempty"`
	Values []*string   `json:"values,omitempty"`
	By     string      `json:"by,omitempty"` // "rank" or "host"
	Origin plan.Origin `json:"origin"`
	Reason string      `json:"reason,omitempty"`
	Level  plan.Level  `json:"level,omitempty"` // how much one of gorun's matters
	// Meaning is the database's, of a setting.
	Meaning string `json:"meaning,omitempty"`
	setting bool
	hidden  bool // it looks like a secret
}

// confVariable is what a configuration file of a library sets.
type confVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	// Hosts have this line in that file; none: it is this host's.
	Hosts []string `json:"hosts,omitempty"`
}

// leftVariable is a setting that gorun leaves alone.
type leftVariable struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// environmentOf collects what a plan says of its ranks' environments.
func environmentOf(p *job.Plan, tune job.Tune) jobEnvironment {
	e := jobEnvironment{Ranks: len(p.Ranks), Removed: p.Removed, Withheld: p.Withheld}
	for _, v := range p.Common {
		value := v.Shown()
		e.add(v, jobVariable{Value: &value})
	}
	nodes, ranks := environs(p)
	away := false
	for _, n := range p.Nodes {
		e.hosts, away = append(e.hosts, n.Name), away || n.Remote
	}
	e.addOwn("host", nodes)
	e.addOwn("rank", ranks)
	for _, c := range p.Conf {
		e.Conf = append(e.Conf, confVariable{c.Name, c.Shown(), c.File, c.Line, hostsOf(c.Nodes, e.hosts)})
	}
	if !away && tune == job.TuneOff { // agents are not asked then, and what files other hosts have is not known
		e.Conf = e.confFiles()
	}
	for _, l := range p.Left {
		e.Left = append(e.Left, leftVariable(l))
	}
	return e
}

// hostsOf are the names of nodes, where there are several.
func hostsOf(nodes []int, names []string) (hosts []string) {
	if len(names) == 1 {
		return nil
	}
	for _, n := range nodes {
		hosts = append(hosts, names[n])
	}
	return hosts
}

// from is where the library finds it: the file, and on which hosts where there are others.
func (c confVariable) from() string {
	if c.Hosts == nil {
		return c.File
	}
	return c.File + " of " + job.HostRanges(c.Hosts)
}

// why says who obeys it, and that gorun would have had another value.
func (c confVariable) why(left []leftVariable) string {
	if slices.ContainsFunc(left, func(l leftVariable) bool { return l.Name == c.Name }) {
		return "the library reads it there, so gorun leaves it alone"
	}
	return "the library reads it there"
}

// add puts in a variable with the values that it has.
func (e *jobEnvironment) add(v plan.Variable, to jobVariable) {
	to.Name, to.Origin, to.Reason, to.Level = v.Name, v.Origin, v.Reason, v.Level
	if known, found := nccl.Lookup(v.Name); found {
		to.Meaning = known.Meaning
	}
	to.setting, to.hidden = isSetting(v.Name), v.Shown() != v.Value
	e.Variables = append(e.Variables, to)
}

// addOwn puts in what some have for themselves.
func (e *jobEnvironment) addOwn(by string, own [][]plan.Variable) {
	at := make(map[string]int)
	for i, environ := range own {
		for _, v := range environ {
			k, known := at[v.Name]
			if !known {
				k = len(e.Variables)
				at[v.Name] = k
				e.add(v, jobVariable{By: by, Values: make([]*string, len(own))})
			}
			value := v.Shown()
			e.Variables[k].Values[i] = &value
		}
	}
}

// isSetting reports whether a variable is no identity of a rank and nothing of gorun's
// own.
func isSetting(name string) bool {
	for _, row := range plan.Table() {
		prefix, pattern := strings.CutSuffix(row.Name, "*")
		if row.Name == name || pattern && strings.HasPrefix(name, prefix) {
			return row.Class == plan.ClassSetting
		}
	}
	return true
}

// confFiles reads the files of NCCL or RCCL that add to the environment of ranks on
// this host.
func (e *jobEnvironment) confFiles() (all []confVariable) {
	set := make(map[string]bool)
	for _, v := range e.Variables {
		set[v.Name] = true
	}
	for s := range confHere {
		if !set[s.Name] {
			set[s.Name] = true
			shown := plan.Variable{Name: s.Name, Value: s.Value}.Shown()
			all = append(all, confVariable{Name: s.Name, Value: shown, File: s.File, Line: s.Line})
		}
	}
	return all
}

// table is for people: what sets something up first, then who ranks are. Width is that of the terminal, 0: there is
// none.
func (e *jobEnvironment) table(width int) string {
	settings := e.rows("SETTING", true)
	for _, c := range e.Conf {
		settings = append(settings, tableRow(c.Name, orDash(c.Value), c.from(), c.why(e.Left)))
	}
	for _, l := range e.Left {
		if slices.ContainsFunc(e.Conf, func(c confVariable) bool { return c.Name == l.Name }) { // which says the same
			continue
		}
		settings = append(settings, tableRow(l.Name, "(left alone)", "", l.Reason))
	}
	identity := e.rows("IDENTITY", false)
	for _, r := range e.Removed {
		identity = append(identity, tableRow(r.Name, "(removed)", "", r.Reason))
	}
	text := aligned(fitted(identity, width))
	if len(settings) > 1 {
		text = aligned(fitted(settings, width)) + "\n" + text
	}
	inherited := len(slices.DeleteFunc(slices.Clone(e.Variables), func(v jobVariable) bool { return !v.isForeign() }))
	if inherited > 0 {
		text += fmt.Sprintf("\nand %d inherited ones, unchanged (--json lists them)\n", inherited)
	}
	if n := len(e.Withheld); n > 0 {
		text += fmt.Sprintf(
			"other hosts do not get %d inherited ones (--json lists them as withheld, -x NAME sends one)\n", n)
	}
	return text
}

// isForeign reports whether a variable was inherited and means nothing to anybody known.
func (v jobVariable) isForeign() bool {
	return v.Origin == plan.Inherited && v.Meaning == "" && v.setting
}

// rows are the settings, or what is none, below a heading.
func (e *jobEnvironment) rows(heading string, settings bool) [][]string {
	rows := [][]string{{heading, "VALUE", "FROM", "WHY"}}
	for _, v := range e.Variables {
		if v.setting == settings && !v.isForeign() {
			rows = append(rows, tableRow(v.Name, e.values(v), string(v.Origin), orMeaning(v)))
		}
	}
	return rows
}

// tableRow is a row in which nothing obeys the terminal.
func tableRow(cells ...string) []string {
	for i, c := range cells {
		cells[i] = printable.Text(c)
	}
	return cells
}

// orMeaning is why a variable is there, or what it means where the user knows why.
func orMeaning(v jobVariable) string {
	switch {
	case v.Level != "":
		return string(v.Level) + ": " + v.Reason
	case v.Reason == "" || v.Meaning == "":
		return v.Reason + v.Meaning
	case v.Origin == plan.Gorun:
		return v.Reason
	}
	return v.Reason + ": " + v.Meaning
}

// values are a variable's, those of ranks folded: "0..3".
func (e *jobEnvironment) values(v jobVariable) string {
	if v.Value != nil {
		return orDash(*v.Value)
	}
	texts := make([]string, len(v.Values))
	for i, value := range v.Values {
		texts[i] = "-"
		if value != nil {
			texts[i] = orDash(*value)
		}
	}
	if folded := foldValues(texts); folded != "" {
		return folded
	}
	if v.By == "host" && len(texts) <= shownFirst {
		for i := range texts {
			texts[i] = e.hosts[i] + ":" + texts[i]
		}
	}
	if len(texts) > shownFirst {
		texts = append(texts[:shownFirst:shownFirst], "…")
	}
	if joined := strings.Join(texts, " "); len(joined) <= widestValues {
		return joined
	}
	return texts[0] + " …"
}

// widestValues is how many bytes of several values a table shows.
const widestValues = 60

// foldValues writes values that are equal once, and numbers that count up as "0..3"; ""
// for others.
func foldValues(texts []string) string {
	first, last := texts[0], texts[len(texts)-1]
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		return first
	}
	begin, err := strconv.Atoi(first)
	for i, text := range texts {
		if err != nil || text != strconv.Itoa(begin+i) {
			return ""
		}
	}
	return first + ".." + last
}

// shell is what gorun or the command line adds, as commands of a shell. What differs
// between ranks, is known only when a job starts, or has a name that a shell would read
// as something else, cannot be.
func (e *jobEnvironment) shell() string {
	var b strings.Builder
	for _, v := range e.Variables {
		switch {
		case !v.setting || v.Origin == plan.Inherited:
		case !shellName(v.Name):
			fmt.Fprintf(&b, "# %s is no name for a shell\n", printable.Text(v.Name))
		case v.hidden:
			fmt.Fprintf(&b, "# %s looks like a secret: set it yourself\n", v.Name)
		case v.Value == nil:
			fmt.Fprintf(&b, "# %s differs between %ss\n", v.Name, v.By)
		case *v.Value == job.AtStart:
			fmt.Fprintf(&b, "# %s is known when a job starts\n", v.Name)
		default:
			fmt.Fprintf(&b, "export %s=%s\n", v.Name, shellwords.QuotePOSIX(*v.Value))
		}
	}
	return b.String()
}

// shellName reports whether a shell takes a name for that of a variable.
func shellName(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') && strings.Trim(name, shellLetters) == ""
}

// shellLetters are those of names.
const shellLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
