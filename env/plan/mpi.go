package plan

import (
	"slices"
	"strconv"

	"gorun/env"
)

// MPI describes how ranks find each other in MPI_Init. The zero value gives ranks no MPI variables.
type MPI struct {
	// Offered gives ranks the addresses of PMI and PMIx servers. Ranks get the addresses of both protocols
	// even if the job serves only one. A library without an address silently starts each rank as a world of
	// its own, but a refused connection is an error.
	Offered bool
	// Version selects MPICH's interface: "1", "2" or "x" for PMIx.
	Version string
	// FD is the descriptor of a rank's connection to its PMI server. Port is the host:port of the PMI server
	// for ranks without a connection; FD is "" then. URI is the address of the PMIx server. All are strings,
	// since a plan can be printed before they are known.
	FD, Port, URI string
	// SeveralHosts reports that ranks communicate over a network.
	SeveralHosts bool
	// Worlds are the MPI_COMM_WORLDs of the job.
	Worlds []World
}

// World is what the ranks of one MPI_COMM_WORLD share.
type World struct {
	// Name is the PMIx namespace.
	Name string
	Size int
	// Apps are the sizes of its programs in ranks.
	Apps []int
	// Spawned reports that MPI_Comm_spawn created the world.
	Spawned bool
}

// InWorld identifies a rank in its MPI_COMM_WORLD.
type InWorld struct {
	World, Rank int
	// Job is its number among all ranks of the job, including ranks spawned later.
	Job int
	// LocalRank and LocalSize count the ranks of its world on the host. NodeRank counts the ranks of all
	// worlds there. Host is the host's name.
	LocalRank, LocalSize, NodeRank int
	Host                           string
}

// mpiRules are the rules for the variables of MPI libraries. They precede the patterns that remove an outer
// launcher's variables.
func mpiRules() []*rule {
	return slices.Concat(worldRules(), pmiRules(), pmixRules(), openMPIRules())
}

// Conditions of rules for MPI.
func (b *builder) offersMPI() bool { return b.in.MPI.Offered }
func (b *builder) hasFD() bool     { return b.in.MPI.Offered && b.in.MPI.FD != "" }
func (b *builder) hasPort() bool   { return b.in.MPI.Offered && b.in.MPI.FD == "" }

// The numbers of a rank in its world.
func (p view) worldRank() string      { return strconv.Itoa(p.own().MPI.Rank) }
func (p view) worldSize() string      { return strconv.Itoa(p.world().Size) }
func (p view) worldLocalRank() string { return strconv.Itoa(p.own().MPI.LocalRank) }
func (p view) worldLocalSize() string { return strconv.Itoa(p.own().MPI.LocalSize) }

// worldRules apply to all MPI libraries.
func worldRules() []*rule {
	return slices.Concat(
		mpiRows(ClassIdentity, "gorun",
			given(env.VarJobWorld, "`3/8`: the rank in its MPI_COMM_WORLD and size of that MPI_COMM_WORLD",
				"marks gorun's MPI variables, so that those of an mpirun within a rank differ", ofRank,
				func(p view) string { return p.worldRank() + "/" + p.worldSize() }),
		),
		mpiRows(ClassSetting, "GNU Fortran",
			given("GFORTRAN_UNBUFFERED_PRECONNECTED", "`y`", "Fortran's last output is not lost, as under mpiexec", ofJob,
				always("y")),
		),
	)
}
