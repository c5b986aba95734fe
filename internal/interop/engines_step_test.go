package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// task is one of several gorun processes that an engine starts.
type task struct {
	host    string
	environ []string
}

// together starts gorun once per task and returns the output of all ranks, sorted.
func (s site) together(t *testing.T, common []string, tasks []task, args ...string) []string {
	t.Helper()
	all := map[string]*running{}
	for i, one := range tasks {
		j := s.gorun(slices.Concat(common, one.environ, []string{knownToken}), args...)
		j.argv, j.hosts = s.fleet.Command(one.host, j.argv...).Args, nil
		all[fmt.Sprint(one.host, " ", i)] = j.start(t)
	}
	var lines []string
	for _, got := range results(t, all, 0) {
		lines = append(lines, slices.Collect(strings.Lines(got.stdout))...) // the first node prints the output of all
	}
	slices.Sort(lines)
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// place is a rank that prints its position in the job.
var place = []string{"sh", "-c", `echo "$RANK of $WORLD_SIZE, $LOCAL_RANK on node $GROUP_RANK, $(hostname)"`}

// nodeSteps: an engine starts gorun once on each host, and the ranks form one job.
func nodeSteps(t *testing.T, f fleet) {
	want := []string{
		"0 of 4, 0 on node 0, h1", "1 of 4, 1 on node 0, h1", "2 of 4, 0 on node 1, h2",
		"3 of 4, 1 on node 1, h2",
	}
	args := append([]string{"--nproc-per-node", "2"}, place...)
	s := newSite(t, f, "flux")
	hosts := []string{"h1", "h2"}
	var sage, batch, flux, pals []task
	for i, host := range hosts {
		sage = append(sage, task{host, []string{"SM_CURRENT_HOST=" + host}})
		// The main node has index 1 and is h1.
		one := task{host, []string{
			fmt.Sprintf("AWS_BATCH_JOB_NODE_INDEX=%d", 1-i),
			fmt.Sprintf("AWS_BATCH_JOB_ID=1f#%d", 1-i), "HOSTNAME=" + host,
		}}
		if i > 0 {
			one.environ = append(one.environ, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="+f.Address("h1"))
		}
		batch = append(batch, one)
		flux = append(flux, task{host, []string{fmt.Sprintf("FLUX_TASK_RANK=%d", i), "FLUX_TASK_LOCAL_ID=0"}})
		pals = append(pals, task{host, []string{fmt.Sprintf("PALS_RANKID=%d", i), fmt.Sprintf("PALS_NODEID=%d", i)}})
	}
	require.Equal(t, want, s.together(t, []string{`SM_HOSTS=["h1","h2"]`, "SM_NUM_GPUS=0", "TRAINING_JOB_NAME=train"},
		sage, args...))
	require.Equal(t, want, s.together(t, []string{"AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1"},
		batch, args...))
	require.Equal(t, want, s.together(t, fluxStep("f1", 2, "[[0,2,1,1]]"), flux, args...))
	common := []string{"PALS_APID=8b", "PALS_LOCAL_RANKID=0", "PALS_LOCAL_SIZE=1", "PMI_SIZE=2"}
	require.Equal(t, want, s.together(t, common, pals, append([]string{"--master-addr", "h1"}, args...)...))
}

// fluxStep is the environment that all tasks of a Flux step on h1 and h2 share.
func fluxStep(id string, size int, taskmap string) []string {
	return []string{
		"FLUX_URI=local:///run/flux/local", "FLUX_JOB_ID=" + id, fmt.Sprint("FLUX_JOB_SIZE=", size), "FLUX_JOB_NNODES=2",
		siteHosts + "=h1 h2", siteTaskmap + "=" + taskmap,
	}
}

// rankSteps: an engine starts gorun several times on a host, and each gorun is one rank.
func rankSteps(t *testing.T, f fleet) {
	s := newSite(t, f, "flux")
	var tasks []task
	for rank, host := range []string{"h1", "h2", "h2"} {
		local := max(rank-1, 0)
		tasks = append(tasks,
			task{host, []string{fmt.Sprint("FLUX_TASK_RANK=", rank), fmt.Sprint("FLUX_TASK_LOCAL_ID=", local)}})
	}
	want := []string{"0 of 3, 0 on node 0, h1", "1 of 3, 0 on node 1, h2", "2 of 3, 1 on node 1, h2"}
	require.Equal(t, want, s.together(t, fluxStep("f2", 3, "[[0,1,1,1],[1,1,2,1]]"), tasks, place...))
}
