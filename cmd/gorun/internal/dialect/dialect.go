package dialect

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/launcher/job"
)

// Dialect is a way to write a command line.
type Dialect struct {
	// Name is how users call it, as it stands in the help.
	Name string
	// About says in a sentence what it is.
	About string

	examples  []example
	often     []string   // names of options that the help shows first, in this order, where there are many
	tables    [][]Option // the order in which prefixes are looked for, and of the help within a group
	taken     [][]Option // options that are taken, too, and that another dialect's help shows
	fallbacks []fallback
	codes     []example // exit codes; nil: those of a job
	last      string    // the last words of the help; "": those of a job

	interpreters []string // variables that name the Python interpreter, the strongest first

	python           bool          // programs are Python's, as torchrun has it
	launch           bool          // the script gets --local-rank, as torch.distributed.launch has it
	prefixes         bool          // unambiguous prefixes of options are accepted
	strict           bool          // one dash for one letter, two for more
	mpmd             bool          // a `:` begins another program
	colons           bool          // every lone `:` does
	subcommands      bool          // the first word may be one
	serves           bool          // there is no program: gorun serves a store for others
	tokens           bool          // there is no program: gorun makes a token
	explains         bool          // there is no program: gorun says what errors mean
	shows            bool          // there is no program: gorun shows a machine
	checks           bool          // gorun looks at hosts; a program may be named
	examines         bool          // and judges more of them than a job needs to start
	benches          bool          // the program is gorun's own, which measures
	batches          bool          // the job is submitted to Slurm
	environs         bool          // gorun shows an environment; a program may be named
	jobs             string        // there is no program: the command that does something with jobs
	operands         string        // what stands in a program's place there
	store            job.StoreMode // what --store=auto means
	count            int           // ranks per node where nothing says it; 0 leaves it open
	grace            time.Duration
	signals          []string // that end the job where no option says it, beside those that always do
	slots            slotRule // what hosts without a number of slots take, and what more ranks than slots are
	silent           bool     // notes are for -v alone: programs compare what this launcher prints
	hydraLabels      bool     // -l is Hydra's, the same on terminals
	reportsAsOpenMPI bool     // --report-bindings speaks as Open MPI does
	timeoutCode      int      // exit code at the deadline; 0: gorun's own
	like             string   // the launcher that has this exit code
	speaks           string   // whose command lines it takes, where tools ask for that by --version
}

// example is a line of the help.
type example struct{ line, what string }

