package env

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readFrom reads a Rank from NAME, VALUE pairs.
func readFrom(pairs ...string) (Rank, error) {
	return read(func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	})
}

func TestSelfOfEachLauncher(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    Rank
	}{
		{
			"gorun",
			[]string{
				"RANK", "5", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "4", "GROUP_RANK", "1",
				"GROUP_WORLD_SIZE", "2",
				"MASTER_ADDR", "127.0.0.1", "MASTER_PORT", "4711", "GORUN_JOB", "7f3a", "GORUN_JOB_STORE", "127.0.0.1:4711",
				"TORCHELASTIC_RUN_ID", "x", "TORCHELASTIC_RESTART_COUNT", "2",
			},
			Rank{
				Rank: 5, WorldSize: 8, LocalRank: 1, LocalWorldSize: 4, Node: 1, NumNodes: 2, Attempt: 2, Job: "7f3a", RunID: "x",
				Store: "127.0.0.1:4711", Launcher: "gorun",
			},
		},
		{
			"gorun with the store left to rank 0",
			[]string{
				"RANK", "0", "WORLD_SIZE", "2", "LOCAL_RANK", "0", "LOCAL_WORLD_SIZE", "2", "GROUP_RANK", "0",
				"GROUP_WORLD_SIZE", "1",
				"MASTER_ADDR", "localhost", "MASTER_PORT", "12355", "GORUN_JOB", "a:b", "GORUN_JOB_STORE", "127.0.0.1:4711",
			},
			Rank{
				Rank: 0, WorldSize: 2, LocalRank: 0, LocalWorldSize: 2, Node: 0, NumNodes: 1, Job: "a:b",
				Store: "127.0.0.1:4711", Launcher: "gorun",
			},
		},
		{
			"torchrun",
			[]string{
				"RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2", "GROUP_RANK", "0",
				"GROUP_WORLD_SIZE", "1",
				"MASTER_ADDR", "fd00::2", "MASTER_PORT", "29500", "TORCHELASTIC_RUN_ID", "none",
			},
			Rank{
				Rank: 1, WorldSize: 2, LocalRank: 1, LocalWorldSize: 2, Node: 0, NumNodes: 1, RunID: "none",
				Store: "[fd00::2]:29500", Launcher: "torchrun",
			},
		},
		{
			"torchrun inside a rank of gorun meets in torchrun's store",
			[]string{
				"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "localhost", "MASTER_PORT", "37221", "TORCHELASTIC_RUN_ID", "x",
				"GORUN_JOB", "7f3a", "GORUN_JOB_STORE", "127.0.0.1:4711",
			},
			Rank{
				Rank: 1, WorldSize: 2, LocalRank: -1, Node: -1, Job: "7f3a", RunID: "x",
				Store: "localhost:37221", Launcher: "torchrun",
			},
		},
		{
			"by hand",
			[]string{"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "node1", "MASTER_PORT", "29500"},
			Rank{Rank: 1, WorldSize: 2, LocalRank: -1, Node: -1, Store: "node1:29500"},
		},
		{
			"by hand, one rank is alone on its node",
			[]string{"RANK", "0", "WORLD_SIZE", "1"},
			Rank{WorldSize: 1, LocalWorldSize: 1, NumNodes: 1},
		},
		{
			"Open MPI inside a Slurm step",
			[]string{
				"OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
				"OMPI_COMM_WORLD_LOCAL_SIZE", "2",
				"SLURM_STEP_ID", "0", "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_LOCALID", "0",
			},
			Rank{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, Node: -1, Launcher: "mpirun"},
		},
		{
			"Hydra inside a Slurm step",
			[]string{
				"PMI_RANK", "3", "PMI_SIZE", "4", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2",
				"SLURM_STEP_ID", "0", "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_LOCALID", "0",
			},
			Rank{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, Node: -1, Launcher: "mpiexec"},
		},
		{
			"MVAPICH2",
			[]string{
				"MV2_COMM_WORLD_RANK", "1", "MV2_COMM_WORLD_SIZE", "2", "MV2_COMM_WORLD_LOCAL_RANK", "0",
				"MV2_COMM_WORLD_LOCAL_SIZE", "1",
			},
			Rank{Rank: 1, WorldSize: 2, LocalWorldSize: 1, Node: -1, Launcher: "mpirun_rsh"},
		},
		{
			"srun --mpi=pmi2",
			[]string{
				"PMI_RANK", "3", "PMI_SIZE", "4", "SLURM_STEP_ID", "0", "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4",
				"SLURM_LOCALID", "1", "SLURM_GTIDS", "2,3", "SLURM_NODEID", "1", "SLURM_STEP_NUM_NODES", "2",
			},
			Rank{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, Node: 1, NumNodes: 2, Launcher: "srun"},
		},
		{
			"gorun inside Slurm, which says of its ranks what srun would, but no step",
			[]string{
				"RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2", "GROUP_RANK", "1",
				"GROUP_WORLD_SIZE", "2", "GORUN_JOB", "7f3a",
				"SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4", "SLURM_LOCALID", "1", "SLURM_GTIDS", "2,3", "SLURM_NODEID",
				"1", "SLURM_STEP_NUM_NODES", "2",
			},
			Rank{Rank: 3, WorldSize: 4, LocalRank: 1, LocalWorldSize: 2, Node: 1, NumNodes: 2, Job: "7f3a", Launcher: "gorun"},
		},
		{
			"a bare PMI launcher",
			[]string{"PMI_RANK", "1", "PMI_SIZE", "2"},
			Rank{Rank: 1, WorldSize: 2, LocalRank: -1, Node: -1, Launcher: "mpiexec"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readFrom(test.environ...)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestSelfErrorsNameTheVariableAndItsValue(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    string
	}{
		{"no size", []string{"RANK", "1"}, "WORLD_SIZE is not set, but other variables of a rank are"},
		{
			"no rank",
			[]string{"WORLD_SIZE", "2", "MASTER_ADDR", "127.0.0.1", "MASTER_PORT", "29500"},
			"WORLD_SIZE=2 is set and RANK is not: set RANK in each process, or unset WORLD_SIZE to run one alone",
		},
		{
			"empty size",
			[]string{"RANK", "1", "WORLD_SIZE", ""},
			"WORLD_SIZE is not set, but other variables of a rank are",
		},
		{"not a number", []string{"RANK", "one", "WORLD_SIZE", "2"}, `RANK="one" is not a number of 0 or more`},
		{
			"negative",
			[]string{"RANK", "0", "WORLD_SIZE", "2", "LOCAL_RANK", "-1"},
			`LOCAL_RANK="-1" is not a number of 0 or more`,
		},
		{"out of range", []string{"RANK", "2", "WORLD_SIZE", "2"}, "RANK=2 must be less than WORLD_SIZE=2"},
		{
			"no such port",
			[]string{"RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT", "70000"},
			`MASTER_PORT="70000" is not a TCP port`,
		},
		{
			"mpirun inside a rank of gorun",
			[]string{
				"RANK", "0", "WORLD_SIZE", "1", "GORUN_JOB", "7f3a", "OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE",
				"4",
			},
			"RANK=0 of 1 and OMPI_COMM_WORLD_RANK=2 of 4 disagree: mpirun was started inside a rank of gorun; " +
				"start it as `env -u RANK mpirun …`",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readFrom(test.environ...)
			assert.EqualError(t, err, test.want)
		})
	}
}

func TestSelfOutsideOfAJob(t *testing.T) {
	// A Slurm batch script has SLURM_PROCID=0, but is no rank.
	_, err := readFrom("WORLD_SIZE", "4", "SLURM_PROCID", "0", "SLURM_NTASKS", "5")
	assert.ErrorIs(t, err, ErrNotARank)
	for _, environ := range [][]string{
		nil,
		{"WORLD_SIZE", "1"},
		{"WORLD_SIZE", ""},
		{"MASTER_ADDR", "a", "MASTER_PORT", "1"},
	} {
		_, err := readFrom(environ...)
		assert.ErrorIs(t, err, ErrNotARank, "%v", environ)
	}
}

// A launcher may export other launchers' variables as aliases of its own.
func TestSelfAcceptsAliasesThatAgree(t *testing.T) {
	self, err := readFrom("RANK", "2", "WORLD_SIZE", "4", "GORUN_JOB", "7f3a",
		"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", "PMI_RANK", "2", "PMI_SIZE", "4")
	require.NoError(t, err)
	assert.Equal(t, "gorun", self.Launcher)
}

// If each program has a world, MPI's ranks count in it. A torchrun in a rank keeps the MPI variables that
// gorun set.
func TestSelfKnowsTheWorldOfARank(t *testing.T) {
	self, err := readFrom("RANK", "2", "WORLD_SIZE", "4", "GORUN_JOB", "7f3a", "GORUN_JOB_WORLD", "1/3",
		"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "3", "PMI_RANK", "1", "PMI_SIZE", "3", "MPI_LOCALRANKID", "1")
	require.NoError(t, err)
	assert.Equal(t, 2, self.Rank)
	assert.Equal(t, 4, self.WorldSize)

	_, err = readFrom("RANK", "2", "WORLD_SIZE", "4", "GORUN_JOB", "7f3a", "GORUN_JOB_WORLD", "1/3", "PMI_RANK", "0",
		"PMI_SIZE", "3", "MPI_LOCALRANKID", "0")
	assert.ErrorContains(t, err, "RANK=2 of 4 and PMI_RANK=0 of 3 disagree: mpiexec was started inside a rank of gorun")
}

// An mpiexec that a rank starts without RANK keeps the Open MPI variables that gorun set.
func TestSelfInAnMPIJobInsideARank(t *testing.T) {
	outer := []string{
		"GORUN_JOB", "7f3a", "GORUN_JOB_WORLD", "0/2", "OMPI_COMM_WORLD_RANK", "0",
		"OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_RANK", "0",
	}
	for _, rank := range []string{"0", "1"} {
		self, err := readFrom(append(outer, "PMI_RANK", rank, "PMI_SIZE", "2", "MPI_LOCALRANKID", rank, "MPI_LOCALNRANKS",
			"2")...)
		require.NoError(t, err)
		assert.Equal(t, rank, strconv.Itoa(self.Rank))
		assert.Equal(t, rank, strconv.Itoa(self.LocalRank))
	}
}
