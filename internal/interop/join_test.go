package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	options "gorun/launcher/job"
)

// rally is a set of hosts where users start gorun by hand; h1 has the endpoint. The hosts have their own networks,
// so tests can use the ports in the documentation.
type rally struct{ *testhosts.Set }

// rallyAt makes a rally. When the test ends, no process or file of gorun may remain on any host.
func rallyAt(t *testing.T, hosts int) rally {
	t.Helper()
	a := rally{testhosts.Up(t, testhosts.Config{Hosts: hosts, PrivateTmp: true, Keep: []string{bin}})}
	before := a.files(t)
	t.Cleanup(func() {
		a.empty(t)
		assert.Equal(t, before, a.files(t))
	})
	return a
}

// empty waits until no process runs on any host.
func (a rally) empty(t *testing.T) {
	t.Helper()
	for _, host := range a.Hosts() {
		var left []testhosts.Process
		assert.Eventually(t, func() (gone bool) {
			var err error
			left, err = a.Processes(host)
			return err == nil && len(left) == 0
		}, leaving, 20*time.Millisecond, "%s: %v", host, &left)
	}
}

// files lists the temporary files of each host.
func (a rally) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, host := range a.Hosts() {
		out, err := a.Command(host, "ls", "-A", "/tmp", "/dev/shm").CombinedOutput()
		require.NoError(t, err, "%s", out)
		all[host] = string(out)
	}
	return all
}

// on is a command line that a user enters on a host.
func (a rally) on(host string, argv ...string) job {
	return job{argv: a.Command(host, argv...).Args}.with("GORUN_BIND_TO=none", "OMP_NUM_THREADS=1",
		"PYTHONDONTWRITEBYTECODE=1")
}

// file writes a file that all hosts share and only root can read.
func (a rally) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(a.Dir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// knownToken is for nodes whose token does not matter.
var knownToken = "GORUN_TOKEN=" + options.Token{1}.Text()

// token makes a secret with `gorun token`.
func (a rally) token(t *testing.T, name string) (file, text string) {
	t.Helper()
	file = filepath.Join(a.Dir(), name)
	gorun("token", "--out", file).succeed(t)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return file, strings.TrimSpace(string(content))
}

// arrivals starts a job on each host in the given order. If isLate, the last host starts after the others report
// that they wait. It returns the jobs by host.
func (a rally) arrivals(t *testing.T, order []string, isLate bool, line func(host string) job) map[string]*running {
	t.Helper()
	all := map[string]*running{}
	early, late := order[:len(order)-1], order[len(order)-1]
	for _, host := range early {
		all[host] = line(host).start(t)
	}
	if !isLate {
		early = nil
	}
	for _, host := range early {
		r := all[host]
		require.True(t, r.until(t, &r.stderr, " wait", 1), "%s: %s", host, r.stderr.String())
	}
	all[late] = line(late).start(t)
	return all
}

// results waits for all jobs and requires the same exit code of each.
func results(t *testing.T, all map[string]*running, code int) map[string]result {
	t.Helper()
	came := map[string]result{}
	for host, r := range all {
		came[host] = r.wait(t)
	}
	for host, got := range came {
		require.Equal(t, code, got.code, "%s\nstdout: %s\nstderr: %s", host, got.stdout, got.stderr)
	}
	return came
}

// launcher is the gorun process on a host, without its children.
func (a rally) launcher(t *testing.T, host string) testhosts.Process {
	t.Helper()
	all, err := a.Processes(host)
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(p testhosts.Process) bool {
		return len(p.Args) > 1 && p.Args[0] == built("gorun") && p.Args[1] == "--nnodes"
	})
	require.GreaterOrEqual(t, at, 0, "%s: %v", host, all)
	return all[at]
}

// strike sends a signal to gorun on a host.
func (a rally) strike(t *testing.T, host string, number syscall.Signal) {
	t.Helper()
	require.NoError(t, a.Signal(host, a.launcher(t, host), number))
}

// standing starts a job with one waiting rank on each host, and returns when all ranks run.
func (a rally) standing(t *testing.T, options ...string) map[string]*running {
	t.Helper()
	all := map[string]*running{}
	for i, host := range a.Hosts() {
		line := slices.Concat([]string{
			built("gorun"), "--nnodes", fmt.Sprint(len(a.Hosts())), "--node-rank", fmt.Sprint(i), "--master-addr", "h1",
			"--grace", "2", "--heartbeat", "1", "--nproc-per-node", "1",
		}, options, []string{"sh", "-c", `echo rank $RANK is ready; exec sleep 300`})
		all[host] = a.on(host, line...).with(knownToken).start(t)
	}
	require.True(t, all["h1"].until(t, &all["h1"].stdout, "is ready\n", len(all)), "%s", all["h1"].stderr.String())
	return all
}

// otherGorun is a gorun with another version.
var otherGorun = sync.OnceValues(func() (string, error) {
	path := built("gorun-other")
	build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags",
		"-X gorun/internal/version.Version=99.0", "-o", path, "gorun/cmd/gorun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build another gorun: %w\n%s", err, said)
	}
	return path, nil
})

