package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement/sysfs"
)

// sealed makes /sys read-only for a command. Without "bind" the change would affect the host too.
var sealed = within{"unshare", "-m", "sh", "-c", `
for mount in $(cut -d' ' -f5 /proc/self/mountinfo | grep '^/sys'); do mount -o remount,bind,ro $mount || exit 99; done
[ -w /sys/kernel ] && exit 98
exec "$@"`, "sh"}

// confined makes cgroups that allow some CPUs and a quota in percent of one CPU (0: no quota). They last until the
// test ends. It returns a prefix that runs a command in them.
func confined(t *testing.T, cpus string, percent int) within {
	t.Helper()
	sets, quotas := testneeds.WritableCgroup(t, "cpuset"), testneeds.WritableCgroup(t, "cpu")
	set := group(t, sets, "cpuset")
	require.NoError(t, sets.Set(set, "cpuset", cpus))
	quota := set // version 2: one hierarchy for all controllers
	if quotas != sets {
		quota = group(t, quotas, "cpu")
	}
	if percent > 0 {
		require.NoError(t, quotas.Limit(quota, "cpu", percent*1000))
	}
	enter := fmt.Sprintf("echo $$ >%s/cgroup.procs && echo $$ >%s/cgroup.procs && ", set, quota)
	return within{"sh", "-c", enter + `exec "$@"`, "sh"}
}

// group makes a cgroup and removes it when the test ends.
func group(t *testing.T, place testneeds.Cgroup, controller string) (dir string) {
	t.Helper()
	dir, err := place.Make(controller)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Eventually(t, func() bool {
			err := os.Remove(dir)
			return err == nil || os.IsNotExist(err)
		}, leaving, 10*time.Millisecond, dir)
	})
	return dir
}

// boundCPUs returns the CPU masks of a job's ranks and their OMP_NUM_THREADS.
func boundCPUs(t *testing.T, where within, words ...string) (cpus, threads []string) {
	t.Helper()
	dir := t.TempDir()
	command := `sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status >"$0/$RANK.cpus" && ` +
		`echo $OMP_NUM_THREADS >"$0/$RANK.threads"`
	got := where.gorun(append(words, "sh", "-c", command, dir)...).run(t)
	require.Zero(t, got.code, got.stderr)
	read := func(kind string) (texts []string) {
		files, err := filepath.Glob(filepath.Join(dir, "*."+kind)) // sorted by name, since no test has ten ranks
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			texts = append(texts, strings.TrimSpace(string(text)))
		}
		return texts
	}
	return read("cpus"), read("threads")
}

// Ranks run on the CPUs that the container allows, with as many threads as its quota permits.
func TestRanksStayWithinTheirCgroup(t *testing.T) {
	t.Parallel()
	testneeds.Root(t)
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	all := list(t, allowed.String())
	last := fmt.Sprint(all[len(all)-1])
	for _, c := range []struct {
		cpus    string
		percent int
		words   string
		threads string // one per rank
	}{
		{cpus: last, words: "-n 1", threads: "1"},
		{cpus: last, percent: 50, words: "-n 1", threads: "1"},
		{cpus: last, percent: 50, words: "-n 1 --bind-to core", threads: "1"},
		{cpus: last, percent: 50, words: "-n 3", threads: "1"},
		{cpus: allowed.String(), words: "-n 1", threads: fmt.Sprint(len(all))},
		{cpus: allowed.String(), percent: 50, words: "-n 1", threads: "1"},
		{cpus: allowed.String(), percent: 50, words: "-n 2", threads: "1"},
		{cpus: allowed.String(), percent: 50, words: "-n 2 --map-by numa:oversubscribe", threads: "1"},
	} {
		t.Run(fmt.Sprintf("CPUs %s, %d %%, %s", c.cpus, c.percent, c.words), func(t *testing.T) {
			where := confined(t, c.cpus, c.percent)
			words := strings.Fields(c.words)
			for _, where := range []within{where, append(slices.Clone(where), sealed...)} {
				plan := where.gorun(append([]string{"--dry-run", "--json"}, append(words, "true")...)...).run(t)
				require.Zero(t, plan.code, plan.stderr)
				wantCPUs, _, wantThreads := ofPlan(t, plan.stdout, c.cpus)
				cpus, threads := boundCPUs(t, where, words...)
				assert.Equal(t, wantCPUs, cpus)
				assert.Equal(t, wantThreads, threads)
				for rank := range cpus {
					assert.Equal(t, c.threads, threads[rank])
					assert.Subset(t, list(t, c.cpus), list(t, cpus[rank]))
				}
			}
		})
	}
}

// A read-only /sys changes neither the placement nor the output.
func TestRanksSitAsEverWhereSysIsReadOnly(t *testing.T) {
	t.Parallel()
	testneeds.Root(t)
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	for _, binding := range bindings[:6] {
		words := append(slices.Clone(binding), "-n", "2", "sh", "-c", whereIAm)
		want := planned(t, allowed, nil, words...)
		assert.Equal(t, want, planned(t, allowed, sealed, words...), "%q", words)
		if want != nil {
			assert.Equal(t, want, masks(t, sealed.gorun(words...), 2), "%q", words)
		}
	}
	assert.Empty(t, sealed.gorun("-n", "2", "true").run(t).stderr)
}
