package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"gorun/internal/pages"
	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// Words after "console" in a page.
const (
	needsHosts   = "hosts" // node1 and node2
	needsSlurm   = "slurm" // a cluster
	needsMPI     = "mpi"   // MPICH and mpi4py
	needsJob     = "job"   // a job that runs; JOB is its ID
	needsFailure = "fails" // a train.py that fails in rank 2, on a terminal
	// Commands that need GPUs, or many hosts, containers or what CI runs anyway, are parsed by a test of cmd/gorun.
	needsGPU  = "gpu"
	needsMore = "more"
)

var needs = []string{needsHosts, needsSlurm, needsMPI, needsJob, needsFailure, needsGPU, needsMore}

// finders are commands that exit with 1 if they find something.
var finders = regexp.MustCompile(`^gorun (doctor|hosts check|lint|explain)\b`)

// follows matches commands that end with the job.
var follows = regexp.MustCompile(`^gorun (logs -f|top)\b`)

// TestGuides runs the commands of the README and of the ten pages, each page in a folder of its own.
func TestGuides(t *testing.T) {
	t.Parallel()
	all, err := pages.All(testneeds.Repository(t))
	require.NoError(t, err)
	mpi := testneeds.NeedMPI4Py(t, testneeds.LayerMPICH5)
	programs, err := gpuPrograms()
	require.NoError(t, err)
	python, err := filepath.EvalSymlinks(mpi.Python)
	require.NoError(t, err)
	kept := []string{programs, filepath.Dir(filepath.Dir(mpi.Python)), filepath.Dir(filepath.Dir(python))}
	f := raise(t, testhosts.Config{Hosts: 2, Keep: kept})
	config, err := os.ReadFile(f.SSHConfig())
	require.NoError(t, err)
	folder := filepath.Join(f.Home(testhosts.Head), ".ssh") // OpenSSH's ssh looks there, whatever HOME is
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config"), config, 0o600))
	for _, p := range all {
		if p.IsGuide() {
			t.Run(p.File, func(t *testing.T) { newGuide(t, f, p, programs, mpi).run(t) })
		}
	}
}

// guide is a page whose commands run.
type guide struct {
	pages.Page
	fleet   fleet
	dir     string
	environ []string
}

// newGuide makes a folder with the files that pages name.
func newGuide(t *testing.T, f fleet, p pages.Page, programs string, mpi testneeds.MPI) guide {
	t.Helper()
	dir := filepath.Join(f.Dir(), "guide-"+strings.ReplaceAll(p.File, "/", "-"))
	files, err := txtar.ParseFile(filepath.Join("testdata", "guides.txtar"))
	require.NoError(t, err)
	for _, file := range files.Files {
		path := filepath.Join(dir, file.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, file.Data, 0o755))
	}
	copyProgram(t, example(t, "mpi/hello.c"), filepath.Join(dir, "hello.c"))
	require.NoError(t, os.Symlink(programs, filepath.Join(dir, "bin")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "jobs"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "printed"), 0o600)) // rank 2 fails after rank 0 has printed
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".local", "bin"), 0o755))
	return guide{p, f, dir, []string{
		"HOME=" + home, "NO_COLOR=1", "GORUN_RUNTIME_DIR=" + filepath.Join(dir, "jobs"),
		"VIRTUAL_ENV=" + filepath.Dir(filepath.Dir(mpi.Python)),
		"PATH=" + strings.Join([]string{programs, filepath.Dir(mpi.Python), os.Getenv("PATH")}, ":"),
	}}
}

func (g guide) run(t *testing.T) {
	for _, block := range g.Console() {
		t.Run(fmt.Sprint("line ", block.Line), func(t *testing.T) {
			require.Subset(t, needs, block.Needs)
			switch {
			case slices.Contains(block.Needs, needsMore) || slices.Contains(block.Needs, needsGPU):
			case slices.Contains(block.Needs, needsJob):
				g.withJob(t, block)
			default:
				g.together(t, block)
			}
		})
	}
}

// onHost matches the comment behind a command that is one of several: each starts on its host.
var onHost = regexp.MustCompile(`# on node(\d)$`)

// together runs the commands of a block one after another, and at last those for hosts together.
func (g guide) together(t *testing.T, block pages.Block) {
	t.Helper()
	var all []*running
	for _, c := range block.Commands {
		if onHost.MatchString(c.Line) {
			all = append(all, g.start(t, block, c.Line))
		} else {
			g.command(t, block, c)
		}
	}
	for _, r := range all {
		got := r.wait(t)
		require.Zero(t, got.code, "%s\n%s%s", r.command, got.stdout, got.stderr)
	}
}

