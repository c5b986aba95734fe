package launcher_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// Roles of the test binary: a resource manager's command, and the agents that it starts.
const (
	managerRole     = "manager"
	managedRole     = "managed agent"
	managedVariable = "LAUNCHER_TEST_NODE"
)

// beManaged runs as `gorun agent join`.
func beManaged() {
	_, file, _ := strings.Cut(os.Args[len(os.Args)-1], ":")
	err := launcher.JoinAgent(os.Stdin, file, with(withSignals(func(ch chan<- os.Signal) {
		signal.Notify(ch, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGCONT)
	})))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		os.Exit(125)
	}
}

// manager imitates srun. Its command line is MODE NODES [--bring=FILE] PROGRAM agent join.
type manager struct {
	mode   string
	nodes  []string
	agent  []string
	mu     sync.Mutex // protects the fields below
	inputs []io.WriteCloser
	cmds   []*exec.Cmd
}

// beManager starts an agent for each node and passes its own standard input to all of them. The mode selects how it
// misbehaves.
func beManager() {
	m := manager{mode: os.Args[1], nodes: strings.Split(os.Args[2], ","), agent: os.Args[3:]}
	hurt := make(chan os.Signal, 1)
	signal.Notify(hurt, syscall.SIGUSR2)
	switch m.mode {
	case "refuses":
		fmt.Fprintln(os.Stderr, "srun: error: Unable to create step for job 7: Requested nodes are busy")
		os.Exit(1)
	case "incomplete":
		m.nodes = m.nodes[:len(m.nodes)-1]
	case "unknown":
		m.nodes[len(m.nodes)-1] = "other"
	case "twice":
		m.nodes[len(m.nodes)-1] = m.nodes[0]
	case "domains":
		m.nodes[0] += ".example.org"
	}
	missing := m.bring()
	for i, node := range m.nodes {
		if missing && i == len(m.nodes)-1 {
			fmt.Fprintf(os.Stderr, "slurmstepd-%s: error: execve(): %s: No such file or directory\n", node, m.agent[0])
			fmt.Fprintf(os.Stderr, "srun: error: %s: task %d: Exited with exit code 2\n", node, i)
			continue
		}
		m.start(node)
	}
	go m.pass()
	go func() {
		<-hurt
		fmt.Fprintf(os.Stderr,
			"slurmstepd-%s: error: *** STEP 7.0 ON %s CANCELLED AT 2026-11-22T05:02:15 DUE TO TIME LIMIT ***\n", m.nodes[0],
			m.nodes[0])
		for _, c := range m.cmds {
			_ = c.Process.Signal(syscall.SIGTERM)
		}
	}()
	for _, c := range m.cmds {
		_ = c.Wait()
	}
}

// bring copies the program if --bring is set, and reports whether the program is missing.
func (m *manager) bring() (missing bool) {
	file, ok := strings.CutPrefix(m.agent[0], "--bring=")
	if !ok {
		return m.mode == "missing"
	}
	program, err := os.ReadFile(m.agent[1])
	if err != nil || os.WriteFile(file, program, 0o700) != nil {
		panic(err)
	}
	m.agent = append([]string{file}, m.agent[2:]...)
	return false
}

func (m *manager) start(node string) {
	c := exec.Command(m.agent[0], m.agent[1:]...)
	c.Env = append(withRole(os.Environ(), managedRole), managedVariable+"="+node)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	in, err := c.StdinPipe()
	if err != nil || c.Start() != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inputs, m.cmds = append(m.inputs, in), append(m.cmds, c)
}

// pass copies standard input to all agents until end-of-file.
func (m *manager) pass() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if m.mode == "forger" {
			line = forge(line)
		}
		for _, in := range m.inputs {
			_, _ = in.Write(line)
			if err != nil {
				_ = in.Close()
			}
		}
		if err != nil {
			return
		}
	}
}

// forge replaces the token in an invitation.
func forge(line []byte) []byte {
	var all map[string]any
	if json.Unmarshal(line, &all) != nil {
		return line
	}
	all["token"], all["within"] = bytes.Repeat([]byte("x"), 32), int64(time.Second)
	line, _ = json.Marshal(all)
	return append(line, '\n')
}

// managed returns a job in which one command starts all agents.
func managed(t *testing.T, mode, role string) launcher.Spec {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	s := onHosts(specOf(role, 2), "n1", "n2", "n3")
	s.Reach.Engine = &engine.Start{
		Engine: "slurm", Title: "Slurm", Job: "Slurm job 7", Once: []string{exe, mode, "n1,n2,n3"},
		NodeIDs: []string{"LAUNCHER_TEST_OTHER", managedVariable},
		Set:     []string{roleVariable + "=" + managerRole}, Drop: []string{"LAUNCHER_TEST_DROP*"},
	}
	return s
}

func TestOneCommandStartsAllAgents(t *testing.T) {
	for _, mode := range []string{"", "domains"} {
		result, out, errs := run(t, managed(t, mode, "place"))
		require.Zero(t, result.ExitCode, "%s\n%s", errs, launcher.Explain(result))
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(got)
		require.Len(t, got, 6)
		for rank, line := range got {
			assert.Equal(t, fmt.Sprintf("rank %d of 6, local rank %d of 2 on node %d of 3", rank, rank%2, rank/2), line)
		}
		assert.Empty(t, errs.String())
	}
}

