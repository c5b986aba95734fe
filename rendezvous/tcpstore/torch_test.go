package tcpstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// pythonVariable overrides the Python with PyTorch in .venv.
const pythonVariable = "GORUN_TEST_PYTHON"

// torchPython returns a Python with PyTorch 2.2 or later, or skips the test.
func torchPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = filepath.Join("..", "..", ".venv", "bin", "python")
		if _, err := os.Stat(python); err != nil {
			testneeds.Skip(t, testneeds.LayerTorch, fmt.Sprintf("%v, and %s is not set", err, pythonVariable))
		}
	}
	const ask = "from importlib.metadata import version; print(*version('torch').split('.')[:2])"
	answer, err := exec.Command(python, "-c", ask).CombinedOutput()
	if err != nil {
		testneeds.Skip(t, testneeds.LayerTorch, fmt.Sprintf("%s has no PyTorch: %v: %s", python, err, answer))
	}
	var major, minor int
	_, err = fmt.Sscan(string(answer), &major, &minor)
	require.NoError(t, err, "%s", answer)
	if major < 2 || major == 2 && minor < 2 {
		testneeds.Skip(t, testneeds.LayerTorch, fmt.Sprintf("%s has PyTorch %d.%d, which is too old", python, major, minor))
	}
	return python
}

// script runs a Python program and returns its output.
func script(ctx context.Context, t *testing.T, python string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "TORCH_CPP_LOG_LEVEL=FATAL", "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	var errors strings.Builder
	cmd.Stderr = &errors
	output, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", output, errors.String())
	var lines []string
	for scanner := bufio.NewScanner(strings.NewReader(string(output))); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}

// TestTorchClient makes PyTorch's own client perform all operations with our server, together with a Go client. The
// same cases pass with PyTorch's server.
func TestTorchClient(t *testing.T) {
	python := torchPython(t)
	s := open(t, Config{})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	met := make(chan error, 1)
	go func() { met <- meetTorch(ctx, c) }()

	lines := script(t.Context(), t, python, filepath.Join("testdata", "torch_client.py"), "127.0.0.1",
		fmt.Sprint(s.Addr().Port()))
	require.Equal(t, "end", lines[len(lines)-1])
	ran := 0
	for _, line := range lines[:len(lines)-1] {
		t.Log(line)
		if strings.HasPrefix(line, "ok ") {
			ran++
		}
	}
	require.GreaterOrEqual(t, ran, 10, "PyTorch 2.2 knows as many")
	if strings.Contains(strings.Join(lines, "\n"), "skipped barrier") {
		cancel()
		<-met
	} else {
		require.NoError(t, <-met)
		cancel()
	}
	require.Contains(t, s.log.text(), `"/text" holds "abc", which is not a number`)
}

// meetTorch is the Go rank of the cases from_go and barrier_with_go.
func meetTorch(ctx context.Context, c *Client) error {
	if err := c.Set(ctx, "from go", []byte("hello")); err != nil {
		return err
	}
	value, err := c.Get(ctx, "shared/x")
	if err == nil && string(value) != "from torch" {
		err = fmt.Errorf("torch set %q", value)
	}
	if err == nil {
		_, err = c.Get(ctx, "from torch")
	}
	if err == nil {
		err = c.Barrier(ctx, "with go", 2)
	}
	if err == nil {
		err = meetPrefixStore(ctx, c, "shared/with go")
	}
	return err
}

// meetPrefixStore is a member of a barrier of PyTorch's PrefixStore, which counts under one key and opens with
// another.
func meetPrefixStore(ctx context.Context, c *Client, key string) error {
	if n, err := c.Add(ctx, key+"/num_members", 1); err != nil || n > 1 {
		return errors.Join(err, c.Set(ctx, key+"/last_member", []byte("1")))
	}
	return c.Wait(ctx, key+"/last_member")
}

// torchServer hosts a store like rank 0, until its input ends.
const torchServer = `
import sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), None, is_master=True, use_libuv=sys.argv[2] == "libuv", ` +
	`wait_for_workers=False)
store.set("from torch", "hello")
print(store.port, flush=True)
sys.stdin.read()
`

// TestReservedPortIsForTorch makes rank 0 listen on a reserved port, with each of PyTorch's servers, and our client
// use it.
func TestReservedPortIsForTorch(t *testing.T) {
	python := torchPython(t)
	for _, server := range []string{"libuv", "legacy"} {
		t.Run(server, func(t *testing.T) {
			r, err := Reserve("", 0)
			require.NoError(t, err)
			defer r.Close()
			cmd := exec.CommandContext(t.Context(), python, "-c", torchServer, fmt.Sprint(r.Addr().Port()), server)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			cmd.Stderr = os.Stderr
			cmd.Env = append(os.Environ(), "TORCH_CPP_LOG_LEVEL=FATAL")
			require.NoError(t, cmd.Start())
			defer func() {
				stdin.Close()
				require.NoError(t, cmd.Wait())
			}()
			c, err := Dial(t.Context(), r.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			useTorchServer(t, c, server == "libuv")
		})
	}
}

func useTorchServer(t *testing.T, c *Client, queues bool) {
	ctx := t.Context()
	value, err := c.Get(ctx, "from torch")
	require.NoError(t, err)
	require.Equal(t, "hello", string(value))
	require.NoError(t, c.Set(ctx, "k", []byte("v")))
	require.NoError(t, c.MultiSet(ctx, "a", "1"))
	values, err := c.MultiGet(ctx, "k", "a")
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("v"), []byte("1")}, values)
	sum, err := c.Add(ctx, "a", 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, sum)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Wait(short, "never"), context.DeadlineExceeded)
	there, err := c.Check(ctx, "never")
	require.NoError(t, err)
	require.False(t, there)
	if queues {
		require.NoError(t, c.QueuePush(ctx, "q", []byte("v")))
		value, err = c.QueuePop(ctx, "q")
		require.NoError(t, err)
		require.Equal(t, "v", string(value))
	}
}
