package wire

import (
	"net/netip"
	"syscall"
	"time"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/spec"
	"gorun/rendezvous/world"
)

// Hello opens a connection with what the head needs to know about the node.
type Hello struct {
	Version int
	CPUs    bool
	GPUs    bool
	// Driverless requests a note on GPUs without a compute driver.
	Driverless bool
	// Topology requests the node's topology, with its GPUs: for Places in any case, else unless there are more ranks than
	// CPUs.
	Topology bool
	Places   bool
	// NICs requests the network interfaces with it.
	NICs bool
	// GPUUsers, GPUNames and GPULinks request facts on NVIDIA's GPUs that the kernel's files may lack; see package
	// gpufacts.
	GPUUsers bool
	GPUNames bool
	GPULinks bool
	Programs []spec.Command
	// ScanStore requests that an assignment of MASTER_PORT is looked for in their texts.
	ScanStore bool
	// Ranks is how many this node is going to have, if that is known: Facts then have the limits that they exceed.
	Ranks int
	// Environ has the variables for finding programs and interpreters, NAME=VALUE; the agent's own complete them.
	Environ []string
	// Dir is the launcher's working directory, to which an agent on another host changes; "": it does not. DirOptional
	// reports that it need not exist, since every program has a directory of its own.
	Dir         string
	DirOptional bool
	// Copied is what --copy sent there.
	Copied Copied
	// Lease is how long the agent goes on without a frame from the head; 0: no limit.
	Lease time.Duration
	// Sockets reports that each rank gets one, for Start.MPI.
	Sockets bool
	// NCCL requests what settings of NCCL depend on.
	NCCL bool
	// Device requests the number of these devices by PyTorch ("xpu"); "": none.
	Device string
}

// Copied is a copied directory of the job, and the process on that host that removes it on request; 0 for none. The
// process has the directory's last name in its command line.
type Copied struct {
	Dir string
	PID int
}

// Facts answer Hello.
type Facts struct {
	Version int
	spec.Facts
	Limit string // the limit that is too low for Hello.Ranks; "" for none
	// DirError is why the node cannot change to Hello.Dir; "": it can.
	DirError string
	// DeviceError is why the number of Hello.Device is not known.
	DeviceError string
}

// Open requests the store of node 0.
type Open struct {
	Rank0 bool // rank 0 serves it at MASTER_PORT
	RAS   bool // reserve a port for NCCL's RAS
	Addr  string
	Port  int
	Allow []netip.Prefix // of accepted peers on other hosts

	AllowLocalUsers bool // accept every user of node 0's host
}

// Opened answers Open.
type Opened struct {
	spec.Opened
	Error string
	Hint  string
}

// Start has every decision about a node's ranks.
type Start struct {
	JobID  string
	Common []string // NAME=VALUE, for all ranks
	Apps   []spec.App
	Ranks  []Row
	Stdio  Stdio
	Logs   *Logs
	// ErrorFiles gives each rank a file for PyTorch's exceptions.
	ErrorFiles bool
	// Dumps are the variables that name files and pipes of PyTorch's flight recorder, in a directory of the node's.
	Dumps []string
	// Key is the content of a file of the node's, made before the first rank starts; none in a job of one node.
	Key []byte
	// Window is the number of bytes of each stream that may be in flight.
	Window int
	// TorchHint makes the agent look, once, for PyTorch ranks that never connect to the store.
	TorchHint bool
	// Attempt counts restarts; each has a log directory of its own.
	Attempt int
	// StoreReport is how long ranks may wait in the store without progress before Stalled; 0: no limit.
	StoreReport time.Duration
	// Cgroup requests a cgroup of the job's own, if one can be made.
	Cgroup bool
	MPI    MPI
}

// Row is one rank.
type Row struct {
	spec.Process
	Env []string // beside Start.Common
}

// Stdio says what the ranks' standard streams are.
type Stdio struct {
	// Terminal gives the only rank the launcher's own descriptors 0 to 2.
	Terminal bool
	PTY      bool
	Rows     int
	Cols     int
	// Direct is the rank that inherits the launcher's standard input, Piped are those that get Stdin frames; all others
	// read /dev/null.
	Direct int
	Piped  []int
	// Forward sends the ranks' output to the head although the node itself shows it.
	Forward bool
}

