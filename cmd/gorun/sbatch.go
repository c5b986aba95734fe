package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env"
	"gorun/internal/shellwords"
	"gorun/internal/version"
	"gorun/launcher/job"
)

// sbatchOptions are those of gorun sbatch: Slurm's for the job, gorun's for its ranks.
type sbatchOptions struct {
	*call
	asked      []string // options of the script, --NAME=VALUE or --NAME each, without newlines
	defaults   []string // more of them that nobody typed: Slurm's SBATCH_* variables are stronger
	submission []string // options of sbatch itself
	line       []string // what follows gorun in the script: its options, the program and its arguments
	program    string   // the first one, as it was typed
	dir        string   // where Slurm starts it, "" is here
	nodesFrom  string
	own        []*option // Slurm's options, and those that gorun sbatch itself obeys
}

func sbatchCommand(c *call) *command {
	o := &sbatchOptions{call: c}
	ranks := *c.JobOptions("np")[0] // of each program
	ranks.Names, ranks.Help = []string{"ntasks", "n", "np"}, "number of ranks: Slurm's tasks"
	o.own = slices.Concat(
		own(dialect.GroupRanks, ranks),
		o.slurms(dialect.GroupRanks, slurmRow{
			"", "ntasks-per-node", "N",
			"ranks on each node, as --nproc-per-node N; beside that it is Slurm's count of tasks alone",
		}),
		own(dialect.GroupHosts, option{
			Names: []string{"nodes", "N", "nnodes"}, Value: "N", Attached: true, Set: o.setNodes,
			Help: "number of nodes, or Slurm's MIN-MAX",
		}),
		o.slurms(dialect.GroupHosts, slurmHosts...), o.slurms(dialect.GroupSlurm, slurmResources...),
		o.slurms(dialect.GroupHandled, slurmHandling...), o.slurms(dialect.GroupSubmitted, slurmSubmission...),
		o.others())
	taken := c.JobOptionsExcept(false, "chdir", "dry-run", "json", "version", "help", "gpus", "oversubscribe",
		"exclude", "np", "host", "hostfile", "nnodes", "nproc-per-node", "print-completion", "output")
	chdir := *c.JobOptions("chdir")[0] // by the names that are not Slurm's
	chdir.Names = chdir.Names[1:]
	c.OnProgram = o.addProgram
	c.CheckExport = o.checkExport
	return &command{
		request:  o,
		programs: true,
		Command: cli.Command{
			Usage: "write a batch script for Slurm and submit it",
			Description: "gorun sbatch writes a batch script that starts PROGRAM by gorun in an allocation of Slurm's, and " +
				"submits it by sbatch. The script goes to sbatch's standard input: no file is left.",
			UsageText: "gorun sbatch [options] PROGRAM [ARGS...]",
			Flags: append(c.Flags(append(o.own, c.JobOptions(perNode)...)...),
				dialect.Hide(c.Flags(append(taken, &chdir)...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun sbatch -N 2 --nproc-per-node 4 -t 1:00:00 ./trainer", "four ranks on each of two nodes, for an hour"},
				{
					"gorun sbatch -N 2 --gpus-per-node 4 --nproc-per-node 4 -c 8 train.py",
					"a rank of a PyTorch script for each of four GPUs a node, with 8 CPUs each",
				},
				{
					"gorun sbatch --dry-run -n 64 ./simulate >job.sh",
					"64 ranks on as many nodes as it takes; the script, to change and submit",
				},
			},
			Often: []string{
				"nodes", "ntasks", "nproc-per-node", "gpus-per-node", "cpus-per-task", "time", "partition",
				"account", "output", "dry-run",
			},
			Ranks: "Without -n and --nproc-per-node: on each node one rank per GPU, else one.",
			Codes: []dialect.Example{
				{"0", "the job was submitted; with --wait: it ended with 0"},
				{"2", "a mistake on the command line"},
				{"125", "sbatch was not found, or could not be started"},
				{"others", "sbatch's own; with --wait those of the job"},
			},
			Last: "Where Slurm and gorun share a name it means Slurm's (-c, -q, -t, --gpus, --exclude), but for -m, -x, " +
				"-v and " +
				"-H: Slurm's are --distribution, --exclude and --hold. " +
				"gorun's other options (gorun --help) go onto its line in the script: --timeout, --map-by, --max-restarts. More: " +
				"docs/schedulers.md.",
		},
	}
}

// others is what is neither Slurm's nor the job's.
func (o *sbatchOptions) others() []*option {
	return append(own(dialect.GroupSubmitted,
		option{
			Names: []string{"sbatch-option", "O"}, Value: "--NAME=VALUE",
			Help: "any other option of your sbatch; may be repeated",
			Set:  o.setOption,
		},
		option{
			Names: []string{"dry-run"},
			Help:  "print the script and stop",
			Set:   dialect.Switch(&o.DryRun),
		},
	), own(dialect.GroupRefused,
		option{
			Names: []string{"H"}, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them; Slurm's own -H is --hold",
		},
		option{
			Names: []string{"host", "hosts"}, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them",
		},
		option{
			Names: []string{"hostfile", "machinefile"}, Value: "FILE",
			Help: "Slurm chooses the hosts, and no file does; --nodelist NAMES wishes for some of them",
		},
		option{
			Names: []string{"wrap"}, Value: "COMMAND",
			Help: "gorun sbatch writes the script itself: write the program and its arguments behind the options",
		},
	)...)
}

// ask adds an option to the script; the last one of a name counts, as for sbatch.
func (o *sbatchOptions) ask(name, value string) error {
	if strings.ContainsAny(value, "\r\n") {
		return errors.New("a line of a batch script ends at a newline: the value cannot hold one")
	}
	o.asked = slices.DeleteFunc(o.asked, func(option string) bool {
		other, _, _ := strings.Cut(option, "=")
		return other == name
	})
	o.asked = append(o.asked, name+value)
	return nil
}

// asksFor reports whether one of Slurm's options was given.
func (o *sbatchOptions) asksFor(names ...string) bool {
	return slices.ContainsFunc(o.asked, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return slices.Contains(names, strings.TrimLeft(name, "-"))
	})
}

// setNodes takes what Slurm takes; torchrun's MIN:MAX would be an elastic job.
func (o *sbatchOptions) setNodes(a dialect.Arg) error {
	if low, high, ranged := strings.Cut(a.Value, ":"); ranged && low != high {
		return errors.New("elastic jobs: not yet; give a fixed number, or Slurm's MIN-MAX, from which Slurm chooses one")
	} else if ranged {
		a.Value = low
	}
	o.Spec.NumNodes = 0
	if n, err := dialect.ParseRanks(a.Value); err == nil {
		o.Spec.NumNodes = n
	} else if low, _, ranged := strings.Cut(a.Value, "-"); !ranged || low == "" {
		return err
	}
	o.nodesFrom = a.From
	return o.ask("--nodes", "="+a.Value)
}

// setOption takes an option that gorun does not know.
func (o *sbatchOptions) setOption(a dialect.Arg) error {
	name, value, given := strings.Cut(a.Value, "=")
	if !strings.HasPrefix(name, "--") || len(name) < 3 || strings.ContainsAny(name, " \t\r\n'\"\\#") {
		return errors.New("not an option in the form --NAME=VALUE or --NAME")
	}
	if given {
		value = "=" + value
	}
	return o.ask(name, value)
}

// run becomes sbatch, which reads the script from its standard input: signals, output and exit code are sbatch's
// own. It returns where that cannot be.
func (o *sbatchOptions) run() error {
	gorun, err := os.Executable()
	if err != nil {
		return err
	}
	if path := filepath.Join(o.dir, o.program); isBatchScript(path) || isBatchScript(o.program) {
		return failure{job.ExitUsage, fmt.Sprintf("%s is a batch script: it has #SBATCH lines. Submit it as it is, "+
			"sbatch %s; gorun belongs into it, before the program that the ranks run",
			o.program, shellwords.Quote(o.program))}
	}
	if !o.Quiet && o.isElsewhere() {
		o.say(fmt.Sprintf("%s is here, and not in %s, where --chdir has the job begin and look for it: write its "+
			"absolute path, or --wdir %[2]s, which is the ranks' directory alone",
			o.program, o.dir))
	}
	text, certain := o.missingProgram()
	if text != "" && (certain || !o.Quiet) {
		o.say(text)
	}
	if certain && !o.DryRun {
		return exitWith(job.ExitNotFound)
	}
	script := o.script(gorun)
	if o.DryRun {
		return o.write(script)
	}
	return o.becomeSbatch(script)
}

// isElsewhere reports whether the program is a file here, and none where Slurm starts the job.
func (o *sbatchOptions) isElsewhere() bool {
	isFile := strings.Contains(o.program, "/") || filepath.Ext(o.program) == ".py"
	if o.dir == "" || !isFile || filepath.IsAbs(o.program) {
		return false
	}
	_, here := os.Stat(o.program)
	_, there := os.Stat(filepath.Join(o.dir, o.program))
	return here == nil && errors.Is(there, fs.ErrNotExist)
}

// missingProgram says which program is nowhere here, "" for none. The job would not find it either, which is certain of
// all but absolute paths: those the nodes alone may have.
func (o *sbatchOptions) missingProgram() (text string, certain bool) {
	for _, app := range o.Spec.Apps {
		if app.Start == job.StartModule { // Python knows where to look
			continue
		}
		if filepath.IsAbs(app.Program) {
			if _, err := os.Stat(app.Program); errors.Is(err, fs.ErrNotExist) {
				text = app.Program + " is not on this host: the job ends with exit code 127 unless its nodes have it"
			}
			continue
		}
		found := false
		for _, dir := range []string{"", o.dir, o.Spec.Dir, app.Dir} {
			_, err := os.Stat(filepath.Join(dir, app.Program))
			found = found || !errors.Is(err, fs.ErrNotExist)
		}
		if _, err := exec.LookPath(app.Program); !found && err != nil {
			return app.Program +
				": no such program here, nor in PATH; of one that the nodes alone have write the absolute path", true
		}
	}
	return text, false
}

// isBatchScript reports whether a file has lines for sbatch, in the beginning where they count.
func isBatchScript(path string) bool {
	const most = 64 << 10
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return bytes.HasPrefix(text, []byte("#!")) && bytes.Contains(text, []byte("\n#SBATCH "))
}

// becomeSbatch executes sbatch in place of this program. What was typed is on its command line, too, as it is stronger
// there than variables SBATCH_*, which are stronger than the script.
func (o *sbatchOptions) becomeSbatch(script string) error {
	path, err := exec.LookPath("sbatch")
	if err != nil {
		return errors.New("sbatch was not found in PATH, by which jobs are submitted to Slurm: log in where it is " +
			"installed, or see the script by --dry-run")
	}
	if err := readFrom(script); err != nil {
		return fmt.Errorf("hand the script to sbatch: %w", err)
	}
	words := slices.Concat([]string{"sbatch"}, o.asked, o.submission)
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, ofNoJob(os.Environ())))
}