// Four hosts join in any order, the last one late, and compute a sum with PyTorch's Gloo.
func TestHostsJoinInAnyOrder(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	a := rallyAt(t, 4)
	random := testneeds.Rand(t)
	file, _ := a.token(t, "job.token")
	for _, c := range []struct {
		name    string
		options []string
		ranks   bool // with --node-rank
		late    bool // the last host starts after the others report that they wait
		program []string
		want    func(rank int) string
	}{
		{
			"token, PyTorch",
			[]string{"--token-file", file},
			false, false,
			[]string{"testdata/join_sum.py"},
			func(rank int) string {
				return fmt.Sprintf("rank %d of 8 on h%d, node %d: sum 28", rank, rank/2+1, rank/2)
			},
		},
		{
			"node ranks",
			[]string{"--token-file", file},
			true, true,
			[]string{"sh", "-c", `echo $RANK $GROUP_RANK $LOCAL_RANK $(hostname)`},
			func(rank int) string {
				return fmt.Sprintf("%d %d %d h%d", rank, rank/2, rank%2, nodeRankOf(rank/2))
			},
		},
		{
			"insecure",
			[]string{"--insecure-join"},
			false, false,
			[]string{"sh", "-c", `echo $RANK $GROUP_RANK $LOCAL_RANK $(hostname)`},
			func(rank int) string {
				return fmt.Sprintf("%d %d %d h%d", rank, rank/2, rank%2, rank/2+1)
			},
		},
	} {
		order := a.Hosts()
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		t.Log(c.name, order)
		all := a.arrivals(t, order, c.late, func(host string) job {
			line := append([]string{
				built("gorun"), "--nnodes", "4", "--nproc-per-node", "2", "--master-addr", "h1",
				"--master-port", "29500",
			}, c.options...)
			if c.ranks {
				line = append(line, "--node-rank", fmt.Sprint(nodeOf(host)))
			}
			return a.on(host, append(line, c.program...)...).with("GORUN_PYTHON=" + python)
		})
		came := results(t, all, 0)
		lines := strings.Split(strings.TrimSpace(came["h1"].stdout), "\n")
		var want []string
		for rank := range 8 {
			want = append(want, c.want(rank))
		}
		slices.Sort(lines)
		require.Equal(t, want, lines, c.name)
		for host, got := range came {
			assert.Equal(t, c.name == "insecure", strings.Contains(got.stderr, "without a token"), "%s: %s", host, got.stderr)
			assert.NotEqual(t, host == "h1", strings.Contains(got.stderr, "node 0 is h1, which shows what ranks print"),
				got.stderr)
			assert.Equal(t, host == "h1", got.stdout != "", "%s: %s", host, got.stdout)
		}
	}
}

// Node ranks need not follow the order of the hosts: h1 is node 0, h4 is node 1.
func nodeRankOf(node int) int { return []int{1, 4, 3, 2}[node] }

func nodeOf(host string) int {
	return map[string]int{"h1": 0, "h4": 1, "h3": 2, "h2": 3}[host]
}

const headKilled = "node 0 (h1) is lost: its connection ended: gorun ended there, or the host went down\n"

// If one node fails or gets a signal, all nodes end, and no process or file remains.
func TestJoinedHostsEndTogether(t *testing.T) {
	t.Parallel()
	a := rallyAt(t, 4)
	for _, c := range []struct {
		name string
		do   func(all map[string]*running)
		code map[string]int // "": for all other nodes
		says map[string]string
	}{
		{
			"SIGTERM at node 2", func(map[string]*running) { a.strike(t, "h3", syscall.SIGTERM) },
			map[string]int{"": 143},
			map[string]string{"h1": "SIGTERM", "h2": "SIGTERM", "h3": "SIGTERM", "h4": "SIGTERM"},
		},
		{
			"SIGINT at node 0", func(map[string]*running) { a.strike(t, "h1", syscall.SIGINT) },
			map[string]int{"": 130},
			map[string]string{"h1": "SIGINT", "h4": "SIGINT"},
		},
		{
			"node 3 killed", func(map[string]*running) { a.strike(t, "h4", syscall.SIGKILL) },
			map[string]int{"": 125, "h4": 137},
			map[string]string{"h1": "h4 is lost", "h2": "node 0 (h1) says: h4 is lost", "h3": "h4 is lost"},
		},
		{
			"node 0 killed", func(map[string]*running) { a.strike(t, "h1", syscall.SIGKILL) },
			map[string]int{"": 125, "h1": 137},
			map[string]string{"h2": headKilled, "h3": headKilled, "h4": headKilled},
		},
		{
			"h2 cut", func(map[string]*running) { require.NoError(t, a.Cut("h2")) },
			map[string]int{"": 125},
			map[string]string{
				"h1": "h2 is lost",
				"h2": "node 0 (h1) is lost: no message from the launcher for 5s: the connection is cut, or the " +
					"launcher's host hangs\n",
				"h3": "h2 is lost", "h4": "h2 is lost",
			},
		},
	} {
		all := a.standing(t)
		c.do(all)
		for host, r := range all {
			got := r.wait(t)
			code, own := c.code[host]
			if !own {
				code = c.code[""]
			}
			assert.Equal(t, code, got.code, "%s on %s: %s", c.name, host, got.stderr)
			assert.Contains(t, got.stderr, c.says[host], "%s on %s", c.name, host)
		}
		a.empty(t)
	}
}
