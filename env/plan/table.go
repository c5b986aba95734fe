package plan

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorun/env"
)

// Class is the kind of a variable. It decides which value takes precedence.
type Class string

const (
	// ClassIdentity identifies a process in a job. gorun's value takes precedence, gorun removes an inherited
	// one, and -x cannot change it.
	ClassIdentity Class = "identity"
	// ClassSetting is a setting. An inherited value takes precedence.
	ClassSetting Class = "setting"
	// ClassRequest requests an address for the store. Ranks get the actual address.
	ClassRequest Class = "request"
	// ClassLauncher configures the launcher itself, not its ranks.
	ClassLauncher Class = "launcher"
)

// Row is one row of the table of variables.
type Row struct {
	// Name is a variable, or a pattern such as "PMI_*".
	Name  string
	Class Class
	// Value describes the value that ranks get; "" means none.
	Value string
	// Reason is a short clause.
	Reason string
	// Source is the software that defined the variable.
	Source string
	// MPI marks variables for MPI libraries.
	MPI bool
}

// rule is a row and its implementation.
type rule struct {
	Row
	// value returns the value for a rank; it is nil for rules that only keep or remove.
	value func(p view) (value string, set bool)
	// differs is the set of ranks that share a value.
	differs scope
	// ofOuter marks a setting that gorun removes if it runs inside another launcher's rank, because that
	// launcher set it.
	ofOuter bool
	// chosen marks a setting that comes from an option of this job, which overrides an inherited value.
	chosen bool
	// when reports whether the rule applies to a job; nil means all jobs.
	when func(b *builder) bool
	// why replaces Reason if it depends on the job, whyOf if it depends on the rank's node.
	why   func(b *builder) string
	whyOf func(p view) string
	// level is the importance of an NCCL setting, or "" for other variables. --tune enables rules with a
	// level. A configuration file on the rank's host takes precedence over them.
	level Level
}

// view is the builder as seen from one rank.
type view struct {
	*builder
	rank int
}

func (p view) own() *Rank { return &p.in.Ranks[p.rank] }

func (p view) node() *Node { return &p.in.Nodes[p.own().Node] }

func (p view) world() *World { return &p.in.MPI.Worlds[p.own().MPI.World] }

// Parts of the table: rows of one class and one source.
func identities(source string, rows ...*rule) []*rule { return group(ClassIdentity, source, rows) }
func settings(source string, rows ...*rule) []*rule   { return group(ClassSetting, source, rows) }
func requests(source string, rows ...*rule) []*rule   { return group(ClassRequest, source, rows) }
func launchers(source string, rows ...*rule) []*rule  { return group(ClassLauncher, source, rows) }

// mpiRows are rules for MPI variables, which ranks get if the job serves MPI.
func mpiRows(class Class, source string, rows ...*rule) []*rule {
	for _, r := range rows {
		r.MPI = true
		if r.when == nil {
			r.when = (*builder).offersMPI
		}
	}
	return group(class, source, rows)
}

// tuned are settings that --tune enables.
func tuned(level Level, source string, rows ...*rule) []*rule {
	for _, r := range rows {
		r.level = level
	}
	return group(ClassSetting, source, rows)
}

func group(class Class, source string, rows []*rule) []*rule {
	for _, r := range rows {
		r.Class, r.Source = class, source
	}
	return rows
}

// given is a variable that gorun sets. An empty value means unset. Inlined, it would make each launch read 10 KB more
// of the program, to run it once; kept likewise.
//
//go:noinline
func given(name, text, reason string, differs scope, value func(p view) string) *rule {
	return &rule{Row: Row{Name: name, Value: text, Reason: reason}, differs: differs, value: func(p view) (string, bool) {
		v := value(p)
		return v, v != ""
	}}
}

// whichGPUs is a variable that selects a rank's GPUs. An empty value hides all.
func whichGPUs(name, text string) *rule {
	return &rule{
		Row: Row{Name: name, Value: text, Reason: "GPUs that the rank may use"}, differs: ofRank, chosen: true,
		value: func(p view) (string, bool) { return p.gpus(name) },
		why:   func(b *builder) string { return b.visibleReason(name) },
	}
}