// readFrom makes a text what this process reads from its standard input, without a file on any disk.
func readFrom(text string) error {
	fd, err := unix.MemfdCreate("gorun-sbatch", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "script")
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return unix.Dup3(fd, 0, 0)
}

// slurmSettings are Slurm's variables that say how its commands work, and not which job somebody is in.
var slurmSettings = []string{
	"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_JWT",
	"SLURM_TIME_FORMAT", "SLURM_UMASK",
}

// ofNoJob leaves out what tells of the job in which somebody submits another one, as sbatch hands everything on: the
// new job's gorun would take itself for a part of the old one.
func ofNoJob(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		slurms := strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SLURMD_")
		return slurms && !slices.Contains(slurmSettings, name) ||
			slices.Contains([]string{env.VarJob, env.VarJobEngine, env.VarJobKey, env.VarJobStore, env.VarJobWorld}, name)
	})
}

// perNode is gorun's count for each node. Beside a number of all ranks it is the most that Slurm may place on a node,
// and Slurm's own count of tasks says to gorun how many each has.
const perNode = "nproc-per-node"

// addProgram adds a program and gorun's own options before it to gorun's line in the script.
func (o *sbatchOptions) addProgram(p dialect.Program) {
	o.checkModule(p)
	if !p.First {
		o.line = append(o.line, ":")
	}
	if several := !p.First || p.More; several && p.NumRanks > 0 {
		o.line = append(o.line, "-n", fmt.Sprint(p.NumRanks))
	}
	for _, given := range p.Options {
		name := given.Option.Names[0]
		if slices.Contains(o.own, given.Option) || name == "version" || name == "help" || name == perNode && p.NumRanks > 0 {
			continue
		}
		o.line = append(o.line, given.Words()...)
	}
	if p.Ended {
		o.line = append(o.line, "--")
	}
	o.line = append(o.line, p.Words...)
}

