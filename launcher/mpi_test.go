package launcher_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
)

// mpiVariable selects the role of a rank that uses PMI-1, as MPICH does.
const mpiVariable = "LAUNCHER_TEST_MPI"

func init() { roles["mpi"] = func(r env.Rank) { mpiRoles[os.Getenv(mpiVariable)](newPMIClient(), r) } }

var mpiRoles = map[string]func(*pmiClient, env.Rank){
	"hello": func(c *pmiClient, r env.Rank) { c.begin(); c.swap(r); c.finalize() },
	"abort": func(c *pmiClient, r env.Rank) {
		c.begin()
		c.ask("cmd=barrier_in")
		if r.Rank == 1 {
			c.say("cmd=abort exitcode=42")
			os.Exit(7)
		}
		c.untilEnd()
	},
	"leave": func(c *pmiClient, r env.Rank) {
		c.begin()
		if r.Rank == 1 {
			os.Exit(0)
		}
		c.untilEnd()
	},
	"missing": func(c *pmiClient, r env.Rank) {
		if r.Rank == 1 {
			os.Exit(0)
		}
		c.begin()
		c.ask("cmd=barrier_in")
	},
	"garbage": func(c *pmiClient, r env.Rank) {
		c.begin()
		c.ask("cmd=barrier_in")
		if r.Rank == 1 {
			c.say("\x00\x1b[31mwhat is this")
			c.untilEnd()
			os.Exit(5)
		}
		c.finalize()
	},
	"flaky": func(c *pmiClient, r env.Rank) {
		c.begin()
		c.swap(r)
		if r.Attempt == 0 && r.Rank == 1 {
			os.Exit(3)
		} else if r.Attempt == 0 {
			c.untilEnd()
		}
		c.finalize()
	},
	"spawn again and again": func(c *pmiClient, _ env.Rank) {
		c.begin()
		for range 5 {
			for range 10 {
				c.spawn("/bin/true", 2)
			}
			untilFewZombies(os.Getppid())
		}
		c.finalize()
	},
	"script": func(_ *pmiClient, r env.Rank) { // each of its programs initializes and finalizes MPI
		for range 2 {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), mpiVariable+"=hello")
			cmd.ExtraFiles = []*os.File{os.NewFile(3, "PMI")}
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				panic(err)
			}
		}
	},
}

// pmiClient is a client of PMI-1.
type pmiClient struct {
	*os.File
	answers *bufio.Reader
	kvs     string
}

func newPMIClient() *pmiClient {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		panic(err)
	}
	f := os.NewFile(uintptr(fd), "PMI")
	return &pmiClient{File: f, answers: bufio.NewReader(f)}
}

func (c *pmiClient) say(line string) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		panic(err)
	}
}

func (c *pmiClient) ask(line string) string {
	c.say(line)
	answer, err := c.answers.ReadString('\n')
	if err != nil {
		panic(fmt.Sprintf("%s: %v", line, err))
	}
	return strings.TrimSuffix(answer, "\n")
}

func (c *pmiClient) untilEnd() { _, _ = io.Copy(io.Discard, c.answers) }

func (c *pmiClient) begin() {
	c.ask("cmd=init pmi_version=1 pmi_subversion=1")
	_, c.kvs, _ = strings.Cut(c.ask("cmd=get_my_kvsname"), "kvsname=")
	c.kvs, _, _ = strings.Cut(c.kvs, " ")
}

// swap makes each rank read the value that the next rank wrote.
func (c *pmiClient) swap(r env.Rank) {
	c.ask(fmt.Sprintf("cmd=put kvsname=%s key=card-%d value=from-%d-in-%d", c.kvs, r.Rank, r.Rank, r.Attempt))
	c.ask("cmd=barrier_in")
	fmt.Println(r.Rank, "read", c.ask(fmt.Sprintf("cmd=get kvsname=%s key=card-%d", c.kvs, (r.Rank+1)%r.WorldSize)))
}

// spawn starts ranks of a program that selects its own role.
func (c *pmiClient) spawn(program string, ranks int) {
	answer := c.ask(fmt.Sprintf("mcmd=spawn\nnprocs=%d\nexecname=%s\ntotspawns=1\nspawnssofar=1\nendcmd", ranks, program))
	if !strings.Contains(answer, "rc=0") {
		panic(answer)
	}
}

// untilFewZombies waits until a process has at most a few zombie children.
func untilFewZombies(parent int) {
	const few = 3
	for deadline := time.Now().Add(30 * time.Second); zombies(parent) > few; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			panic(fmt.Sprint(zombies(parent), " ranks have ended and not been reaped"))
		}
	}
}

func zombies(parent int) (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, name := range stats {
		text, _ := os.ReadFile(name) // the process may have ended
		_, rest, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", parent)) {
			n++
		}
	}
	return n
}

func (c *pmiClient) finalize() {
	c.ask("cmd=barrier_in")
	c.ask("cmd=finalize")
}

func mpiSpec(t *testing.T, what string, ranks int) launcher.Spec {
	s := specOf("mpi", ranks)
	temp := t.TempDir()
	s.Environ = append(s.Environ, mpiVariable+"="+what, "TMPDIR="+temp)
	t.Cleanup(func() {
		left, err := filepath.Glob(temp + "/gorun-mpi-*")
		assert.NoError(t, err)
		assert.Empty(t, left)
	})
	return s
}

