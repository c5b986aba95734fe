package plan

import (
	"slices"
	"strings"

	"gorun/env"
)

// ForwardRule is one row of the table of variables that ranks on remote hosts inherit.
type ForwardRule struct {
	// Names are variables or patterns such as "NCCL_*".
	Names []string
	// Reason is a short clause.
	Reason string
}

// forwarded lists the variables that the launcher sends to other hosts, unless they look like secrets.
var forwarded = []ForwardRule{
	{[]string{"PATH"}, "finds programs as here; shells that ssh starts often have a short PATH"},
	{[]string{"LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH"}, "finds libraries as here"},
	{[]string{"PWD"}, "ranks run in the same directory"},
	{[]string{"PYTHON*", "VIRTUAL_ENV", "CONDA_*", "UV_*", "GORUN_PYTHON"}, "the same Python with the same packages"},
	{[]string{
		"CUDA_*", "NVIDIA_*", "CUBLAS_*", "CUDNN_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "MIOPEN_*", "ZE_*",
		"SYCL_*", "ONEAPI_*",
	}, "settings of GPUs"},
	{
		[]string{"NCCL_*", "RCCL_*", "CCL_*", "GLOO_*", "TP_*", "UCX_*", "UCC_*", "FI_*", "PSM2_*", "PSM3_*", "HCOLL_*"},
		"communication settings, most of which must be equal on all hosts",
	},
	{
		[]string{
			"OMPI_*", "OPAL_*", "PRTE_MCA_*", "PMIX_MCA_*", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "MPIR_CVAR_*",
			"MPICH_*", "I_MPI_*", "MV2_*", "MVP_*", "ROMIO_*",
		},
		"settings of MPI libraries, likewise; without what an outer launcher set for its rank",
	},
	{[]string{"OMP_*", "KMP_*", "GOMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*", "MALLOC_*"}, "threads and memory"},
	{[]string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK"}, "settings of Go programs"},
	{[]string{
		"TORCH_*", "PYTORCH_*", "TORCHINDUCTOR_*", "TORCHDYNAMO_*", "TRITON_*", "XLA_*", "JAX_*", "TF_*", "DS_*",
		"DEEPSPEED_*", "ACCELERATE_*", "FSDP_*",
	}, "settings of frameworks"},
	{
		[]string{env.VarTorchelasticEnableFileTimer, env.VarTorchelasticTimerFile, env.VarTorchelasticHealthCheckPort},
		"services of each node",
	},
	{
		[]string{"HF_*", "TRANSFORMERS_*", "TOKENIZERS_*", "WANDB_*", "MLFLOW_*"},
		"places of data, models and records of runs",
	},
	{[]string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}, "proxies"},
	{
		[]string{"LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"},
		"format of ranks' output",
	},
}

// ownOfHost lists the variables that ranks inherit from the environment of their own host.
var ownOfHost = []ForwardRule{
	{[]string{"HOME", "USER", "LOGNAME", "SHELL"}, "the account on the other host"},
	{[]string{"HOSTNAME", "HOST"}, "name of the host"},
	{[]string{
		"TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
		"XDG_STATE_HOME",
	}, "directories of the host"},
	{[]string{"KRB5CCNAME"}, "Kerberos ticket for files on the host"},
}

// bound lists the variables of one host, session or allocation. gorun sends them only if -x names them.
var bound = []ForwardRule{
	{[]string{"XDG_*", "DBUS_*", "MAIL", "OLDPWD", "SHLVL", "_"}, "session on one host"},
	{[]string{"SSH_*", "GPG_*"}, "sockets and connections of one host"},
	{[]string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "TMUX*", "STY", "VSCODE_*"}, "display on one host"},
	{[]string{
		"SYSTEMD_*", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "WATCHDOG_*",
		"MEMORY_PRESSURE_*",
	}, "service on one host"},
	{
		[]string{"SLURM_*", "SLURMD_*", "PBS_*", "LSB_*", "SGE_*", "FLUX_*", "KUBERNETES_*"},
		"one task of a batch system or container engine",
	},
	{[]string{
		"LSF_PM_*", "LS_JOBPID", "JSM_*", "PALS_*", "LOADL_*", "COBALT_*", "PE_HOSTFILE", "JOB_ID",
		"AWS_BATCH_JOB_*", "SM_CURRENT_HOST", "JOB_COMPLETION_INDEX",
	}, "one task, or one node's part, of other systems"},
}

