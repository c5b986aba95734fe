package bootstrap

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/remote"
)

// apart are commands that give a mount namespace a home directory in /mnt, and its own /tmp and /dev/shm. So nothing
// of the machine is changed.
const apart = "mount --make-rprivate / && mount -t tmpfs -o mode=755 home /mnt && mount -t tmpfs -o mode=1777 tmp " +
	"/tmp && mount -t tmpfs -o mode=1777 shm /dev/shm && "

// apartFrom returns a host with its own mounts, on which setup runs before the line. Its changes to file systems are
// gone afterwards.
func apartFrom(t *testing.T, setup string) *machine {
	testneeds.Root(t)
	testneeds.Program(t, layerShells, "unshare")
	m := newMachine(t, "sh")
	m.shell = []string{"unshare", "-m", "sh", "-c", apart + setup + ` && exec /bin/sh -c "$0"`}
	m.environ = []string{"HOME=/mnt", "TMPDIR="}
	return m
}

func TestWhereTheCopyGoes(t *testing.T) {
	for _, test := range []struct{ name, setup, place string }{
		{"home", "true", "/mnt/.cache/gorun/"},
		{"another cache", "mkdir /mnt/else && export XDG_CACHE_HOME=/mnt/else/there", "/mnt/else/there/gorun/"},
		{"a relative cache is ignored", "export XDG_CACHE_HOME=else", "/mnt/.cache/gorun/"},
		{"home is read-only", "mount -o remount,ro /mnt", "/tmp/gorun-0/"},
		{"home is full", "mount -o remount,size=64k /mnt", "/tmp/gorun-0/"},
		{"home is noexec", "mount -o remount,noexec /mnt", "/tmp/gorun-0/"},
		{"a file is in the way", "touch /mnt/.cache", "/tmp/gorun-0/"},
		{"the cache is somebody else's", "mkdir -p /mnt/.cache/gorun && chown 12345 /mnt/.cache/gorun", "/tmp/gorun-0/"},
		{"no home", "unset HOME", "/tmp/gorun-0/"},
		{"a temporary directory", "mkdir /mnt/t && unset HOME && export TMPDIR=/mnt/t", "/mnt/t/gorun-0/"},
		{
			"somebody made the name in /tmp", "unset HOME && mkdir -m 700 /tmp/gorun-0 && chown 12345 /tmp/gorun-0",
			"/dev/shm/gorun-0/",
		},
		{
			"somebody made a link in /tmp", "unset HOME && mkdir -m 700 /mnt/mine && ln -s /mnt/mine /tmp/gorun-0",
			"/dev/shm/gorun-0/",
		},
		{"a dangling link in /tmp", "unset HOME && ln -s /mnt/none /tmp/gorun-0", "/dev/shm/gorun-0/"},
		{"others may write to it", "unset HOME && mkdir -m 700 /tmp/gorun-0 && chmod 777 /tmp/gorun-0", "/dev/shm/gorun-0/"},
		{"everybody may rename in /tmp", "unset HOME && chmod 777 /tmp && chown 12345 /tmp", "/dev/shm/gorun-0/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Start(deadline(t), apartFrom(t, test.setup), config(t, "where"))
			require.NoError(t, err)
			got, err := io.ReadAll(s)
			require.NoError(t, err)
			require.Contains(t, string(got), "\n"+test.place+"v1.2-test-", s.Stderr())
		})
	}
}

// A program that another user put at the path of a cached copy must never run.
func TestCopyOfSomebodyElseIsNotUsed(t *testing.T) {
	c := config(t, "where")
	dir := "/tmp/gorun-0/" + dirOf(c.Program.Version, []file{{"gorun", c.Program.Builds[0]}})
	s, err := Start(deadline(t),
		apartFrom(t, "unset HOME && mkdir -p "+dir+
			" && chown -R 12345 /tmp/gorun-0 && chmod 700 /tmp/gorun-0 && ln -s /bin/echo "+dir+"/gorun"), c)
	require.NoError(t, err)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Contains(t, string(got), "\n/dev/shm/gorun-0/")
}

func TestNoPlaceAtAll(t *testing.T) {
	_, err := Start(deadline(t),
		apartFrom(t, "mount -o remount,ro /mnt && mount -o remount,size=64k /tmp && mount -o remount,noexec /dev/shm"),
		config(t))
	hasStep(t, err, remote.StepCopy, "/mnt/.cache/gorun: ", "Read-only file system", "/tmp/gorun-0: ",
		"No space left on device", "/dev/shm/gorun-0: ", "noexec")
	require.NotContains(t, err.Error(), ".new-")
}

func TestFileSizeLimit(t *testing.T) {
	_, err := Start(deadline(t), apartFrom(t, "ulimit -f 100"), config(t))
	hasStep(t, err, remote.StepCopy, "/mnt/.cache/gorun: ", "File")
}

// Old versions are removed by age, but never the newest three. So are incomplete copies.
func TestOldVersionsGo(t *testing.T) {
	m := newMachine(t, "sh")
	old := `cd "$HOME" && mkdir -p .cache/gorun && cd .cache/gorun && for i in 1 2 3 4 5; do mkdir v$i && echo ` +
		`>v$i/gorun && touch -d "$((40 - i)) days ago" v$i/gorun v$i; done && touch v2/gorun && mkdir keep .new-cut ` +
		`.new-fresh && touch -d "3 days ago" .new-cut`
	cmd := exec.Command("sh", "-c", old)
	cmd.Env = m.env()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	s, err := Start(deadline(t), m, config(t))
	require.NoError(t, err)
	echoes(t, s)
	cmd = exec.Command("sh", "-c", `ls -A "$HOME/.cache/gorun"`)
	cmd.Env = m.env()
	out, err = cmd.Output()
	require.NoError(t, err)
	left := strings.Fields(string(out))
	require.Len(t, left, 5, left)
	require.Subset(t, left, []string{".new-fresh", "keep", "v2", "v5"})
}

// /bin/sh differs between systems. It can be bash, or busybox with its own commands.
func TestOtherKindsOfSh(t *testing.T) {
	for name, setup := range map[string]string{
		"bash":    "true",
		"zsh":     "true",
		"busybox": `mkdir /mnt/bin && busybox --install -s /mnt/bin && export PATH=/mnt/bin`,
	} {
		t.Run(name, func(t *testing.T) {
			shell := testneeds.Program(t, layerShells, name)
			m := apartFrom(t, setup+" && mount --bind "+shell+` "$(readlink -f /bin/sh)"`)
			odd := []string{"it's", "-$(x)\n!"}
			s, err := Start(deadline(t), m, config(t, odd...))
			require.NoError(t, err)
			echoes(t, s, odd...)

			m = apartFrom(t, setup+" && mount -o remount,ro /mnt && mount -o remount,size=64k /tmp && mount -o remount,noexec "+
				"/dev/shm && mount --bind "+shell+` "$(readlink -f /bin/sh)"`)
			_, err = Start(deadline(t), m, config(t))
			hasStep(t, err, remote.StepCopy, "/mnt/.cache/gorun: ", "Read-only file system", "/tmp/gorun-0: ",
				"there is no room for ", "/dev/shm/gorun-0: ", "noexec")
		})
	}
}
