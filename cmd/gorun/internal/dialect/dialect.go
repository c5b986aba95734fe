package dialect

import (
	"path"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/internal/version"
	"gorun/launcher/job"
)

// Dialect is one way to write a command line.
type Dialect struct {
	Name  string // as users type it
	About string // one sentence, for the help

	examples []Example
	often    []string // first names of the options that a long help lists first
	tables   []table  // in the order of the help, and in which prefixes are looked up
	line     *Line    // filled by the rows of tables; nil: none

	flags []cli.Flag // of a gorun command; its tables are empty

	// Variables of other launchers: fallbacks are pairs of an option's name and its variables, variables makes rows
	// for those without an option, whose names follow any of variablePrefixes.
	fallbacks        [][2]string
	variables        func(*Line) []Option
	variablePrefixes []string

	interpreters []string // variables that name the Python interpreter, the strongest first

	python bool // programs are Python scripts
	launch bool // scripts get --local-rank
	strict bool // unambiguous prefixes are options; one dash for one letter, two for more
	// colons: the name is an MPI launcher's. Every lone `:` begins another program, and notes need -v, because
	// programs compare what these launchers print.
	colons      bool
	mpmd        bool // a `:` may begin another program
	count       int  // default number of ranks per node; 0: open
	grace       time.Duration
	signals     []string // default of --signals-to-handle
	slots       slotRule
	timeoutCode int    // exit code of --timeout; 0: gorun's own
	like        string // the launcher with this exit code
	speaks      string // whose command lines --version claims to take: some tools look for that
}

// table makes rows of options that fill a line.
type table func(*Line) []Option

