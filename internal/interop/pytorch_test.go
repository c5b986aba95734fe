package interop

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// underTorchrun is a job under PyTorch's own torchrun.
func underTorchrun(python string, args ...string) job {
	return job{argv: append([]string{filepath.Join(filepath.Dir(python), "torchrun")}, args...)}
}

// underGorun is the same job under gorun.
func underGorun(python string, args ...string) job {
	return gorun(args...).with("GORUN_PYTHON=" + python)
}

// training is the report of examples/torch/digits_ddp.py.
type training struct {
	accuracy float64 // percent
	losses   []float64
}

var accuracyLine = regexp.MustCompile(`accuracy ([0-9.]+) %`)

// abortAtExit is the message of a rank that aborted at exit, after PyTorch 2.15 had done all its work. A C++ thread
// was never joined. It happens rarely, on a busy machine.
const abortAtExit = "terminate called without an active exception"

// trainers is the number of ranks that train. Each takes seconds of CPU time to load PyTorch.
func trainers() string { return strconv.Itoa(testneeds.Count(2, 4)) }

// train runs the digits example as the job that launch makes.
func train(t *testing.T, launch func(python string, args ...string) job, options ...string) training {
	t.Helper()
	losses := filepath.Join(t.TempDir(), "losses")
	args := []string{"--nproc-per-node", trainers(), example(t, "torch/digits_ddp.py"), "--losses", losses}
	return readTraining(t, launch(testneeds.Torch(t), append(args, options...)...), losses)
}

// readTraining runs the digits example, which writes its losses to a file.
func readTraining(t *testing.T, j job, losses string) training {
	t.Helper()
	j = j.with("OMP_NUM_THREADS=1")
	got := j.run(t)
	if strings.Contains(got.stderr, abortAtExit) {
		t.Log("once more: ", got.stderr)
		got = j.run(t)
	}
	require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)

	found := accuracyLine.FindStringSubmatch(got.stdout)
	require.NotNil(t, found, got.stdout)
	var result training
	var err error
	result.accuracy, err = strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	text, err := os.ReadFile(losses)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		loss, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		require.NoError(t, err)
		result.losses = append(result.losses, loss)
	}
	return result
}

// here is the report of train under gorun on this host. All tests that compare with it share it, because
// starting the ranks is most of the cost.
var here struct {
	sync.Mutex
	training
}

// trainedHere returns here.
func trainedHere(t *testing.T) training {
	t.Helper()
	here.Lock()
	defer here.Unlock()
	if here.losses == nil {
		here.training = train(t, underGorun, "--workers", "1") // a loader process in each rank changes nothing
	}
	return here.training
}

// Training on real data gives the same numbers under both launchers.
func TestTrainingIsTheSameAsUnderTorchrun(t *testing.T) {
	t.Parallel()
	theirs := train(t, underTorchrun)
	ours := trainedHere(t)

	require.Greater(t, theirs.accuracy, 95.0)
	require.Equal(t, theirs.accuracy, ours.accuracy)
	require.Greater(t, len(theirs.losses), 100)
	require.Len(t, ours.losses, len(theirs.losses))
	for step, loss := range theirs.losses {
		if math.Abs(loss-ours.losses[step]) > 1e-5 {
			t.Errorf("step %d: loss %v under torchrun, %v under gorun", step, loss, ours.losses[step])
		}
	}
}

func TestMultiprocessingInsideARank(t *testing.T) {
	python := testneeds.Torch(t)
	output := underGorun(python, "-n", "2", "testdata/spawn_inside.py").succeed(t)
	require.ElementsMatch(t, []string{"rank 0: 2 squared is 4", "rank 1: 3 squared is 9"},
		strings.Split(strings.TrimSpace(output), "\n"))
}

// Ranks that are killed, twice under `make soak`, only cost time.
func TestRestartsGoOnFromTheCheckpoint(t *testing.T) {
	t.Parallel()
	python, deaths := testneeds.Torch(t), testneeds.Count(1, 2)
	var last func(args ...string) (attempt, loss string)
	last = func(args ...string) (attempt, loss string) {
		script := []string{example(t, "torch/restart.py"), "--checkpoint", filepath.Join(t.TempDir(), "digits.pt")}
		if slices.Contains(args, "--max-restarts") {
			script = append(script, words("--die 1:3 --die 0:7")[:2*deaths]...)
		}
		j := underGorun(python, slices.Concat([]string{"-n", "2"}, args, script)...).with("OMP_NUM_THREADS=1")
		got := j.run(t)
		if strings.Contains(got.stderr, torchAborts) { // again, with another file
			return last(args...)
		}
		require.Zero(t, got.code, "%s: stdout: %s\nstderr: %s", j.argv, got.stdout, got.stderr)
		said := strings.Fields(got.stdout)
		return said[1], said[len(said)-1]
	}
	attempt, undisturbed := last()
	require.Equal(t, "0", attempt)
	attempt, disturbed := last("--max-restarts", "3", "--restart-delay", "0")
	require.Equal(t, strconv.Itoa(deaths), attempt)
	require.Equal(t, undisturbed, disturbed)
}
