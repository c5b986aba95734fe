// Package world says who begins MPI together: the ranks of one MPI_COMM_WORLD, which PMI
// calls a process group and PMIx a namespace, and what their servers ask of the launcher.
//
// Each node of a job has servers for the ranks that are there (rendezvous/pmi,
// rendezvous/pmix). They know every [World] of the job, act together over an
// *exchange.Node, and turn to the launcher by [Launcher] for what only that can do.
package world

import "strings"

// World is the ranks of one MPI_COMM_WORLD.
type World struct {
	// Name is PMI's kvsname and PMIx's namespace: at most 63 bytes of letters, digits and
	// dashes, unlike that of any other world, with enough random bits that nobody guesses it.
	Name string
	// Hosts are the names of the hosts that have ranks of it, in the order of the job's
	// nodes. Agents that run on one host are one host here.
	Hosts []string
	// Apps are its programs, by application number (MPI_APPNUM).
	Apps []App
	// Ranks are its members, by rank.
	Ranks []Rank
	// Universe is MPI_UNIVERSE_SIZE, how many ranks there is room for; 0: not known. UniverseSet
	// says that the user asked for it: without that PMI does not have it, as under Hydra, whose
	// users start as many ranks as they like.
	Universe    int
	UniverseSet bool
	// MapBy, RankBy and BindTo say how its ranks were placed, as prterun names it ("BYNUMA", "SPAN",
	// "CORE:IF-SUPPORTED"); "": not known.
	MapBy, RankBy, BindTo string
	// Parent is the rank that spawned it; the zero value: none did.
	Parent Proc
	// Preput is in its key-value space from the beginning: what PMI's spawn passes on.
	Preput []Pair
}

// App is one program of a world.
type App struct {
	NumRanks int
	// Argv is how it is started, Dir where; "" is the launcher's directory.
	Argv []string
	Dir  string
}

// Rank is one member of a world.
type Rank struct {
	// Job is its rank among all of the job, those of other worlds included: by it the
	// launcher knows the process.
	Job int
	// App is the application number.
	App int
	// Host is the index of its host in Hosts, Node the number of the agent that serves it.
	Host, Node int
	// LocalRank counts the ranks of this world on its host, NodeRank those of all worlds.
	LocalRank, NodeRank int
	// CPUs are those that it is bound to, as a list of numbers ("0-3,8"); "": all of its host.
	CPUs string
	// Locality is where those are, as hwloc's users write it: "NM0:SK0:L30:L20-1:L10-1:CR0-1:HT0-3";
	// "": not known.
	Locality string
}

// Pair is a key and what it stands for.
type Pair struct{ Key, Value string }

// Proc names one rank of one world. Rank is AllRanks for all of them.
type Proc struct {
	World string
	Rank  int
}

// AllRanks stands in Proc.Rank for every rank of the world.
const AllRanks = -1

// Wait is that ranks of a node wait for others.
type Wait struct {
	Waiting []Proc
	// For are whom they wait for; nil: ranks of other nodes, which the server here does not
	// know more of.
	For []Proc
	// Spawns says that it is for ranks which they spawn; For is nil then.
	Spawns bool
}

// Launcher is what the servers of a node ask of whoever runs the ranks. Its methods may be
// called on any goroutine and return without waiting; answers come by the functions given,
// on any goroutine.
type Launcher interface {
	// Began hears that a rank has begun MPI, and by what: "PMI-1", "PMI-2", "PMIx 4.2.2".
	Began(p Proc, protocol string)
	// Finalized hears that it has finalized.
	Finalized(p Proc)
	// Left hears that the connection of a rank has ended which had begun and not finalized.
	Left(p Proc)
	// Abort is MPI_Abort: the job is to end with that exit code. message is the rank's.
	Abort(p Proc, code int, message string)
	// Stuck hears that ranks wait for one that can never come, since it has ended: without
	// a call to MPI_Init where it had not begun, without MPI_Finalize otherwise.
	Stuck(waiting []Proc, missing Proc)
	// Broken hears that a rank sent what no client sends; its connection is closed.
	Broken(p Proc, err error)
	// Failed hears that a rank has failed by a rule that it made itself, and why: "sent no
	// heartbeat for 2s". The job is to end as if its process had failed.
	Failed(p Proc, why string)
	// PID is the process of a rank of this node; 0: there is none yet.
	PID(p Proc) int
	// Signal sends a signal to the process of a rank of this node, if it runs.
	Signal(p Proc, number int)
	// Say shows the user a text that a rank handed to its server.
	Say(p Proc, text string)
	// Spawn is MPI_Comm_spawn. done gets the name of the new world when its ranks were
	// started, by which time every server knows it, or why there is none.
	Spawn(s Spawn, done func(name string, err error))
}

// MaxSpawn is how many ranks one Spawn may wish for, by any protocol.
const MaxSpawn = 1 << 16

// Spawn wishes for a world more.
type Spawn struct {
	By     Proc
	Apps   []SpawnApp
	Preput []Pair
}

// SpawnApp is one program of it.
type SpawnApp struct {
	// Program is its name as the caller gave it; Path are directories to look for it in
	// before PATH, with colons between them.
	Program, Path string
	Args          []string
	NumRanks      int
	// Dir is its working directory; "" is that of the rank which spawns.
	Dir string
	// Env are NAME=VALUE entries that it gets besides, for which IsVariable holds.
	Env []string
	// Hosts is where it may run, as -H takes it, HostFile a file that says so; "": anywhere.
	Hosts, HostFile string
	// Info is what else the caller said.
	Info []Pair
}

// IsVariable reports whether an entry can stand in an environment: NAME=VALUE with a name,
// and without a zero byte, at which it would end.
func IsVariable(entry string) bool {
	return strings.IndexByte(entry, '=') > 0 && strings.IndexByte(entry, 0) < 0
}

// NotServed tells the user that an MPI library asks for a protocol which its job does not serve:
// because of --mpi, or at all.
func NotServed(protocol string, byOption bool) string {
	said := "the MPI library asks for " + protocol + ", which this job does not serve"
	if byOption {
		said += ": leave --mpi out"
	}
	return said
}
