package bootstrap

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/remote"
)

func TestArgumentsAreNeverShell(t *testing.T) {
	odd := []string{
		"a b", "it's", "$(touch owned)", "`id`", "!!", `back\slash\\`, "new\nline\n", "-x", "", "%s", "~",
		"*", "{a,b}", "ü", "\xff", "#",
	}
	shells(t, func(t *testing.T, shell string) {
		m := newMachine(t, shell)
		s, err := Start(deadline(t), m, config(t, odd...))
		require.NoError(t, err)
		echoes(t, s, odd...)
		require.NoFileExists(t, filepath.Join(m.home, "owned"))
	})
}

func TestInstalledAgent(t *testing.T) {
	exe := plain(t).Path
	shells(t, func(t *testing.T, shell string) {
		m := newMachine(t, shell)
		odd := filepath.Join(m.home, `it's $(here)!`)
		require.NoError(t, os.Symlink(exe, odd))
		s, err := Start(deadline(t), m, Config{Agent: odd, Args: []string{"agent"}})
		require.NoError(t, err)
		echoes(t, s)
		require.Empty(t, m.cached())

		m.environ = []string{"PATH=" + m.home + ":" + os.Getenv("PATH")}
		require.NoError(t, os.Symlink(exe, filepath.Join(m.home, "gorun")))
		s, err = Start(deadline(t), m, Config{Agent: "gorun", Args: []string{"agent"}})
		require.NoError(t, err)
		echoes(t, s)

		_, err = Start(deadline(t), m, Config{Agent: "/no\n/gorun"})
		hasStep(t, err, remote.StepStart, `--agent "/no\n/gorun": not found`)
	})
	_, err := Start(deadline(t), newMachine(t, "sh"), Config{Agent: "-x"})
	hasStep(t, err, remote.StepConfig, "./-x")
}

func TestTwoStartsAtOnce(t *testing.T) {
	m := newMachine(t, "sh")
	var all sync.WaitGroup
	streams, errs := make([]*Stream, 6), make([]error, 6)
	for i := range streams {
		all.Go(func() { streams[i], errs[i] = Start(deadline(t), m, config(t)) })
	}
	all.Wait()
	for i := range streams {
		require.NoError(t, errs[i])
		echoes(t, streams[i])
	}
	require.Len(t, m.cached(), 1)
}

// The copy of a start that was faster stays, as it may run. Its mv renames the directory, or fails as those without
// RENAME_NOREPLACE do.
func TestAnotherStartIsFaster(t *testing.T) {
	for _, test := range []struct {
		other, mv string
		stays     bool
	}{
		{`cp -r "$1" "$2"`, `exec "$mv" "$@"`, true},
		{`cp -r "$1" "$2"`, "exit 1", true},
		{`mkdir "$2"`, `exec "$mv" "$@"`, false},
	} {
		m, bin := newMachine(t, "sh"), t.TempDir()
		first := filepath.Join(m.home, "first")
		script := "#!/bin/sh\nmv=" + testneeds.Program(t, layerShells, "mv") + "\n[ -e " + first + " ] && exec $mv \"$@\"\n" +
			test.other + "; ln \"$2/gorun\" " + first + " || touch " + first + "\n" + test.mv + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, "mv"), []byte(script), 0o700))
		m.environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		s, err := Start(deadline(t), m, config(t))
		require.NoError(t, err)
		echoes(t, s)
		require.Len(t, m.cached(), 1)
		was, err := os.Stat(first)
		require.NoError(t, err)
		is, err := os.Stat(filepath.Join(m.home, ".cache/gorun", m.cached()[0]))
		require.NoError(t, err)
		require.Equal(t, test.stays, os.SameFile(was, is))
	}
}

func TestTransferThatIsCutOff(t *testing.T) {
	m := newMachine(t, "sh")
	m.cut = 100 << 10
	_, err := Start(deadline(t), m, config(t))
	hasStep(t, err, remote.StepCopy, m.home+"/.cache/gorun: ", "zstd cannot unpack what arrived of gorun")
	require.Equal(t, 1, strings.Count(err.Error(), "stdin"), "what zstd says of it: %v", err)
	require.Contains(t, err.(*remote.Error).Hint, "--agent PATH")
	require.Empty(t, m.cached())

	m.cut = 0
	s, err := Start(deadline(t), m, config(t))
	require.NoError(t, err)
	echoes(t, s)
}

