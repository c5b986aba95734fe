package interop

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// freePort returns a free TCP port below Linux's ephemeral range. Another process could get an ephemeral port
// before the job takes it.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no port between 10000 and 30000 is free")
	return ""
}

// ownPort copies examples/torch/own_port.py, as in tutorials, and sets its port. Each test has another port, since
// two tests may run at once.
func ownPort(t *testing.T) (script, port string) {
	t.Helper()
	text, err := os.ReadFile(example(t, "torch/own_port.py"))
	require.NoError(t, err)
	const assignment = `sys.argv[1] if len(sys.argv) > 1 else "12355"`
	require.Contains(t, string(text), assignment)
	port = freePort(t)
	script = filepath.Join(t.TempDir(), "train.py")
	require.NoError(t, os.WriteFile(script, []byte(strings.Replace(string(text), assignment, strconv.Quote(port), 1)),
		0o644))
	return script, port
}

// hiddenPort is the same script, but a module that it imports sets the port, so its own text does not show it.
func hiddenPort(t *testing.T) (script string) {
	t.Helper()
	script, _ = ownPort(t)
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	var settings, rest []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "os.environ[") {
			settings = append(settings, line)
		} else {
			rest = append(rest, line)
		}
	}
	require.Len(t, settings, 2)
	module := "import os\n\n" + strings.Join(settings, "")
	if testneeds.Soak() {
		module += "import time\n\ntime.sleep(25)\n" // longer than until gorun's first look at ranks
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(script), "meeting.py"), []byte(module), 0o644))
	hidden := strings.Replace(strings.Join(rest, ""), "import os\n",
		"import os\n\nimport meeting  # sets MASTER_ADDR and MASTER_PORT\n", 1)
	require.NoError(t, os.WriteFile(script, []byte(hidden), 0o644))
	return script
}

// Scripts that name their own rendezvous port run by default: the program text shows that rank 0 is the server.
func TestScriptsThatNameTheirOwnPort(t *testing.T) {
	python := testneeds.Torch(t)
	t.Run("ranks of the launcher", func(t *testing.T) {
		script, port := ownPort(t)
		got := underGorun(python, "-v", "-n", "2", script).run(t)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "rank 0 of 2 met at port "+port+": sum 3")
		require.Contains(t, got.stdout, "rank 1 of 2 met at port "+port+": sum 3")
		require.Contains(t, got.stderr, script+":17", "-v names the line of the assignment")
	})
	t.Run("ranks of mp.spawn", func(t *testing.T) {
		got := underGorun(python, "-n", "1", example(t, "torch/spawn_ddp.py"), "--port", freePort(t)).run(t)
		require.Contains(t, got.stdout, "spawned rank 0 of 2", got.stderr)
		require.Contains(t, got.stdout, "spawned rank 1 of 2", got.stderr)
		if got.code != 0 { // PyTorch 2.15 sometimes aborts at exit on a busy machine, after all its work
			require.Contains(t, got.stderr, "terminate called without an active exception")
		}
	})
}

// Under gorun, unlike torchrun, consecutive process groups use the launcher's store. An unused function that
// names another port makes no difference.
func TestProcessGroupsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	require.Equal(t, "6 groups, sum 36\n", underGorun(python, "-n", "3", "testdata/again.py").succeed(t))
}

// Consecutive process groups also work if the script names its port and rank 0 leaves each group late. The store of
// rank 0 would close while the other ranks reconnect to it.
func TestProcessGroupsAtAPortOfTheScript(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	text, err := os.ReadFile("testdata/again_own_port.py")
	require.NoError(t, err)
	script := filepath.Join(t.TempDir(), "again.py")
	own := strings.Replace(string(text), "12355", freePort(t), 1)
	require.NoError(t, os.WriteFile(script, []byte(own), 0o644))
	require.Equal(t, "4 groups, sum 15\n", underGorun(python, "-n", "3", script).succeed(t))
}

// If ranks use another store than gorun's, one line suggests a fix. It appears after 20 s, so the jobs run in
// parallel with each other and with other tests.
func TestHintForRanksThatMeetElsewhere(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	forced, _ := ownPort(t)
	for name, args := range map[string][]string{
		"forced":                         {"--store=gorun", "-n", "2", forced},
		"assigned in an imported module": {"-n", "2", hiddenPort(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := underGorun(python, args...).start(t)
			hinted := r.until(t, &r.stderr, "--store=rank0", 1)
			require.True(t, hinted, "the job ended without the hint: %s", r.stderr.String())
			r.signal(t, syscall.SIGINT)
			got := r.wait(t)
			require.Equal(t, 130, got.code, got.stderr)
			require.Equal(t, 1, strings.Count(got.stderr, "--store=rank0"), got.stderr)
		})
	}
}
