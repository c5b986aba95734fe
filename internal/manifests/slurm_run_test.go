package manifests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testslurm"
)

// rank is the program of the batch scripts: it prints its rank.
func rank() {
	fmt.Printf("%s: rank %s of %s, task %s\n", filepath.Base(os.Args[0]), os.Getenv("RANK"), os.Getenv("WORLD_SIZE"),
		os.Getenv("SLURM_PROCID"))
}

// small replaces the resources that a script requests by those of test nodes.
var small = strings.NewReplacer("--mem=64G", "--mem=50M", "--mem=8G", "--mem=50M", "--ntasks=64", "--ntasks=10",
	"--array=0-15%4", "--array=3", "--cpus-per-task=2", "--cpus-per-task=1")

var labels = regexp.MustCompile(`(?m)^(\w+): rank (\d+) of (\d+), task (\d+)$`)

// Scripts that need neither a GPU nor resolvable node names start the declared number of ranks, on enough nodes.
func TestSlurmExamplesRun(t *testing.T) {
	cluster := testslurm.Start(t, testslurm.Config{})
	folder := t.TempDir()
	build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", filepath.Join(folder, "gorun"),
		"gorun/cmd/gorun")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"trainer", "server"} {
		require.NoError(t, os.Symlink(self, filepath.Join(folder, name)))
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("XDG_STATE_HOME", folder)

	scripts := batchScripts(t)
	for name, want := range map[string][]string{
		"array.sh":           ranks("trainer", 0, 4, 4),
		"cpus-one-node.sh":   ranks("trainer", 0, 4, 4),
		"cpus-many-nodes.sh": ranks("trainer", 0, 10, 10),
		"preemption.sh":      ranks("trainer", 0, 8, 8),
		"heterogeneous.sh":   append(ranks("server", 0, 1, 5), ranks("trainer", 1, 5, 5)...),
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(folder, name+".out")
			job := cluster.Sbatch(t, small.Replace(scripts[name]), "--chdir="+folder, "--output="+out)
			state := cluster.Wait(t, job)
			text, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Equal(t, "COMPLETED", state, string(text))
			got := labels.FindAllString(string(text), -1)
			slices.Sort(got)
			slices.Sort(want)
			require.Equal(t, want, got, string(text))
		})
	}
}

// ranks are the output lines of some ranks of a job.
func ranks(program string, from, to, of int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("%s: rank %d of %d, task %d", program, i, of, i))
	}
	return lines
}
