package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// examplesOnce builds all examples with cgo, as the go command does for a user. Package comm needs cgo; TestMain
// builds hello without it.
var examplesOnce = sync.OnceValues(func() (string, error) {
	folder := built("examples")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", folder, "gorun/examples/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the examples: %w\n%s", err, said)
	}
	return folder, nil
})

// program returns the path of a built example.
func program(t *testing.T, name string) string {
	t.Helper()
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	folder, err := examplesOnce()
	require.NoError(t, err)
	return filepath.Join(folder, name)
}

// exampleNames are the names of the Go examples.
var exampleNames = []string{
	"allreduce", "bottleneck", "broadcast", "dist_allreduce", "fragmentation", "hello", "overlap", "reinit",
	"straggler", "trainer",
}

// Every example has a PyTorch version, and a page whose commands exist.
func TestExamplesAreComplete(t *testing.T) {
	folders, err := filepath.Glob(example(t, "*/main.go"))
	require.NoError(t, err)
	require.Len(t, folders, len(exampleNames), "exampleNames lists every Go example")
	for _, name := range exampleNames {
		page, err := os.ReadFile(example(t, name+"/README.md"))
		require.NoError(t, err)
		require.Contains(t, string(page), "$ gorun -n ")
		require.Contains(t, string(page), " ./examples/"+name)
		require.Contains(t, string(page), " examples/torch/"+name+".py")
		require.FileExists(t, example(t, "torch/"+name+".py"))
	}
}

// TestExamples runs each example with few steps. It checks the results that they print, but not the times. The
// examples check every sum themselves.
func TestExamples(t *testing.T) {
	t.Parallel()
	const figure = `[0-9.]+`
	for _, c := range []struct {
		ranks, command string
		wants          []string // regular expressions
	}{
		{
			"4", "hello --comm",
			[]string{`rank 3 of 4 is process \d+`, `all ranks met: processes \[(\d+ ?){4}\] found π = 3\.141592654`},
		},
		{"1", "hello --comm", []string{`all ranks met: processes \[\d+\] found π = 3\.141592654`}},
		{"2", "overlap --layers 4 --size 1000 --compute 100us --steps 3 --bucket 8000", []string{
			`2 ranks with \d+ CPUs? each; 4 layers of 0\.0 MB, 2 buckets`, `before: one after another +` + figure + ` ms`,
			`after: overlapped +` + figure + ` ms`,
			`overlapped takes ` + figure + ` of the time, and ` + figure + ` of the longer of both`,
		}},
		{"4", "overlap --layers 3 --size 100 --compute 10us --steps 1", []string{`1 buckets?`}},
		{"4", "straggler --timeout 60s", []string{`rank 0 waited .*: all 4 ranks came within 1m0s`, `rank 3 waited`}},
		{"4", "reinit --steps 3", []string{`a group for every step +` + figure + ` µs`, `one group for all steps +` +
			figure + ` µs`, `making a group costs`}},
		{
			"2", "fragmentation --size 10000 --steps 2",
			[]string{`part of one that is shared +` + figure, `a new slice +` + figure, `new and shared anew`},
		},
		{
			"4", "dist_allreduce --backend cpu --data-size 100003",
			[]string{
				`all-reduce of 100003 float32 \(0\.4 MB\) over 4 ranks \(backend cpu\)`,
				`every element is 4 on every rank`,
			},
		},
		{
			"2", "dist_allreduce --backend gloo --data-size 1",
			[]string{`over 2 ranks \(backend cpu\)`, `bus bandwidth +` + figure + ` GB/s`},
		},
		{"2", "bottleneck --width 64", []string{
			`communication +` + figure + ` ms +` + figure + ` %`,
			`(compute|communication)-bound: `,
		}},
	} {
		argv := append([]string{"-n", c.ranks}, strings.Fields(c.command)...)
		argv[2] = program(t, argv[2])
		said := gorun(argv...).succeed(t)
		for _, want := range c.wants {
			require.Regexp(t, want, said, "%s with %s ranks", c.command, c.ranks)
		}
	}
}

