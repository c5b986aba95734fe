package nccl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lint reports names one letter off a variable of any library. It ignores common variations and undocumented
// variables.
func TestLintOfSlips(t *testing.T) {
	for name, want := range map[string]string{
		"OMP_NUM_THREAD":         "OMP_NUM_THREADS",
		"OPM_NUM_THREADS":        "OMP_NUM_THREADS",
		"UCX_TLSS":               "UCX_TLS",
		"MASTER_PRT":             "MASTER_PORT",
		"MASTER_ADRR":            "MASTER_ADDR",
		"CUDA_VISIBLE_DEVICE":    "CUDA_VISIBLE_DEVICES",
		"CUDA_VISIBEL_DEVICES":   "CUDA_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICE":     "HIP_VISIBLE_DEVICES",
		"LD_LIBRARY_PAHT":        "LD_LIBRARY_PATH",
		"PYTHONPAHT":             "PYTHONPATH",
		"GLOO_SOCKET_IFNAM":      "GLOO_SOCKET_IFNAME",
		"TP_SOCKET_IFNAM":        "TP_SOCKET_IFNAME",
		"MASTER_PORT2":           "",
		"MASTER_PORTS":           "",
		"_LD_PRELOAD":            "",
		"MKL_NUM_THREADS":        "",
		"GPU_NUM_THREADS":        "",
		"UCX_UD_RX_QUEUE_LEN":    "",
		"OMPI_MCA_mtl":           "",
		"PYTHONHOME":             "",
		"NVIDIA_VISIBLE_DEVICES": "",
		"IPATH":                  "",
		"master_prt":             "",
	} {
		found := Lint(Environ([]string{name + "=1"}), Found{})
		if want == "" {
			require.Empty(t, found, name)
			continue
		}
		require.Len(t, found, 1, name)
		require.Equal(t, ProblemUnknown, found[0].Problem)
		require.Contains(t, found[0].Advice, want)
	}
	require.Empty(t, Lint(Parse(FromScript, "x.sh", []byte("MASTER_PRT=1")), Found{}), "a script's own")
	for _, v := range Variables() { // no known variable counts as a misspelling
		for _, f := range Lint(Environ([]string{v.Name + "="}), Found{}) {
			require.False(t, strings.HasPrefix(f.Advice, "Did you mean"), v.Name)
		}
	}
}

// Variables of an ordinary environment do not count as misspellings.
func TestLintOfOrdinaryNames(t *testing.T) {
	for _, name := range strings.Fields(`
		PATH HOME SHELL LOGNAME HOSTNAME LANGUAGE LC_ALL LS_COLORS TERM_PROGRAM XDG_RUNTIME_DIR SSH_CONNECTION
		SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS LD_LIBRARY_PATH_64 LIBRARY_PATH LD_RUN_PATH LD_BIND_NOW LD_AUDIT
		PKG_CONFIG_PATH MANPATH INFOPATH CPATH PYTHONHASHSEED PYTHONSTARTUP PYTHON_PATH CONDA_PREFIX_1 CONDA_SHLVL
		CONDA_EXE VIRTUAL_ENV MODULEPATH LOADEDMODULES LMOD_CMD CUDA_HOME CUDA_PATH CUDA_CACHE_PATH CUDA_ROOT
		ROCM_PATH NVIDIA_DRIVER_CAPABILITIES GPU_DEVICE_ORDINAL OMP_PROC_BIND OMP_PLACES OMP_THREAD_LIMIT
		GOMP_CPU_AFFINITY KMP_AFFINITY VECLIB_MAXIMUM_THREADS NUMEXPR_NUM_THREADS GOTO_NUM_THREADS BLIS_NUM_THREADS
		TBB_NUM_THREADS MKL_DYNAMIC WORLD_SIZE NODE_RANK LOCAL_RANK MASTER_HOST MASTER_NODE HF_HOME HF_TOKEN
		WANDB_API_KEY TOKENIZERS_PARALLELISM TRITON_CACHE_DIR TORCH_HOME TORCH_CUDA_ARCH_LIST TORCHDYNAMO_VERBOSE
		TORCH_LOGS SLURM_NTASKS SLURM_JOB_ID SLURM_CPUS_PER_TASK SLURM_NTASKS_PER_NODE CGO_CFLAGS CGO_LDFLAGS
		GOFLAGS FI_LOG_LEVEL FI_TCP_IFACE UCX_LOG_LEVEL UCX_IB_SL UCX_DC_TM_MAX_BCOPY UCX_RC_PATH_MTU I_MPI_FABRICS
		I_MPI_PIN I_MPI_ROOT MPIR_CVAR_ENABLE_GPU HSA_PATH HIP_PATH HIP_PLATFORM`) {
		require.Empty(t, Lint(Environ([]string{name + "="}), Found{}), name)
	}
}
