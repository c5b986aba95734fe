package testslurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// patience limits waits for daemons and jobs, which usually take seconds; pause is the polling interval.
const (
	patience = time.Minute
	pause    = 20 * time.Millisecond
)

// maxAttempts limits the starts of a cluster after conflicts of ports.
const maxAttempts = 5

// Config describes a cluster. The zero value is useful.
type Config struct {
	Nodes    int      // n1 to nN; 0: 4
	CPUs     int      // claimed by each node, whatever the host has; 0: 4
	GPUs     int      // fake ones of each node, for --gpus-per-node and the like
	Names    bool     // n1 to nN resolve to 127.0.0.1 for jobs and for Command; needs a mount namespace
	KillWait int      // seconds from SIGTERM to SIGKILL when a job's time is over; 0: 5
	Lines    []string // of slurm.conf, such as "JobRequeue=0"; they replace lines with the same key
}

// Cluster is a running Slurm. Its methods may be called concurrently.
type Cluster struct {
	config   Config
	dir      string
	lifeline io.Closer
	guard    *exec.Cmd

	mu      sync.Mutex
	daemons map[string]*daemon // "munged", "slurmctld", "n1"
}

// Start makes a cluster for a test, which ends with it; a test that fails prints the daemons' logs. It skips the
// test if
// the machine lacks what is needed.
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	testneeds.Slurm(t)
	c, err := Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.logFailure(t)
	return c
}

// logFailure prints the logs if the test fails.
func (c *Cluster) logFailure(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
}

// Open makes a cluster outside a test, such as in TestMain (after testneeds.FindSlurm) or a program. The caller must
// call
// Close.
func Open(config Config) (*Cluster, error) {
	config.Nodes, config.CPUs = cmp.Or(config.Nodes, 4), cmp.Or(config.CPUs, 4)
	config.KillWait = cmp.Or(config.KillWait, 5)
	var problems []error
	for range maxAttempts {
		c, err := open(config)
		if err == nil {
			return c, nil
		}
		problems = append(problems, err)
		if !errors.Is(err, errPort) {
			break
		}
	}
	return nil, fmt.Errorf("start a Slurm of %d nodes: %w", config.Nodes, errors.Join(problems...))
}

// open tries once.
func open(config Config) (*Cluster, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, dir: dir, daemons: map[string]*daemon{}}
	if err := c.start(); err != nil {
		if c.portTaken() {
			err = errPort
		}
		return nil, errors.Join(err, errors.New(c.Logs()), c.Close())
	}
	return c, nil
}

// start starts the guard first, so that it cleans up if this process dies meanwhile.
func (c *Cluster) start() error {
	if err := c.startGuard(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.startMunge(); err != nil {
		return err
	}
	if err := c.startDaemon("slurmctld", "slurmctld", "-D", "-c", "-f", c.ConfigFile()); err != nil {
		return err
	}
	if err := c.until("slurmctld answers", func() (bool, error) {
		out, _ := c.CommandContext(context.Background(), "scontrol", "ping").Output()
		return strings.Contains(string(out), " is UP"), nil
	}); err != nil {
		return err
	}
	for _, node := range c.Nodes() {
		if err := c.startNode(node); err != nil {
			return err
		}
	}
	return c.awaitNodes(c.Nodes()...)
}

// Close kills every process of the cluster and its jobs, and removes its folder. It may be called again.
func (c *Cluster) Close() error {
	err := c.until("end all processes", func() (bool, error) {
		left, err := c.Processes()
		for _, p := range left {
			err = errors.Join(err, p.kill())
		}
		return len(left) == 0, err
	})
	c.mu.Lock()
	for _, d := range c.daemons {
		<-d.ended
	}
	c.mu.Unlock()
	err = errors.Join(err, os.RemoveAll(c.dir))
	if c.guard != nil {
		err = errors.Join(err, c.lifeline.Close(), c.guard.Wait())
		c.guard = nil
	}
	return err
}

// Dir returns the cluster's folder, which Close removes.
func (c *Cluster) Dir() string { return c.dir }

// ConfigFile returns the path of slurm.conf: the value of SLURM_CONF for all processes of the cluster.
func (c *Cluster) ConfigFile() string { return filepath.Join(c.dir, "slurm.conf") }

// Nodes returns the names n1 to nN.
func (c *Cluster) Nodes() []string {
	names := make([]string, c.config.Nodes)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i+1)
	}
	return names
}

// Environ returns this process's environment for commands of the cluster: with its SLURM_CONF, and without Slurm's
// other
// variables, so that tests may themselves run in a job.
func (c *Cluster) Environ() []string {
	var environ []string
	for _, pair := range new(exec.Cmd).Environ() { // of os.Environ
		if !strings.HasPrefix(pair, "SLURM") && !strings.HasPrefix(pair, "SALLOC_") && !strings.HasPrefix(pair, "SBATCH_") {
			environ = append(environ, pair)
		}
	}
	return append(environ, "SLURM_CONF="+c.ConfigFile())
}

// Command returns a command with Environ, such as salloc, srun or scancel. The process is the program itself, and gets
// SIGTERM when the test ends.
func (c *Cluster) Command(t testing.TB, name string, args ...string) *exec.Cmd {
	return c.CommandContext(t.Context(), name, args...)
}

// inside returns the argv of a program that can resolve the nodes' names, in the current folder.
func (c *Cluster) inside(name string, args ...string) []string {
	argv := append([]string{name}, args...)
	if !c.config.Names {
		return argv
	}
	// Entering a mount namespace changes to its root, so the script changes back.
	script := `exec nsenter --mount=/proc/` + strconv.Itoa(c.guard.Process.Pid) +
		`/ns/mnt -- /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"`
	return append([]string{"/bin/sh", "-c", script, "testslurm"}, argv...)
}

// CommandContext is Command outside a test: the program gets SIGTERM when ctx ends.
func (c *Cluster) CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	argv := c.inside(name, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = c.Environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // SIGKILL would leave salloc's allocation
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a Command that must succeed and returns its trimmed output.
func (c *Cluster) run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stderr strings.Builder
	cmd := c.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// until polls done.
func (c *Cluster) until(what string, done func() (bool, error)) error {
	for limit := time.Now().Add(patience); ; time.Sleep(pause) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
}

// Shared is one cluster for the tests of a package. The first call of Cluster starts it.
//
//	var slurm = testslurm.Shared{Config: testslurm.Config{GPUs: 2}}
//
//	func TestMain(m *testing.M) { code := m.Run(); _ = slurm.Close(); os.Exit(code) }
type Shared struct {
	Config Config

	mu      sync.Mutex
	cluster *Cluster
	err     error
}

// Cluster returns the cluster, or skips the test if the machine lacks what is needed.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	testneeds.Slurm(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		s.cluster, s.err = Open(s.Config)
	}
	require.NoError(t, s.err)
	s.cluster.logFailure(t)
	return s.cluster
}

// Close stops the cluster if it was started.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