// The dialects.
var (
	// Gorun is gorun's own: it understands what users of mpirun and of torchrun
	// type.
	Gorun = &Dialect{
		Name:  "gorun",
		About: "gorun starts a program as the ranks of one job, and ends them as one.",
		examples: []example{
			{"gorun -n 4 ./trainer", "four ranks of a program"},
			{"gorun train.py --lr 0.1", "one rank per GPU of a PyTorch script"},
			{"gorun --nproc-per-node auto -m pkg.train", "a Python module, a rank per GPU or CPU"},
			{"gorun -n 2 --dry-run ./trainer", "what would be started, and why"},
			{"gorun -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
			{"gorun -H node[1-4]:8 ./trainer", "32 ranks on four hosts, over SSH"},
		},
		tables: [][]Option{
			ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable,
			reachTable, torchrunTable, openmpiTable, hydraTable, foreignTable, unclearTable,
		},
		fallbacks: []fallback{
			{option: "log-line-prefix-template", variable: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
		},
		interpreters: gorunInterpreters, mpmd: true, subcommands: true,
	}
	// Mpirun has the conventions of Open MPI's, and Mpiexec those of Hydra's, MPICH's and
	// Intel's; scripts of that world have rank 0 host the store.
	Mpirun = &Dialect{
		Name:  "mpirun",
		About: "gorun, called mpirun: starts a program as the ranks of one job, MPI's or any other.",
		examples: []example{
			{"mpirun -n 4 ./trainer", "four ranks of a program"},
			{"mpirun -H node1:4,node2:4 ./trainer", "eight on two hosts, over SSH"},
			{"mpirun -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
		},
		often: []string{
			"np", "N", "host", "hostfile", "x", "mca", "map-by", "bind-to", "report-bindings", "oversubscribe",
			"chdir", "app", "tag-output", "timeout", "dry-run", "help",
		},
		tables: [][]Option{
			ownTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable, reachTable, torchrunTable, perNodeTable, mpirunTable, openmpiTable, hydraTable, foreignTable,
		},
		fallbacks:    mpirunFallbacks,
		interpreters: gorunInterpreters, mpmd: true, colons: true, store: job.StoreRank0,
		slots: slotsOfOpenMPI, timeoutCode: 110, like: "Open MPI", reportsAsOpenMPI: true, silent: true,
		speaks: "the command lines of Open MPI 4 and 5 (OpenRTE, PRRTE)",
	}
	Mpiexec = &Dialect{
		Name:  "mpiexec",
		About: "gorun, called mpiexec: starts a program as the ranks of one job, MPI's or any other.",
		examples: []example{
			{"mpiexec -n 4 ./trainer", "four ranks of a program"},
			{"mpiexec -ppn 4 -hosts node1,node2 ./trainer", "eight on two hosts, over SSH"},
			{"mpiexec -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
		},
		often: []string{
			"np", "ppn", "host", "f", "genv", "env", "genvlist", "map-by", "bind-to", "chdir", "configfile",
			"l", "launcher", "iface", "timeout", "dry-run", "help",
		},
		tables: [][]Option{
			ownTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable, reachTable, torchrunTable, perNodeTable, mpiexecTable, hydraTable, openmpiTable, foreignTable,
		},
		fallbacks:    mpiexecFallbacks,
		interpreters: gorunInterpreters, mpmd: true, colons: true, store: job.StoreRank0,
		slots: slotsOfHydra, timeoutCode: 255, like: "Hydra", hydraLabels: true, silent: true,
		speaks: "the command lines of MPICH's mpiexec (HYDRA) and of Intel(R) MPI's",
	}
	// Prterun is the launcher of Open MPI 5, where mpirun has the exit codes of 4.
	Prterun = func() *Dialect {
		d := *Mpirun
		d.Name, d.timeoutCode, d.like = "prterun", 241, "Open MPI 5"
		return &d
	}()
	// Torchrun has torchrun's conventions.
	Torchrun = &Dialect{
		Name:  "torchrun",
		About: "gorun, called torchrun: starts a Python script as the ranks of one job.",
		examples: []example{
			{"torchrun --nproc-per-node gpu train.py", "one rank per GPU"},
			{"torchrun --nproc-per-node 4 -m pkg.train", "four ranks of a module"},
			{"torchrun --no-python --nproc-per-node 4 ./trainer", "of any other program"},
		},
		tables:    [][]Option{torchrunTable, ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable},
		fallbacks: torchrunFallbacks,
		python:    true, interpreters: torchrunInterpreters, prefixes: true, strict: true, count: 1, grace: torchrunGrace,
		signals: torchrunSignals,
	}
	// Launch has those of python -m torch.distributed.launch.
	Launch = &Dialect{
		Name:  "gorun launch",
		About: "gorun launch starts a Python script as python -m torch.distributed.launch does.",
		examples: []example{
			{"gorun launch --nproc-per-node 4 train.py", "the script gets --local-rank=N"},
			{"gorun launch --use-env --nproc-per-node 4 train.py", "it reads LOCAL_RANK"},
		},
		tables:    [][]Option{torchrunTable, launchTable, ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable},
		fallbacks: torchrunFallbacks,
		python:    true, interpreters: torchrunInterpreters, launch: true, prefixes: true, strict: true, count: 1,
		grace: torchrunGrace, signals: torchrunSignals,
	}
)

// torchrunGrace is the time that torchrun gives ranks to end.
const torchrunGrace = 30 * time.Second

// torchrunSignals is torchrun's default of --signals-to-handle.
var torchrunSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}

// GORUN_PYTHON is no option's default: ranks inherit it, because what they start
// should run by the same Python.
var (
	gorunInterpreters    = []string{"GORUN_PYTHON"}
	torchrunInterpreters = []string{"GORUN_PYTHON", "PYTHON_EXEC"}
)

var (
	mpirunFallbacks = append([]fallback{
		{option: "log-line-prefix-template", variable: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
		{option: "timeout", variable: "MPIEXEC_TIMEOUT"},
	}, parameterVariables()...)
	mpiexecFallbacks = append([]fallback{
		{option: "log-line-prefix-template", variable: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
		{option: "timeout", variable: "MPIEXEC_TIMEOUT"},
		{option: "timeout", variable: "I_MPI_JOB_TIMEOUT"},
		{option: "timeout", variable: "I_MPI_MPIEXEC_TIMEOUT"},
		{option: "hostfile", variable: "HYDRA_HOST_FILE"},
		{option: "hostfile", variable: "I_MPI_HYDRA_HOST_FILE"},
	}, hydraVariables()...)
)

var torchrunFallbacks = []fallback{
	{option: "log-line-prefix-template", variable: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
	{option: "shutdown-timeout", variable: "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
}

// Options yields the dialect's options, table after table.
func (d *Dialect) Options(yield func(*Option) bool) {
	if eachOf(d.tables, yield) {
		eachOf(d.taken, yield)
	}
}

// shown yields those of them that are the dialect's own, which its help shows.
func (d *Dialect) shown(yield func(*Option) bool) { eachOf(d.tables, yield) }

func eachOf(tables [][]Option, yield func(*Option) bool) bool {
	for _, table := range tables {
		for i := range table {
			if !yield(&table[i]) {
				return false
			}
		}
	}
	return true
}

// ByName returns the dialect for the name that gorun was called by; a folder
// before it does not count.
func ByName(argv0 string) *Dialect {
	switch path.Base(argv0) {
	case "torchrun":
		return Torchrun
	case "torch.distributed.launch":
		return Launch
	case "prterun":
		return Prterun
	case "mpirun", "orterun", "mpirun.openmpi", "orterun.openmpi", "mpiexec.openmpi":
		return Mpirun
	case "mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich":
		return Mpiexec
	}
	return Gorun
}

// Speaks is the line of --version by which tools that look for a launcher's name know whose
// options they may use; "" where it is gorun's own name that they look for.
func (d *Dialect) Speaks() string {
	if d.speaks == "" {
		return ""
	}
	return "called " + d.Name + " it takes " + d.speaks + "\n"
}

// Parse reads a command line: argv0 is the name that gorun was called by, args
// are the words after it. An error is a *[UsageError].
func Parse(argv0 string, args []string, around Surroundings) (Invocation, error) {
	d := ByName(argv0)
	if len(args) == 2 && args[0] == "agent" && isJoinWord(args[1]) { // under whatever name gorun was copied
		return subcommand("agent").parse(args, around)
	}
	if d.subcommands && len(args) > 0 {
		if c := subcommand(args[0]); c != nil {
			return c.parse(args, around)
		}
	}
	return d.parse(args, around)
}

// isJoinWord reports whether a word is the one by which a resource manager's command has
// gorun's agents come to their head: "join", or "join:FILE".
func isJoinWord(word string) bool { return word == "join" || strings.HasPrefix(word, "join:") }

// parse reads the words after the dialect's name.
func (d *Dialect) parse(args []string, around Surroundings) (Invocation, error) {
	p := &parser{dialect: d, around: around, inv: Invocation{Dialect: d}}
	p.inv.Spec.Store.Mode = d.store
	// Called by the name of one of MPI's launchers.
	p.inv.Spec.MPIAsked, p.inv.Spec.LenientExports = d.colons, d.colons
	if d.python || d.benches { // as torchrun has it; gorun's own ranks have no use for MPI
		p.inv.Spec.MPI = job.MPINone
		p.inv.Spec.MPIWhy = d.Name + " has none; start the program by gorun -np N PROGRAM"
	}
	p.parse(args)
	return p.finish()
}

// command is a subcommand. It counts only as the first word, so that a program
// of the same name can be started after any option.
type command struct {
	name string
	does string
	run  func(args []string, around Surroundings) (Invocation, error)
}

// commandNames are the subcommands, for completion and help.
var commandNames = []string{
	"launch", "hosts", "doctor", "store", "token", "topo", "env", "bench", "explain",
	"sbatch", "ps", "top", "stop", "stacks", "logs", "help", "version", "completion",
}

func subcommand(name string) *command {
	switch name {
	case "launch":
		return &command{name, "start a Python script as python -m torch.distributed.launch does", Launch.parse}
	case "hosts":
		return &command{name, "hosts check: look at hosts as a job on them would find them", hostsCommand}
	case "doctor":
		return &command{name, "look for what is wrong with this host, or with others", Doctors.parseAsked}
	case "agent": // gorun's own, and in no help
		return &command{name, "be a node of somebody else's job", agentCommand}
	case "store":
		return &command{name, "serve a store alone, for scripts and other launchers", Store.parse}
	case "topo":
		return &command{name, "show this machine, or another, and who would sit where on it", Topo.parse}
	case "env":
		return &command{name, "what ranks find in their environment; explain and check settings", Env().parseAsked}
	case "bench":
		return &command{name, "measure collectives between ranks, as nccl-tests does", benchCommand}
	case "explain":
		return &command{name, "say what an error means: of a text, a log file, an exit code", Explain.parseAsked}
	case "sbatch":
		return &command{name, "write a batch script for Slurm and submit it", Sbatch().parse}
	case "ps":
		return &command{name, "list the jobs that run, or the ranks of one", jobsCommand(name)}
	case "top":
		return &command{name, "show what the ranks of a job use, second by second", jobsCommand(name)}
	case "stop":
		return &command{name, "end jobs in order, and wait until they are gone", jobsCommand(name)}
	case "stacks":
		return &command{name, "say what each rank of a job does right now", jobsCommand(name)}
	case "logs":
		return &command{name, "print what the ranks of a job printed last; -f goes on", jobsCommand(name)}
	case "token":
		return &command{name, "make a token by which nodes that are started one by one know each other", Token.parse}
	case "bench-rank": // gorun's own, and in no help
		return &command{name, "measure, as one rank", benchRankCommand}
	case "help":
		return &command{name, "print help, also of another of these commands", helpCommand}
	case "version":
		return &command{name, "print the version", versionCommand}
	case "nvml-facts": // gorun's own, and in no help
		return &command{name, "print what NVIDIA's library tells", nvmlCommand}
	case "completion":
		return &command{name, "print a script that completes options: bash, zsh or fish", completionCommand}
	}
	return nil
}

// parse runs the subcommand through urfave/cli, which knows only this one.
func (c *command) parse(args []string, around Surroundings) (inv Invocation, err error) {
	app := newApp(Gorun.Name)
	app.Commands = []*cli.Command{{
		Name: c.name, Usage: c.does, HideHelp: true, SkipFlagParsing: true,
		Action: func(ctx *cli.Context) error {
			inv, err = c.run(ctx.Args().Slice(), around)
			return nil
		},
	}}
	if failed := app.Run(append([]string{app.Name}, args...)); failed != nil {
		return Invocation{}, usage(Gorun, failed)
	}
	return inv, err
}

func helpCommand(args []string, _ Surroundings) (Invocation, error) {
	if len(args) == 0 {
		return Invocation{Action: Help, Dialect: Gorun}, nil
	}
	for _, d := range append([]*Dialect{Launch, Hosts, Doctors, Store, Topo, Env(), Bench, Explain, Sbatch(), Token},
		jobDialects()...) {
		if len(args) == 1 && d.Name == Gorun.Name+" "+args[0] {
			return Invocation{Action: Help, Dialect: d}, nil
		}
	}
	return Invocation{}, usage(Gorun, fmt.Errorf("no help on %s; there is gorun help, and gorun help launch, hosts, "+
		"doctor, store, token, topo, env, bench, explain, sbatch, ps, top, stop, stacks and logs", args[0]))
}

func versionCommand(args []string, _ Surroundings) (Invocation, error) {
	if len(args) > 0 {
		return Invocation{},
			usage(Gorun, errors.New("gorun version takes no arguments; gorun ./version starts a program of that name"))
	}
	return Invocation{Action: Version, Dialect: Gorun}, nil
}

// nvmlCommand takes the version of the gorun that asks.
func nvmlCommand(args []string, _ Surroundings) (Invocation, error) {
	inv := Invocation{Action: AskNVML, Dialect: Gorun}
	switch len(args) {
	case 0:
	case 1:
		inv.Wished = args[0]
	default:
		return Invocation{},
			usage(Gorun, errors.New("gorun nvml-facts takes a version alone; gorun ./nvml-facts starts a program of that name"))
	}
	return inv, nil
}

func completionCommand(args []string, _ Surroundings) (Invocation, error) {
	if len(args) != 1 || oneOf(args[0], shells...) != nil {
		return Invocation{}, usage(Gorun, errors.New("gorun completion takes the name of a shell: bash, zsh or fish"))
	}
	return Invocation{Action: Completion, Dialect: Gorun, Shell: args[0]}, nil
}
