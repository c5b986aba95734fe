package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement/sysfs"
)

// stepOfOne is the environment that Slurm 22.05 sets for `srun -N1 -n1 -c 4 gorun …` in a job with two nodes.
var stepOfOne = strings.Fields(`
SLURM_JOB_ID=180 SLURM_JOBID=180 SLURM_JOB_NODELIST=n[1-2] SLURM_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2
SLURM_JOB_CPUS_PER_NODE=4(x2) SLURM_NNODES=1 SLURM_NTASKS=1 SLURM_NPROCS=1 SLURM_TASKS_PER_NODE=1
SLURM_CPUS_PER_TASK=4 SLURM_CPUS_ON_NODE=4 SLURMD_NODENAME=n1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
SLURM_GTIDS=0 SLURM_TASK_PID=4711 SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_STEP_NODELIST=n1 SLURM_STEP_NUM_NODES=1
SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_LAUNCHER_PORT=45283 SLURM_SRUN_COMM_HOST=127.0.0.1
SLURM_SRUN_COMM_PORT=45283 SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 SLURM_CPU_BIND=quiet,mask_cpu:0xF
SLURM_CPU_BIND_LIST=0xF SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_DISTRIBUTION=block`)

// gorun uses the CPUs that Slurm's mask or cpuset allows the process, not those in its variables about the node.
func TestRanksStayWithinTheCPUsOfTheirStep(t *testing.T) {
	t.Parallel()
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	all := list(t, allowed.String())
	last := fmt.Sprint(all[len(all)-1])
	for name, where := range map[string]func(t *testing.T) within{
		"mask": func(t *testing.T) within {
			t.Helper()
			return within{testneeds.Program(t, "taskset", "taskset"), "-c", last}
		},
		"cpuset": func(t *testing.T) within {
			t.Helper()
			testneeds.Root(t)
			return confined(t, last, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			where := where(t)
			assert.Equal(t, []string{last, last}, masks(t, where.gorun("-n", "2", "sh", "-c", whereIAm).with(stepOfOne...), 2))
			report := `echo $RANK ${OMP_NUM_THREADS}/${SLURM_CPUS_PER_TASK}/${SLURM_PROCID}/` +
				`${SLURM_NTASKS}/${SLURM_STEP_ID-none}/${SLURM_CPU_BIND-none}`
			assert.Equal(t, []string{"1/1/0/2/none/none", "1/1/1/2/none/none"},
				masks(t, where.gorun("-n", "2", "sh", "-c", report).with(stepOfOne...), 2))
		})
	}
}