// The pages of the examples show the output that they print.
func TestExamplesPrintBoxes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"broadcast", "allreduce"} {
		page, err := os.ReadFile(example(t, name+"/README.md"))
		require.NoError(t, err)
		said := gorun("-n", "2", program(t, name)).succeed(t)
		require.Contains(t, string(page), said)
	}
	said := gorun("-n", "4", program(t, "allreduce"), "--op", "avg").succeed(t)
	require.Contains(t, said, "| rank 3  |    4    4    4    4 |")
	require.Equal(t, 4, strings.Count(said, "|  2.5  2.5  2.5  2.5 |"))
}

// The command on the pages runs a folder instead of a program.
func TestExampleAsPackage(t *testing.T) {
	t.Parallel()
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	j := gorun("-n", "2", "./examples/broadcast")
	j.dir = testneeds.Repository(t)
	require.Equal(t, 3, strings.Count(j.succeed(t), "|   42   42   42   42 |"))
}

var (
	epochLine = regexp.MustCompile(`epoch +(\d+) +loss ([0-9.]+) +accuracy +([0-9.]+) %`)
	sameLine  = regexp.MustCompile(`all (\d+) weights have the same bits \(([0-9a-f]{8})\)`)
)

// epochs returns the losses and the last accuracy that a trainer printed.
func epochs(t *testing.T, said string) (losses []float64, accuracy float64) {
	t.Helper()
	for _, found := range epochLine.FindAllStringSubmatch(said, -1) {
		loss, err := strconv.ParseFloat(found[2], 64)
		require.NoError(t, err)
		losses = append(losses, loss)
		accuracy, err = strconv.ParseFloat(found[3], 64)
		require.NoError(t, err)
	}
	require.NotEmpty(t, losses, said)
	return losses, accuracy
}

// Training on real data gives the same bits as one rank that sums the same slices. With other numbers of ranks the
// losses differ by rounding only: it changes the 6th digit, and losses have 4 digits.
func TestTrainer(t *testing.T) {
	t.Parallel()
	var alone []float64
	for _, ranks := range []string{"1", "2", "3", "4"} {
		said := gorun("-n", ranks, program(t, "trainer")).succeed(t)
		losses, accuracy := epochs(t, said)
		require.Greater(t, accuracy, 95.0, "%s ranks", ranks)
		require.Less(t, losses[len(losses)-1], losses[0]/10, "%s ranks", ranks)
		require.Regexp(t, sameLine, said)
		require.Equal(t, ranks, fmt.Sprint(strings.Count(said, " is process ")))
		if alone == nil {
			alone = losses
		}
		require.InDeltaSlice(t, alone, losses, 2e-3, "%s ranks", ranks)
	}
}

// The same job twice gives the same bits.
func TestTrainerRepeats(t *testing.T) {
	t.Parallel()
	bits := func() string {
		said := gorun("-n", "4", program(t, "trainer"), "--epochs", "2", "--batch", "50", "--seed", "7").succeed(t)
		return sameLine.FindString(said)
	}
	require.Equal(t, bits(), bits())
}

// A failure ends the job with an error that suggests a fix.
func TestExamplesFail(t *testing.T) {
	t.Parallel()
	folder := filepath.Dir(program(t, "hello"))
	for _, c := range []struct{ command, want string }{
		{
			folder + "/straggler --late 1 --delay 1h --timeout 300ms",
			`straggler: rank 0: comm: .*rank 1.*\n.*wait longer: --timeout 2h0m0s`,
		},
		{folder + "/straggler --late 7", `--late 7: there are the ranks 0 to 1`},
		{folder + "/allreduce --op median", `--op median: take one of sum, prod, max, min, avg`},
		{folder + "/dist_allreduce --backend mpi", `"mpi" is no back end: take`},
		{folder + "/trainer --epochs 0", `take 1 or more`},
		{built("hello") + " --comm", `built without cgo.* CGO_ENABLED=1`}, // TestMain builds it without cgo
	} {
		got := gorun(append([]string{"-n", "2"}, strings.Fields(c.command)...)...).run(t)
		require.Equal(t, 1, got.code, "%s\n%s", c.command, got.stderr)
		require.Regexp(t, c.want, got.stderr, c.command)
	}
}

