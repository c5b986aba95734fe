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
var mpiRules = slices.Concat(worldRules, pmiRules, pmixRules, openMPIRules)

// Conditions of rules of MPI's dialects.
func (b *builder) offersMPI() bool { return b.in.MPI.Offered }
func (b *builder) hasFD() bool     { return b.in.MPI.Offered && b.in.MPI.FD != "" }
func (b *builder) hasPort() bool   { return b.in.MPI.Offered && b.in.MPI.FD == "" }

// The numbers of a rank in its world.
func (p view) worldRank() string      { return strconv.Itoa(p.own().MPI.Rank) }
func (p view) worldSize() string      { return strconv.Itoa(p.world().Size) }
func (p view) worldLocalRank() string { return strconv.Itoa(p.own().MPI.LocalRank) }
func (p view) worldLocalSize() string { return strconv.Itoa(p.own().MPI.LocalSize) }

// worldRules are of all dialects.
var worldRules = slices.Concat(
	mpiRows(ClassIdentity, "gorun",
		given(env.VarJobWorld, "`3/8`: the rank in its MPI_COMM_WORLD and the size of that",
			"tells gorun's own variables of MPI's from those of an mpirun that a rank runs", ofRank,
			func(p view) string { return p.worldRank() + "/" + p.worldSize() }),
	),
	mpiRows(ClassSetting, "GNU Fortran",
		given("GFORTRAN_UNBUFFERED_PRECONNECTED", "`y`", "Fortran's last words are not lost, as under mpiexec", ofJob,
			always("y")),
	),
)