// Logs are the log files of a node.
type Logs struct {
	spec.Logs
	Role     string
	Template string
	Show     []int // local ranks; nil: all
	// Digits are those of the job's highest rank, for the user's file names.
	Digits int
	// Host and Node are the node's name and number in the plan.
	Host string
	Node int
}

// Warm has a node keep a Python interpreter that has imported modules, from which it forks the ranks of later attempts.
type Warm struct {
	App     spec.App // whose interpreter it is
	Environ []string // of its ranks, NAME=VALUE
	Imports []string
}

// Running reports that all ranks of a node run, or those started before a StartFailed that follows.
type Running struct {
	Ranks []RankPID
	At    time.Time // of the first start
}

// RankPID is the process of a rank.
type RankPID struct{ Rank, PID int }

// StartFailed reports that a rank could not be started.
type StartFailed struct {
	Rank int
	Code int
	Text string
	Hint string
	At   time.Time
}

// Ended reports the output streams and the ranks that have ended since the last frame. A rank's streams may end before
// it or, if a child of it still has them, after it.
type Ended struct {
	Streams []StreamEnd
	Ranks   []spec.Exit
}

// StreamEnd is the end of a rank's stream, 1 or 2.
type StreamEnd struct{ Rank, Stream int }

// Signal sends a signal to every rank of a node that runs.
type Signal struct {
	spec.Signal
	// Ranks and Agent make it a fault of --chaos: it goes to these ranks alone and, with Agent, to the agent's process.
	Ranks []int
	Agent bool
}

// Signalled reports a signal to an agent from the resource manager that started it, which also sends it to ranks.
type Signalled struct {
	Signal syscall.Signal
	At     time.Time
}

// Kill sends SIGKILL to every process of a node's ranks.
type Kill struct{}

// Suspend stops a node's ranks. The node answers with the same once they are stopped, so that a launcher that stops
// itself then has stopped all of them.
type Suspend struct{}

// Credit allows Bytes more of a stream.
type Credit struct {
	Stream int
	Bytes  int
}

// Cleanup makes a node end the orphans of its ranks.
type Cleanup struct {
	Grace time.Duration
}

// CleanedUp reports that no process of the job is left on a node, except Orphans that survived SIGKILL.
type CleanedUp struct {
	Orphans []string
}

// Notice is a line for the user.
type Notice struct {
	Text string
}

// Resize is the size of the terminal.
type Resize struct {
	Rows int
	Cols int
}

// Ping requests Pong, and proves that the head is alive. Sent is by the head's clock; Lease is Hello's, for an agent
// that has to wait for that.
type Ping struct {
	Sent  time.Time
	Lease time.Duration
}

// Pong answers Ping with its Sent and the node's own clock.
type Pong struct {
	Sent time.Time
	At   time.Time
}

// Inspect requests what each rank does; Hung answers it. Stop reports that the job ends then: ranks need not survive
// the inspection.
type Inspect struct {
	Quiet spec.Seconds
	Stop  bool
	// RAS requests all of NCCL's answer, and not only what concerns the node's own ranks.
	RAS bool
}

// JobEnded tells a node that joined how the job ended.
type JobEnded struct {
	Code int    // the launcher's exit code
	Text string // an explanation; "" if the job succeeded
}

// Spawn reports a call of MPI_Comm_spawn. Spawned answers it, by Call: with the name of the new world, or an error.
type Spawn struct {
	Call    int
	Request world.Spawn
}

// Spawned answers Spawn.
type Spawned struct {
	Call  int
	World string
	Error string
}

// Grow adds a world to the running job on every node, which starts its own ranks of it. Grown answers it, by Number.
type Grow struct {
	Number   int
	World    world.World
	Common   []string       // NAME=VALUE, for all new ranks of the node
	Programs []spec.Command // as the caller named them; Row.App is an index of these
	Ranks    []Row
	// Call is the number of the node's own Spawn that this answers, 0: another's.
	Call int
	// Over names worlds whose ranks have all ended, which the node may forget.
	Over []string
}

