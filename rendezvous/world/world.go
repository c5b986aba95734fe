// Package world describes worlds: the ranks of one MPI_COMM_WORLD, which PMI calls a process group and PMIx a
// namespace. It also declares what their servers need from the launcher.
//
// Each node of a job has servers for its ranks (rendezvous/pmi, rendezvous/pmix). They know every [World] of the job,
// cooperate through package exchange, and call the [Launcher] for what only that can do.
package world

import "strings"

// World is the ranks of one MPI_COMM_WORLD.
type World struct {
	// Name is PMI's kvsname and PMIx's namespace: at most 63 letters, digits and dashes, unique, and with enough random
	// bits that it cannot be guessed.
	Name string
	// Hosts are the names of the hosts of its ranks, in the order of the job's nodes. Agents on the same host share an
	// entry.
	Hosts []string
	// Apps are its programs, by application number (MPI_APPNUM).
	Apps []App
	// Ranks are its members, by rank.
	Ranks []Rank
	// Universe is MPI_UNIVERSE_SIZE, the number of ranks that there is room for, or 0 if unknown. PMI has it only if
	// UniverseSet, which means that the user requested it; as under Hydra, users may start more ranks otherwise.
	Universe    int
	UniverseSet bool
	// MapBy, RankBy and BindTo are the placement of its ranks, as prterun names it ("BYNUMA", "SPAN",
	// "CORE:IF-SUPPORTED"), or "" if unknown.
	MapBy, RankBy, BindTo string
	// Parent is the rank that spawned it, or zero.
	Parent Proc
	// Preput are pairs in its key-value space from the beginning, from a spawn by PMI.
	Preput []Pair
}

// App is one program of a world.
type App struct {
	NumRanks int
	// Argv is the command line, Dir the working directory; "" is the launcher's.
	Argv []string
	Dir  string
}

// Rank is a member of a world.
type Rank struct {
	// Job is its rank in the whole job, including other worlds. It identifies the process to the launcher.
	Job int
	// App is the application number.
	App int
	// Host is the index of its host in Hosts, Node the number of the agent that serves it.
	Host, Node int
	// LocalRank counts the ranks of this world on its host, NodeRank those of all worlds.
	LocalRank, NodeRank int
	// CPUs lists the CPUs that it is bound to ("0-3,8"), "" for all of its host.
	CPUs string
	// Locality describes these CPUs like hwloc ("NM0:SK0:L30:L20-1:L10-1:CR0-1:HT0-3"), "" if unknown.
	Locality string
}

type Pair struct{ Key, Value string }

// Proc names a rank, or all ranks of a world.
type Proc struct {
	World string
	Rank  int
}

// AllRanks as Proc.Rank means all ranks of the world.
const AllRanks = -1

// Wait reports that ranks of a node wait for others.
type Wait struct {
	Waiting []Proc
	// For are the ranks that they wait for, nil for ranks of other nodes, which this server does not know.
	For []Proc
	// Spawns says that they wait for ranks that they spawn. For is nil then.
	Spawns bool
}

// Launcher is what the servers of a node need from the program that runs the ranks. Its methods may be called on any
// goroutine and must not wait. Results are passed to callbacks, on any goroutine.
type Launcher interface {
	// Began reports that a rank has begun MPI, and its protocol: "PMI-1", "PMI-2", "PMIx 4.2.2".
	Began(p Proc, protocol string)
	// Finalized reports that a rank has finalized MPI.
	Finalized(p Proc)
	// Left reports that the connection of a rank has ended between the beginning of MPI and finalize.
	Left(p Proc)
	// Abort is MPI_Abort with the rank's message. The job must end with that exit code.
	Abort(p Proc, code int, message string)
	// Stuck reports ranks that wait for one that has exited: without MPI_Init if it had not begun MPI, and without
	// MPI_Finalize otherwise.
	Stuck(waiting []Proc, missing Proc)
	// Broken reports that a rank sent an invalid request. Its connection is closed.
	Broken(p Proc, err error)
	// Failed reports that a rank has failed by a rule of its own, such as "sent no heartbeat for 2s". The job must end as
	// if its process had failed.
	Failed(p Proc, why string)
	// PID returns the process of a rank of this node, 0 if none exists yet.
	PID(p Proc) int
	// Signal sends a signal to the process of a rank of this node, if it runs.
	Signal(p Proc, number int)
	// Say shows the user a text in the name of a rank.
	Say(p Proc, text string)
	// Spawn is MPI_Comm_spawn. When the ranks have started and every server knows the new world, done gets its name;
	// otherwise done gets the error.
	Spawn(s Spawn, done func(name string, err error))
}

// MaxSpawn bounds the ranks of one Spawn.
const MaxSpawn = 1 << 16

// Spawn is a request for a new world.
type Spawn struct {
	By     Proc
	Apps   []SpawnApp
	Preput []Pair
}

// SpawnApp is a program of a Spawn.
type SpawnApp struct {
	// Program is the name as the caller gave it. Path lists directories to search before PATH, separated by colons.
	Program, Path string
	Args          []string
	NumRanks      int
	// Dir is the working directory, "" for that of the rank that spawns.
	Dir string
	// Env are additional NAME=VALUE entries, for which IsVariable is true.
	Env []string
	// Hosts says where the program may run, in the form of -H, and HostFile names a file that does. "" is anywhere.
	Hosts, HostFile string
	// Info are all other attributes from the caller.
	Info []Pair
}

// IsVariable reports whether an entry is valid in an environment: NAME=VALUE with a name and without zero bytes.
func IsVariable(entry string) bool {
	return strings.IndexByte(entry, '=') > 0 && strings.IndexByte(entry, 0) < 0
}

// NotServed returns the text for a user whose MPI library requests a protocol that the job does not serve, either
// because of --mpi or at all.
func NotServed(protocol string, byOption bool) string {
	said := "the MPI library requests " + protocol + ", which this job does not serve"
	if byOption {
		said += ": remove --mpi"
	}
	return said
}
