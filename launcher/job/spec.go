package job

import (
	"cmp"
	"net/netip"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
)

// Spec is what a user wishes for. Its zero value plus one App is a valid job:
// one rank per GPU, else one, on this host.
type Spec struct {
	// Apps are the programs of the job, in rank order. More than one is MPMD
	// (mpirun's `:`); ranks number through the apps.
	Apps []App
	// RanksFrom says in the user's words where the apps' NumRanks came from, such
	// as "-n 4".
	RanksFrom string

	// Hosts are where ranks may run, in rank order; none means this host.
	Hosts []hosts.Host
	// HostsFrom says in the user's words where Hosts came from, such as
	// "-H localhost:4".
	HostsFrom string
	// SlotsFrom says the same of their slots, where those have a source of their own: ""
	// is HostsFrom.
	SlotsFrom string

	// Reach is how gorun comes to other hosts than this one.
	Reach ReachSpec
	// Join makes this process one node of a job whose nodes are all started by
	// hand, or by somebody else's engine; nil: this process starts the others.
	Join *JoinSpec
	// Oversubscribe allows more ranks than slots.
	Oversubscribe bool
	// ExportAll sends the whole environment to other hosts, instead of the
	// documented list; what belongs to one host stays there all the same.
	ExportAll bool
	// ExportUnlisted does the same but for what looks like a secret, as Hydra's launchers
	// do by default.
	ExportUnlisted bool
	// Heartbeat is how often head and agents on other hosts hear of each other at
	// least, 0 means DefaultHeartbeat. Who is not heard for Lease is lost.
	Heartbeat time.Duration
	// PerNode is the wished number of ranks on each node (--nproc-per-node).
	PerNode Count
	// NumNodes is the wished number of nodes (--nnodes); 0: not said.
	NumNodes int

	// Environ is the environment that ranks inherit, as os.Environ gives it.
	// Nil means that of this process.
	Environ []string
	// Exports are `-x NAME` and `-x NAME=VALUE`, in the order of the command line.
	Exports []Export
	// LenientExports has a note say that an export contradicts what gorun itself gives ranks; such
	// an export is refused otherwise.
	LenientExports bool

	// Dir is the ranks' working directory; "" is the launcher's own.
	Dir string

	// ExportsOnly has ranks inherit nothing but what Exports name (-genvnone).
	ExportsOnly bool

	// MPI says by which of MPI's start-up protocols ranks are served.
	MPI MPIMode
	// PMIPort has ranks come to a port for PMI, instead of inheriting a descriptor.
	PMIPort bool
	// MPIRequested says that the user asked for MPI by name (--mpi, mpirun). Without it ranks on
	// several hosts may call MPI_Comm_spawn only if their program links an MPI library here.
	MPIRequested bool
	// MPIWhy is why MPI is MPINone, where no option says so, and what does serve it.
	MPIWhy string
	// Universe is MPI_UNIVERSE_SIZE (-usize). 0 and UniverseSlots are the number of slots, or
	// of ranks where those are more; with 0 only PMIx has it, as Open MPI and Hydra do.
	Universe int
	// WorldPerApp makes each App an MPI_COMM_WORLD of its own (--world=app).
	WorldPerApp bool

	Store  StoreSpec
	Stdin  StdinSpec
	Output OutputSpec

	// RunID names the job for its ranks (TORCHELASTIC_RUN_ID, log directory);
	// "" takes a random one.
	RunID string
	// Role is torchrun's --role; "" is "default".
	Role string
	// VirtualLocalRank gives every rank LOCAL_RANK=0 and one visible GPU; with
	// Place.Isolate, or chosen GPUs, it sees what is its own of them.
	VirtualLocalRank bool
	// SignalsToHandle are the signals that end the job in order and are passed on
	// to the ranks, as torchrun's option of that name; none means the default
	// (SIGTERM, SIGINT, SIGHUP, SIGQUIT is forwarded).
	SignalsToHandle []string

	// Policy is what the end of a rank means for the others.
	Policy Policy
	// Restarts are those of a failed job.
	Restarts Restarts

	// Tune says which settings of NCCL's ranks get beside the user's, "" is TuneAuto; Study
	// is what TuneTextbook goes by.
	Tune  Tune
	Study Study

	// HangTimeout is how long the job may go on with no rank printing anything and
	// nothing coming further in the store; 0 is for ever.
	HangTimeout time.Duration
	OnHang      OnHang
	// Place says where on its host a rank runs.
	Place PlacementSpec
	// CPUsPerRank is what the user asked a resource manager for, for each rank (Slurm's
	// --cpus-per-task); 0: nothing. It binds nobody: a rank runs as many threads by
	// default where its CPUs are more.
	CPUsPerRank int
	// CPUsFrom says in the user's words where CPUsPerRank came from, such as
	// "--cpus-per-task of the Slurm job".
	CPUsFrom string
	// NoEnvCheck says nothing of variables in the ranks' environment that NCCL does not read.
	NoEnvCheck bool
	// NoCgroup keeps ranks in the launcher's own cgroup.
	NoCgroup bool

	// Timeout ends the job with exit code 124 when it has run that long; 0 is never.
	Timeout time.Duration
	// StacksAtTimeout has it said then what each rank does.
	StacksAtTimeout bool
	// TimeoutCode is the exit code then, where it is another one; 0: 124.
	TimeoutCode int
	// Grace is the time between the signal that asks ranks to end and SIGKILL.
	// 0 means DefaultGrace; a negative value means no grace at all.
	Grace time.Duration
}

