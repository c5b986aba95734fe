package wire

import (
	"net/netip"
	"syscall"
	"time"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/spec"
	"gorun/rendezvous/world"
)

// Hello opens a connection: what the head needs to know of the node.
type Hello struct {
	Version int
	CPUs    bool
	GPUs    bool
	// Driverless asks for a note on GPUs that no compute driver serves.
	Driverless bool
	// Topology asks for what the node consists of, with its GPUs: for Places in any
	// case, else unless there are more ranks than CPUs.
	Topology bool
	Places   bool
	// NICs asks for the network interfaces with it.
	NICs bool
	// GPUUsers, GPUNames and GPULinks ask for what of NVIDIA's GPUs the kernel's files
	// may not tell; see gpufacts.Wish.
	GPUUsers bool
	GPUNames bool
	GPULinks bool
	Programs []Program
	// Ranks is how many this node is going to have, where that is known by now:
	// Facts then say whether its limits allow it.
	Ranks int
	// Environ are the variables by which programs and interpreters are found,
	// NAME=VALUE. What is missing there is the agent's own.
	Environ []string
	// Dir is the launcher's working directory, to which an agent on another host
	// goes; "": it stays. DirOptional says that it need not exist, since every program has
	// a directory of its own.
	Dir         string
	DirOptional bool
	// Copied is what --copy sent there.
	Copied Copied
	// Lease is how long the agent goes on without a frame from the head; 0: for ever.
	Lease time.Duration
	// Sockets says that each rank gets one, for Start's MPI.
	Sockets bool
	// NCCL asks for what settings of NCCL depend on.
	NCCL bool
	// Device asks how many of these PyTorch counts there ("xpu"); "": nobody wants to know.
	Device string
}

// Copied is a directory that goes with the job, and the process on that host that removes it
// where the agent or the head says so; 0 for none. Its command line has the directory's last name.
type Copied struct {
	Dir string
	PID int
}

// Program is a program as the user named it.
type Program struct {
	Name        string
	Args        []string
	Start       spec.Start
	Interpreter string
	Dir         string
	Path        string // directories to look in before PATH, with colons between them
	ScanStore   bool   // look whether its text assigns MASTER_PORT
}

// Facts answer Hello.
type Facts struct {
	Version int
	spec.Facts
	Limit string // which limit is too low for Hello's ranks; "" for none
	// Dir is why Hello's working directory cannot be this node's; "": it is.
	DirError string
	// DeviceError says why it is not known how many there are of Hello's Device.
	DeviceError string
}

// Open asks node 0 to open the store.
type Open struct {
	Rank0 bool // MASTER_PORT is left to rank 0
	RAS   bool // a port for NCCL's processes is wanted
	Addr  string
	Port  int
	Allow []netip.Prefix // peers on other hosts that are accepted

	AllowLocalUsers bool // every user of node 0's host is accepted
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
	Common []string // NAME=VALUE, what all ranks share
	Apps   []spec.App
	Ranks  []Row
	Stdio  Stdio
	Logs   *Logs
	// ErrorFiles says that each rank gets a file for PyTorch's exceptions.
	ErrorFiles bool
	// Key is in a file of the node's before the first rank is started; none in a job of
	// one node.
	Key []byte
	// Window is the number of bytes of each stream that may be under way.
	Window int
	// TorchHint has the agent look, once, for PyTorch ranks that never come to
	// the store.
	TorchHint bool
	// Attempt counts restarts; each has a log directory of its own.
	Attempt int
	// StoreReport is how long ranks may wait in the store without anything coming
	// further until Stalled says so; 0: for ever.
	StoreReport time.Duration
	// HangTimeout is how long nothing of the job may be seen to go on until Hung
	// says so; 0: for ever.
	HangTimeout time.Duration
	// Cgroup wishes for a cgroup of the job's own, where one can be made.
	Cgroup bool
	// HangStop says that the job ends after Hung: ranks need not survive being asked
	// what they do.
	HangStop bool
	MPI      MPI
}

// Row is one rank.
type Row struct {
	spec.Process
	Env []string // what differs from Common
}

