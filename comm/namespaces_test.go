//go:build linux && cgo

package comm_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

// layerNamespaces requires permission to create network namespaces, and the programs ip and nsenter.
const layerNamespaces testneeds.Layer = "namespaces"

// farRank is the variable that turns the test binary into a rank: "rank size store timeout".
const farRank = "COMM_TEST_FAR_RANK"

const farStore = "10.213.77.1:29555"

// TestFarRank is the entry point of a rank that another test starts. It reads a line before it joins. For each further
// line it runs an all-reduce and prints a line. At the end it prints the error.
func TestFarRank(*testing.T) {
	role := os.Getenv(farRank)
	if role == "" {
		return
	}
	var rank, size int
	var timeout time.Duration
	fmt.Sscan(role, &rank, &size, (*int64)(&timeout))
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	g, err := comm.Join(context.Background(), comm.WithRank(rank, size), comm.WithStore(farStore),
		comm.WithTimeout(timeout),
		comm.WithKey(bytes.Repeat([]byte{7}, 32)))
	values := make([]float32, 300_000)
	for err == nil && input.Scan() {
		for i := range values {
			values[i] = float32(rank + 1)
		}
		if err = comm.AllReduce(context.Background(), g, values, values, comm.Sum); err == nil {
			fmt.Println("sum", values[len(values)-1])
		}
	}
	fmt.Println("end", err)
	os.Exit(0)
}

// A far is the test's handle of a rank in a network namespace.
type far struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

func (f *far) says(t *testing.T) string {
	t.Helper()
	require.True(t, f.lines.Scan(), "it ended early")
	return f.lines.Text()
}

func (f *far) tell(t *testing.T) {
	t.Helper()
	_, err := f.input.Write([]byte("\n"))
	require.NoError(t, err)
}

// farGroup starts two ranks in each of two network namespaces with a veth pair between them. The namespaces end with
// the ranks.
func farGroup(t *testing.T, timeout time.Duration) (ranks []*far) {
	t.Helper()
	testneeds.Root(t)
	ip, nsenter := testneeds.Program(t, layerNamespaces, "ip"), testneeds.Program(t, layerNamespaces, "nsenter")
	self, err := os.Executable()
	require.NoError(t, err)
	for rank := range 4 {
		command := []string{self, "-test.run=^TestFarRank$"}
		if rank%2 == 1 {
			command = append([]string{nsenter, "-t", fmt.Sprint(ranks[rank-1].cmd.Process.Pid), "-n", "--"}, command...)
		}
		ranks = append(ranks, startFar(t, command, rank%2 == 0, fmt.Sprintf("%d 4 %d", rank, timeout)))
	}
	a, b := fmt.Sprint(ranks[0].cmd.Process.Pid), fmt.Sprint(ranks[2].cmd.Process.Pid)
	command(t, nsenter, "-t", a, "-n", ip, "link", "add", "far0", "type", "veth", "peer", "name", "far0", "netns", b)
	for i, pid := range []string{a, b} {
		command(t, nsenter, "-t", pid, "-n", ip, "addr", "add", fmt.Sprintf("10.213.77.%d/24", i+1), "dev", "far0")
		command(t, nsenter, "-t", pid, "-n", ip, "link", "set", "lo", "up")
		command(t, nsenter, "-t", pid, "-n", ip, "link", "set", "far0", "up")
	}
	for _, f := range ranks {
		f.tell(t)
	}
	return ranks
}

func startFar(t *testing.T, command []string, fresh bool, role string) *far {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), farRank+"="+role)
	cmd.Stderr = os.Stderr
	if fresh {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	}
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	err = cmd.Start()
	if fresh && err != nil {
		testneeds.Skip(t, layerNamespaces, err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &far{cmd, input, bufio.NewScanner(output)}
}

func command(t *testing.T, command ...string) {
	t.Helper()
	said, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, "%s\n%s", strings.Join(command, " "), said)
}

func reduceFar(t *testing.T, ranks []*far) {
	t.Helper()
	for range 3 {
		for _, f := range ranks {
			f.tell(t)
		}
		for _, f := range ranks {
			require.Equal(t, "sum 10", f.says(t))
		}
	}
}

func TestKilledRankInAnotherNamespace(t *testing.T) {
	t.Parallel()
	ranks := farGroup(t, time.Minute)
	reduceFar(t, ranks)
	for _, f := range ranks[:3] {
		f.tell(t)
	}
	require.NoError(t, ranks[3].cmd.Process.Kill())
	for _, f := range ranks[:3] {
		assert.Equal(t, "end comm: rank 3 is lost: its process ended (during AllReduce of 300000 float32 (sum))", f.says(t))
	}
}

func TestStoppedRankInAnotherNamespace(t *testing.T) {
	t.Parallel()
	ranks := farGroup(t, 2*time.Second)
	reduceFar(t, ranks)
	require.NoError(t, ranks[2].cmd.Process.Signal(syscall.SIGSTOP))
	for _, rank := range []int{0, 1, 3} {
		ranks[rank].tell(t)
	}
	for _, rank := range []int{0, 1, 3} {
		assert.Regexp(t, `^end comm: AllReduce of 300000 float32 \(sum\): no answer from rank 2 within `, ranks[rank].says(t))
	}
}