// kept is a variable that ranks inherit although a pattern would remove it.
//
//go:noinline
func kept(name, text, reason string) *rule {
	return &rule{Row: Row{Name: name, Value: text, Reason: reason}}
}

// removed is a variable that ranks do not inherit.
func removed(name, reason string) *rule { return kept(name, "", reason) }

// The following methods complete a rule.
func (r *rule) where(when func(b *builder) bool) *rule {
	r.when = when
	return r
}

func (r *rule) because(why func(b *builder) string) *rule {
	r.why = why
	return r
}

func (r *rule) becauseOf(why func(p view) string) *rule {
	r.whyOf = why
	return r
}

func (r *rule) asChosen() *rule {
	r.chosen = true
	return r
}

func (r *rule) ofOuterLauncher() *rule {
	r.ofOuter = true
	return r
}

// orEmpty sets the variable even if its value is empty.
func (r *rule) orEmpty() *rule {
	value := r.value
	r.value = func(p view) (string, bool) {
		v, _ := value(p)
		return v, true
	}
	return r
}

// Values of rules.
func always(value string) func(view) string { return func(view) string { return value } }

// only returns a value under a condition, else "".
func only(is bool, value string) string {
	if is {
		return value
	}
	return ""
}

// positive formats a positive number, else "".
func positive(n int) string { return only(n > 0, strconv.Itoa(n)) }

// rules is the table. The first matching rule applies, so exceptions precede their pattern.
var rules = sync.OnceValue(func() []*rule {
	return slices.Concat(ownIdentities(), ownSettings(), tunedRules(), textbookRules(), mpiRules(), keptRules(),
		outerRules(), slurmRules())
})

// ownIdentities tell each rank its place in the job.
func ownIdentities() []*rule {
	return slices.Concat(
		identities("torchrun",
			given(env.VarRank, "rank in the whole job, from 0", "number of the rank", ofRank,
				func(p view) string { return strconv.Itoa(p.rank) }),
			given(env.VarLocalRank, "rank on its node, from 0; 0 with --virtual-local-rank", "number of the rank on its node",
				ofRank, view.localRank).because((*builder).localRankReason),
			given(env.VarWorldSize, "number of ranks", "ranks of this job", ofJob, view.numRanks),
			given(env.VarLocalWorldSize, "number of ranks on this node", "ranks of this node", ofNode,
				func(p view) string { return strconv.Itoa(p.task().LocalRanks) }),
			given(env.VarGroupRank, "number of the node, from 0", "number of the node", ofNode,
				func(p view) string { return strconv.Itoa(p.task().Group) }),
			given(env.VarGroupWorldSize, "number of nodes", "nodes of this job", ofJob, view.numNodes),
			given(env.VarRoleName, "`--role` of its node, else `default`", "--role", ofNode, view.role),
			given(env.VarRoleRank, "rank among those of its role, from 0", "number of the rank in its role", ofRank,
				func(p view) string { return strconv.Itoa(p.inRole[p.rank]) }),
			given(env.VarRoleWorldSize, "number of ranks of its role", "ranks of this role", ofNode,
				func(p view) string { return strconv.Itoa(p.roles[p.role()]) }),
		),
		requests("PyTorch",
			given(env.VarMasterAddr,
				"the address of the rendezvous store; if you set it, the store listens there",
				"address at which ranks reach the store", ofJob, func(p view) string { return p.in.Store.Addr }),
			given(env.VarMasterPort, "the store's port; with `--store=rank0` one that is kept free for rank 0",
				"the store's port", ofJob, func(p view) string { return p.in.Store.Port }).because((*builder).masterPortReason),
		),
		identities("torchrun",
			given(env.VarTorchelasticRunID, "`--rdzv-id`, else a random text; unset with `--store=rank0`",
				"name of the job; PyTorch detects a launcher by it", ofJob,
				func(p view) string { return p.in.RunID }).where((*builder).agentStore),
			given(env.VarTorchelasticRestartCount,
				"number of restarts, without those for more nodes; unset with `--store=rank0` and no `--max-restarts`",
				"number of restarts", ofJob,
				func(p view) string { return strconv.Itoa(p.in.Restarts) }).where((*builder).attempts),
			given(env.VarTorchelasticMaxRestarts, "`--max-restarts`; unset with `--store=rank0` and no restarts",
				"--max-restarts", ofJob, func(p view) string { return strconv.Itoa(p.in.MaxRestarts) }).where((*builder).attempts),
			given(env.VarTorchelasticUseAgentStore, "`True`; unset with `--store=rank0`", "no rank has to serve the store",
				ofJob, always("True")).where((*builder).agentStore),
			given(env.VarTorchelasticErrorFile,
				"the rank's own file, or empty where no file may be written; unset with `--store=rank0`",
				"file for PyTorch's uncaught exceptions", ofRank,
				func(p view) string { return p.own().ErrorFile }).where((*builder).agentStore).orEmpty(),
			given(env.VarTorchelasticSignalsToHandle, "`--signals-to-handle`, else `"+defaultSignals+
				"`; unset with `--store=rank0`", "signals that gorun passes on", ofJob, view.signals).where((*builder).agentStore),
		),
		identities("gorun",
			given(env.VarJob,
				"marker of the job; `outer:inner` for a job inside a rank, and behind it in a job of several nodes its part on "+
					"this one", "identifies processes of this job", ofNode, view.marker),
			given(env.VarJobEngine,
				"`slurm:17`: the job of a resource manager that the rank is in; unset outside of all. A process with GORUN_JOB "+
					"that is in another one, such as a batch job that a rank submits, is not of this job: it is not ended with it, "+
					"and gorun in it is inside no rank", "separates jobs that ranks submit from this job", ofRank,
				func(p view) string { return env.EngineJob(p.ofNode(p.rank)) }),
			given(env.VarJobStore, "host:port of gorun's own store, which runs in every mode", "gorun's own store", ofJob,
				func(p view) string { return p.in.Store.Own }),
			given(env.VarJobKey,
				"with several nodes a file of the rank's own host, which only its user can read: the key that authenticates "+
					"ranks of package comm; removed with the job", "ranks on other hosts prove their membership in this job", ofRank,
				func(p view) string { return p.node().KeyFile }),
		),
	)
}

