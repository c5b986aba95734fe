// Package env names the variables that describe a rank in its job, and reads them.
//
// A launcher starts many copies of one program. Only their environments differ:
// RANK=3 of WORLD_SIZE=8, the second on its host, the store at
// MASTER_ADDR:MASTER_PORT. gorun gives every rank the variables that torchrun
// gives ([VarRank] to [VarTorchelasticMaxRestarts]), so that PyTorch programs run
// unmodified, and some variables of its own ([VarJob], [VarJobStore]).
//
// A Go program reads them with one call:
//
//	self, err := env.Self()
//	if err != nil {
//		return err
//	}
//	fmt.Printf("rank %d of %d\n", self.Rank, self.WorldSize)
//
// [Self] understands gorun and torchrun and, without their variables, mpirun and
// srun. The package imports no other package of gorun, so programs started by other
// launchers can use it too.
package env

import "os"

// Variables that identify a rank. torchrun defined these names, and gorun sets all of them. Each value is a
// decimal number except [VarRoleName].
const (
	// VarRank is the rank in the whole job, 0 to WORLD_SIZE-1. Ranks are
	// contiguous on a node unless --map-by, --rank-by or a rank file says otherwise.
	VarRank = "RANK"
	// VarLocalRank is the rank on its own node, 0 to LOCAL_WORLD_SIZE-1. Programs use it to choose their GPU.
	// With --virtual-local-rank it is 0 for every rank.
	VarLocalRank = "LOCAL_RANK"
	// VarWorldSize is the number of ranks in the job.
	VarWorldSize = "WORLD_SIZE"
	// VarLocalWorldSize is the number of ranks on this node.
	VarLocalWorldSize = "LOCAL_WORLD_SIZE"
	// VarGroupRank is the number of the node, 0 to GROUP_WORLD_SIZE-1. torchrun calls the ranks of one node a
	// group.
	VarGroupRank = "GROUP_RANK"
	// VarGroupWorldSize is the number of nodes.
	VarGroupWorldSize = "GROUP_WORLD_SIZE"
	// VarRoleName is the value of --role, or "default".
	VarRoleName = "ROLE_NAME"
	// VarRoleRank is the rank among those of the same role. A job has one role, so
	// it equals RANK.
	VarRoleRank = "ROLE_RANK"
	// VarRoleWorldSize is the number of ranks of the same role.
	VarRoleWorldSize = "ROLE_WORLD_SIZE"
)

// Variables of the rendezvous store, a server of PyTorch's TCPStore protocol.
const (
	// VarMasterAddr is the name or address where ranks reach the store. If it is set when gorun starts, it
	// requests where the store listens.
	VarMasterAddr = "MASTER_ADDR"
	// VarMasterPort is the store's TCP port. With --store=rank0 it is the port that gorun keeps free for rank
	// 0's own store.
	VarMasterPort = "MASTER_PORT"
)

// Variables that torchrun defined. PyTorch checks TORCHELASTIC_RUN_ID to detect torchrun or a compatible
// launcher. With --store=rank0 gorun sets none of them: they would make rank 0 a client of the store that it
// should serve.
const (
	// VarTorchelasticRunID names the job: the value of --rdzv-id, or a random string.
	VarTorchelasticRunID = "TORCHELASTIC_RUN_ID"
	// VarTorchelasticRestartCount is the number of restarts, without those for more nodes.
	VarTorchelasticRestartCount = "TORCHELASTIC_RESTART_COUNT"
	// VarTorchelasticMaxRestarts is the value of --max-restarts.
	VarTorchelasticMaxRestarts = "TORCHELASTIC_MAX_RESTARTS"
	// VarTorchelasticUseAgentStore is exactly "True" if the launcher serves the store, so that no rank tries
	// to.
	VarTorchelasticUseAgentStore = "TORCHELASTIC_USE_AGENT_STORE"
	// VarTorchelasticErrorFile is the file to which PyTorch's @record writes an uncaught exception. If it is
	// empty, @record writes none.
	VarTorchelasticErrorFile = "TORCHELASTIC_ERROR_FILE"
	// VarTorchelasticEnableFileTimer, "1" in the user's environment, has each node serve PyTorch's file timers at the
	// named pipe of VarTorchelasticTimerFile.
	VarTorchelasticEnableFileTimer = "TORCHELASTIC_ENABLE_FILE_TIMER"
	VarTorchelasticTimerFile       = "TORCHELASTIC_TIMER_FILE"
	// VarTorchelasticHealthCheckPort is the port on which each node answers liveness probes.
	VarTorchelasticHealthCheckPort = "TORCHELASTIC_HEALTH_CHECK_PORT"
	// VarTorchelasticSignalsToHandle lists the signals that the launcher passes on.
	VarTorchelasticSignalsToHandle = "TORCHELASTIC_SIGNALS_TO_HANDLE"
)

