package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
	"gorun/placement/sysfs"
)

// whereIAm prints the rank's own CPU mask.
const whereIAm = `echo $RANK $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)`

// bindings are command lines without the number of ranks.
var bindings = [][]string{
	{},
	{"--bind-to", "none"},
	{"--bind-to", "core"},
	{"--bind-to", "hwthread"},
	{"--bind-to", "numa"},
	{"--bind-to", "socket"},
	{"--map-by", "core"},
	{"--map-by", "hwthread"},
	{"--map-by", "numa"},
	{"--map-by", "socket:span"},
	{"--map-by", "slot", "--bind-to", "core"},
	{"--rank-by", "core"},
	{"--cpus-per-rank", "1"},
	{"--map-by", "node", "--bind-to", "hwthread"},
	{"--bind-mem", "interleave"},
	{"--bind-mem", "none", "--bind-to", "core"},
	{"--map-by", "l3cache", "--bind-to", "numa"},
}

// within is a command prefix that runs a command elsewhere, such as in a cgroup.
type within []string

// gorun is a gorun job with the prefix.
func (w within) gorun(words ...string) job {
	j := gorun(words...)
	j.argv = append(slices.Clone(w), j.argv...)
	return j
}

// planned are the CPUs that the plan binds each rank to. An unbound rank has all CPUs that this process may use.
func planned(t *testing.T, allowed placement.CPUSet, where within, words ...string) []string {
	t.Helper()
	got := where.gorun(append([]string{"--dry-run", "--json"}, words...)...).run(t)
	if got.code == 2 { // for example, more ranks than cores
		assert.Equal(t, got.stderr, where.gorun(words...).run(t).stderr)
		return nil
	}
	require.Zero(t, got.code, got.stderr)
	cpus, _, _ := ofPlan(t, got.stdout, allowed.String())
	return cpus
}

// masks are the actual CPU masks of the ranks.
func masks(t *testing.T, j job, ranks int) []string {
	t.Helper()
	got := j.run(t)
	require.Zero(t, got.code, got.stderr)
	lines := strings.Fields(got.stdout)
	require.Len(t, lines, 2*ranks, got.stdout)
	cpus := make([]string, ranks)
	for i := range ranks {
		var rank int
		_, err := fmt.Sscan(lines[2*i], &rank)
		require.NoError(t, err)
		cpus[rank] = lines[2*i+1]
	}
	return cpus
}

func TestRanksAreWhereThePlanSays(t *testing.T) {
	t.Parallel()
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	for _, binding := range bindings {
		for _, ranks := range []int{1, 2, 3} {
			words := append(slices.Clone(binding), "-n", fmt.Sprint(ranks), "sh", "-c", whereIAm)
			if want := planned(t, allowed, nil, words...); want != nil {
				assert.Equal(t, want, masks(t, gorun(words...), ranks), "%q", words)
			}
		}
	}
}

// The launcher uses only the CPUs of the mask that it inherits.
func TestRanksStayWithinTheMaskOfTheirLauncher(t *testing.T) {
	t.Parallel()
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	first, _, _ := strings.Cut(strings.ReplaceAll(allowed.String(), "-", ","), ",")
	taskset := testneeds.Program(t, "taskset", "taskset")
	where := within{taskset, "-c", first}
	assert.Equal(t, []string{first, first}, masks(t, where.gorun("-n", "2", "sh", "-c", whereIAm), 2))
}

// Ranks run even where /sys is empty.
func TestRanksRunWhereSysIsEmpty(t *testing.T) {
	t.Parallel()
	testneeds.Root(t)
	allowed, err := sysfs.Affinity()
	require.NoError(t, err)
	empty := filepath.Join(t.TempDir(), "sys")
	require.NoError(t, os.Mkdir(empty, 0o755))
	where := within{"unshare", "-m", "sh", "-c", `mount --bind "$0" /sys && exec "$@"`, empty}
	for _, mask := range masks(t, where.gorun("-n", "2", "sh", "-c", whereIAm), 2) {
		assert.Subset(t, list(t, allowed.String()), list(t, mask))
	}
}

func list(t *testing.T, text string) []int {
	t.Helper()
	set, err := placement.ParseCPUSet(text)
	require.NoError(t, err)
	var cpus []int
	for cpu := range 1 << 10 {
		if set.Has(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