// DefaultGrace is the time that ranks get to end in order.
const DefaultGrace = 10 * time.Second

// DefaultHeartbeat is rare enough to cost nothing with thousands of nodes.
const DefaultHeartbeat = 3 * time.Second

// HeartbeatInterval is Heartbeat with its default.
func (s *Spec) HeartbeatInterval() time.Duration { return cmp.Or(s.Heartbeat, DefaultHeartbeat) }

// Lease is how long a node may not be heard of until it counts as lost, and how
// long it goes on without the head.
func (s *Spec) Lease() time.Duration { return leaseBeats * s.HeartbeatInterval() }

// leaseBeats makes a lease of 15 s from the default heartbeat: a link that is away
// for 5 s comes back within it, TCP's pauses between attempts included.
const leaseBeats = 5

// ReachSpec is how agents on other hosts are started.
type ReachSpec struct {
	// SSHConfig is the file that --ssh-config names, "" for the user's own.
	SSHConfig string
	// AcceptNew adds the keys of unknown hosts to the known ones, as OpenSSH's
	// StrictHostKeyChecking=accept-new does. Changed keys are refused all the same.
	AcceptNew bool
	// Command is a program with arguments that stands for ssh (--ssh 'kubectl exec …');
	// {host}, {user} and {port} in it are filled in, and host and command follow as
	// with ssh where there is no {host}.
	Command []string
	// AtOnce bounds the hosts that are being reached at the same time, 0 means
	// DefaultAtOnce.
	AtOnce int
	// Timeout is how long reaching one host may take, 0 means DefaultReachTimeout, and
	// DefaultConnectTimeout for a connection.
	Timeout time.Duration
	// Agent is the gorun on the other hosts that is used instead of a copy of this
	// one.
	Agent string
	// Copy are files and directories that are sent to each host before the start; ranks
	// begin there beside them.
	Copy []string
	// Programs are files that are sent, too, for ranks that begin where they would
	// without.
	Programs []string
	// Engine starts the agents of all hosts, those of this one too, where its Once says
	// so; nil: no resource manager does.
	Engine *engine.Start
}

// What a ReachSpec leaves open.
const (
	DefaultAtOnce       = 256
	DefaultReachTimeout = 30 * time.Second
	// DefaultConnectTimeout is long enough for four SYN packets (after 0, 1, 3 and 7 s), and short enough
	// for a host that is down to be reported within 10 s.
	DefaultConnectTimeout = 8 * time.Second
)