// check settles what Slurm is asked for and gorun's line.
func (o *sbatchOptions) check([]string) {
	o.CheckPrograms()
	o.RefuseLaunchers()
	o.noteSlurmVariables()
	if o.Err() == nil {
		o.countTasks()
		o.settleNames()
		o.checkLine()
	}
	o.NoteUnknownVariables()
}

// countTasks tells Slurm how many ranks there will be. -n is Slurm's tasks, which gorun finds in the allocation;
// --nproc-per-node is gorun's, and Slurm's tasks per node unless the user counts those.
func (o *sbatchOptions) countTasks() {
	total := 0
	for _, app := range o.Spec.Apps {
		total += app.NumRanks
	}
	each, nodes := o.Spec.PerNode, o.Spec.NumNodes
	if each.Kind == job.CountFixed && total > 0 && !o.asksFor("nodes") {
		nodes = (total + each.N - 1) / each.N
		_ = o.ask("--nodes", fmt.Sprintf("=%d", nodes))
	}
	if total > 0 {
		_ = o.ask("--ntasks", fmt.Sprintf("=%d", total))
		o.countOnLine(total, nodes)
	}
	switch {
	case each.Kind == job.CountUnset:
	case len(o.Spec.Apps) > 1:
		o.problem("%s does not go with several programs: each has its own -n", each.From)
	case each.Kind != job.CountFixed && total > 0:
		o.problem("%s and %s both give the number of ranks: keep one", o.RanksFrom(), each.From)
	case each.Kind != job.CountFixed:
		o.noteCPUs(each)
	case total > 0 && nodes > 0 && total > each.N*nodes:
		o.problem("%s contradicts %s with %s, which make %d", o.RanksFrom(), each.From, o.nodesFrom, each.N*nodes)
	case !o.asksFor("ntasks-per-node"):
		_ = o.ask("--ntasks-per-node", fmt.Sprintf("=%d", each.N))
	}
}