// Grown reports the new ranks that run, or why one could not be started.
type Grown struct {
	Number int
	Ranks  []RankPID
	Error  string
	At     time.Time
}

// OutputLost reports that a node can no longer show the output of its ranks.
type OutputLost struct {
	Stream     int
	ReaderGone bool // EPIPE
	Text       string
}

// Stalled reports, once, that ranks wait in the store without progress.
type Stalled struct {
	spec.Stall
	// RAS is NCCL's answer, as in Hung.
	RAS []byte
}

// Hung answers Inspect.
type Hung struct {
	spec.Hang
	// RAS is the answer of NCCL's RAS port, a ras.Status as JSON; empty: there was none.
	RAS []byte
}

// Probe examines the network between the nodes; see package probe. Reached answers each, in order. It may come before
// and after Hello.
type Probe struct {
	// Key is the job's for this purpose: at least 16 bytes.
	Key []byte
	// Node is the number in this node's authentication.
	Node int
	// Listen makes the node report its addresses and answer probes at all of them, at Port (at a free one if that is 0 or
	// in use), until it opens the store or starts ranks.
	Listen bool
	Port   int
	// Names are names or addresses that the user gave this node.
	Names []string
	// Targets are dialed concurrently. Timeout is for each; Patience is how much longer the others have once one has
	// answered, 0: all of Timeout.
	Targets  []probe.Target
	Timeout  time.Duration
	Patience time.Duration
	// Measure measures the paths to Targets, one after the other, instead of dialing them.
	Measure bool
}

// Reached answers Probe.
type Reached struct {
	// Candidates are the node's addresses, the most plausible first; Port is where it answers probes there, and Free a
	// port that nobody chose where it does so, too.
	Candidates []probe.Candidate
	Port       int
	Free       int
	// Notes are for the user; Error is why the node cannot listen.
	Notes []string
	Error string
	// Answers are in the order of Probe.Targets; Measured replaces them after Probe.Measure.
	Answers  []probe.Result
	Measured []probe.Measured
}

func (*Hello) Type() Type       { return TypeHello }
func (*Facts) Type() Type       { return TypeFacts }
func (*Open) Type() Type        { return TypeOpen }
func (*Opened) Type() Type      { return TypeOpened }
func (*Start) Type() Type       { return TypeStart }
func (*Warm) Type() Type        { return TypeWarm }
func (*Running) Type() Type     { return TypeRunning }
func (*StartFailed) Type() Type { return TypeStartFailed }
func (*Credit) Type() Type      { return TypeCredit }
func (*Ended) Type() Type       { return TypeEnded }
func (*Signal) Type() Type      { return TypeSignal }
func (*Kill) Type() Type        { return TypeKill }
func (*Cleanup) Type() Type     { return TypeCleanup }
func (*CleanedUp) Type() Type   { return TypeCleanedUp }
func (*Notice) Type() Type      { return TypeNotice }
func (*Resize) Type() Type      { return TypeResize }
func (*Stalled) Type() Type     { return TypeStalled }
func (*Hung) Type() Type        { return TypeHung }
func (*Suspend) Type() Type     { return TypeSuspend }
func (*Ping) Type() Type        { return TypePing }
func (*Pong) Type() Type        { return TypePong }
func (*Inspect) Type() Type     { return TypeInspect }
func (*Probe) Type() Type       { return TypeProbe }
func (*Reached) Type() Type     { return TypeReached }
func (*JobEnded) Type() Type    { return TypeJobEnded }
func (*Check) Type() Type       { return TypeCheck }
func (*Checked) Type() Type     { return TypeChecked }
func (*Signalled) Type() Type   { return TypeSignalled }
func (*OutputLost) Type() Type  { return TypeOutputLost }
func (*Exchange) Type() Type    { return TypeExchange }
func (*MPIEvent) Type() Type    { return TypeMPI }
func (*Spawn) Type() Type       { return TypeSpawn }
func (*Spawned) Type() Type     { return TypeSpawned }
func (*Grow) Type() Type        { return TypeGrow }
func (*Grown) Type() Type       { return TypeGrown }
func (*Usage) Type() Type       { return TypeUsage }
func (*Used) Type() Type        { return TypeUsed }
