package process_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
)

// Data that a main thread waits for counts, unlike what wakes up by a timer, and what helpers receive.
func TestMainThreads(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	poll := "exec " + binary + " " + roleArg + " poll "
	for _, c := range []struct {
		command  string
		messages int // to it between two looks, of which the first may end a wait of before
		receives bool
	}{
		{"exec cat", 3, true},
		{"cat; exit", 3, true}, // the shell leaves the work to it
		{"sleep 1h & exec timeout 1h cat", 3, false},
		{poll + "poll -1", 3, true},
		{poll + "poll 3600000", 3, true},
		{poll + "ppoll 3600000", 3, true},
		{poll + "poll 5", 0, false},
		{poll + "ppoll 5", 0, false},
		{"while :; do sleep 0.002; done", 0, false},
	} {
		t.Run(strings.ReplaceAll(c.command, binary, "binary"), func(t *testing.T) {
			rank := exec.Command("/bin/sh", "-c", c.command)
			rank.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			in, err := rank.StdinPipe()
			require.NoError(t, err)
			out, err := rank.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, rank.Start())
			defer func() {
				require.NoError(t, syscall.Kill(-rank.Process.Pid, syscall.SIGKILL))
				_ = rank.Wait()
			}()
			session, lines := rank.Process.Pid, bufio.NewReader(out)
			var did process.MainThread
			var mains process.MainThreads
			most := 100
			if c.receives {
				most = 10_000 // on a busy machine it seldom waits again already when it is looked at
			}
			for talked := 0; did.Received == 0 && talked < most && (c.messages > 0 || did.Runs < 20); {
				for range c.messages {
					_, err = io.WriteString(in, "data\n")
					require.NoError(t, err)
					_, err = lines.ReadString('\n')
					require.NoError(t, err)
					talked++
				}
				// its start is over at the first look, and looks are not too close
				for past := runs(t, session); c.messages == 0 && runs(t, session) < past+50; {
				}
				loads, err := process.Loads([]int{session}, nil, &mains)
				require.NoError(t, err)
				did = loads[session].Main
			}
			assert.Equal(t, c.receives, did.Received > 0)
			if c.messages == 0 {
				assert.Positive(t, did.CPU)
			}
		})
	}
}

// runs returns how often the main thread of a process has waited.
func runs(t *testing.T, pid int) (n int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	_, err = fmt.Sscan(after, &n)
	require.NoError(t, err)
	return n
}