// A reserve that nothing was written to starts, as a script.
func TestUnpackerThatWritesNothing(t *testing.T) {
	m, bin := newMachine(t, "sh"), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "zstd"), []byte("#!/bin/sh\ncat >/dev/null\n"), 0o700))
	m.environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	_, err := Start(deadline(t), m, config(t))
	hasStep(t, err, remote.StepStart, m.home+"/.cache/gorun: what arrived is no program")
	require.Empty(t, m.cached())
}

// A host whose input stops without end-of-file gives up. The script's seconds are short in this test.
func TestTransferThatStops(t *testing.T) {
	m := newMachine(t, "sh")
	m.mute = true
	m.environ = []string{"PATH=" + hasty(t) + ":" + os.Getenv("PATH")}
	for _, m.cut = range []int{5, 100 << 10} { // before the file and in it
		_, err := Start(deadline(t), m, config(t))
		hasStep(t, err, remote.StepCopy, "not all of it came within 60 seconds")
		m.settled()
		require.Empty(t, m.cached())
	}

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o600))
	b, err := ReadBundle(dir, []string{"big"})
	require.NoError(t, err)
	_, err = Copy(deadline(t), m, b, time.Minute)
	hasStep(t, err, remote.StepCopy, "not all of it came within 60 seconds")
	m.settled()
	left, _ := os.ReadDir(m.home + "/tmp")
	require.Empty(t, left)
}

// hasty returns a directory with a timeout command whose seconds last 1/50 s.
func hasty(t *testing.T) string {
	dir := t.TempDir()
	script := "#!/bin/sh\nshift\nexec " + testneeds.Program(t, layerShells, "timeout") + " 0.1 \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "timeout"), []byte(script), 0o700))
	return dir
}

// Without sha256sum, the length shows that data is missing. Without zstd and gzip, the program is sent as it is.
func TestHostWithoutSha256sum(t *testing.T) {
	m := newMachine(t, "/bin/sh")
	bin := t.TempDir()
	for _, name := range strings.Fields("id uname ls mkdir rm mv chmod cat head wc find tail sh") {
		require.NoError(t, os.Symlink(testneeds.Program(t, layerShells, name), filepath.Join(bin, name)))
	}
	m.environ = []string{"PATH=" + bin}
	m.cut = 100 << 10
	_, err := Start(deadline(t), m, config(t))
	hasStep(t, err, remote.StepCopy, "not all of gorun arrived")
	require.Empty(t, m.cached())
	m.cut = 0
	s, err := Start(deadline(t), m, config(t))
	require.NoError(t, err)
	echoes(t, s)
}

// plain is the program as a file.
func plain(t *testing.T) Build {
	_, err := agent()
	require.NoError(t, err)
	b, err := ReadBuild(filepath.Join(folder, "agent"))
	require.NoError(t, err)
	return b
}

// The compressed program and its file are the same to a host.
func TestPackedAgentIsItsFile(t *testing.T) {
	b, packed := plain(t), config(t).Program.Builds[0]
	require.Equal(t, b.SHA256, packed.SHA256)
	require.Equal(t, b.Size, packed.Size)
	require.Equal(t, b.Arch, packed.Arch)
	for _, unpacker := range []string{"", "gzip"} {
		p, err := packed.parcel(unpacker)
		require.NoError(t, err)
		require.Equal(t, unpacker, p.unpacker)
		require.Len(t, p.content, int(p.size))
		content := io.Reader(strings.NewReader(p.content))
		if unpacker != "" {
			content, err = gzip.NewReader(content)
			require.NoError(t, err)
		}
		all, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, b.SHA256[:], sum(all))
	}
}

func TestFileThatChangedSinceItWasHashed(t *testing.T) {
	c := config(t)
	c.Program.Builds = []Build{plain(t)}
	c.Program.Builds[0].SHA256[3] ^= 1
	m := newMachine(t, "sh")
	_, err := Start(deadline(t), m, c)
	hasStep(t, err, remote.StepCopy, "what arrived of gorun is not what was sent")

	c.Program.Builds[0].Size++
	_, err = Start(deadline(t), m, c)
	hasStep(t, err, remote.StepCopy, "was changed while it was being sent")
	m.settled()
	require.Empty(t, m.cached())
}