// ownSettings apply to every job, too.
func ownSettings() []*rule {
	return slices.Concat(
		settings("OpenMP",
			given(env.VarOMPNumThreads,
				"the CPUs that the rank is bound to, divided where others are bound to them; else the node's, divided by its "+
					"ranks; never more than its part of a cgroup quota, or than a resource manager was asked for (`--cpus-per-task`)",
				"this node's usable CPUs ÷ its ranks", ofRank,
				func(p view) string { return positive(p.numThreads()) }).because((*builder).threadsReason),
		),
		settings("Go",
			given(env.VarGoMaxProcs,
				"where ranks share CPUs or a quota, or `--cpus-per-task` asks for fewer: as OMP_NUM_THREADS, but at least 2, "+
					"so that a C or system call does not stop the rest; else left alone, since Go counts the CPUs that it is bound "+
					"to and a quota of its own", "the rank's part of shared CPUs or of a quota", ofRank,
				func(p view) string { return positive(p.own().GoThreads) }),
		),
		settings("PyTorch",
			given(env.VarTorchNCCLAsyncErrorHandling, "`1`", "a failed collective ends its rank instead of hanging it", ofJob,
				always("1")),
		),
		settings("Python",
			given(env.VarPythonUnbuffered, "`1`", "a killed rank's last output is not lost", ofJob, always("1")),
			given(env.VarPythonFaultHandler, "`1`; if you set it to nothing, Python leaves its handlers out",
				"Python says where it was when a signal such as SIGSEGV ends it", ofJob, always("1")),
		),
		settings("CUDA",
			whichGPUs(env.VarCUDAVisibleDevices,
				"as inherited; the rank's own GPUs of it by UUID with `--isolate-gpus`; the job's with `--gpus`; one entry of "+
					"it with `--virtual-local-rank`"),
			given(env.VarCUDADeviceOrder,
				"as inherited, else `PCI_BUS_ID`; that in any case with `--isolate-gpus` or `--gpus` where no UUID is known",
				"CUDA numbers GPUs by PCI address, as nvidia-smi and gorun do", ofRank, view.deviceOrder).asChosen(),
		),
		settings("ROCm",
			whichGPUs(env.VarROCRVisibleDevices,
				"as inherited; the rank's own GPUs of it by UUID with `--isolate-gpus`; the job's with `--gpus`"),
			whichGPUs(env.VarHIPVisibleDevices,
				"as inherited; where ROCR_VISIBLE_DEVICES is set by gorun the numbers of what that leaves, as for "+
					"CUDA_VISIBLE_DEVICES on AMD's GPUs; one entry of it with `--virtual-local-rank`"),
		),
		settings("Level Zero",
			whichGPUs(env.VarZEAffinityMask,
				"as inherited; the rank's own GPUs of it by number with `--isolate-gpus`; the job's with `--gpus`"),
		),
		settings("POSIX",
			given("PWD", "as inherited; the working directory with `--chdir`", "the working directory (--chdir)", ofRank,
				view.workingDir).asChosen(),
		),
	)
}