// gorun's own variables. None has the name of an option's default (GORUN_NP, GORUN_STORE, …), so a gorun
// started by a rank does not take them for options.
const (
	// VarJob marks every process of a job. It is cumulative: a job started by a rank of another job has
	// "outer:inner" and belongs to both.
	VarJob = "GORUN_JOB"
	// VarJobEngine is the rank's resource manager job, as [EngineJob] returns it; it is unset outside any. A
	// process in a different resource manager job does not belong to this job, even if it inherited VarJob.
	VarJobEngine = "GORUN_JOB_ENGINE"
	// VarJobStore is the host:port of gorun's own store, which runs in every mode. With --store=rank0 it
	// differs from the store at MASTER_ADDR:MASTER_PORT.
	VarJobStore = "GORUN_JOB_STORE"
	// VarJobKey names a file that only its owner can read. Its 32 bytes let ranks on several hosts prove to
	// each other that they belong to the same job.
	VarJobKey = "GORUN_JOB_KEY"
	// VarJobWorld is the rank and size of the rank's MPI_COMM_WORLD, such as "3/8". They match the MPI
	// variables that gorun sets.
	VarJobWorld = "GORUN_JOB_WORLD"
	// VarToken is the secret of a job whose agents connect to the launcher. It stays in the launcher's
	// environment; ranks never get it.
	VarToken = "GORUN_TOKEN"
	// VarPython is the Python interpreter that gorun runs scripts with.
	VarPython = "GORUN_PYTHON"
)

// Settings that gorun gives ranks unless the user set them.
const (
	// VarOMPNumThreads is the number of threads that OpenMP, MKL and OpenBLAS use.
	VarOMPNumThreads = "OMP_NUM_THREADS"
	// VarTorchNCCLAsyncErrorHandling makes PyTorch end a process whose collective failed, rather than let it
	// hang.
	VarTorchNCCLAsyncErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
	// VarTorchFRDumpTempFile begins the names of the files that PyTorch's flight recorder writes when a collective times
	// out; before PyTorch 2.9 its name is VarTorchNCCLDebugInfoTempFile. VarTorchNCCLDebugInfoPipeFile begins those of the
	// named pipes that request such a file.
	VarTorchFRDumpTempFile        = "TORCH_FR_DUMP_TEMP_FILE"
	VarTorchNCCLDebugInfoTempFile = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
	VarTorchNCCLDebugInfoPipeFile = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
	// VarPythonUnbuffered makes Python write output immediately.
	VarPythonUnbuffered = "PYTHONUNBUFFERED"
	// VarPythonFaultHandler makes Python print its stacks when a signal such as SIGSEGV ends it.
	VarPythonFaultHandler = "PYTHONFAULTHANDLER"
)

// Variables that select the GPUs a process sees: NVIDIA's, AMD's two, and Intel's.
const (
	VarCUDAVisibleDevices = "CUDA_VISIBLE_DEVICES"
	VarHIPVisibleDevices  = "HIP_VISIBLE_DEVICES"
	VarROCRVisibleDevices = "ROCR_VISIBLE_DEVICES"
	// VarGoMaxProcs is the number of threads that can run Go code at the same time.
	VarGoMaxProcs = "GOMAXPROCS"
	// VarCUDADeviceOrder sets the order in which CUDA numbers GPUs.
	VarCUDADeviceOrder = "CUDA_DEVICE_ORDER"
	VarZEAffinityMask  = "ZE_AFFINITY_MASK"
)

// Inherited returns the environment of this process at its start, as NAME=VALUE entries. Ranks inherit it by
// default.
func Inherited() []string { return os.Environ() }
