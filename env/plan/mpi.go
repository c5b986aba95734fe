package plan

import (
	"slices"
	"strconv"

	"gorun/env"
)

// MPI is how ranks find each other in MPI_Init; the zero value: not at all, and no variable
// of MPI's tells them anything.
type MPI struct {
	// Offered has ranks find the servers of PMI and PMIx. Where only one protocol is served the
	// others are offered all the same: a library that does not find its own would start each
	// rank as the only one of its world, without a word, and one that is refused fails.
	Offered bool
	// Version is the interface that MPICH is to use where it has several: "1", "2" or "x"
	// for PMIx.
	Version string
	// FD is the descriptor of a rank's connection to its PMI server, URI where PMIx servers
	// are. They are texts, since a plan can be printed before they are known.
	// Port is where ranks come to for PMI that have no such connection, as host:port; FD is "" then.
	FD, Port, URI string
	// SeveralHosts says that ranks have to reach each other over a network.
	SeveralHosts bool
	// Worlds are the MPI_COMM_WORLDs of the job.
	Worlds []World
}

// World is what the ranks of one MPI_COMM_WORLD share.
type World struct {
	// Name is PMIx's namespace.
	Name string
	Size int
	// Apps are the numbers of ranks of its programs.
	Apps []int
	// Spawned says that MPI_Comm_spawn made it.
	Spawned bool
}

// InWorld is the place of a rank in its MPI_COMM_WORLD.
type InWorld struct {
	World, Rank int
	// Job is its number among all ranks of the job, those that were spawned later included.
	Job int
	// LocalRank counts its ranks on one host, LocalSize is how many there are, NodeRank
	// counts those of all worlds there. Host is the host's name.
	LocalRank, LocalSize, NodeRank int
	Host                           string
}

// mpiRules are what gorun does about the variables of MPI's dialects. They stand before
// the patterns by which those of outer launchers are removed.
var mpiRules = slices.Concat(worldRules[:], pmiRules[:], pmixRules[:], openMPIRules[:])

// isMPI reports whether a rule is one of those.
func (r *rule) isMPI() bool { return r.needs != nil }

// needs are conditions of rules of MPI's dialects.
func (m *MPI) any() bool     { return m.Offered }
func (m *MPI) hasFD() bool   { return m.Offered && m.FD != "" }
func (m *MPI) hasPort() bool { return m.Offered && m.FD == "" }

// mpiRank is a value that a rank has by its place in its world.
func mpiRank(value func(m InWorld, w *World) string) func(b *builder, rank int) (string, bool) {
	return func(b *builder, rank int) (string, bool) {
		m := b.in.Ranks[rank].MPI
		v := value(m, &b.in.MPI.Worlds[m.World])
		return v, v != ""
	}
}

// The numbers of a rank in its world.
func worldRank(m InWorld, _ *World) string      { return strconv.Itoa(m.Rank) }
func worldSize(_ InWorld, w *World) string      { return strconv.Itoa(w.Size) }
func worldLocalRank(m InWorld, _ *World) string { return strconv.Itoa(m.LocalRank) }
func worldLocalSize(m InWorld, _ *World) string { return strconv.Itoa(m.LocalSize) }

// worldRules are of all dialects.
var worldRules = [...]rule{
	{
		Row: Row{
			env.VarJobWorld, ClassIdentity, "`3/8`: the rank in its MPI_COMM_WORLD and the size of that",
			"tells gorun's own variables of MPI's from those of an mpirun that a rank runs", "gorun",
		},
		needs: (*MPI).any, perRank: true, value: mpiRank(func(m InWorld, w *World) string {
			return strconv.Itoa(m.Rank) + "/" + strconv.Itoa(w.Size)
		}),
	},
	{
		Row: Row{
			"GFORTRAN_UNBUFFERED_PRECONNECTED", ClassSetting, "`y`",
			"Fortran's last words are not lost, as under mpiexec", "GNU Fortran",
		},
		needs: (*MPI).any, value: func(*builder, int) (string, bool) { return "y", true },
	},
}