var (
	// node matches the hosts of pages.
	node    = regexp.MustCompile(`\bnode([12])\b`)
	ofSlurm = regexp.MustCompile(`^(salloc|srun|gorun sbatch) `)
)

// start starts a command line in the page's folder.
func (g guide) start(t *testing.T, block pages.Block, line string) *running {
	t.Helper()
	require.True(t, slices.Contains(block.Needs, needsHosts) || !node.MatchString(line), "not marked: %s", line)
	host := testhosts.Head
	if m := onHost.FindStringSubmatch(line); m != nil {
		host = "h" + m[1]
	}
	if bench, ok := strings.CutPrefix(line, "gorun bench "); ok { // the last one of an option counts
		line = "gorun bench " + bench + " -b 8 -e 64K --trials 1 --warmup 1 --time-per-size 1ms"
	}
	j := job{argv: []string{"bash", "-c", node.ReplaceAllString(line, "h$1")}, dir: g.dir, environ: g.environ}
	if slices.Contains(block.Needs, needsFailure) {
		j = j.with("FAIL=1")
		j.argv = []string{"script", "-qec", line, "/dev/null"}
	}
	if ofSlurm.MatchString(line) {
		require.Contains(t, block.Needs, needsSlurm, line)
		j.argv[2] = strings.Replace(line, "gorun sbatch ", "gorun sbatch --dry-run ", 1) // it has no GPUs
		return j.with(slurm.Cluster(t).Environ()...).with(g.environ...).start(t)
	}
	j.argv = g.fleet.Command(host, j.argv...).Args
	return j.with("GORUN_SSH_CONFIG=" + g.fleet.SSHConfig()).start(t)
}

// command runs a command and compares its output with that of the page.
func (g guide) command(t *testing.T, block pages.Block, c pages.Command) {
	t.Helper()
	want := 0
	if slices.Contains(block.Needs, needsFailure) {
		want = 1
	}
	got := g.start(t, block, c.Line).wait(t)
	if got.code != want && !(got.code == 1 && finders.MatchString(c.Line)) {
		t.Errorf("%s: exit code %d\n%s%s", c.Line, got.code, got.stdout, got.stderr)
		return
	}
	requireShown(t, c.Output, strings.ReplaceAll(got.stdout+got.stderr, g.dir, "/home/me"))
}

// jobID matches the ID of the only job.
var jobID = regexp.MustCompile(`"(?:job|id)": "([0-9a-f]+)"`)

// withJob runs commands while a job runs. They may end it.
func (g guide) withJob(t *testing.T, block pages.Block) {
	t.Helper()
	watched := g.start(t, block, "WAIT=1 exec gorun -n 2 ./trainer")
	require.True(t, watched.until(t, &watched.stdout, "rank 1 of 2", 1))
	var id []string
	require.Eventually(t, func() bool { // a job is listed soon after it has started
		id = jobID.FindStringSubmatch(g.start(t, block, "gorun ps --json").wait(t).stdout)
		return id != nil
	}, patience, glance)
	var following []*running
	for _, c := range block.Commands {
		c.Line = strings.ReplaceAll(c.Line, "JOB", id[1])
		if follows.MatchString(c.Line) {
			following = append(following, g.start(t, block, c.Line))
		} else {
			g.command(t, block, c)
		}
	}
	g.start(t, block, "gorun stop "+id[1]).wait(t)
	for _, r := range append(following, watched) {
		r.wait(t)
	}
}

// variable matches what differs from run to run: numbers, IDs and blanks of columns.
var variable = regexp.MustCompile(`\b[0-9a-f]*[0-9][0-9a-f.]*(ms|s|m|h)?\b|\s+`)

// requireShown requires the lines of a page in the output, in any order, for all numbers.
func requireShown(t *testing.T, shown []string, output string) {
	t.Helper()
	alike := func(line string) string { return strings.TrimSpace(variable.ReplaceAllString(line, " ")) }
	var lines []string
	for line := range strings.Lines(output) {
		lines = append(lines, alike(line))
	}
	for _, line := range shown {
		if !strings.Contains(line, "…") {
			assert.Contains(t, lines, alike(line), "%s", output)
		}
	}
}
