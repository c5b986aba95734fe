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
	*commandLine
	requested  []string  // options in the script, --NAME=VALUE or --NAME each, without newlines
	defaults   []string  // options in the script that SBATCH_* variables override
	submission []string  // options of sbatch itself
	line       []string  // the arguments of gorun in the script
	program    string    // the first one, as typed
	dir        string    // Slurm's --chdir; "" is here
	own        []*option // Slurm's options and those of gorun sbatch itself
}

func sbatchCommand(c *commandLine) *command {
	o := &sbatchOptions{commandLine: c}
	ranks := *c.JobOptions("np")[0] // of each program
	ranks.Names, ranks.Help = "ntasks n np", "start N ranks: tasks of Slurm"
	o.own = slices.Concat(
		c.group(dialect.GroupRanks, ranks),
		o.slurmOptions(dialect.GroupRanks, slurmRow{
			"ntasks-per-node", "N", "start N ranks on each node; with --nproc-per-node only reserve N tasks",
		}),
		c.group(dialect.GroupHosts, option{
			Names: "nodes N nnodes", Value: "N", Attached: true, Set: o.setNodes,
			Help: "use N nodes, or MIN-MAX",
		}),
		o.slurmOptions(dialect.GroupHosts, slurmHosts...), o.slurmOptions(dialect.GroupSlurm, slurmResources...),
		o.slurmOptions(dialect.GroupHandled, slurmHandling...), o.slurmOptions(dialect.GroupSubmitted, slurmSubmission...),
		o.others())
	taken := c.JobOptionsExcept(false, "chdir", "dry-run", "offline", "json", "version", "help", "gpus", "oversubscribe",
		"exclude", "np", "host", "hostfile", "nnodes", "nproc-per-node", "print-completion", "output")
	chdir := *c.JobOptions("chdir")[0] // by the names that are not Slurm's
	_, chdir.Names, _ = strings.Cut(chdir.Names, " ")
	c.OnProgram = o.addProgram
	c.CheckExport = o.checkExport
	return &command{
		request:  o,
		programs: true,
		Command: cli.Command{
			Usage: "write a batch script for Slurm and submit it",
			Description: "gorun sbatch writes a batch script that starts PROGRAM in a Slurm allocation, and " +
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
			Last: "A name that Slurm and gorun share means Slurm's (-c, -q, -t, --gpus, --exclude), except -m, -x, " +
				"-v and " +
				"-H: Slurm's are --distribution, --exclude and --hold. " +
				"gorun's other options (gorun --help) go onto its line in the script: --timeout, --map-by, --max-restarts. More: " +
				"docs/schedulers.md.",
		},
	}
}

// others are neither Slurm's nor the job's.
func (o *sbatchOptions) others() []*option {
	return append(o.group(dialect.GroupSubmitted,
		option{
			Names: "sbatch-option O", Value: "--NAME=VALUE",
			Help: "pass any other option to sbatch; repeatable",
			Set:  o.setOption,
		},
		option{
			Names: "dry-run",
			Help:  "print the script and stop",
			Set:   dialect.Switch(&o.DryRun),
		},
	), o.group(dialect.GroupRefused,
		option{
			Names: "H", Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them; Slurm's own -H is --hold",
		},
		option{
			Names: "host hosts", Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them",
		},
		option{
			Names: "hostfile machinefile", Value: "FILE",
			Help: "Slurm chooses the hosts: use --nodelist NAMES for some of them",
		},
		option{
			Names: "wrap", Value: "COMMAND",
			Help: "gorun sbatch writes the script itself: write the program and its arguments after the options",
		},
	)...)
}

// request adds an option to the script. The last one of a name counts, as for sbatch.
func (o *sbatchOptions) request(name, value string) error {
	if strings.ContainsAny(value, "\r\n") {
		return errors.New("a line of a batch script ends at a newline: the value cannot hold one")
	}
	o.requested = slices.DeleteFunc(o.requested, func(option string) bool {
		other, _, _ := strings.Cut(option, "=")
		return other == name
	})
	o.requested = append(o.requested, name+value)
	return nil
}

// requests reports whether one of Slurm's options was given.
func (o *sbatchOptions) requests(names ...string) bool {
	return slices.ContainsFunc(o.requested, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return slices.Contains(names, strings.TrimLeft(name, "-"))
	})
}