// JoinSpec is one node's view of a job whose nodes come together by themselves.
type JoinSpec struct {
	// NodeRank is this node's number, -1: who owns the endpoint's address is node 0,
	// the others are numbered. NeverNode0 says that this one is numbered in any case.
	NodeRank   int
	NeverNode0 bool
	// NumNodes is the number of nodes that the job has.
	NumNodes int
	// Addr and Port are node 0's, where agents and ranks come together.
	Addr string
	Port int
	// ID names the job (--rdzv-id); nodes that name another do not belong to it.
	ID string
	// Token is the secret that all nodes share, "" for none. OwnToken is the user's own
	// one, for nodes that have neither Token nor MUNGE.
	Token, OwnToken string
	// Insecure takes nodes that prove nothing. Without it and without a secret, nodes are
	// processes of one user on one host, and Addr is a loopback address.
	Insecure bool
	// NodeID is what the engine calls this node, where it said so.
	NodeID string
	// Host is this node as the others reach it (--local-addr), "": as its own
	// interfaces say.
	Host string
	// Timeout is how long node 0 is waited for, and node 0 waits for the others; 0
	// means DefaultJoinTimeout.
	Timeout time.Duration
	// From says in the user's words where this came from.
	From string
	// Ports are others than Port: node 0 takes the first of all that is free, the others
	// try them in turn. The job's id tells it from other jobs that are there.
	Ports []int
	// Task is set where each process is one rank, as with srun -n8 gorun ./prog. The
	// processes are then what joins: NodeRank is Task.Rank, NumNodes is Task.NumRanks.
	Task *Task
	// Munge says that where there is no Token the site's MUNGE tells the nodes of this
	// user from anybody else; MungeSocket is where it listens, "": where it does by default.
	Munge       bool
	MungeSocket string
	// EngineSignals says that whoever started this process signals its ranks, too, as
	// Slurm does with all processes of a step. Signals that do not end the job are then
	// not passed on: ranks have them already.
	EngineSignals bool
	// HostsExist says that node 0's host is there already, as all of an engine's job are: a
	// name that no resolver knows is given up soon. A pod's may come later.
	HostsExist bool
}

// DefaultJoinTimeout is torchrun's.
const DefaultJoinTimeout = 15 * time.Minute

// App is one program of a job.
type App struct {
	// Program is the program's name as the user typed it: a file, a name in PATH,
	// a Python script, a module, a Go file or package directory.
	Program string
	// Args are its arguments, never touched except as LocalRankFlag and
	// SubstituteLocalRank say.
	Args []string
	// Path are directories to look for it in before those of PATH, with colons between them.
	Path string
	// Start says how the program is started; the zero value decides from the file.
	Start Start
	// Interpreter is the Python that was asked for by name; "" finds one.
	Interpreter string
	// NumRanks is the wished number of ranks (-np); 0: not said.
	NumRanks int
	// Dir overrides Spec.Dir for this app.
	Dir string
	// Exports are those of this app's ranks alone, which win over Spec.Exports.
	Exports []Export
	// Hosts are where its ranks run, nil: where those of Spec do. Every one of them is one
	// of Spec.Hosts, by name; its slots are those for this app.
	Hosts []hosts.Host
	// Place is where on their hosts they run, nil: as Spec.Place says.
	Place *PlacementSpec
	// LocalRankFlag puts --local-rank=N before the arguments, as
	// torch.distributed.launch does without --use-env.
	LocalRankFlag bool
	// SubstituteLocalRank replaces the text ${local_rank} in the arguments, as
	// torchrun and torch.distributed.launch do.
	SubstituteLocalRank bool
}

// RequestsMPI reports whether the user named MPI, or one of its protocols.
func (s *Spec) RequestsMPI() bool { return s.MPI != MPINone && (s.MPIRequested || s.MPI != MPIAuto) }

// MPIMode says by which of MPI's start-up protocols ranks are served.
type MPIMode uint8

const (
	// MPIAuto serves all of them.
	MPIAuto MPIMode = iota
	// MPIPMI1, MPIPMI2 and MPIPMIx serve one.
	MPIPMI1
	MPIPMI2
	MPIPMIx
	// MPINone serves none, and leaves no trace of any in the ranks' environment.
	MPINone
)

// String is the mode as --mpi takes it.
func (m MPIMode) String() string {
	return [...]string{"auto", "pmi1", "pmi2", "pmix", "none"}[m]
}