var (
	// Gorun is gorun's own dialect: it takes what users of mpirun and torchrun type.
	Gorun = &Dialect{
		Name:  "gorun",
		About: "gorun starts a program as the ranks of one job, and ends them as one.",
		examples: []Example{
			{"gorun -n 4 ./trainer", "four ranks of a program"},
			{"gorun train.py --lr 0.1", "one rank per GPU of a PyTorch script"},
			{"gorun --nproc-per-node auto -m pkg.train", "a Python module, a rank per GPU or CPU"},
			{"gorun -n 2 --dry-run ./trainer", "what would be started, and why"},
			{"gorun -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
			{"gorun -H node[1-4]:8 ./trainer", "32 ranks on four hosts, over SSH"},
		},
		tables: []table{
			ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable,
			reachTable, torchrunTable, openmpiTable, hydraTable, foreignTable, unclearTable,
		},
		fallbacks:    [][2]string{linePrefix},
		interpreters: gorunInterpreters, mpmd: true,
	}
	// Run is Gorun after the words gorun run: any word may be the program's name.
	Run = func() *Dialect {
		d := *Gorun
		d.Name = "gorun run"
		d.About = "gorun run starts a program as gorun does, also one that is named like a command of gorun."
		d.examples = []Example{
			{"gorun run -n 2 init", "two ranks of a program that is named init"},
			{"gorun ./init", "one in this directory needs no run"},
		}
		return &d
	}()
	// Mpirun has Open MPI's conventions, Mpiexec those of Hydra (MPICH, Intel MPI).
	Mpirun = &Dialect{
		Name:  "mpirun",
		About: "gorun, as mpirun, starts a program as the ranks of one job, with or without MPI.",
		examples: []Example{
			{"mpirun -n 4 ./trainer", "four ranks of a program"},
			{"mpirun -H node1:4,node2:4 ./trainer", "eight on two hosts, over SSH"},
			{"mpirun -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
		},
		often: []string{
			"np", "N", "host", "hostfile", "x", "mca", "map-by", "bind-to", "report-bindings", "oversubscribe",
			"chdir", "app", "tag-output", "timeout", "dry-run", "help",
		},
		tables: []table{
			ownTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable, reachTable, torchrunTable,
			perNodeTable, mpirunTable, openmpiTable, hydraTable, foreignTable,
		},
		fallbacks: [][2]string{linePrefix, {"timeout", "MPIEXEC_TIMEOUT"}},
		variables: (*Line).mcaParameters, variablePrefixes: []string{"OMPI_MCA_", "PRTE_MCA_"},
		interpreters: gorunInterpreters, mpmd: true, colons: true,
		slots: slotsOfOpenMPI, timeoutCode: 110, like: "Open MPI",
		speaks: "the command lines of Open MPI 4 and 5 (OpenRTE, PRRTE)",
	}
	Mpiexec = &Dialect{
		Name:  "mpiexec",
		About: "gorun, as mpiexec, starts a program as the ranks of one job, with or without MPI.",
		examples: []Example{
			{"mpiexec -n 4 ./trainer", "four ranks of a program"},
			{"mpiexec -ppn 4 -hosts node1,node2 ./trainer", "eight on two hosts, over SSH"},
			{"mpiexec -n 1 ./server : -n 3 ./client", "two programs, ranks 0 and 1 to 3"},
		},
		often: []string{
			"np", "ppn", "host", "f", "genv", "env", "genvlist", "map-by", "bind-to", "chdir", "configfile",
			"l", "launcher", "iface", "timeout", "dry-run", "help",
		},
		tables: []table{
			ownTable, studyTable, nodesTable, endTable, placeTable, mpiTable, outputTable, reachTable, torchrunTable,
			perNodeTable, mpiexecTable, hydraTable, openmpiTable, foreignTable,
		},
		fallbacks: hydraFallbacks, variables: (*Line).hydraVariables, variablePrefixes: []string{""},
		interpreters: gorunInterpreters, mpmd: true, colons: true,
		slots: slotsOfHydra, timeoutCode: 255, like: "Hydra",
		speaks: "the command lines of MPICH's mpiexec (HYDRA) and of Intel(R) MPI's",
	}
	// Prterun is Open MPI 5's launcher: Mpirun with other exit codes.
	Prterun = func() *Dialect {
		d := *Mpirun
		d.Name, d.timeoutCode, d.like = "prterun", 241, "Open MPI 5"
		return &d
	}()
	// Torchrun has torchrun's conventions.
	Torchrun = &Dialect{
		Name:  "torchrun",
		About: "gorun, as torchrun, starts a Python script as the ranks of one job.",
		examples: []Example{
			{"torchrun --nproc-per-node gpu train.py", "one rank per GPU"},
			{"torchrun --nproc-per-node 4 -m pkg.train", "four ranks of a module"},
			{"torchrun --no-python --nproc-per-node 4 ./trainer", "of any other program"},
		},
		often:     optionsOfTorchrun,
		tables:    []table{torchrunTable, ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable},
		fallbacks: torchrunFallbacks,
		python:    true, interpreters: torchrunInterpreters, strict: true, count: 1, grace: torchrunGrace,
		signals: torchrunSignals,
	}
	// Launch has the conventions of python -m torch.distributed.launch.
	Launch = &Dialect{
		Name:  "gorun launch",
		About: "gorun launch starts a Python script as python -m torch.distributed.launch does.",
		examples: []Example{
			{"gorun launch --nproc-per-node 4 train.py", "the script gets --local-rank=N"},
			{"gorun launch --use-env --nproc-per-node 4 train.py", "it reads LOCAL_RANK"},
		},
		often:     optionsOfTorchrun,
		tables:    []table{torchrunTable, launchTable, ownTable, tuneTable, studyTable, nodesTable, endTable, placeTable},
		fallbacks: torchrunFallbacks,
		python:    true, interpreters: torchrunInterpreters, launch: true, strict: true, count: 1,
		grace: torchrunGrace, signals: torchrunSignals,
	}
)

const torchrunGrace = 30 * time.Second

// optionsOfTorchrun has the options that torchrun has, too, in its order.
var optionsOfTorchrun = []string{
	"nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "standalone", "max-restarts",
	"role", "module", "no-python", "run-path", "log-dir", "redirects", "tee", "log-line-prefix-template",
	"local-ranks-filter", "duplicate-stdout-filters", "duplicate-stderr-filters", "node-rank", "master-addr",
	"master-port", "local-addr", "numa-binding", "signals-to-handle", "shutdown-timeout", "virtual-local-rank",
	"print-completion", "help",
}

var torchrunSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}

// GORUN_PYTHON gives no option its default: ranks inherit it, so that their children run in the same Python.
var (
	gorunInterpreters    = []string{"GORUN_PYTHON"}
	torchrunInterpreters = []string{"GORUN_PYTHON", "PYTHON_EXEC"}
)

// linePrefix is torchrun's variable, which every dialect reads.
var linePrefix = [2]string{"log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"}

var torchrunFallbacks = [][2]string{linePrefix, {"shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"}}

var hydraFallbacks = [][2]string{
	linePrefix,
	{"timeout", "MPIEXEC_TIMEOUT I_MPI_JOB_TIMEOUT I_MPI_MPIEXEC_TIMEOUT"},
	{"hostfile", "HYDRA_HOST_FILE I_MPI_HYDRA_HOST_FILE"},
	{"launcher", "HYDRA_LAUNCHER HYDRA_BOOTSTRAP I_MPI_HYDRA_BOOTSTRAP"},
	{"launcher-exec", "HYDRA_LAUNCHER_EXEC HYDRA_BOOTSTRAP_EXEC I_MPI_HYDRA_BOOTSTRAP_EXEC"},
	{"rmk", "HYDRA_RMK I_MPI_HYDRA_RMK"},
	{"iface", "HYDRA_IFACE I_MPI_HYDRA_IFACE"},
	{"binding", "HYDRA_BINDING"},
	{"map-by", "HYDRA_MAPPING"},
	{"membind", "HYDRA_MEMBIND"},
	{"host", "I_MPI_HYDRA_HOSTS_GROUP"},
	{"disable-auto-cleanup", "I_MPI_FAULT_CONTINUE"},
	{"debug", "HYDRA_DEBUG I_MPI_HYDRA_DEBUG"},
}

// Options yields the dialect's options, table after table.
func (d *Dialect) Options(yield func(*Option) bool) {
	for _, f := range d.flags {
		if !yield(f.(*Flag).Option) {
			return
		}
	}
	d.job().options(yield)
}

// job returns the line that the rows fill; without one, a new line that is only good for looking at them.
func (d *Dialect) job() *Line {
	if d.line == nil {
		return &Line{tables: d.tables}
	}
	return d.line
}

// ByName returns the dialect for the name or path under which gorun was called.
func ByName(argv0 string) *Dialect {
	switch path.Base(argv0) {
	case "torchrun":
		return Torchrun
	case "torch.distributed.launch":
		return Launch
	case Run.Name:
		return Run
	case "prterun":
		return Prterun
	case "mpirun", "orterun", "mpirun.openmpi", "orterun.openmpi", "mpiexec.openmpi":
		return Mpirun
	case "mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich":
		return Mpiexec
	}
	return Gorun
}

// store returns what --store=auto means: scripts for MPI launchers let rank 0 host it.
func (d *Dialect) store() job.StoreMode {
	if d.colons {
		return job.StoreRank0
	}
	return job.StoreAuto
}

// versionText returns the text of --version. Some tools look for a launcher's name in it.
func (d *Dialect) versionText() string {
	text := version.Line() + "\n"
	if d.speaks != "" {
		text += "as " + d.Name + ", it takes " + d.speaks + "\n"
	}
	return text
}

// Parse reads the command line of a job: argv0 is the name under which gorun was called, args are the
// words after it. An error is a *[UsageError].
func Parse(argv0 string, args []string, around Surroundings) (Invocation, error) {
	return ByName(argv0).parse(args, around)
}

// parse reads the words after the dialect's name. It returns help and version whatever else is wrong.
func (d *Dialect) parse(args []string, around Surroundings) (Invocation, error) {
	own := *d
	p := &Line{dialect: &own, tables: d.tables, around: around, Invocation: Invocation{Dialect: d}}
	own.line = p
	p.Spec.Store.Mode = d.store()
	p.Spec.MPIRequested, p.Spec.LenientExports = d.colons, d.colons
	if d.python { // as torchrun has it
		p.DisableMPI()
	}
	if err := p.read(args); err != nil {
		p.Problem(err)
	}
	switch {
	case p.help:
		return Invocation{Dialect: d, Print: func() string {
			if d == Gorun {
				return d.Overview(around.commands())
			}
			return d.Help(around.commands())
		}}, nil
	case p.version:
		return Invocation{Dialect: d, Print: d.versionText}, nil
	case p.shell == "":
		p.ResolveJob()
	}
	if err := p.Err(); err != nil || p.shell == "" {
		return p.Invocation, err
	}
	return Invocation{Dialect: d, Print: func() string { return d.Completion(p.shell) }}, nil
}
