package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/internal/testneeds"
)

// environments runs examples/torch/rank_env.py with two ranks and returns the environment of each.
func environments(t *testing.T, launch func(args ...string) job, outer ...string) [2]map[string]string {
	t.Helper()
	dir := t.TempDir()
	got := launch("--nproc-per-node=2", example(t, "torch/rank_env.py"), dir).with(outer...).run(t)
	require.Zero(t, got.code, got.stderr)
	var ranks [2]map[string]string
	for rank := range ranks {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(rank)+".json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &ranks[rank]))
		delete(ranks[rank], markVariable) // differs for each job
	}
	return ranks
}

// documented reports whether env/plan lists a difference for the variable. A list such as "PMI_*, OMPI_COMM_* and
// others of the table" also covers the identities of its table.
func documented(name string) bool {
	fits := func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	}
	for _, difference := range plan.DifferencesFromTorchrun() {
		names, others := strings.CutSuffix(difference.Name, " and others of the table")
		if slices.ContainsFunc(strings.Split(names, ", "), fits) {
			return true
		}
		for _, row := range plan.Table() {
			if others && row.Class == plan.ClassIdentity && fits(row.Name) {
				return true
			}
		}
	}
	return false
}

// Under gorun as torchrun, a rank's environment differs from that of the real torchrun in documented variables
// only.
func TestEnvironmentIsTorchruns(t *testing.T) {
	python := testneeds.Torch(t)
	for name, outer := range map[string][]string{
		"plain": nil,
		"inside another launcher, with the user's settings": {
			"RANK=7", "WORLD_SIZE=8", "LOCAL_RANK=3", "GROUP_RANK=2", "PMI_RANK=7", "PMIX_RANK=7", "OMPI_COMM_WORLD_RANK=7",
			"SLURM_PROCID=7", "SLURM_JOB_ID=77", "TORCHELASTIC_RUN_ID=outer", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1234",
			"NCCL_IB_HCA=mlx5_0", "OMP_NUM_THREADS=3", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "CUDA_VISIBLE_DEVICES=1,0", "EMPTY=",
		},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := environments(t, func(args ...string) job { return underTorchrun(python, args...) }, outer...)
			ours := environments(t, func(args ...string) job {
				return job{argv: append([]string{built("torchrun")}, args...)}.with("GORUN_PYTHON=" + python)
			}, outer...)
			for rank := range theirs {
				requireSame(t, rank, theirs[rank], ours[rank])
			}
		})
	}
}

func requireSame(t *testing.T, rank int, theirs, ours map[string]string) {
	t.Helper()
	names := maps.Clone(theirs)
	maps.Copy(names, ours)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		their, has := theirs[name]
		our, have := ours[name]
		if (their != our || has != have) && !documented(name) {
			t.Errorf("rank %d: %s is %q (set: %t) under torchrun and %q (set: %t) under gorun, which env/plan does not list",
				rank, name, their, has, our, have)
		}
	}
	require.Equal(t, theirs["RANK"], ours["RANK"])
	require.Equal(t, "True", ours["TORCHELASTIC_USE_AGENT_STORE"])
}