// ofEngine lists the variables that ranks inherit from their node's agent if a resource manager started it.
// They describe this node alone.
var ofEngine = []ForwardRule{
	{
		[]string{"SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR*", "PBS_NODENUM", "PBS_VNODENUM", "PBS_TASKNUM", "PALS_NODEID"},
		"number of the node",
	},
	{
		[]string{"SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURM_SHARDS_ON_NODE"},
		"resources of the job on this node",
	},
	{[]string{"SLURM_JOB_GPUS"}, "GPUs of the step, as SLURM_STEP_GPUS; the inherited value describes the script's node"},
	{
		[]string{
			"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
			"GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "CUDA_MPS_*",
		},
		"the job's GPUs on this node; a batch script has those of the first node",
	},
	{[]string{"SLURM_TMPDIR", "PBS_JOBDIR", "LSB_JOBTMPDIR", "SGE_JOB_SPOOL_DIR"}, "directories of the host"},
	{[]string{"FLUX_URI"}, "the socket of Flux on this node"},
}

// ofBatch lists the variables in [bound] that all nodes of a resource manager's job share.
var ofBatch = []ForwardRule{{[]string{
	"SLURM_*", "SLURMD_*", "PBS_*", "LSB_*", "SGE_*", "FLUX_*", "LOADL_*",
	"COBALT_*", "JOB_ID", "PE_HOSTFILE",
}, ""}}

// names is an index of the names in tables of [ForwardRule].
type names struct {
	whole  map[string]bool
	begins []string
}

func namesOf(tables ...[]ForwardRule) names {
	n := names{whole: make(map[string]bool)}
	for _, table := range tables {
		for _, p := range table {
			for _, name := range p.Names {
				if begin, isPattern := strings.CutSuffix(name, "*"); isPattern {
					n.begins = append(n.begins, begin)
				} else {
					n.whole[name] = true
				}
			}
		}
	}
	return n
}

func (n names) has(name string) bool {
	if n.whole[name] {
		return true
	}
	for _, begin := range n.begins {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// forwards returns a function that reports whether ranks on other hosts inherit a variable from the launcher.
func (in *Inputs) forwards() func(name, value string) bool {
	switch stays := in.boundToHost(); {
	case in.Engine:
		common := namesOf(ofBatch)
		own := namesOf(ofEngine)
		return func(name, _ string) bool { return !own.has(name) && (common.has(name) || !stays.has(name)) }
	case in.ExportAll:
		return func(name, _ string) bool { return !stays.has(name) }
	case in.ExportUnlisted:
		return func(name, value string) bool { return !stays.has(name) && !secretName(name) && !secretURL(value) }
	}
	list := namesOf(forwarded)
	return func(name, value string) bool { return list.has(name) && !secretName(name) && !secretURL(value) }
}

// boundToHost returns the variables that belong to one host.
func (in *Inputs) boundToHost() names {
	if in.Engine {
		return namesOf(ownOfHost, bound, ofEngine)
	}
	return namesOf(ownOfHost, bound)
}

// ofHost returns the part of a remote host's environment that its ranks inherit.
func (in *Inputs) ofHost(environ []string) []string {
	if in.Engine {
		return OwnInEngine(environ)
	}
	return OwnOfHost(environ)
}

// OwnOfHost returns the variables that ranks inherit from their own host's environment if a launcher on
// another host starts them.
func OwnOfHost(environ []string) []string {
	return namesOf(ownOfHost).of(environ)
}

// OwnInEngine is [OwnOfHost] for a process that a resource manager's command started. It includes the
// variables that describe this node alone. SLURM_JOB_GPUS comes from the batch script's node, so OwnInEngine
// replaces it with the step's GPUs on this node.
func OwnInEngine(environ []string) []string {
	const ofJob, ofStep = "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"
	own := namesOf(ownOfHost, ofEngine).of(environ)
	_, handedOn := lookup(own, ofJob)
	own = slices.DeleteFunc(own, func(entry string) bool { return strings.HasPrefix(entry, ofJob+"=") })
	if gpus, known := lookup(own, ofStep); known && handedOn {
		own = append(own, ofJob+"="+gpus)
	}
	return own
}

// of returns the variables of an environment whose names match.
func (n names) of(environ []string) (some []string) {
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && n.has(name) {
			some = append(some, entry)
		}
	}
	return some
}