// gorun hosts check reaches hosts in the same way as a job.
func TestCheckHostsOfManager(t *testing.T) {
	s := managed(t, "", "place")
	s.Apps = nil
	r, err := launcher.CheckHosts(t.Context(), s, launcher.Options{})
	require.NoError(t, err)
	require.Len(t, r.Reached, 3)
	for _, h := range r.Reached {
		assert.True(t, h.OK, h.Name)
	}
	s = managed(t, "refuses", "place")
	s.Apps = nil
	r, err = launcher.CheckHosts(t.Context(), s, launcher.Options{})
	require.NoError(t, err)
	require.Len(t, r.Found, 1)
	assert.Contains(t, r.Found[0].Text, "Unable to create step for job 7: Requested nodes are busy")
	assert.Equal(t, []string{"n1", "n2", "n3"}, r.Found[0].Hosts)
}

func TestAgentsWithoutInput(t *testing.T) {
	home := t.TempDir()
	s := managed(t, "", "place")
	s.Reach.Engine.ByFile = true
	s.Environ = append(s.Environ, "HOME="+home, "XDG_CACHE_HOME=")
	result, _, errs := run(t, s)
	require.Zero(t, result.ExitCode, "%s", errs)
	left, err := filepath.Glob(filepath.Join(home, ".cache", "gorun", "*"))
	require.NoError(t, err)
	assert.Empty(t, left, "the secret is removed")
}

func TestMissingProgramIsBroadcast(t *testing.T) {
	place := t.TempDir()
	s := managed(t, "missing", "place")
	s.Reach.Engine.Bcast = []string{"--bring=" + filepath.Join(place, "{name}")}
	result, _, errs := run(t, s)
	require.Zero(t, result.ExitCode, "%s", errs)
	left, err := os.ReadDir(place)
	require.NoError(t, err)
	assert.Empty(t, left, "what was brought is removed")
}

func TestMissingAgents(t *testing.T) {
	for mode, says := range map[string]struct{ text, hint string }{
		"refuses": {
			"ended before all agents connected (exit code 1): srun: error: Unable to create step for job 7: Requested nodes " +
				"are busy", "squeue -s",
		},
		"incomplete": {"n3: no agent connected within 1s", ""},
		"unknown":    {"an agent connected from other, which is not a host of this job", ""},
		"twice":      {"two agents connected from n1", ""},
		"forger":     {"n[1-3]: no agent connected within 1s", ""},
		"missing":    {"execve()", "it is missing on n3, or differs there"},
	} {
		t.Run(mode, func(t *testing.T) {
			s := managed(t, mode, "place")
			s.Reach.Timeout = 30 * time.Second
			if mode == "incomplete" || mode == "forger" {
				s.Reach.Timeout = time.Second
			}
			_, err := launcher.Run(t.Context(), own(t, s), launcher.Options{})
			var failed *launcher.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, job.ExitLauncher, failed.Code)
			assert.Contains(t, failed.Text, says.text)
			assert.Contains(t, failed.Hint, says.hint)
		})
	}
}

func TestMissingCommand(t *testing.T) {
	s := managed(t, "", "place")
	s.Reach.Engine.Once = []string{filepath.Join(t.TempDir(), "srun")}
	_, err := launcher.Run(t.Context(), own(t, s), launcher.Options{})
	require.ErrorContains(t, err, "no such file")
}

// A resource manager ends the job. Ranks get its signal, at once or later, and no rank is reported as the cause.
func TestManagerEndsJob(t *testing.T) {
	s := managed(t, "", "wait")
	s.Grace = 10 * time.Second
	pid := filepath.Join(t.TempDir(), "pid")
	s.Reach.Engine.Once = append([]string{"/bin/sh", "-c", "echo $$ >" + pid + `; exec "$@"`, "sh"},
		s.Reach.Engine.Once...)
	hurt := make(chan error, 1)
	out := onFirst(func() {
		var number int
		text, err := os.ReadFile(pid)
		if err == nil {
			_, err = fmt.Sscan(string(text), &number)
		}
		hurt <- errors.Join(err, syscall.Kill(number, syscall.SIGUSR2))
	})
	result, err := launcher.Run(t.Context(), own(t, s), with(withOutput(out, io.Discard)))
	require.NoError(t, err)
	require.NoError(t, <-hurt)
	assert.Equal(t, job.CauseEngine, result.Cause)
	assert.Equal(t, 143, result.ExitCode)
	assert.Equal(t, "gorun: killed by Slurm: time limit (Slurm job 7)\nexit 143\n", launcher.Explain(result))
}

// A launcher that exits before all agents have joined leaves no process running.
func TestAgentsEndWithHead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := managed(t, "incomplete", "place")
	s.Reach.Timeout = time.Minute
	_, err := launcher.Run(ctx, own(t, s), with(withProgress(func(p *launcher.Progress) func() {
		watch := time.NewTicker(time.Millisecond)
		over := make(chan struct{})
		go func() {
			defer cancel()
			for {
				select {
				case <-over:
					return
				case <-watch.C:
				}
				if list := p.Hosts(); list[0].Ready && list[1].Ready {
					return
				}
			}
		}()
		return func() { watch.Stop(); close(over) }
	})))
	require.ErrorContains(t, err, "context canceled")
}