// countOnLine says the number of ranks on gorun's line, too: one task on each node may be meant for a launcher with a
// rank per GPU, but not where somebody has counted the ranks.
func (o *sbatchOptions) countOnLine(total, nodes int) {
	switch {
	case len(o.Spec.Apps) > 1: // each has its own there
	case total == nodes:
		o.line = append([]string{"--" + perNode, "1"}, o.line...)
	default:
		o.line = append([]string{"-n", fmt.Sprint(total)}, o.line...)
	}
}

// noteCPUs: Slurm cannot know how many ranks a count by GPUs or CPUs will be.
func (o *sbatchOptions) noteCPUs(each job.Count) {
	if !o.asksFor("ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", "exclusive") {
		o.Note(each.From + ": Slurm does not know how many ranks that will be, and gives each node the CPUs of one task: " +
			"add --cpus-per-gpu N, -c N or --exclusive")
	}
}

// settleNames: sbatch calls a script from its standard input "sbatch".
func (o *sbatchOptions) settleNames() {
	o.program = o.Spec.Apps[0].Program
	for _, option := range o.asked {
		if dir, ok := strings.CutPrefix(option, "--chdir="); ok {
			o.dir = dir
		}
	}
	if name := path.Base(o.program); !o.asksFor("job-name") && !strings.ContainsAny(name, "\r\n") {
		o.defaults = append(o.defaults, "--job-name="+name)
	}
}

// checkLine has gorun's own dialect read its line, so that mistakes are known now and not when the job begins.
// What belongs to the host where it is submitted, and to an allocation that may be around it, does not count.
func (o *sbatchOptions) checkLine() {
	around := o.around
	around.Lookup = func(name string) (string, bool) {
		if !isWish(name) {
			return "", false
		}
		return o.around.Lookup(name)
	}
	around.Names = func() []string {
		return slices.DeleteFunc(o.around.Names(), func(name string) bool { return !isWish(name) })
	}
	_, err := dialect.Parse("gorun", withoutEngine(o.line), around)
	var wrong *dialect.UsageError
	switch {
	case errors.As(err, &wrong):
		for _, problem := range wrong.Problems.Errors {
			o.Problem(problem)
		}
	case err != nil:
		o.Problem(err)
	}
}

// isWish reports whether a variable is the default of an option, which the job inherits.
func isWish(name string) bool {
	return (strings.HasPrefix(name, "GORUN_") && !strings.HasPrefix(name, "GORUN_JOB")) ||
		strings.HasPrefix(name, "PET_") || name == "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
}

