package bootstrap

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Two users of a host share a group.
const (
	ann     = "setpriv --reuid 12345 --regid 12345 --groups 777 "
	mallory = "setpriv --reuid 12346 --regid 12346 --groups 777 "
)

// annsFrom returns a host on which ann's home directory is /mnt/ann and her umask 002, and setup ran as root before.
// Programs named PLANTED belong to another user and print that name.
func annsFrom(t *testing.T, setup string) *machine {
	testneeds.Program(t, layerShells, "setpriv")
	const home = `printf "#\041/bin/sh\necho planted\n" >/mnt/PLANTED && chmod 755 /mnt/PLANTED && mkdir /mnt/ann ` +
		`&& chown 12345:12345 /mnt/ann`
	m := apartFrom(t, setup)
	m.shell = []string{"unshare", "-m", "sh", "-c", apart + home + " && umask 002 && " + setup + " && exec " + ann +
		`/bin/sh -c "$0"`}
	m.environ = []string{"HOME=/mnt/ann", "TMPDIR="}
	return m
}

// No file that another user puts, or can put, at the path of ann's copy runs as ann.
func TestAnotherUserOfTheHostCannotChangeTheCopy(t *testing.T) {
	c := config(t, "where")
	key := dirOf(c.Program.Version, []file{{"gorun", c.Program.Builds[0]}})
	const cache, own, sticky = "/mnt/ann/.cache", "/mnt/ann/.cache/gorun/", "/tmp/gorun-12345/"
	plant := func(dir string) string {
		return mallory + "sh -c 'mkdir -p " + dir + key + " && cp /mnt/PLANTED " + dir + key + "/gorun'"
	}
	annMakes := func(modeOfCache, modeOfOwn string) string {
		return ann + "mkdir -m " + modeOfCache + " " + cache + " && " + ann + "mkdir -m " + modeOfOwn + " " + own +
			" && chown :777 " + cache + " " + own
	}
	for _, test := range []struct{ name, setup, place, change string }{
		{"a new home", "true", own, ""},
		{"a new cache", ann + "mkdir -m 755 " + cache, own, ""},
		{"others may read", annMakes("755", "755"), own, ""},
		{"the group may write to the copies", annMakes("755", "775") + " && " + plant(own), sticky, ""},
		{
			"the group could write to the copies", annMakes("755", "775") + " && " + plant(own) + " && chmod 700 " + own, "",
			own + key,
		},
		{"the group may write to the cache", annMakes("775", "700"), sticky, ""},
		{
			"the group may write to the home", "chmod 775 /mnt/ann && chown :777 /mnt/ann && " + annMakes("755", "700"),
			sticky, "",
		},
		{
			"the group may write above the home",
			"mkdir /mnt/g && mv /mnt/ann /mnt/g/ann && chown :777 /mnt/g && chmod 775 /mnt/g && ln -s g/ann /mnt/ann && " +
				annMakes("755", "700"), sticky, "",
		},
		{"a link in the cache", ann + "mkdir -m 775 " + cache + " && chown :777 " + cache + " && " + plant("/mnt/x/") +
			"; " + mallory + "ln -s /tmp " + cache + "/gorun", sticky, ""},
		{
			"a name in /tmp", ann + "mkdir -m 775 " + cache + " && chown :777 " + cache + " && " + plant("/tmp/gorun-12345/"),
			"/dev/shm/gorun-12345/", "",
		},
		{
			"another's sticky directory",
			"mkdir -m 1777 /mnt/t && chown 12346 /mnt/t && unset HOME && export TMPDIR=/mnt/t", sticky, "",
		},
		{
			"a sticky directory that can be replaced",
			"mkdir -m 777 /mnt/g && mkdir -m 1777 /mnt/g/t && unset HOME && export TMPDIR=/mnt/g/t", sticky, "",
		},
		{"names in /tmp and /dev/shm", ann + "mkdir -m 775 " + cache + " && chown :777 " + cache + " && " +
			plant("/tmp/gorun-12345/") + " && " + plant("/dev/shm/gorun-12345/"), "", "/dev/shm/gorun-12345 or"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Start(deadline(t), annsFrom(t, test.setup), c)
			if test.place == "" {
				require.ErrorContains(t, err, "somebody else may change "+test.change)
				return
			}
			require.NoError(t, err)
			got, err := io.ReadAll(s)
			require.NoError(t, err)
			require.NotContains(t, string(got), "planted")
			require.Contains(t, string(got), "\n"+test.place+"v1.2-test-", s.Stderr())
		})
	}
}

// Another user cannot replace files that --copy brings.
func TestAnotherUserOfTheHostCannotChangeWhatCopyBrings(t *testing.T) {
	b, err := ReadBundle(tree(t), []string{"trainer"})
	require.NoError(t, err)
	const shared = "mkdir -m 775 /mnt/shared && chown 12345:777 /mnt/shared && export TMPDIR=/mnt/shared"
	for _, test := range []struct{ name, setup, place string }{
		{"a directory of a group", shared, "/tmp/"},
		{"a directory below one", shared + "/own && " + ann + "mkdir -m 700 /mnt/shared/own", "/tmp/"},
		{"a sticky directory of a group", shared + " && chmod +t /mnt/shared", "/mnt/shared/"},
		{"another's sticky directory", shared + " && chown 12346 /mnt/shared && chmod +t /mnt/shared", "/tmp/"},
		{"ann's alone", shared + " && chmod g-w /mnt/shared", "/mnt/shared/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Copy(deadline(t), annsFrom(t, test.setup), b, time.Minute)
			require.NoError(t, err)
			require.Contains(t, c.Path, test.place+"gorun-job-")
			require.NoError(t, c.Remove(deadline(t)))
		})
	}
}