// MarshalText writes it into a plan.
func (m MPIMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Only is the one protocol that is served, "" where all or none are.
func (m MPIMode) Only() string {
	return [...]string{MPIPMI1: "PMI-1", MPIPMI2: "PMI-2", MPIPMIx: "PMIx", MPINone: ""}[m]
}

// UniverseSlots is a Spec.Universe that PMI has, too.
const UniverseSlots = -1

// StoreMode says who serves the rendezvous store that MASTER_ADDR and
// MASTER_PORT name.
type StoreMode uint8

const (
	// StoreAuto is StoreGorun, or StoreRank0 when the program's own text assigns
	// MASTER_PORT.
	StoreAuto StoreMode = iota
	// StoreGorun: node 0's agent serves it.
	StoreGorun
	// StoreRank0: rank 0 hosts it; gorun reserves the port.
	StoreRank0
)

// StoreSpec is what the user said about the store.
type StoreSpec struct {
	Mode StoreMode
	// Addr is the address or name the store should listen on; "" is loopback for
	// a job on one host.
	Addr string
	// Port is the TCP port; 0 takes a free one.
	Port int
	// From names the options or variables that gave Addr and Port, for messages.
	From string
	// Allow are the networks of peers on other hosts that gorun's store accepts.
	Allow []netip.Prefix
	// AllowLocalUsers has gorun's store accept every user of its host, not only
	// the user of the job and root.
	AllowLocalUsers bool
	// Report is how long ranks may wait in the store, while nothing comes further,
	// until a remark says who waits for what and who is missing. 0 means
	// DefaultStoreReport; a negative value, no remark.
	Report time.Duration
}

// DefaultStoreReport is long for a meeting and short for the one who waits.
const DefaultStoreReport = 30 * time.Second

// ReportAfter is Report with its default; 0: never.
func (w StoreSpec) ReportAfter() time.Duration {
	if w.Report == 0 {
		return DefaultStoreReport
	}
	return max(w.Report, 0)
}

// StdinKind says which ranks read the launcher's standard input.
type StdinKind uint8

const (
	// StdinRank: the rank StdinSpec.Rank (0 by default); the others read end-of-file.
	StdinRank StdinKind = iota
	// StdinAll: every rank gets a copy.
	StdinAll
	// StdinNone: no rank.
	StdinNone
	// StdinSome: each of StdinSpec.Ranks gets a copy.
	StdinSome
)

// StdinSpec is --stdin.
type StdinSpec struct {
	Kind  StdinKind
	Rank  int   // with StdinRank
	Ranks []int // with StdinSome, in their order
}

// LabelMode says when lines carry their rank.
type LabelMode uint8

const (
	// LabelAuto: on a terminal with more than one rank.
	LabelAuto LabelMode = iota
	// LabelAlways labels lines in pipes and files too.
	LabelAlways
	// LabelNever passes bytes as they are.
	LabelNever
)

// StreamMap gives a set of streams to each local rank.
type StreamMap struct {
	All   Streams         // for local ranks that Ranks leaves out
	Ranks map[int]Streams // by local rank; nil when All holds for each
}

// Of returns the streams of a local rank.
func (m StreamMap) Of(localRank int) Streams {
	if s, ok := m.Ranks[localRank]; ok {
		return s
	}
	return m.All
}

// Any reports whether some rank has a stream in m.
func (m StreamMap) Any() bool {
	for _, s := range m.Ranks {
		if s != 0 {
			return true
		}
	}
	return m.All != 0
}

// OutputSpec is what the user said about the ranks' output.
type OutputSpec struct {
	Label LabelMode
	// Template is torchrun's --log-line-prefix-template; it replaces the label of
	// tee'd streams.
	Template string
	// Pattern is what lines begin with, see output.ParsePattern; "" leaves that to gorun: "[rank] ", and torchrun's
	// label for tee'd streams.
	Pattern string

	// LogDir is the directory for log files; "" makes one in the temporary
	// directory when a file is needed; os.DevNull means no files at all.
	LogDir string
	// Redirect streams go to files only, Tee streams to files and the console.
	Redirect, Tee StreamMap
	// ShowLocalRanks are the local ranks whose output is shown; nil shows all.
	ShowLocalRanks []int
	// DuplicateStdout and DuplicateStderr: lines of tee'd streams that contain
	// one of these strings also go to one file per attempt.
	DuplicateStdout, DuplicateStderr []string

	// StdoutFile and StderrFile are patterns for the names of log files (see output.ParsePattern),
	// instead of LogDir with torchrun's names; "": the stream has none.
	StdoutFile, StderrFile string

	// Merge has what ranks write to standard error shown on the launcher's standard output.
	Merge bool

	// LogsToHead has the files of all nodes written on the head's host; else each
	// node writes those of its ranks.
	LogsToHead bool
	// PTY gives each rank a pseudo-terminal as its standard streams.
	PTY bool
}
