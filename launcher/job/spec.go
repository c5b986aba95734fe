package job

import (
	"cmp"
	"net/netip"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
)

// Spec is a request for a job, whatever command line it came from. Its zero value plus one App is a valid job: one
// rank per GPU, else one, on this host.
type Spec struct {
	// Apps are the programs of the job, in rank order. More than one is MPMD (mpirun's `:`).
	Apps []App
	// RanksFrom is the source of the apps' NumRanks, for messages, such as "-n 4".
	RanksFrom string

	// Hosts are where ranks may run, in rank order; none means this host.
	Hosts []hosts.Host
	// HostsFrom is the source of Hosts, such as "-H localhost:4"; SlotsFrom that of their slots, "" if it is the same.
	HostsFrom, SlotsFrom string

	// Reach says how to reach other hosts.
	Reach ReachSpec
	// Join makes this process one node of a job whose nodes are started by hand or by another launcher; nil: this
	// process starts the others.
	Join *JoinSpec
	// Oversubscribe allows more ranks than slots.
	Oversubscribe bool
	// ExportAll sends the whole environment to other hosts, except what belongs to one host, instead of the documented
	// list. ExportUnlisted also leaves out what looks like a secret, as Hydra's launchers do by default.
	ExportAll, ExportUnlisted bool
	// Heartbeat is the longest interval between frames of head and remote agents; 0 means DefaultHeartbeat. A peer
	// that sends none for Lease is lost.
	Heartbeat time.Duration
	// PerNode is the requested number of ranks on each node (--nproc-per-node).
	PerNode Count
	// NumNodes is the requested number of nodes (--nnodes); 0: any. With MinNodes further Hosts are spares, which take
	// the places of lost nodes; in a job that nodes join, those that come later.
	NumNodes int
	// MinNodes is the number of nodes below which the job ends when nodes are lost; 0: it ends without any of them.
	MinNodes int
	// Grow has a job with MinNodes, which has fewer than NumNodes, start again at once with nodes that come later or come
	// back. Without it they wait for the next attempt.
	Grow bool

	// Chaos are faults to inject. ChaosSeed repeats their random times and targets; 0: a new one.
	Chaos     []Fault
	ChaosSeed int
	// Check looks at all nodes and spares before each attempt, and leaves out those with problems while MinNodes are
	// left.
	Check bool
	// WarmImports are Python modules that each node imports once the ranks run, for those of later attempts.
	WarmImports []string

	// Environ is the environment that ranks inherit, as os.Environ returns it; nil means that of this process.
	Environ []string
	// Exports are `-x NAME` and `-x NAME=VALUE`, in the order of the command line.
	Exports []Export
	// LenientExports turns the error about an export that contradicts gorun's own variables into a note.
	LenientExports bool

	// Dir is the ranks' working directory; "" is the launcher's own.
	Dir string

	// ExportsOnly makes ranks inherit nothing but Exports (-genvnone).
	ExportsOnly bool

	// MPI is the start-up protocol of MPI that ranks are served.
	MPI MPIMode
	// PMIPort makes ranks connect to a port for PMI instead of inheriting a descriptor.
	PMIPort bool
	// MPIRequested reports that the user named MPI (--mpi, mpirun). Without it ranks on several hosts may call
	// MPI_Comm_spawn only if their program links an MPI library here.
	MPIRequested bool
	// MPIWhy is why MPI is MPINone, where no option says so, and what serves it instead.
	MPIWhy string
	// Universe is MPI_UNIVERSE_SIZE (-usize). 0 and UniverseSlots are the number of slots, or of ranks if that is
	// higher; 0 sets it for PMIx only, as Open MPI and Hydra do.
	Universe int
	// WorldPerApp makes each App an MPI_COMM_WORLD of its own (--world=app).
	WorldPerApp bool

	Store  StoreSpec
	Stdin  StdinSpec
	Output OutputSpec

	// RunID names the job for its ranks (TORCHELASTIC_RUN_ID, log directory); "" takes a random one.
	RunID string
	// Role is torchrun's --role; "" is "default".
	Role string
	// VirtualLocalRank gives every rank LOCAL_RANK=0 and one visible GPU; with Place.Isolate, or chosen GPUs, all of
	// its own.
	VirtualLocalRank bool
	// SignalsToHandle stop the job gracefully and are passed on to the ranks, as with torchrun's option of that name;
	// none means the default (SIGTERM, SIGINT and SIGHUP; SIGQUIT is forwarded).
	SignalsToHandle []string
	// PreemptSignal is the name of the signal that announces the job's end. Ranks get it, and have Grace, or the time
	// that Scheduler leaves them, to save what they need and end by themselves.
	PreemptSignal string
	// Scheduler is the resource manager in whose job this process runs; nil: none, or it has no such commands.
	Scheduler *engine.Scheduler

	Policy   Policy
	Restarts Restarts

	// Tune selects the settings of NCCL that ranks get beside the user's; "" is TuneAuto. Study is the input of
	// TuneTextbook.
	Tune  Tune
	Study Study

	// HangTimeout is how long the job may make no progress: no rank prints, nothing changes in the store, and no rank
	// works (see [NewSilence]). 0 is no limit. SuspectAfter is how long a job of several ranks makes none before a note
	// about it; 0: never.
	HangTimeout  time.Duration
	SuspectAfter time.Duration
	OnHang       OnHang
	// Place says where on its host a rank runs.
	Place PlacementSpec
	// CPUsPerRank is how many CPUs a resource manager was asked for, for each rank (Slurm's --cpus-per-task); 0: none.
	// It limits a rank's threads, and binds no rank.
	CPUsPerRank int
	// CPUsFrom is the source of CPUsPerRank, such as "--cpus-per-task of the Slurm job".
	CPUsFrom string
	// NoEnvCheck omits notes on variables that NCCL does not read.
	NoEnvCheck bool
	// NoCgroup keeps ranks in the launcher's own cgroup.
	NoCgroup bool

	// Timeout is the job's time limit, after which it ends with exit code 124; 0 is no limit.
	Timeout time.Duration
	// StacksAtTimeout reports what each rank does then.
	StacksAtTimeout bool
	// TimeoutCode is the exit code then; 0: 124.
	TimeoutCode int
	// Grace is the time between the signal that stops ranks and SIGKILL. 0 means DefaultGrace; a negative value, none.
	Grace time.Duration
}