// keptRules are variables that gorun never sets. It passes them on, or reads them itself.
func keptRules() []*rule {
	return slices.Concat(
		settings("gorun",
			kept(env.VarPython, "as inherited", "the interpreter of this user's scripts"),
		),
		launchers("gorun",
			removed(env.VarToken, "secrets stay with the launcher"),
			removed("GORUN_*", "default of an option of this gorun, not of one inside a rank; -x passes it on"),
		),
		settings("PMIx",
			kept("PMIX_MCA_*", "as inherited", "parameters of the PMIx library"),
			kept("PMIX_PREFIX", "as inherited", "where PMIx is installed"),
			kept("PMIX_INSTALL_PREFIX", "as inherited", "where PMIx is installed"),
		),
		settings("MPICH",
			kept("PMI_DEBUG", "as inherited", "MPICH shows its PMI traffic"),
		),
		settings("torchrun",
			kept(env.VarTorchelasticEnableFileTimer, "as inherited",
				"`1` has each node end ranks whose file timer has expired").ofOuterLauncher(),
			kept(env.VarTorchelasticTimerFile,
				"as inherited; with TORCHELASTIC_ENABLE_FILE_TIMER=1 the node's own pipe if it is unset",
				"where file timers are").ofOuterLauncher(),
			kept(env.VarTorchelasticHealthCheckPort, "as inherited",
				"where each node answers liveness probes").ofOuterLauncher(),
		),
	)
}

