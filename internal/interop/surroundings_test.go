package interop

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// nobody is the user id of an account without rights or a home directory.
const nobody = 65534

// requireMet checks how many times the output holds the line that rank 0 of examples/hello prints once all ranks
// are connected.
func requireMet(t *testing.T, output string, jobs int) {
	t.Helper()
	require.Equal(t, jobs, strings.Count(output, "all ranks met"), output)
}

func TestTwoJobsAtOnce(t *testing.T) {
	first, second := gorun("-n", "4", built("hello")).start(t), gorun("-n", "4", built("hello")).start(t)
	for _, r := range []*running{first, second} {
		got := r.wait(t)
		require.Zero(t, got.code, got.stderr)
		requireMet(t, got.stdout, 1)
	}
}

func TestJobInsideARank(t *testing.T) {
	output := gorun("-n", "2", built("gorun"), "-n", "2", built("hello")).succeed(t)
	requireMet(t, output, 2)
}

// The ranks of the inner job must see their own numbers and store, and carry the marks of both jobs.
func TestJobInsideARankHasItsOwnIdentity(t *testing.T) {
	ranks := gorun("-n", "1", built("gorun"), "-n", "2", self(t)).tell(t)
	require.Len(t, ranks, 2)
	for number, rank := range ranks {
		require.Equal(t, "2", rank.Environ["WORLD_SIZE"])
		require.Equal(t, []string{"0", "1"}[number], rank.Environ["RANK"])
		require.Equal(t, 1, strings.Count(rank.Environ["GORUN_JOB"], ":"), "outer:inner, got %s", rank.Environ["GORUN_JOB"])
	}
	require.Equal(t, ranks[0].Environ["GORUN_JOB_STORE"], ranks[1].Environ["GORUN_JOB_STORE"])
}

func TestFolderWithSpaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), " a folder; with $(odd) 'names'\n")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Symlink(self(t), filepath.Join(dir, "my program")))

	j := gorun("-n", "2", "./my program", "an argument", "", "$HOME", "*")
	j.dir = dir
	ranks := j.tell(t)
	require.Len(t, ranks, 2)
	for _, rank := range ranks {
		require.Equal(t, dir, rank.Dir)
		require.Equal(t, []string{"an argument", "", "$HOME", "*"}, rank.Args)
	}
	require.Equal(t, dir, gorun("-n", "1", "--chdir", dir, self(t)).tell(t)[0].Dir)
}

func TestWithoutHome(t *testing.T) {
	j := gorun("-n", "2", self(t))
	j.without = []string{"HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "TMPDIR"}
	ranks := j.tell(t)
	require.Len(t, ranks, 2)
	require.NotContains(t, ranks[0].Environ, "HOME")
}

func TestAsAnotherUser(t *testing.T) {
	testneeds.Root(t)
	// The test binary is in a folder that only its builder may enter.
	own := filepath.Join(bin, "rank")
	require.NoError(t, exec.Command("cp", self(t), own).Run())

	j := gorun("-n", "2", own)
	j.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	j.dir = "/"
	j.without = []string{"HOME"}
	ranks := j.tell(t)
	require.Len(t, ranks, 2)
	require.Equal(t, nobody, ranks[0].UID)

	j.argv = []string{built("gorun"), "-n", "4", built("hello")}
	requireMet(t, j.succeed(t), 1)
}

// Standard input goes to rank 0 only; the others read end-of-file at once.
func TestStdinEnds(t *testing.T) {
	j := gorun("-n", "2", self(t))
	j.stdin = strings.NewReader("for rank 0")
	ranks := j.tell(t)
	require.False(t, ranks[0].StdinEnded)
	require.True(t, ranks[1].StdinEnded)
}

// A launcher without descriptors 0, 1 and 2 still runs its job, and its status gives the result.
func TestAllDescriptorsClosed(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	j := job{argv: []string{self(t), built("gorun"), "-n", "1", "touch", marker}}
	got := j.with(roleVariable + "=closed").run(t)
	require.Zero(t, got.code, got.stderr)
	require.FileExists(t, marker)

	j.argv = []string{self(t), built("gorun"), "-n", "2", "false"}
	require.Equal(t, 1, j.with(roleVariable+"=closed").run(t).code)
}

// `gorun … | head -1`: the ranks end when the reader closes the pipe, and the status shows the reason.
func TestReaderThatCloses(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	j := gorun("-n", "4", self(t)).with(roleVariable + "=chatter")
	j.stdout = writer
	r := j.start(t)
	require.NoError(t, writer.Close())

	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^line \d+\n$`, line)
	require.NoError(t, reader.Close())
	require.Equal(t, 141, r.wait(t).code)
}