// Stdio says what the ranks' standard streams are.
type Stdio struct {
	// Terminal gives the only rank the launcher's own descriptors 0 to 2.
	Terminal bool
	PTY      bool
	Rows     int
	Cols     int
	// Direct is the rank that inherits the launcher's standard input, Piped are
	// those that get Stdin frames; all others read /dev/null.
	Direct int
	Piped  []int
	// Sent says that the head wants what ranks write, although the node itself shows it.
	Forward bool
}

// Logs is where and what a node writes to files.
type Logs struct {
	spec.Logs
	Role     string
	Template string
	Show     []int // local ranks; nil: all
	// Digits are those of the job's highest rank, for names of the user's own.
	Digits int
	// Host and Node are the node's name and number, as the plan has them.
	Host string
	Node int
}

// Running says that all ranks of a node run, or those that had been started
// when StartFailed follows.
type Running struct {
	Ranks []RankPID
	At    time.Time
}

// RankPID is the process of a rank.
type RankPID struct{ Rank, PID int }

// StartFailed says that a rank could not be started.
type StartFailed struct {
	Rank int
	Code int
	Text string
	Hint string
	At   time.Time
}

// Ended says which output streams and which ranks have ended since the last
// frame. A rank's streams may end before it or, where a child of it still has
// them, after it.
type Ended struct {
	Streams []StreamEnd
	Ranks   []spec.Exit
}

// StreamEnd is the end of a rank's stream, 1 or 2.
type StreamEnd struct{ Rank, Stream int }

// Signal sends a signal to every rank of a node that still runs.
type Signal struct {
	Signal syscall.Signal
	Group  bool
}

// Signalled says that an agent has got a signal from the resource manager that started
// it, which sends it to ranks, too.
type Signalled struct {
	Signal syscall.Signal
	At     time.Time
}

// Kill ends every process of a node's ranks at once.
type Kill struct{}

// Suspend stops a node's ranks; the node answers with the same when they are
// stopped, so that a launcher which then stops itself has not stopped the answer.
type Suspend struct{}

// Credit allows Bytes more of a stream.
type Credit struct {
	Stream int
	Bytes  int
}

// Cleanup has a node end what its ranks left behind.
type Cleanup struct {
	Grace time.Duration
}

// CleanedUp says that nothing of the job is left on a node.
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

// Ping asks for Pong, and says that the head is there. Sent is by the head's clock; Lease
// is Hello's, for an agent that has to wait for it.
type Ping struct {
	Sent  time.Time
	Lease time.Duration
}

// Pong answers Ping: what it said, and the node's own clock then.
type Pong struct {
	Sent time.Time
	At   time.Time
	// Signs is different whenever something of the job has gone on at the node.
	Progress int64
}

// Inspect asks what each rank does: Hung answers it. Stop says that the job ends
// then, as Start.HangStop does.
type Inspect struct {
	Quiet time.Duration
	Stop  bool
	// RAS has the node tell all that NCCL answers; else it tells what is about its own ranks.
	RAS bool
}

// JobEnded says to a node that joined how the job ended.
type JobEnded struct {
	Code int    // the launcher's exit code
	Text string // a line that says more; "" if all is well
}

// Spawn says that a rank has called MPI_Comm_spawn. Spawned answers it, by Call: with the
// name of the new world, or why there is none.
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

// Grow tells every node of a new world in the running job, and has it start those ranks of
// it that are its own. Grown answers it, by Number.
type Grow struct {
	Number   int
	World    world.World
	Common   []string  // NAME=VALUE, what the node's new ranks share
	Programs []Program // as the caller named them; a Row's App counts them
	Ranks    []Row
	// Call is the number of the node's own Spawn that this fulfils, 0: of another's.
	Call int
	// Over names worlds whose ranks have all ended: nobody asks for anything of them.
	Over []string
}

// Grown says which of the new ranks run, or why one could not be started.
type Grown struct {
	Number int
	Ranks  []RankPID
	Error  string
	At     time.Time
}

// OutputLost says that a node which shows what its ranks print cannot do so any more.
type OutputLost struct {
	Stream     int
	ReaderGone bool // nobody reads it any more
	Text       string
}