const (
	// DefaultGrace is the time that ranks have to stop gracefully.
	DefaultGrace = 10 * time.Second
	// DefaultHeartbeat is rare enough to cost nothing with thousands of nodes.
	DefaultHeartbeat = 3 * time.Second
	// leaseHeartbeats makes a lease of 15 s from the default: a link that is down for 5 s comes back within it, with
	// TCP's pauses between attempts.
	leaseHeartbeats = 5
)

// HeartbeatInterval returns Heartbeat or its default.
func (s *Spec) HeartbeatInterval() time.Duration { return cmp.Or(s.Heartbeat, DefaultHeartbeat) }

// Lease is how long a node may be silent until it counts as lost, and how long it goes on without the head.
func (s *Spec) Lease() time.Duration { return leaseHeartbeats * s.HeartbeatInterval() }

// ReachSpec says how agents on other hosts are started.
type ReachSpec struct {
	// SSHConfig is the file that --ssh-config names; "" for the user's own.
	SSHConfig string
	// AcceptNew adds the keys of unknown hosts to the known ones, as OpenSSH's StrictHostKeyChecking=accept-new does.
	// Changed keys are refused all the same.
	AcceptNew bool
	// Command is a program with arguments that replaces ssh (--ssh 'kubectl exec …'), with {host}, {user} and {port}
	// in it filled in. Without {host}, host and command follow as with ssh.
	Command []string
	// AtOnce bounds the hosts that are reached concurrently; 0 means DefaultAtOnce.
	AtOnce int
	// Timeout limits reaching one host; 0 means DefaultReachTimeout, and DefaultConnectTimeout for a connection.
	Timeout time.Duration
	// Agent is the gorun on the other hosts to use instead of a copy of this one.
	Agent string
	// Copy are files and directories to send to each host before the start; ranks start in the copy's directory.
	Copy []string
	// Programs are files to send, too, without a change of directory.
	Programs []string
	// Engine starts the agents of all hosts, of this one too if its Once is set; nil: no resource manager does.
	Engine *engine.Start
}

// Defaults of a ReachSpec.
const (
	DefaultAtOnce       = 256
	DefaultReachTimeout = 30 * time.Second
	// DefaultConnectTimeout has room for four SYN packets (after 0, 1, 3 and 7 s), and reports a host that is down
	// within 10 s.
	DefaultConnectTimeout = 8 * time.Second
)

// DefaultLastCall is torchrun's.
const DefaultLastCall = 30 * time.Second

