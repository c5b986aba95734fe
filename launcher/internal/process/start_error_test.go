package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/process"
)

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	missing := filepath.Join(dir, "missing")
	plain := file("plain", "hello\n", 0o644)
	garbage := file("garbage", "hello\n", 0o755)
	script := file("script", "#! /no/python -u\n", 0o755)
	object := file("object", foreignLoader(t), 0o755)
	long := strings.Repeat("x", 128<<10)
	many := make([]string, 100)
	for i := range many {
		many[i] = long[:100<<10]
	}
	for _, c := range []struct {
		name   string
		common process.Common
		op     string
		err    syscall.Errno
		says   string
	}{
		{"missing", process.Common{Path: missing}, "exec", syscall.ENOENT, "start rank 3: exec " + missing +
			": no such file or directory"},
		{
			"no run bit",
			process.Common{Path: plain},
			"exec", syscall.EACCES,
			"permission denied: it is not executable (chmod +x FILE)",
		},
		{"directory", process.Common{Path: dir}, "exec", syscall.EACCES, "permission denied: it is a directory"},
		{
			"no program",
			process.Common{Path: garbage},
			"exec", syscall.ENOEXEC,
			"it is not a program for this machine and has no #! line",
		},
		{
			"interpreter",
			process.Common{Path: script},
			"exec", syscall.ENOENT,
			`the interpreter in its first line does not: "/no/python"`,
		},
		{
			"relative",
			process.Common{Path: "./script"},
			"exec", syscall.ENOENT,
			`the interpreter in its first line does not: "/no/python"`,
		},
		{"loader", process.Common{Path: object}, "exec", syscall.ENOENT, "but the dynamic loader"},
		{"directory to be in", process.Common{Path: self}, "chdir", syscall.ENOENT, "start rank 3: chdir " +
			missing + ": no such file"},
		{
			"long variable",
			process.Common{Path: self, Env: []string{"A=b", "LONG=" + long}},
			"exec", syscall.E2BIG,
			"the string LONG=… has 131077 bytes",
		},
		{
			"long argument",
			process.Common{Path: self, Argv: []string{long}},
			"exec", syscall.E2BIG,
			`the string "xxxxxxxxxxxxxxxxxxxxxxxx"… has`,
		},
		{
			"many arguments",
			process.Common{Path: self, Argv: many},
			"exec", syscall.E2BIG,
			"arguments and environment have 10240900 bytes, and the kernel's limit is",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, g group) {
				if c.common.Argv == nil {
					c.common.Argv = []string{"x"}
				}
				ranks := []process.Rank{piped(3), piped(4)}
				ranks[0].Dir = map[string]string{"relative": dir, "directory to be in": missing}[c.name]
				err := g.Start(c.common, ranks)
				var start *process.StartError
				require.ErrorAs(t, err, &start)
				assert.Equal(t, c.op, start.Op)
				assert.ErrorIs(t, err, c.err)
				assert.ErrorContains(t, err, c.says)
				assert.NotContains(t, err.Error(), "\n")
				assert.Equal(t, 3, start.ID)
				assert.ErrorIs(t, g.Signal(3, syscall.SIGTERM), process.ErrNotStarted)
			})
		})
	}
}

// foreignLoader returns a copy of /bin/true that needs a missing loader.
func foreignLoader(t *testing.T) string {
	text, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	name := "/ld-linux"
	require.Contains(t, string(text[:4096]), name)
	return strings.Replace(string(text), name, "/no-linux", 1)
}

// Ranks before a rank that fails to start keep running. Those after it do not start.
func TestOthersStayWhenARankFails(t *testing.T) {
	g := newGroup(t, 2)
	var ranks []process.Rank
	for id := range 64 {
		ranks = append(ranks, piped(id))
	}
	ranks[5].Path = "/no/such/program"
	err := g.Start(process.Common{Path: self, Argv: role("wait")}, ranks)
	var start *process.StartError
	require.ErrorAs(t, err, &start)
	assert.Equal(t, 5, start.ID)
	assert.Equal(t, "/no/such/program", start.Path)
	for id := range 5 {
		assert.NoError(t, g.Signal(id, syscall.SIGKILL))
		g.await(ranks[id])
	}
	assert.ErrorIs(t, g.Signal(63, syscall.SIGKILL), process.ErrNotStarted)
}

// manyLaunched runs a launcher of many ranks with limits of open files. It returns the results of check, start and
// close.
func manyLaunched(t *testing.T, ranks, soft, hard string) string {
	launcher := exec.Command(self)
	launcher.Args = append(role("limited", soft, hard), role("many", ranks)...)
	out, err := launcher.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "close: <nil>")
	return string(out)
}

func TestTooFewDescriptors(t *testing.T) {
	out := manyLaunched(t, "64", "20", "64")
	says := `64 ranks need at least 2\d\d: the hard limit of open files \(ulimit -Hn\) is 64, and \d+ are in use`
	assert.Regexp(t, `check: `+says, out)
	assert.Regexp(t, `start: start rank \d+: (open standard streams|clone): too many open files: `+says, out)
	assert.Contains(t, manyLaunched(t, "8", "20", "64"), "check: <nil>\nstart: <nil>")
	assert.Contains(t, manyLaunched(t, "64", "20", "300"), "check: <nil>\nstart: <nil>",
		"Go raises the soft limit for itself")
}

func TestTooFewProcesses(t *testing.T) {
	testneeds.Root(t) // to become a user without processes
	launcher := exec.Command(self)
	launcher.Args = role("crowded", "40")
	launcher.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := launcher.CombinedOutput()
	require.NoError(t, err, "%s", out)
	says := `64 ranks need at least \d+: the user's limit of processes \(ulimit -u\) is 40, and [1-9]\d? are in use`
	assert.Regexp(t, "^few: <nil>\nmany: "+says+"\nfork: "+says+"\n$", string(out))
}

func TestCgroupLimitIsTheTightest(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for name, n := range map[string][2]string{
		"": {"max", "500"}, "slice": {"100", "95"}, "slice/job": {"60", "20"},
		"slice/job/step": {"max", "7"},
	} {
		write(name+"/pids.max", n[0]+"\n")
		write(name+"/pids.current", n[1]+"\n")
		write("pids/v1"+name+"/pids.max", n[0]+"\n")
		write("pids/v1"+name+"/pids.current", n[1]+"\n")
	}
	for _, c := range []struct{ membership, group string }{
		{"0::/slice/job/step\n", "slice"},
		{"4:memory:/x\n3:pids:/v1slice/job\n1:name=systemd:/y\n0::/\n", "pids/v1slice"},
		{"0::/gone/below/slice\n", ""},
		{"nonsense\n", ""},
	} {
		write("membership", c.membership)
		name, most, used := process.CgroupTasks(filepath.Join(root, "membership"), root)
		if c.group == "" {
			assert.Empty(t, name)
			continue
		}
		assert.Equal(t, filepath.Join(root, c.group, "pids.max"), name)
		assert.Equal(t, []int{100, 95}, []int{most, used})
	}
}