// Both examples name each late rank, and no other.
func TestStragglersAreNamed(t *testing.T) {
	t.Parallel()
	late := gorun("-n", "4", program(t, "straggler"), "--late", "2", "--delay", "1h", "--timeout", "500ms").run(t)
	require.Equal(t, 1, late.code)
	require.Regexp(t, `no answer from rank 2 within [0-9.]+m?s`, late.stderr) // the actual duration
	require.NotRegexp(t, `no answer from (rank [013]|ranks)`, late.stderr)
}

// twins are the PyTorch versions of the examples with little work, and the output that they must print.
var twins = []struct{ command, want string }{
	{
		"overlap.py --layers 2 --width 32 --batch 2 --steps 1",
		`2 ranks; 2 layers of 0\.0 MB\n(.*ms.*\n){4}overlapped takes [0-9.]+ of the time`,
	},
	{
		"reinit.py --steps 2",
		`2 ranks, 2 steps with an all-reduce of 4 KiB each\n.*a group for every step .*\n.*one group for all steps`,
	},
	{"straggler.py --timeout 60", `all 2 ranks came within 60s`},
	{"fragmentation.py --size 10000 --steps 2", `part of one tensor +[0-9.]+ .*\na new tensor +[0-9.]+`},
	{
		"dist_allreduce.py --backend gloo --data-size 100003",
		`all-reduce of 100003 float32 \(0\.4 MB\) over 2 ranks \(backend gloo\)`,
	},
	{"bottleneck.py --width 64", `(compute|communication)-bound: `},
	{"dataparallel.py --layers 2 --steps 5", `one process takes [0-9.]+ times as long as DDP`}, // last: it sets float64
}

// inTurn runs twins in one job of two ranks, and returns their output.
func inTurn(t *testing.T, commands ...string) string {
	t.Helper()
	python := testneeds.Torch(t)
	argv := []string{"-n", "2", "testdata/in_turn.py"}
	for i, command := range commands {
		name, options, _ := strings.Cut(command, " ")
		if i > 0 {
			argv = append(argv, "--")
		}
		argv = append(append(argv, example(t, "torch/"+name)), strings.Fields(options)...)
	}
	return underGorun(python, argv...).with("OMP_NUM_THREADS=1").succeed(t)
}

func TestTwins(t *testing.T) {
	t.Parallel()
	commands := make([]string, len(twins))
	for i, twin := range twins {
		commands[i] = twin.command
	}
	said := inTurn(t, commands...)
	for _, twin := range twins {
		require.Regexp(t, twin.want, said, twin.command)
	}
	losses := regexp.MustCompile(`loss ([0-9.]+) to ([0-9.]+)`).FindAllStringSubmatch(said, -1)
	require.Len(t, losses, 2, "dataparallel.py prints those of both ways")
	require.NotEqual(t, losses[0][1], losses[0][2], "it learns")
	require.Equal(t, losses[0][1:], losses[1][1:], "both ways learn the same")
}

// Both print the same boxes: comm and PyTorch define these operations in the same way.
func TestTwinsAgree(t *testing.T) {
	t.Parallel()
	ours := ""
	for _, name := range []string{"broadcast", "allreduce"} {
		ours += gorun("-n", "2", program(t, name)).succeed(t)
	}
	require.Equal(t, ours, inTurn(t, "broadcast.py", "allreduce.py"))
}

// Data, network and settings are the same. PyTorch starts with other weights and shuffles differently, but reaches
// the same accuracy.
func TestTwinOfTrainer(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	said := underGorun(python, "-n", "2", example(t, "torch/trainer.py"), "--epochs", "10", "--bucket-cap-mb", "0.01",
		"--gradient-as-bucket-view").
		with("OMP_NUM_THREADS=1").succeed(t)
	losses, accuracy := epochs(t, said)
	require.Len(t, losses, 10)
	require.Less(t, losses[9], losses[0]/10)
	require.Greater(t, accuracy, 93.0, "after 10 of 15 epochs")
}

func TestTwinNamesTheStraggler(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	late := underGorun(python, "-n", "2", example(t, "torch/straggler.py"), "--late", "1", "--delay", "3600",
		"--timeout", "0.5").run(t)
	require.NotZero(t, late.code)
	require.Contains(t, late.stderr, "Ranks 1 failed to pass monitoredBarrier")
}
