package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// collectives: Go programs with package comm connect over hosts without any options.
func collectives(t *testing.T, f fleet) {
	sums(t, 4, f.gorun("-H", "h[1-4]:1", collective(t)))
	sums(t, 8, f.gorun("-H", "h1:3,h2:2,h3:2,localhost:1", collective(t)))
	boxes := f.gorun("-H", "h1:2,h2:2", program(t, "allreduce"), "--op", "avg").succeed(t)
	require.Equal(t, gorun("-n", "4", program(t, "allreduce"), "--op", "avg").succeed(t), boxes)
	losses, _ := epochs(t, f.gorun("-H", "h[1-4]:1", program(t, "trainer"), "--epochs", "2").succeed(t))
	require.Less(t, losses[1], losses[0])
}

// pytorchOverHosts: the digits example gives the same losses on two hosts as on one. The hosts have one address in
// common.
func pytorchOverHosts(t *testing.T, f fleet) {
	python := testneeds.Torch(t)
	losses := filepath.Join(f.Dir(), "losses") // shared by all hosts
	j := f.gorun("-H", "h1,h2", "-np", trainers(), example(t, "torch/digits_ddp.py"), "--losses", losses)
	j = j.with("GORUN_PYTHON=" + python)
	require.Equal(t, trainedHere(t), readTraining(t, j, losses))
}

// pythonAPI: package gorun, which these hosts lack, sends a function to them and brings its results back.
func pythonAPI(t *testing.T, f fleet) {
	python, wheel := testneeds.Torch(t), filepath.Join(testneeds.Repository(t), "packaging/wheel")
	require.NoError(t, os.CopyFS(filepath.Join(f.Dir(), "gorun"), os.DirFS(filepath.Join(wheel, "gorun"))))
	script, err := os.ReadFile(filepath.Join(wheel, "test_gorun.py"))
	require.NoError(t, err)
	test := f.write(t, "test_gorun.py", string(script))
	run := func() ([]byte, error) {
		return f.Command(testhosts.Head, "env", "INTEROP_HOSTS=h1,h2", "INTEROP_GORUN="+built("gorun"),
			"GORUN_SSH_CONFIG="+f.SSHConfig(), python, test).CombinedOutput()
	}
	said, err := run()
	if bytes.Contains(said, []byte(torchAborts)) {
		said, err = run()
	}
	require.NoError(t, err, "%s", said)
}

// TestSixteenHosts runs one job over 16 hosts: numbers, output and exit are right.
func TestSixteenHosts(t *testing.T) {
	t.Parallel()
	f := raise(t, testhosts.Config{Hosts: 16})
	got := f.gorun(append(words("-H h[1-16]:2 --bind-to none"), where...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	var want []string
	for _, host := range f.Hosts() {
		want = append(want, host, host)
	}
	require.Equal(t, strings.Join(want, " "), whereabouts(t, got))
	require.Equal(t, slots(32, "-H h[1-16]:2"), saidBy(got))

	got = f.gorun("--hostfile", f.HostFile(), "--exclude", "h[2-16]", "sh", "-c", "echo $WORLD_SIZE").run(t)
	require.Equal(t, "1\n", got.stdout, got.stderr)

	got = f.gorun("--hostfile", f.HostFile(), self(t)).with(roleVariable + "=lines").run(t)
	require.Zero(t, got.code)
	requireLines(t, got, 16)

	got = f.gorun("-H", "h[1-16]", "sh", "-c", "[ $RANK != 11 ] || exit 5; exec sleep 60").run(t)
	require.Equal(t, 5, got.code, got.stderr)
	require.Contains(t, got.stderr, " (h12, pid ")
	require.Contains(t, got.stderr, " ranks stopped by gorun: [") // some may not have been started
}