// Stalled says, once, that ranks wait in the store and nothing has come further
// for a while.
type Stalled struct {
	Waited  time.Duration
	At      time.Time
	Waiting []spec.StoreWait
	// Absent are the ranks that do not wait there.
	Absent []spec.Absence
	// RAS is what NCCL answered, as Hung's.
	RAS []byte
}

// Hung says, once, that for a while no rank printed anything and nothing came
// further in the store.
type Hung struct {
	Quiet time.Duration
	At    time.Time
	Ranks []spec.Activity
	// RAS is what NCCL's RAS port answered, a ras.Status as JSON; none: nobody did.
	RAS []byte
}

// Probe asks a node about the network between the nodes; see package probe. Each is
// answered by a Reached, in order. A node may be asked before and after Hello.
type Probe struct {
	// Key is the job's, for this purpose alone: 16 bytes or more.
	Key []byte
	// Node is the number by which this node proves itself.
	Node int
	// Listen has the node tell its addresses and answer probes at all of them, at Port
	// (at a free one where that is 0 or taken), until it is to open the store or start
	// ranks.
	Listen bool
	Port   int
	// Names are names or addresses that the user gave this node.
	Names []string
	// Targets are dialed, all at once. Timeout is for each; Patience is how much longer
	// the others get when one answered, 0: all of Timeout.
	Targets  []probe.Target
	Timeout  time.Duration
	Patience time.Duration
	// Measure has the ways to Targets measured, one after the other, in place of dialed.
	Measure bool
}

// Reached answers Probe.
type Reached struct {
	// Candidates are the node's addresses, the most plausible first; Port is where it
	// answers probes there, and Free a port that nobody named where it does so, too.
	Candidates []probe.Candidate
	Port       int
	Free       int
	// Notes are remarks for the user; Error says why the node cannot listen.
	Notes []string
	Error string
	// Answers are in the order of Probe's Targets.
	Answers []probe.Result
	// Measured takes their place where Probe said so.
	Measured []probe.Measured
}

func (*Hello) Type() Type { return TypeHello }

func (*Facts) Type() Type { return TypeFacts }

func (*Open) Type() Type { return TypeOpen }

func (*Opened) Type() Type { return TypeOpened }

func (*Start) Type() Type { return TypeStart }

func (*Running) Type() Type { return TypeRunning }

func (*StartFailed) Type() Type { return TypeStartFailed }

func (*Credit) Type() Type { return TypeCredit }

func (*Ended) Type() Type { return TypeEnded }

func (*Signal) Type() Type { return TypeSignal }

func (*Kill) Type() Type { return TypeKill }

func (*Cleanup) Type() Type { return TypeCleanup }

func (*CleanedUp) Type() Type { return TypeCleanedUp }

func (*Notice) Type() Type { return TypeNotice }

func (*Resize) Type() Type { return TypeResize }

func (*Stalled) Type() Type { return TypeStalled }

func (*Hung) Type() Type { return TypeHung }

func (*Suspend) Type() Type { return TypeSuspend }

func (*Ping) Type() Type { return TypePing }

func (*Pong) Type() Type { return TypePong }

func (*Inspect) Type() Type { return TypeInspect }

func (*Probe) Type() Type { return TypeProbe }

func (*Reached) Type() Type { return TypeReached }

func (*JobEnded) Type() Type { return TypeJobEnded }

func (*Check) Type() Type { return TypeCheck }

func (*Checked) Type() Type { return TypeChecked }

func (*Signalled) Type() Type { return TypeSignalled }

func (*OutputLost) Type() Type { return TypeOutputLost }

func (*Exchange) Type() Type { return TypeExchange }

func (*MPIEvent) Type() Type { return TypeMPI }

func (*Spawn) Type() Type { return TypeSpawn }

func (*Spawned) Type() Type { return TypeSpawned }

func (*Grow) Type() Type { return TypeGrow }

func (*Grown) Type() Type { return TypeGrown }

func (*Usage) Type() Type { return TypeUsage }

func (*Used) Type() Type { return TypeUsed }
