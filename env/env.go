// Package env names the variables by which a rank learns its place in a job,
// and reads them back.
//
// A launcher starts the same program many times. What tells the copies apart is
// their environment: RANK=3 of WORLD_SIZE=8, the second on its host, the store
// at MASTER_ADDR:MASTER_PORT. gorun gives every rank the variables that torchrun
// gives ([VarRank] to [VarTorchelasticMaxRestarts]), so that PyTorch programs run
// unmodified, and a few of its own ([VarJob], [VarJobStore]).
//
// A Go program asks for all of it at once:
//
//	self, err := env.Self()
//	if err != nil {
//		return err
//	}
//	fmt.Printf("rank %d of %d\n", self.Rank, self.WorldSize)
//
// [Self] understands gorun and torchrun and, where their variables are absent,
// mpirun and srun. The package imports nothing of gorun's: a program that was
// started by another launcher uses it too.
package env

import "os"

// The place of a rank. torchrun defined these names and gorun sets all of them;
// each value is a decimal number except [VarRoleName].
const (
	// VarRank is the rank in the whole job, 0 to WORLD_SIZE-1. Ranks are
	// contiguous on a node unless --map-by, --rank-by or a rank file says otherwise.
	VarRank = "RANK"
	// VarLocalRank is the rank on its own node, 0 to LOCAL_WORLD_SIZE-1. Programs
	// choose their GPU by it. With --virtual-local-rank it is 0 for every rank.
	VarLocalRank = "LOCAL_RANK"
	// VarWorldSize is the number of ranks of the job.
	VarWorldSize = "WORLD_SIZE"
	// VarLocalWorldSize is the number of ranks on this node.
	VarLocalWorldSize = "LOCAL_WORLD_SIZE"
	// VarGroupRank is the number of the node, 0 to GROUP_WORLD_SIZE-1. (torchrun
	// calls the ranks of one node a group.)
	VarGroupRank = "GROUP_RANK"
	// VarGroupWorldSize is the number of nodes.
	VarGroupWorldSize = "GROUP_WORLD_SIZE"
	// VarRoleName is what --role said, "default" otherwise.
	VarRoleName = "ROLE_NAME"
	// VarRoleRank is the rank among those of the same role. A job has one role, so
	// it equals RANK.
	VarRoleRank = "ROLE_RANK"
	// VarRoleWorldSize is the number of ranks of the same role.
	VarRoleWorldSize = "ROLE_WORLD_SIZE"
)

// The rendezvous store, a server of PyTorch's TCPStore protocol.
const (
	// VarMasterAddr is the name or address at which ranks reach the store. Set by
	// a user before gorun starts, it is a wish for where the store listens.
	VarMasterAddr = "MASTER_ADDR"
	// VarMasterPort is the store's TCP port, or, with --store=rank0, the port that
	// gorun keeps free for rank 0 to serve its own store at.
	VarMasterPort = "MASTER_PORT"
)