// outerRules remove what other launchers left.
func outerRules() []*rule {
	return slices.Concat(
		identities("torchrun",
			removed("TORCHELASTIC_*", "an outer torchrun's"),
		),
		identities("PMIx",
			removed("PMIX_SERVER_*", "an outer mpirun's or srun's: ranks would connect to a server that does not know them"),
			removed("PMIX_SYSTEM_TMPDIR", "a directory of an outer mpirun or srun"),
			removed("PMIX_DSTORE_*", "shared memory of an outer mpirun's or srun's server"),
			removed("PMIX_LAUNCHER_*", "output settings of an outer mpirun"),
			removed("PMIX_KEEPALIVE_PIPE", "a descriptor of an outer mpirun"),
			removed("PMIX_PARAM_FILE_PASSED", "parameters of an outer mpirun's daemons"),
			removed("PMIX_PTL_MODULE", "server of an outer mpirun's ranks"),
		),
		identities("PMI",
			removed("PMI_*", "an outer mpiexec's or srun's: every rank would be the same one there"),
		),
		identities("MPICH",
			removed("HYDI_CONTROL_FD", "a descriptor of an outer mpiexec's proxy"),
		),
		identities("MVAPICH2",
			removed("MV2_COMM_WORLD_*", "an outer mpirun_rsh's"),
		),
		identities("Open MPI",
			removed("OMPI_COMM_*", "an outer mpirun's: every rank would be the same one there"),
			removed("OMPI_WORLD_*", "an outer mpirun's"),
			removed("OMPI_UNIVERSE_SIZE", "an outer mpirun's; with it mpirun refuses to run in a rank"),
			removed("OMPI_COMMAND", "an outer mpirun's program"),
			removed("OMPI_ARGV", "an outer mpirun's program"),
			removed("OMPI_FILE_LOCATION", "a directory of one rank of an outer mpirun"),
			removed("OMPI_MCA_orte_hnp_uri", "an outer mpirun's address: MPI_Init fails there"),
			removed("OMPI_MCA_ess", "placement of an outer mpirun's ranks"),
			removed("OMPI_MCA_pmix", "server of an outer mpirun's ranks"),
			removed("OMPI_MCA_orte_app_num", "an outer mpirun's"),
			removed("OMPI_MCA_orte_num_nodes", "an outer mpirun's"),
			removed("OMPI_MCA_orte_bound_at_launch", "an outer mpirun's"),
			removed("OMPI_MCA_orte_top_session_dir", "a directory of an outer mpirun"),
			removed("OMPI_MCA_orte_jobfam_session_dir", "a directory of an outer mpirun"),
			removed("OMPI_MCA_orte_precondition_transports", "the key of an outer mpirun's job"),
			removed("OMPI_MCA_initial_wdir", "an outer mpirun's"),
			removed("OMPI_MCA_num_procs", "an outer mpirun's"),
			removed("OMPI_MCA_num_restarts", "an outer mpirun's"),
			removed("OMPI_TOOL_NAME", "an outer mpirun's"),
			removed("OMPI_VERSION", "an outer mpirun's; frameworks would assume a launch by mpirun"),
			removed("OMPI_MCA_orte_launch", "an outer mpirun's"),
			removed("OMPI_MCA_orte_ess_*", "an outer mpirun's"),
			removed("OMPI_MCA_ess_base_*", "an outer mpirun's"),
			removed("PRTE_LAUNCHED", "an outer mpirun's; with it MPICH refuses to start alone"),
			removed("PRTE_SHARED_FS", "an outer mpirun's"),
		),
		identities("Intel MPI",
			removed("HYDRA_BSTRAP_*", "descriptors and numbers of an outer mpiexec's proxy"),
			removed("I_MPI_HYDRA_UUID", "the name of an outer mpiexec's job"),
			removed("I_MPI_PIN_INFO", "binding of an outer mpiexec's rank"),
			removed("I_MPI_PIN_MAPPING", "binding of an outer mpiexec's ranks"),
			removed("I_MPI_INFO_*", "facts that an outer mpiexec collected about its rank's host"),
		),
		identities("Flux",
			removed("FLUX_TASK_RANK", "number of gorun's own task"),
			removed("FLUX_TASK_LOCAL_ID", "number of gorun's own task"),
			removed("FLUX_JOB_SIZE", "tasks of the flux run around gorun; WORLD_SIZE counts ranks"),
			removed("FLUX_JOB_NNODES", "nodes of the flux run around gorun; GROUP_WORLD_SIZE counts nodes with ranks"),
		),
		identities("PALS",
			removed("PALS_SIZE", "tasks of the mpiexec around gorun"),
			removed("PALS_LOCAL_SIZE", "tasks on this node of the mpiexec around gorun"),
			removed("PALS_RANKID", "number of gorun's own task"),
			removed("PALS_LOCAL_RANKID", "number of gorun's own task"),
		),
		identities("LSF",
			removed("JSM_NAMESPACE_*", "an outer jsrun's"),
		),
	)
}

// defaultSignals is torchrun's default of --signals-to-handle.
const defaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

// Decides reports whether [Build] sets the variable or removes it from the inherited ones. It returns false
// for variables that ranks only inherit.
func Decides(name string) bool {
	r := ruleFor(name)
	return r != nil && (r.value != nil || r.Value == "")
}

// Sets reports whether [Build] may set the variable.
func Sets(name string) bool {
	r := ruleFor(name)
	return r != nil && r.value != nil
}

// ruleFor returns the rule for a variable, or nil if gorun leaves it alone.
func ruleFor(name string) *rule {
	for _, r := range rules() {
		if r.fits(name) {
			return r
		}
	}
	return nil
}

func (r *rule) fits(name string) bool {
	last := len(r.Name) - 1
	if r.Name[last] == '*' {
		return strings.HasPrefix(name, r.Name[:last])
	}
	return name == r.Name
}

// Table returns all variables that gorun knows.
func Table() []Row {
	rows := make([]Row, len(rules()))
	for i, r := range rules() {
		rows[i] = r.Row
	}
	return rows
}