// setNodes takes Slurm's MIN-MAX, from which Slurm chooses, and torchrun's MIN:MAX, which is MAX nodes of which the job
// may lose some.
func (o *sbatchOptions) setNodes(a dialect.Arg) error {
	if _, most, ranged := strings.Cut(a.Value, ":"); ranged {
		if err := o.JobOptions("nnodes")[0].Set(a); err != nil {
			return err
		}
		a.Value = most
	}
	o.Spec.NumNodes = 0
	if n, err := dialect.ParseRanks(a.Value); err == nil {
		o.Spec.NumNodes = n
	} else if low, _, ranged := strings.Cut(a.Value, "-"); !ranged || low == "" {
		return err
	}
	return o.request("--nodes", "="+a.Value)
}

// setOption takes an option of sbatch that gorun does not know.
func (o *sbatchOptions) setOption(a dialect.Arg) error {
	name, value, given := strings.Cut(a.Value, "=")
	if !strings.HasPrefix(name, "--") || len(name) < 3 || strings.ContainsAny(name, " \t\r\n'\"\\#") {
		return errors.New("not an option in the form --NAME=VALUE or --NAME")
	}
	if given {
		value = "=" + value
	}
	return o.request(name, value)
}

// run replaces this process by sbatch, so that signals, output and exit code are sbatch's own.
func (o *sbatchOptions) run() error {
	gorun, err := os.Executable()
	if err != nil {
		return err
	}
	if path := filepath.Join(o.dir, o.program); isBatchScript(path) || isBatchScript(o.program) {
		return exitError{job.ExitUsage, fmt.Sprintf("%s is a batch script: it has #SBATCH lines. Submit it as it is, "+
			"sbatch %s; gorun belongs into it, before the program that the ranks run",
			o.program, shellwords.Quote(o.program))}
	}
	if !o.Quiet && o.isOnlyHere() {
		o.notify(fmt.Sprintf("%s is here, and not in %s, where --chdir has the job begin and look for it: write its "+
			"absolute path, or --wdir %[2]s, which is the ranks' directory alone",
			o.program, o.dir))
	}
	text, certain := o.missingProgram()
	if text != "" && (certain || !o.Quiet) {
		o.notify(text)
	}
	if certain && !o.DryRun {
		return exitWith(job.ExitNotFound)
	}
	script := o.script(gorun)
	if o.DryRun {
		return o.print(script)
	}
	return o.execSbatch(script)
}

// isOnlyHere reports whether the program is a file here, but not in the directory where Slurm starts the job.
func (o *sbatchOptions) isOnlyHere() bool {
	isFile := strings.Contains(o.program, "/") || filepath.Ext(o.program) == ".py"
	if o.dir == "" || !isFile || filepath.IsAbs(o.program) {
		return false
	}
	_, here := os.Stat(o.program)
	_, there := os.Stat(filepath.Join(o.dir, o.program))
	return here == nil && errors.Is(there, fs.ErrNotExist)
}

// missingProgram describes a program that does not exist on this host. The job would not find it either, certain says,
// unless its path is absolute: the nodes may have that.
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
				": not found here or in PATH; if only the nodes have it, write its absolute path", true
		}
	}
	return text, false
}

// isBatchScript reports whether a file has #SBATCH lines near its beginning.
func isBatchScript(path string) bool {
	const limit = 64 << 10
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, limit))
	return bytes.HasPrefix(text, []byte("#!")) && bytes.Contains(text, []byte("\n#SBATCH "))
}

// execSbatch executes sbatch with the script as its standard input. Requested options are also on its command line,
// where SBATCH_* variables do not override them.
func (o *sbatchOptions) execSbatch(script string) error {
	path, err := exec.LookPath("sbatch")
	if err != nil {
		return errors.New("sbatch: not found in PATH: run this on a login node of Slurm, or print the script with " +
			"--dry-run")
	}
	if err := setStdin(script); err != nil {
		return fmt.Errorf("hand the script to sbatch: %w", err)
	}
	words := slices.Concat([]string{"sbatch"}, o.requested, o.submission)
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, withoutJob(os.Environ())))
}