// JoinSpec is one node's view of a job whose nodes meet at an endpoint.
type JoinSpec struct {
	// NodeRank is this node's number. With -1 the owner of the endpoint's address is node 0 and the others get
	// numbers; NeverNode0 gives this one a number in any case.
	NodeRank   int
	NeverNode0 bool
	// NumNodes is the number of nodes of the job.
	NumNodes int
	// Addr and Port are node 0's endpoint for agents and ranks.
	Addr string
	Port int
	// Ports are alternatives to Port: node 0 takes the first free one of all, the others try them in turn. ID tells
	// the job from others there.
	Ports []int
	// ID names the job (--rdzv-id); nodes with another one do not belong to it.
	ID string
	// Token is the secret that all nodes share, "" for none. OwnToken is the user's own, for nodes that have neither
	// Token nor MUNGE.
	Token, OwnToken string
	// Insecure accepts nodes without authentication. Without it and without a secret, nodes are processes of one user
	// on one host, and Addr is a loopback address.
	Insecure bool
	// NodeID is the resource manager's name of this node, if it has one.
	NodeID string
	// Host is this node's address for the others (--local-addr); "": found from its interfaces.
	Host string
	// LastCall is how long node 0 waits for further nodes once Spec.MinNodes are there; 0 means DefaultLastCall.
	LastCall time.Duration
	// Timeout is how long this node waits for node 0, and node 0 for the others; 0 means DefaultJoinTimeout.
	Timeout time.Duration
	// From is the source of all this, for messages.
	From string
	// Task is set where each process is one rank, as with srun -n8 gorun ./prog. These processes are the nodes then:
	// NodeRank is Task.Rank, NumNodes is Task.NumRanks.
	Task *Task
	// Munge authenticates nodes by the site's MUNGE where there is no Token. MungeSocket is its socket; "": the
	// default.
	Munge       bool
	MungeSocket string
	// EngineSignals reports that whoever started this process also signals its ranks, as Slurm does with all processes
	// of a step. Signals that do not stop the job are not passed on then.
	EngineSignals bool
	// HostsExist reports that node 0's host exists already, as all of a resource manager's job do: a name that does
	// not resolve is given up soon. A pod's may resolve later.
	HostsExist bool
}

// DefaultJoinTimeout is torchrun's default.
const DefaultJoinTimeout = 15 * time.Minute

// App is one program of a job.
type App struct {
	// Program is the program as the user typed it: a file, a name in PATH, a Python script or module, a Go file or
	// package directory.
	Program string
	// Args are its arguments.
	Args []string
	// Path lists directories, separated by colons, to search before those of PATH.
	Path string
	// Start says how the program is started; the zero value decides from the file.
	Start Start
	// Interpreter is the Python to use; "" finds one.
	Interpreter string
	// NumRanks is the requested number of ranks (-np); 0: any.
	NumRanks int
	// Dir overrides Spec.Dir.
	Dir string
	// Exports are for this app's ranks alone and override Spec.Exports.
	Exports []Export
	// Hosts are where its ranks run: a part of Spec.Hosts, by name, with the slots for this app. nil: all of them.
	Hosts []hosts.Host
	// Place overrides Spec.Place; nil: it does not.
	Place *PlacementSpec
	// LocalRankFlag adds --local-rank=N before the arguments, as torch.distributed.launch does without --use-env.
	LocalRankFlag bool
	// SubstituteLocalRank replaces ${local_rank}, $local_rank and $$ in the arguments, as torchrun and
	// torch.distributed.launch do.
	SubstituteLocalRank bool
	// Alone limits its ranks; nil: any number.
	Alone *Alone
}

// Alone is why a program, such as another launcher, may have one rank on each node, or InJob one in all.
type Alone struct {
	InJob bool
	Why   string
}

// RequestsMPI reports whether the user named MPI, or one of its protocols.
func (s *Spec) RequestsMPI() bool { return s.MPI != MPINone && (s.MPIRequested || s.MPI != MPIAuto) }

// MPIMode selects the start-up protocols of MPI that ranks are served.
type MPIMode uint8

const (
	// MPIAuto serves all of them.
	MPIAuto MPIMode = iota
	// MPIPMI1, MPIPMI2 and MPIPMIx serve one.
	MPIPMI1
	MPIPMI2
	MPIPMIx
	// MPINone serves none, and sets no variable of any.
	MPINone
)

// String returns the mode as --mpi takes it.
func (m MPIMode) String() string {
	return [...]string{"auto", "pmi1", "pmi2", "pmix", "none"}[m]
}

