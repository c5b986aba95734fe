package plan

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The variables from which frameworks read the rank, in order of precedence. Sources: DeepSpeed 0.18
// (deepspeed/comm/comm.py), accelerate 1.x (utils/environment.py, get_cpu_distributed_information), PARAM
// (pytorch_dist's read_mpi_env_vars), Kokkos, LBANN, and user scripts for PyTorch and Slurm. Horovod with MPI
// calls MPI_Init.
var frameworks = []struct {
	name                         string
	rank, size, local, localSize []string
}{
	{"DeepSpeed", []string{"RANK"}, []string{"WORLD_SIZE"}, []string{"LOCAL_RANK"}, nil},
	{
		"DeepSpeed on Azure ML and SageMaker",
		[]string{"OMPI_COMM_WORLD_RANK"},
		[]string{"OMPI_COMM_WORLD_SIZE"},
		[]string{"OMPI_COMM_WORLD_LOCAL_RANK"},
		[]string{"OMPI_COMM_WORLD_LOCAL_SIZE"},
	},
	{
		"accelerate",
		[]string{"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"},
		[]string{"WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"},
		[]string{"LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
		[]string{"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
	},
	{
		"PARAM",
		[]string{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"},
		[]string{"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"},
		[]string{"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
		[]string{"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
	},
	{
		"LBANN", nil, nil,
		[]string{"MV2_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"},
		[]string{"MV2_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	},
	{
		"device choice before MPI_Init",
		[]string{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"},
		nil,
		[]string{"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"},
		nil,
	},
}

// All frameworks read the same rank, even inside another launcher.
func TestFrameworksFindTheirRank(t *testing.T) {
	e := build(t, mpiJob(4, "MV2_COMM_WORLD_RANK=9", "MV2_COMM_WORLD_LOCAL_RANK=9", "OMPI_COMM_WORLD_RANK=9",
		"PMI_RANK=9", "MPI_LOCALRANKID=9", "SLURM_LOCALID=9", "SLURM_PROCID=9"))
	for _, f := range frameworks {
		for rank := range 4 {
			find := func(names []string) string {
				for _, name := range names {
					if v, is := e.of(rank, name); is {
						return v.Value
					}
				}
				return "nothing"
			}
			for _, question := range []struct {
				names []string
				want  int
			}{{f.rank, rank}, {f.size, 4}, {f.local, rank}, {f.localSize, 4}} {
				if question.names != nil {
					assert.Equal(t, strconv.Itoa(question.want), find(question.names), "%s: %v", f.name, question.names)
				}
			}
		}
	}
}