// setStdin replaces standard input by a text, without a file on disk.
func setStdin(text string) error {
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

// slurmSettings are variables that configure Slurm's commands, unlike those that describe a job.
var slurmSettings = []string{
	"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_JWT",
	"SLURM_TIME_FORMAT", "SLURM_UMASK",
}

// withoutJob removes the variables of the job in which another one is submitted: sbatch passes them on, and the new
// job's gorun would take them for its own.
func withoutJob(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		isSlurm := strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SLURMD_")
		return isSlurm && !slices.Contains(slurmSettings, name) ||
			slices.Contains([]string{env.VarJob, env.VarJobEngine, env.VarJobKey, env.VarJobStore, env.VarJobWorld}, name)
	})
}

// perNode is gorun's option for the ranks of each node. Beside a total number of ranks, it is the most that Slurm may
// place on a node.
const perNode = "nproc-per-node"

// addProgram adds a program, and the options of gorun before it, to gorun's line in the script.
func (o *sbatchOptions) addProgram(p dialect.Program) {
	o.checkModule(p)
	if !p.First {
		o.line = append(o.line, ":")
	}
	if several := !p.First || p.More; several && p.NumRanks > 0 {
		o.line = append(o.line, "-n", fmt.Sprint(p.NumRanks))
	}
	for _, given := range p.Options {
		name := given.Option.Name()
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

func (o *sbatchOptions) check([]string) {
	o.CheckPrograms()
	o.RefuseLaunchers()
	o.noteSlurmVariables()
	if o.Err() == nil {
		o.countTasks()
		o.loseNodes()
		o.nameJob()
		o.checkLine()
	}
	o.NoteUnknownVariables()
}

// countTasks requests tasks for the ranks: -n is Slurm's number of tasks, --nproc-per-node its tasks per node unless
// the user gives those.
func (o *sbatchOptions) countTasks() {
	total := 0
	for _, app := range o.Spec.Apps {
		total += app.NumRanks
	}
	each, nodes := o.Spec.PerNode, o.Spec.NumNodes
	if each.Kind == job.CountFixed && total > 0 && !o.requests("nodes") {
		nodes = (total + each.N - 1) / each.N
		_ = o.request("--nodes", fmt.Sprintf("=%d", nodes))
	}
	if total > 0 {
		_ = o.request("--ntasks", fmt.Sprintf("=%d", total))
		o.countOnLine(total, nodes)
	}
	switch {
	case each.Kind == job.CountUnset:
	case len(o.Spec.Apps) > 1:
		o.refuse("%s does not go with several programs: each has its own -n", each.From)
	case each.Kind != job.CountFixed && total > 0:
		o.refuse("%s and %s both give the number of ranks: keep one", o.RanksFrom(), each.From)
	case each.Kind != job.CountFixed:
		o.noteCPUs(each)
	case total > 0 && nodes > 0 && total > each.N*nodes:
		o.refuse("%s contradicts %s with %s, which make %d", o.RanksFrom(), each.From, o.sources["nodes"], each.N*nodes)
	case !o.requests("ntasks-per-node"):
		_ = o.request("--ntasks-per-node", fmt.Sprintf("=%d", each.N))
	}
}

// loseNodes has Slurm not end the job when a node fails that the job can do without.
func (o *sbatchOptions) loseNodes() {
	if !o.MayLoseNodes() {
		return
	}
	if !o.requests("no-kill") {
		_ = o.request("--no-kill", "")
	}
	if o.Spec.MinNodes > 0 && strings.Contains(o.sources["nodes"], ":") {
		o.line = append([]string{"--min-nodes", fmt.Sprint(o.Spec.MinNodes)}, o.line...)
	}
}

// countOnLine repeats the number of ranks on gorun's line. Otherwise gorun might take one task on each node for a
// launcher that starts a rank per GPU.
func (o *sbatchOptions) countOnLine(total, nodes int) {
	switch {
	case len(o.Spec.Apps) > 1: // each has its own number
	case total == nodes:
		o.line = append([]string{"--" + perNode, "1"}, o.line...)
	default:
		o.line = append([]string{"-n", fmt.Sprint(total)}, o.line...)
	}
}

// noteCPUs warns that Slurm does not know how many ranks a count by GPUs or CPUs makes.
func (o *sbatchOptions) noteCPUs(each job.Count) {
	if !o.requests("ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", "exclusive") {
		o.Note(each.From + ": Slurm does not know how many ranks that will be, and gives each node the CPUs of one task: " +
			"add --cpus-per-gpu N, -c N or --exclusive")
	}
}

// nameJob names the job for its program: sbatch would call a script from standard input "sbatch".
func (o *sbatchOptions) nameJob() {
	o.program = o.Spec.Apps[0].Program
	for _, option := range o.requested {
		if dir, ok := strings.CutPrefix(option, "--chdir="); ok {
			o.dir = dir
		}
	}
	if name := path.Base(o.program); !o.requests("job-name") && !strings.ContainsAny(name, "\r\n") {
		o.defaults = append(o.defaults, "--job-name="+name)
	}
}

// checkLine parses gorun's line, so that mistakes are known now and not when the job starts. It hides the variables of
// this host and of an allocation around it.
func (o *sbatchOptions) checkLine() {
	around := o.around
	around.Lookup = func(name string) (string, bool) {
		if !isDefault(name) {
			return "", false
		}
		return o.around.Lookup(name)
	}
	around.Names = func() []string {
		return slices.DeleteFunc(o.around.Names(), func(name string) bool { return !isDefault(name) })
	}
	_, err := dialect.Parse("gorun", withoutOptions(o.line, "--engine", "--min-nodes", "--spares"), around)
	if usage, ok := errors.AsType[*dialect.UsageError](err); ok {
		for _, problem := range usage.Problems.Errors {
			o.Problem(problem)
		}
	} else if err != nil {
		o.Problem(err)
	}
}

// isDefault reports whether a variable is the default of an option, which the job inherits.
func isDefault(name string) bool {
	return (strings.HasPrefix(name, "GORUN_") && !strings.HasPrefix(name, "GORUN_JOB")) ||
		strings.HasPrefix(name, "PET_") || name == "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
}

// withoutOptions removes options that need a job and its nodes: sbatch has yet to make it.
func withoutOptions(line []string, names ...string) []string {
	for _, name := range names {
		if at := slices.Index(line, name); at >= 0 && at+1 < len(line) {
			line = slices.Delete(slices.Clone(line), at, at+2)
		}
	}
	return line
}

// nodeName matches names such as n1 and gpu04, which are hardly variables.
var (
	variableName = onDemand(`^[A-Za-z_][A-Za-z0-9_]*$`)
	nodeName     = onDemand(`^[a-z][a-z_]*[0-9]+$`)
)

// checkExport refuses -x with what looks like nodes: Slurm's -x excludes nodes, gorun's passes a variable on.
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

// distribution matches the values of Slurm's -m: block, cyclic:block, plane=4.
var distribution = onDemand(
	`^(block|cyclic|arbitrary|\*|plane(=[0-9]+)?)(:(block|cyclic|fcyclic|\*)){0,2}(,(Pack|NoPack))?$`)

// checkModule refuses -m with one of Slurm's distributions: gorun's -m starts a Python module.
func (o *sbatchOptions) checkModule(p dialect.Program) {
	if len(p.Words) == 0 || !distribution().MatchString(p.Words[0]) {
		return
	}
	if slices.ContainsFunc(p.Options, func(g dialect.Occurrence) bool { return g.Text == "-m" }) {
		o.refuse("-m %s: -m starts a Python module; for Slurm's distribution write --distribution=%s, and "+
			"--module %[1]s for a module of that name",
			p.Words[0], shellwords.Quote(p.Words[0]))
	}
}

// onDemand compiles an expression at its first use: most command lines need none.
func onDemand(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// slurmVariable matches a Slurm variable as a shell would expand it.
var slurmVariable = onDemand(`\$\{?(SLURM_[A-Z0-9_]+)`)

// noteSlurmVariables warns that no shell expands variables in arguments, unlike in a script.
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

// scriptComment explains the last line of the script.
const scriptComment = `
# One gorun for all nodes: it starts the others' by srun, and finds hosts, slots and GPUs in Slurm's variables.
# exec puts it in place of this shell, to which alone Slurm sends the signal of --signal=B:...; gorun passes it ` +
	`to every rank.
`

// script is the batch script; gorun is the path of this program.
func (o *sbatchOptions) script(gorun string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "#!/bin/bash\n# Written by gorun sbatch, version %s.\n", version.String())
	for _, option := range slices.Concat(o.defaults, o.requested) {
		text.WriteString("#SBATCH " + sbatchQuote(option) + "\n")
	}
	text.WriteString(scriptComment + "exec " + shellwords.Quote(gorun))
	for _, word := range o.line {
		text.WriteString(" " + shellwords.Quote(word))
	}
	return text.String() + "\n"
}

// sbatchQuote quotes an option for a #SBATCH line, where sbatch knows quotes, backslashes and comments.
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
