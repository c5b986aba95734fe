package child

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain: the children are this program again, which then reads its standard input to
// the end.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "reader" {
		_, _ = os.Stdout.ReadFrom(os.Stdin)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func TestIs(t *testing.T) {
	require.False(t, Is(os.Getpid()))
	c := Command(os.Args[0], "reader")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	pid := c.Process.Pid
	require.True(t, Is(pid))
	require.NoError(t, in.Close())
	require.ErrorContains(t, c.Wait(), "exit status 3")
	require.False(t, Is(pid), "the number may be another's by now")
}

func TestOutput(t *testing.T) {
	text, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer text.Close()
	c := CommandContext(context.Background(), os.Args[0], "reader")
	c.Stdin = text
	out, err := c.Output()
	require.ErrorContains(t, err, "exit status 3")
	info, err := text.Stat()
	require.NoError(t, err)
	require.Len(t, out, int(info.Size()))
	require.False(t, Is(c.Process.Pid))

	out, err = Command(os.Args[0], "reader").CombinedOutput()
	require.ErrorContains(t, err, "exit status 3")
	require.Empty(t, out)
}

func TestNotStarted(t *testing.T) {
	missing := Command("/does/not/exist")
	require.ErrorIs(t, missing.Run(), os.ErrNotExist)
	require.Error(t, missing.Wait())
	_, err := Command("/does/not/exist").Output()
	require.ErrorIs(t, err, os.ErrNotExist)
}