// withoutEngine leaves out --engine: there is no such job yet.
func withoutEngine(line []string) []string {
	if at := slices.Index(line, "--engine"); at >= 0 && at+1 < len(line) {
		return slices.Delete(slices.Clone(line), at, at+2)
	}
	return line
}

// variableName is the name of an environment variable; nodeName is one as nodes have them, and hardly a variable: n1,
// gpu04.
var (
	variableName = onDemand(`^[A-Za-z_][A-Za-z0-9_]*$`)
	nodeName     = onDemand(`^[a-z][a-z_]*[0-9]+$`)
)

// checkExport tells Slurm's -x, which is followed by nodes, from gorun's, which is followed by a variable: known
// when it is submitted, not when the job begins.
func (o *sbatchOptions) checkExport(a dialect.Arg, name string) error {
	_, set := o.around.Lookup(name)
	switch {
	case set || strings.HasSuffix(name, "*") || o.FromVariable():
	case !variableName().MatchString(name), nodeName().MatchString(name):
		return fmt.Errorf("-x gives ranks a variable, and none of that name is set here; to leave out nodes, as Slurm's "+
			"own -x does: --exclude %s", shellwords.Quote(name))
	default:
		o.Note(a.From + ": the variable is not set here, so ranks get it only where the job has it")
	}
	return nil
}

// distribution is what Slurm's own -m takes: block, cyclic:block, plane=4.
var distribution = onDemand(
	`^(block|cyclic|arbitrary|\*|plane(=[0-9]+)?)(:(block|cyclic|fcyclic|\*)){0,2}(,(Pack|NoPack))?$`)

// checkModule tells Slurm's -m, a distribution of tasks, from gorun's, a Python module.
func (o *sbatchOptions) checkModule(p dialect.Program) {
	if len(p.Words) == 0 || !distribution().MatchString(p.Words[0]) {
		return
	}
	if slices.ContainsFunc(p.Options, func(g dialect.Occurrence) bool { return g.Text == "-m" }) {
		o.problem("-m %s: -m starts a Python module; for Slurm's distribution write --distribution=%s, and "+
			"--module %[1]s for a module of that name",
			p.Words[0], shellwords.Quote(p.Words[0]))
	}
}

// onDemand compiles an expression when it is first used: most command lines need none.
func onDemand(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// slurmVariable is one of Slurm's variables as a shell would replace it.
var slurmVariable = onDemand(`\$\{?(SLURM_[A-Z0-9_]+)`)

// noteSlurmVariables says that arguments are passed as they are: no shell replaces variables in them, as one does in a
// script.
func (o *sbatchOptions) noteSlurmVariables() {
	for _, app := range o.Spec.Apps {
		for i, word := range app.Args {
			found := slurmVariable().FindStringSubmatch(word)
			if found == nil || slices.ContainsFunc(append([]string{app.Program}, app.Args[:i]...), isShell) {
				continue
			}
			o.Note(fmt.Sprintf("%s is passed as it is, and no shell replaces variables in it: the program finds %s in its "+
				"environment; or start a shell: bash -c '%s ... %s'",
				word, found[1], app.Program, word))
			return
		}
	}
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "fish"}, path.Base(word))
}

// lineOfGorun says in the script why its last line is as it is.
const lineOfGorun = `
# One gorun for all nodes: it starts the others' by srun, and finds hosts, slots and GPUs in Slurm's variables.
# exec puts it in place of this shell, to which alone Slurm sends the signal of --signal=B:...; gorun passes it ` +
	`to every rank.
`

// script is a script for sbatch that starts the job by the gorun with that path.
func (o *sbatchOptions) script(gorun string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "#!/bin/bash\n# Written by gorun sbatch, version %s.\n", version.String())
	for _, option := range slices.Concat(o.defaults, o.asked) {
		text.WriteString("#SBATCH " + sbatchQuote(option) + "\n")
	}
	text.WriteString(lineOfGorun + "exec " + shellwords.Quote(gorun))
	for _, word := range o.line {
		text.WriteString(" " + shellwords.Quote(word))
	}
	return text.String() + "\n"
}

// sbatchQuote is a word as sbatch reads it back from a line of a script: it knows quotes and backslashes, and a #
// begins a comment.
func sbatchQuote(option string) string {
	name, value, given := strings.Cut(option, "=")
	if !given {
		return name
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool {
		return r >= 0x80 || !shellwords.Plain(byte(r)) && !strings.ContainsRune("[]*&|()", r)
	}) < 0 {
		return option
	}
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