func TestChattyShells(t *testing.T) {
	for _, test := range []struct{ name, shell, rc, text string }{
		{"a line", "bash", ".bashrc", "echo hello\n"},
		{"no newline", "bash", ".bashrc", "printf 'hello '\n"},
		{"much", "bash", ".bashrc", "head -c 100000 /dev/zero\n"},
		{"echo of commands", "bash", ".bashrc", "exec 2>&1; set -x\n"},
		{"csh", "tcsh", ".cshrc", "echo hello\n"},
		{"csh that is verbose", "tcsh", ".cshrc", "set verbose; set echo\n"},
		{"fish", "fish", ".config/fish/config.fish", "echo hello\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, testneeds.Program(t, layerShells, test.shell))
			path := filepath.Join(m.home, test.rc)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
			m.environ = []string{"BASH_ENV=" + path} // bash reads .bashrc for sshd alone
			for range 2 {
				s, err := Start(deadline(t), m, config(t))
				require.NoError(t, err)
				echoes(t, s)
			}
		})
	}
}

func TestHostsThatCannot(t *testing.T) {
	for _, test := range []struct {
		name   string
		script string // a script with the line as its first argument
		step   remote.Step
		parts  []string
	}{
		{
			"no login", `echo "This account is currently not available."; exit 1`, remote.StepStart,
			[]string{"exit code 1", "This account is currently not available."},
		},
		{
			"no sh", `echo "fish: Unknown command: /bin/sh" >&2; exit 127`, remote.StepStart,
			[]string{"exit code 127", "Unknown command"},
		},
		{"no output", `exit 0`, remote.StepStart, []string{"the shell ended with exit code 0 before gorun started (after"}},
		{"a word", `echo menu`, remote.StepStart, []string{"exit code 0 before gorun started: menu"}},
		{
			"echo", `echo sh -c "$1"`, remote.StepStart,
			[]string{"start: the command line for the host was printed, and not run there (after"},
		},
		{
			"echo and failure", `{ printf "%s\n" "$1"; echo no; } >&2; exit 1`, remote.StepStart,
			[]string{"exit code 1 before gorun started: no (after"},
		},
		{"control bytes", `printf "\033[2J" >&2; exit 1`, remote.StepStart, []string{"^[[2J"}},
		{"endless", `cat /dev/zero`, remote.StepStart, []string{"prints more than 4 MiB"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, "sh")
			m.shell = []string{"sh", "-c", test.script, "sh"}
			_, err := Start(deadline(t), m, config(t))
			hasStep(t, err, test.step, test.parts...)
		})
	}
}

// A hostile host knows the mark from the line and may print it forever.
func TestHostThatAnswersForEver(t *testing.T) {
	const marked = `m=$(printf %s "$1" | sed "s/.*gr_m=\(m[0-9a-f]*\); gr_n=\(m[0-9a-f]*\).*/\1\2/"); `
	for _, test := range []struct{ name, script, want string }{
		{"no place", `yes "$m place /x: no"`, "16 answers without an end"},
		{
			"no place at length", `yes "$m place $(head -c 60000 /dev/zero | tr "\0" x)"`,
			"16 answers without an end",
		},
		{
			"no place and an end", `yes "$m place $(head -c 60000 /dev/zero | tr "\0" "x ")" | head -n 15`,
			"no place for a copy of gorun",
		},
		{"nothing after an answer", `echo "$m place /x: no"; cat /dev/zero`, "prints more than 4 MiB"},
		{"a long answer", `printf "$m bad 1 "; yes | tr -d "\n"`, "an answer is longer than 65536 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, "sh")
			m.shell = []string{"sh", "-c", marked + test.script, "sh"}
			b, err := ReadBundle(tree(t), []string{"trainer"})
			require.NoError(t, err)
			for _, start := range []func() error{
				func() error { _, err := Start(deadline(t), m, config(t)); return err },
				func() error { _, err := Copy(deadline(t), m, b, time.Minute); return err },
			} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := start()
				runtime.ReadMemStats(&after)
				require.ErrorContains(t, err, test.want)
				require.Less(t, len(err.Error()), 16<<10)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
			}
		})
	}
}

func TestForeignHosts(t *testing.T) {
	s := &start{session: newSession(t.Context(), newMachine(t, "sh"), 0)}
	hasStep(t, s.archError("Darwin arm64"), remote.StepStart, "the host runs Darwin, and gorun needs Linux")
	hasStep(t, s.archError("riscv64"), remote.StepStart, `"riscv64": gorun runs on amd64 and arm64`)
	err := s.archError("aarch64")
	hasStep(t, err, remote.StepCopy, "this gorun has no agent for them")
	require.Contains(t, err.(*remote.Error).Hint, "make build")
}

func TestDeadlineEndsAStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("all hosts had their time")
	m := newMachine(t, "sh")
	m.shell = []string{"sh", "-c", "echo menu: choose one; exec cat", "sh"}
	c := config(t)
	_, err := Start(remote.WithProgress(ctx, func(remote.Progress) { cancel(why) }), m, c)
	hasStep(t, err, remote.StepStart, "not ready in time")
	require.ErrorIs(t, err, why)
}

func TestProgramThatEndsAtOnce(t *testing.T) {
	m := newMachine(t, "sh")
	path := filepath.Join(m.home, "dies")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho no space left >&2; exit 3\n"), 0o700))
	s, err := Start(deadline(t), m, Config{Agent: path})
	require.NoError(t, err)
	_, err = s.Read(make([]byte, 10))
	hasStep(t, err, remote.StepStart, "exit code 3", "no space left")
}

func TestConnectionThatIsLost(t *testing.T) {
	m := newMachine(t, "true")
	m.lost = errors.New("the connection was lost")
	_, err := Start(deadline(t), m, config(t))
	hasStep(t, err, remote.StepStart, "node1: start: the connection was lost (after")
	m.shell[0] = "sh"
	s, err := Start(deadline(t), m, Config{Agent: "true"})
	require.NoError(t, err)
	_, err = s.Read(make([]byte, 1))
	hasStep(t, err, remote.StepStart, "node1: start: the connection was lost (after")
}

func TestCopyThatDoesNotRunThere(t *testing.T) {
	m, c := newMachine(t, "sh"), config(t)
	m.environ = []string{"BROKEN=1"}
	c.Program.Builds = []Build{plain(t)}
	c.Program.Builds[0].Loader = "/lib64/ld.so"
	_, err := Start(deadline(t), m, c)
	hasStep(t, err, remote.StepStart,
		fmt.Sprintf("exit code 3: %s/.cache/gorun: [%x]", m.home, c.Program.Builds[0].SHA256),
		"not static: it needs /lib64/ld.so")
	require.Contains(t, err.(*remote.Error).Hint, "make build")
	require.Empty(t, m.cached())
}

// The head of busybox reads ahead.
func TestFilesBesideTheProgram(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.Symlink(testneeds.Program(t, layerShells, "busybox"), filepath.Join(bin, "head")))
	m, c := newMachine(t, "sh"), config(t)
	m.environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	path := filepath.Join(t.TempDir(), "gorun-gpu")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 1000), 0o600))
	b := plain(t)
	b.Path, b.Size = path, 1000
	b.SHA256 = [32]byte{}
	copy(b.SHA256[:], sum(bytes.Repeat([]byte("x"), 1000)))
	there := filepath.Join(m.home, "it's there")
	c.Extra = []Extra{{Name: "gorun-gpu", Build: b, If: there}}
	s, err := Start(deadline(t), m, c)
	require.NoError(t, err)
	echoes(t, s)
	require.Len(t, m.cached(), 1)
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	for range 2 {
		s, err := Start(deadline(t), m, c)
		require.NoError(t, err)
		echoes(t, s)
		require.Len(t, m.cached(), 3)
	}
}

// The variables of the script must not reach the agent, even if the user exports the same names. umask, directory and
// locale are the user's.
func TestAgentInheritsNoTraces(t *testing.T) {
	m, c := newMachine(t, "sh"), config(t)
	m.environ = []string{"LC_ALL=de_DE.UTF-8", "n=user", "k=user"}
	path := filepath.Join(m.home, "show")
	require.NoError(t,
		os.WriteFile(path,
			[]byte("#!/bin/sh\numask; pwd; tr '\\0' '\\n' </proc/self/environ; ls -l /proc/self/fd | wc -l\n"), 0o700))
	s, err := Start(deadline(t), m, Config{Agent: path})
	require.NoError(t, err)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Contains(t, string(got), "0022\n"+m.home+"\n")
	require.Contains(t, string(got), "LC_ALL=de_DE.UTF-8\n")
	require.NotContains(t, string(got), "gr_")
	s, err = Start(deadline(t), m, c)
	require.NoError(t, err)
	echoes(t, s)
	info, err := os.Stat(filepath.Join(m.home, ".cache", "gorun"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}
