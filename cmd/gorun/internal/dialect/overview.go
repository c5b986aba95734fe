package dialect

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Categories of gorun's commands, in the order of the overview. Commands without one are not listed there.
const (
	CategoryRun      = "Run"
	CategoryInspect  = "Inspect"
	CategoryDiagnose = "Diagnose"
	CategoryHelp     = "Help"
)

// topic is a page of `gorun help TOPIC`: an introduction and the options of some groups.
type topic struct {
	name     string
	about    string
	groups   []Group
	examples []Example
	more     string
}

var topics = []topic{
	{
		"hosts", "Where ranks run and how gorun reaches other hosts.",
		[]Group{GroupRanks, GroupHosts, GroupReach},
		[]Example{
			{"gorun -H node1:4,node2:4 ./app", "eight ranks on two hosts, over SSH"},
			{"gorun --hostfile hosts.txt --copy ./app ./app", "send the program first"},
			{"gorun --offline -H node[01-16]:8 ./app", "print the plan, contact no host"},
			{"gorun hosts check -H node[01-16] ./app", "test hosts before a job"},
		},
		"Options of the test: gorun hosts check --help. More: docs/hosts.md.",
	},
	{
		"placement", "Which CPUs, memory and GPUs each rank uses.",
		[]Group{GroupPlaces},
		[]Example{
			{"gorun topo -n 8", "draw this machine and its ranks"},
			{"gorun -n 2 --map-by numa ./app", "bind one rank to each NUMA node"},
			{"gorun --gpus free train.py", "use GPUs that no process uses"},
		},
		"By default each of several ranks gets an equal share of the cores, near its GPU. More: docs/placement.md.",
	},
	{
		"output", "What ranks print, log files, standard input, and what gorun tells you.",
		[]Group{GroupOutput, GroupLook},
		[]Example{{"gorun -n 2 --log-dir logs train.py", "print, and write logs/0.out and so on"}},
		"More: docs/output.md.",
	},
	{
		"failures", "How a job ends, restarts, time limits, hangs and exit codes.",
		[]Group{GroupEnd},
		[]Example{
			{"gorun --max-restarts 3 train.py", "restart all ranks after a failure"},
			{"gorun --hang-timeout 10m train.py", "show where ranks hang, then stop"},
			{"gorun explain train.log", "explain known errors of a log"},
		},
		"More: docs/failures.md.",
	},
	{
		"rendezvous", "How ranks and nodes find each other.",
		[]Group{GroupMeeting},
		[]Example{
			{"gorun --nnodes 2 --master-addr node1 --master-port 29500 train.py", "the same line on each of two nodes"},
		},
		"More: docs/hosts.md and docs/internals/store.md.",
	},
	{
		"environment", "What ranks find in their environment, and how programs start.",
		[]Group{GroupProgram},
		[]Example{
			{"gorun -x OMP_NUM_THREADS=4 ./app", "set a variable"},
			{"gorun -n 2 --dry-run -v ./app", "show the variables with reasons"},
			{"gorun explain NCCL_IB_HCA", "explain a variable"},
		},
		"Every option has a variable: GORUN_LOG_DIR sets the default of --log-dir. More: docs/reference/variables.md.",
	},
	{
		"mpi", "MPI programs start unmodified: MPICH, Intel MPI, MVAPICH and Open MPI.",
		nil,
		[]Example{
			{"gorun -n 4 ./hello", "an MPI program"},
			{"gorun -n 4 -m mpi4py train.py", "a script that uses mpi4py"},
			{"gorun install-names --mpirun", "mpirun and mpiexec are gorun"},
		},
		"gorun knows the options of mpirun and mpiexec in each of their spellings: docs/reference/mpirun.md. " +
			"More: docs/mpi.md.",
	},
	{
		"slurm", "Inside Slurm, gorun uses your allocation: no host list, no SSH.",
		nil,
		[]Example{
			{"salloc -N 2 --ntasks-per-node=4 gorun ./app", "eight ranks on two nodes"},
			{"gorun sbatch -N 2 --nproc-per-node 4 ./app", "write and submit a batch script"},
			{"srun -n 8 gorun ./app", "each gorun is one rank"},
		},
		"Options of the batch script: gorun sbatch --help. More: docs/schedulers.md.",
	},
}