// torchrun's own variables. PyTorch tests for TORCHELASTIC_RUN_ID to see whether
// a launcher of this family started it; with --store=rank0 none of them is set,
// since they would turn rank 0 into a client of a store that it should serve.
const (
	// VarTorchelasticRunID names the job: --rdzv-id, else a random text.
	VarTorchelasticRunID = "TORCHELASTIC_RUN_ID"
	// VarTorchelasticRestartCount is the number of the attempt, 0 for the first.
	VarTorchelasticRestartCount = "TORCHELASTIC_RESTART_COUNT"
	// VarTorchelasticMaxRestarts is --max-restarts.
	VarTorchelasticMaxRestarts = "TORCHELASTIC_MAX_RESTARTS"
	// VarTorchelasticUseAgentStore is exactly "True" where the launcher serves the
	// store, so that no rank tries to.
	VarTorchelasticUseAgentStore = "TORCHELASTIC_USE_AGENT_STORE"
	// VarTorchelasticErrorFile is the file that PyTorch's @record writes an
	// uncaught exception to; empty means nowhere.
	VarTorchelasticErrorFile = "TORCHELASTIC_ERROR_FILE"
	// VarTorchelasticEnableFileTimer, "1" in the user's environment, has each node serve PyTorch's file timers at the
	// named pipe of VarTorchelasticTimerFile.
	VarTorchelasticEnableFileTimer = "TORCHELASTIC_ENABLE_FILE_TIMER"
	VarTorchelasticTimerFile       = "TORCHELASTIC_TIMER_FILE"
	// VarTorchelasticHealthCheckPort is where each node answers liveness probes.
	VarTorchelasticHealthCheckPort = "TORCHELASTIC_HEALTH_CHECK_PORT"
	// VarTorchelasticSignalsToHandle lists the signals that the launcher passes on.
	VarTorchelasticSignalsToHandle = "TORCHELASTIC_SIGNALS_TO_HANDLE"
)

// gorun's own. None has the name of an option's default (GORUN_NP, GORUN_STORE,
// …), so a gorun that a rank starts does not mistake them for wishes.
const (
	// VarJob marks every process of a job. It is cumulative: a job inside a rank
	// of another has "outer:inner", and so belongs to both.
	VarJob = "GORUN_JOB"
	// VarJobEngine says in which job of a resource manager the rank is, as [EngineJob]
	// does; unset outside of all. A process that is in another one is not of this job,
	// whatever it inherited.
	VarJobEngine = "GORUN_JOB_ENGINE"
	// VarJobStore is host:port of gorun's own store, which runs in every mode:
	// with --store=rank0 the store at MASTER_ADDR:MASTER_PORT is another one.
	VarJobStore = "GORUN_JOB_STORE"
	// VarJobKey names the file, readable by its owner alone, with the 32 bytes by which
	// ranks on several hosts prove to each other that they are of one job.
	VarJobKey = "GORUN_JOB_KEY"
	// VarJobWorld is the rank's number in its MPI_COMM_WORLD and the size of that, "3/8", as
	// gorun's variables of MPI's dialects say them.
	VarJobWorld = "GORUN_JOB_WORLD"
	// VarToken is the secret of a job whose agents dial in. It stays in the
	// launcher's environment; ranks never get it.
	VarToken = "GORUN_TOKEN"
	// VarPython is the Python interpreter that gorun runs scripts with.
	VarPython = "GORUN_PYTHON"
)

// Settings that gorun gives ranks unless the user did.
const (
	// VarOMPNumThreads is the number of threads of OpenMP, MKL and OpenBLAS.
	VarOMPNumThreads = "OMP_NUM_THREADS"
	// VarTorchNCCLAsyncErrorHandling makes PyTorch end a process whose collective
	// failed instead of letting it hang.
	VarTorchNCCLAsyncErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
	// VarPythonUnbuffered makes Python write each print at once.
	VarPythonUnbuffered = "PYTHONUNBUFFERED"
)

// Which GPUs a process sees: NVIDIA's, AMD's two, and Intel's.
const (
	VarCUDAVisibleDevices = "CUDA_VISIBLE_DEVICES"
	VarHIPVisibleDevices  = "HIP_VISIBLE_DEVICES"
	VarROCRVisibleDevices = "ROCR_VISIBLE_DEVICES"
	// VarGoMaxProcs is the number of threads that run Go code at once.
	VarGoMaxProcs = "GOMAXPROCS"
	// VarCUDADeviceOrder says what CUDA's numbers count.
	VarCUDADeviceOrder = "CUDA_DEVICE_ORDER"
	VarZEAffinityMask  = "ZE_AFFINITY_MASK"
)

// Inherited returns the environment that this process was started with, as
// NAME=VALUE entries: what the ranks of a job inherit where nobody said otherwise.
func Inherited() []string { return os.Environ() }