// MarshalText returns the mode's name.
func (m MPIMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Only returns the protocol that is served if it is one, else "".
func (m MPIMode) Only() string {
	return [...]string{MPIPMI1: "PMI-1", MPIPMI2: "PMI-2", MPIPMIx: "PMIx", MPINone: ""}[m]
}

// UniverseSlots is a Spec.Universe of all slots, for PMI too.
const UniverseSlots = -1

// StoreMode says which process serves the rendezvous store at MASTER_ADDR and MASTER_PORT.
type StoreMode uint8

const (
	// StoreAuto is StoreGorun, or StoreRank0 if the program's own text assigns MASTER_PORT.
	StoreAuto StoreMode = iota
	// StoreGorun: node 0's agent serves it.
	StoreGorun
	// StoreRank0: rank 0 hosts it; gorun reserves the port.
	StoreRank0
)

// StoreSpec is a request for the store.
type StoreSpec struct {
	Mode StoreMode
	// Addr is the address or name the store listens on; "" is loopback for a job on one host.
	Addr string
	// Port is the TCP port; 0 takes a free one.
	Port int
	// From names the options or variables that set Addr and Port, for messages.
	From string
	// IgnoreEnviron disregards MASTER_ADDR and MASTER_PORT of Environ.
	IgnoreEnviron bool
	// Allow are networks of peers on other hosts that gorun's store accepts.
	Allow []netip.Prefix
	// AllowLocalUsers makes gorun's store accept every user of its host, not only the user of the job and root.
	AllowLocalUsers bool
	// Report is how long ranks may wait in the store without progress until a note describes it. 0 means
	// DefaultStoreReport; a negative value, no note.
	Report time.Duration
}

// DefaultStoreReport is longer than ranks usually need to meet.
const DefaultStoreReport = 30 * time.Second

// ReportAfter returns Report or its default; 0: never.
func (w StoreSpec) ReportAfter() time.Duration {
	if w.Report == 0 {
		return DefaultStoreReport
	}
	return max(w.Report, 0)
}

// StdinKind says which ranks read the launcher's standard input.
type StdinKind uint8

const (
	// StdinRank: StdinSpec.Rank alone (0 by default); the others read end-of-file.
	StdinRank StdinKind = iota
	// StdinAll: every rank gets a copy.
	StdinAll
	// StdinNone: no rank.
	StdinNone
	// StdinSome: each of StdinSpec.Ranks gets a copy.
	StdinSome
)

// StdinSpec says which ranks read the launcher's standard input (--stdin).
type StdinSpec struct {
	Kind  StdinKind
	Rank  int   // with StdinRank
	Ranks []int // with StdinSome, in their order
}

// LabelMode says which lines begin with their rank.
type LabelMode uint8

const (
	// LabelAuto: on a terminal with more than one rank.
	LabelAuto LabelMode = iota
	// LabelAlways labels lines in pipes and files too.
	LabelAlways
	// LabelNever passes bytes as they are.
	LabelNever
)

// StreamMap is a set of streams for each local rank.
type StreamMap struct {
	All   Streams         // for local ranks that are not in Ranks
	Ranks map[int]Streams // by local rank
}

// Of returns the streams of a local rank.
func (m StreamMap) Of(localRank int) Streams {
	if s, ok := m.Ranks[localRank]; ok {
		return s
	}
	return m.All
}

// Complement returns the streams that are not in m.
func (m StreamMap) Complement() StreamMap {
	const all = Stdout | Stderr
	c := StreamMap{All: all &^ m.All, Ranks: map[int]Streams{}}
	for rank, s := range m.Ranks {
		c.Ranks[rank] = all &^ s
	}
	return c
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

// OutputSpec says what happens to the output of ranks.
type OutputSpec struct {
	Label LabelMode
	// Template is torchrun's --log-line-prefix-template, which replaces the label of tee'd streams.
	Template string
	// Pattern is what lines begin with, see output.ParsePattern; "" is "[rank] ", and torchrun's label for tee'd
	// streams.
	Pattern string

	// LogDir is the directory for log files; "" makes one in the temporary directory if a file is needed; os.DevNull
	// means no files at all.
	LogDir string
	// Redirect streams go to files only, Tee streams to files and the console.
	Redirect, Tee StreamMap
	// ShowLocalRanks are the local ranks whose output is shown; nil shows all.
	ShowLocalRanks []int
	// DuplicateStdout and DuplicateStderr: lines of tee'd streams that contain one of these texts also go to one file
	// per attempt.
	DuplicateStdout, DuplicateStderr []string

	// StdoutFile and StderrFile are patterns for the names of log files (see output.ParsePattern), instead of LogDir
	// with torchrun's names; "": the stream has no file.
	StdoutFile, StderrFile string

	// Merge shows the ranks' standard error on the launcher's standard output.
	Merge bool

	// LogsByRank names log files LogDir/RANK.out and RANK.err instead of by torchrun's layout. Attempts after the first
	// append to them. With a LogDir, and unless Tee chooses, all streams that are not in Redirect are tee'd.
	LogsByRank bool

	// LogsToHead writes the files of all nodes on the head's host; else each node writes those of its ranks.
	LogsToHead bool
	// PTY gives each rank a pseudo-terminal as its standard streams.
	PTY bool
}