// allTopics prints every option.
const allTopics = "all"

// Topics returns the names of the pages of `gorun help TOPIC`.
func Topics() []string {
	var names []string
	for _, t := range topics {
		names = append(names, t.name)
	}
	return append(names, allTopics)
}

// TopicHelp returns the page of a topic. ok is false if none exists of that name.
func TopicHelp(name string, commands []*cli.Command) (page string, ok bool) {
	if name == allTopics {
		return Gorun.Help(commands), true
	}
	i := slices.IndexFunc(topics, func(t topic) bool { return t.name == name })
	if i < 0 {
		return "", false
	}
	var b helpBuilder
	b.paragraph("", topics[i].about)
	b.topic(topics[i])
	return b.String(), true
}

// topic writes what follows the first sentence.
func (b *helpBuilder) topic(t topic) {
	c := Gorun.overviewCommand()
	b.heading("Examples")
	for _, e := range t.examples {
		b.example(e)
	}
	for _, g := range t.groups {
		b.heading(g.String())
		b.options(&c, func(f *Flag) int {
			if f.Group != g {
				return -1
			}
			return 0
		})
	}
	if t.name == "failures" {
		b.exitCodes(exitCodes)
	}
	b.last(t.more)
}

func (d *Dialect) overviewCommand() cli.Command {
	c, _ := d.Manual()
	return c
}

// common lists the options of the overview, with helps of one line.
var common = []Example{
	{"np", "start N ranks"},
	{"nproc-per-node", "start N ranks on each node; also gpu, cpu, auto"},
	{"host", "run on these hosts; N slots each; node[01-16]:8"},
	{"hostfile", "read hosts from a file"},
	{"x", "set a variable for the ranks"},
	{"gpus", "use these GPUs, or those that are free"},
	{"log-dir", "write DIR/RANK.out and DIR/RANK.err, too"},
	{"tee", "print and also write: 1 stdout, 2 stderr, 3 both"},
	{"max-restarts", "restart all ranks up to N times after a failure"},
	{"timeout", "stop the job after D: 90, 30m, 2h"},
	{"hang-timeout", "show what ranks do if nothing happens for D"},
	{"dry-run", "show the plan, start nothing; --offline: contact no host"},
	{"verbose", "show what was decided; -q shows less"},
}

// Overview returns gorun's help on one screen. Help has every option.
func (d *Dialect) Overview(commands []*cli.Command) string {
	var b helpBuilder
	b.WriteString("gorun runs a program as the ranks of one job, on this machine or on many.\n" +
		"\nUsage: gorun [OPTIONS] PROGRAM [ARGS...]\n")
	b.heading("Examples")
	for _, e := range []Example{
		{"gorun train.py", "one rank per GPU"},
		{"gorun -n 4 ./app --verbose", "four ranks on this machine"},
		{"gorun -H node[1-4]:8 ./app", "32 ranks on four hosts, over SSH"},
	} {
		b.example(e)
	}
	b.heading("Common options")
	for _, e := range common {
		o := withName(d.Options, e[0])
		b.row(o.overviewUsage(), e[1])
	}
	if commands != nil {
		b.heading("Commands (gorun COMMAND --help)")
		for _, category := range []string{CategoryRun, CategoryInspect, CategoryDiagnose, CategoryHelp} {
			var names []string
			for _, c := range commands {
				if c.Category == category {
					names = append(names, c.Name)
				}
			}
			b.row(category, strings.Join(names, "  "))
		}
	}
	b.heading("More")
	b.row("gorun help TOPIC", strings.Join(Topics(), ", "))
	b.row("gorun run PROGRAM", "start a program that is named like a command")
	return b.String()
}

// overviewUsage is Usage with a short placeholder.
func (o *Option) overviewUsage() string {
	usage := o.Usage()
	if len(usage) <= helpColumn-4 || !o.TakesValue() {
		return usage
	}
	names := strings.TrimSuffix(usage, " "+o.Value)
	switch o.Name() {
	case "nproc-per-node":
		return names + " N"
	case "host":
		return names + " HOST:N,..."
	}
	return names + " ..."
}