// overNodes distributes a job's ranks over nodes, each with an agent process of its own.
func overNodes(t *testing.T, s launcher.Spec, nodes int) (launcher.Spec, option) {
	var names []string
	for n := range nodes {
		names = append(names, fmt.Sprintf("node%d", n))
	}
	s = onHosts(s, names...)
	s.Exports = append(s.Exports, job.Export{Name: mpiVariable})
	return s, agents(t, nil)
}

func TestRanksSpeakPMI(t *testing.T) {
	r, stdout, stderr := run(t, mpiSpec(t, "hello", 4))
	assert.Zero(t, r.ExitCode, "%s", launcher.Explain(r))
	assert.Empty(t, stderr.String())
	for rank := range 4 {
		assert.Contains(t, stdout.String(), fmt.Sprintf("%d read cmd=get_result rc=0 msg=success value=from-%d-in-0\n",
			rank, (rank+1)%4))
		assert.Equal(t, &spec.RankMPI{Protocol: "PMI-1", Finalized: true}, r.Ranks[rank].MPI)
	}
}

// The exit code is the argument of MPI_Abort, even if the process then exits with another code.
func TestMPIAbort(t *testing.T) {
	r, _, _ := run(t, mpiSpec(t, "abort", 3))
	assert.Equal(t, 42, r.ExitCode)
	require.NotNil(t, r.First)
	assert.Equal(t, 1, r.First.Rank)
	assert.Equal(t, 42, r.First.Abort.Code)
	assert.Contains(t, launcher.Explain(r), "aborted MPI with code 42")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"mpi_abort":{"exit_code":42}`)
}

func TestNoFinalize(t *testing.T) {
	r, _, _ := run(t, mpiSpec(t, "leave", 3))
	assert.Equal(t, 1, r.ExitCode)
	require.NotNil(t, r.First)
	assert.Equal(t, 1, r.First.Rank)
	assert.True(t, r.First.Unfinalized)
	assert.Zero(t, r.First.Code)
	assert.Contains(t, launcher.Explain(r), "exit code 0 after MPI_Init, without MPI_Finalize")
}

func TestMissingInit(t *testing.T) {
	r, _, _ := run(t, mpiSpec(t, "missing", 2))
	assert.Equal(t, 1, r.ExitCode)
	assert.Equal(t, job.CauseStuck, r.Cause)
	assert.Equal(t, "rank 0 waits in MPI_Init for rank 1, which has ended (exit code 0) without calling it", r.Text)
	assert.Equal(t, &spec.MPIStuck{Waiting: []int{0}, Missing: 1}, r.Stuck)
}

func TestGarbageOnPMI(t *testing.T) {
	r, _, stderr := run(t, mpiSpec(t, "garbage", 3), shownNotices)
	assert.Equal(t, 5, r.ExitCode)
	require.NotNil(t, r.First)
	assert.Equal(t, 1, r.First.Rank)
	assert.Contains(t, stderr.String(), "rank 1 broke the MPI launch protocol")
	assert.NotContains(t, stderr.String(), "\x1b")
}

func TestMPIAfterRestart(t *testing.T) {
	s := mpiSpec(t, "flaky", 3)
	s.Restarts = job.Restarts{Max: 1, Delay: -1}
	r, stdout, _ := run(t, s)
	assert.Zero(t, r.ExitCode, "%s", launcher.Explain(r))
	assert.Contains(t, stdout.String(), "2 read cmd=get_result rc=0 msg=success value=from-0-in-1\n")
}

func TestConsecutiveMPIPrograms(t *testing.T) {
	r, _, stderr := run(t, mpiSpec(t, "script", 2))
	assert.Zero(t, r.ExitCode, "%s%s", launcher.Explain(r), stderr)
}

// A program can spawn without limit: ranks that have ended leave nothing.
func TestRepeatedSpawn(t *testing.T) {
	r, _, stderr := run(t, mpiSpec(t, "spawn again and again", 1))
	assert.Zero(t, r.ExitCode, "%s%s", launcher.Explain(r), stderr)
	assert.Len(t, r.Ranks, 1+5*10*2)
}

func TestMPIOverNodes(t *testing.T) {
	for what, code := range map[string]int{"hello": 0, "abort": 42, "leave": 1, "missing": 1} {
		t.Run(what, func(t *testing.T) {
			s, reach := overNodes(t, mpiSpec(t, what, 1), 3)
			r, stdout, _ := run(t, s, reach)
			assert.Equal(t, code, r.ExitCode, "%s", launcher.Explain(r))
			switch what {
			case "hello":
				assert.Contains(t, stdout.String(), "value=from-0-in-0")
			case "missing":
				assert.Contains(t, r.Text, "for rank 1, which has ended (exit code 0) without calling it")
			default:
				assert.Equal(t, 1, r.First.Rank)
			}
		})
	}
}

// With --mpi=none, ranks have no additional descriptor and no MPI variable.
func TestMPINone(t *testing.T) {
	s := specOf("hello", 2)
	s.MPI = job.MPINone
	s.Apps[0].Program = "/bin/sh"
	s.Apps[0].Args = []string{"-c", "[ -S /proc/self/fd/3 ] && echo PMI socket; env | grep -E '^(PMI|PMIX)_'; exit 0"}
	var stdout, stderr buffer
	r, err := launcher.Run(t.Context(), s, with(withOutput(&stdout, &stderr)))
	require.NoError(t, err)
	assert.Zero(t, r.ExitCode)
	assert.Empty(t, stdout.String())
}
