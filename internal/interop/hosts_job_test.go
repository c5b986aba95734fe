package interop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
)

// wholeOutput: the lines of each rank on each host are complete and in order.
func wholeOutput(t *testing.T, f fleet) {
	got := f.gorun("-H", "h[1-4]:2", self(t)).with(roleVariable + "=lines").run(t)
	require.Zero(t, got.code)
	requireLines(t, got, 8)
	labeled := f.gorun("-H", "h1,h2", "--tag-output", "sh", "-c", "echo one; echo two >&2").run(t)
	require.Zero(t, labeled.code)
	require.Equal(t, 2, strings.Count(labeled.stdout, "one\n"), labeled.stdout)
	require.Equal(t, 2, strings.Count(labeled.stderr, "two\n"), labeled.stderr)
}

// requireLines checks the output of ranks of role "lines".
func requireLines(t *testing.T, got result, ranks int) {
	t.Helper()
	outs, errs := make([]int, ranks), make([]int, ranks)
	for line := range strings.Lines(got.stdout) {
		var rank, number int
		_, err := fmt.Sscan(line, &rank, &number)
		require.NoError(t, err, line)
		require.Equal(t, fmt.Sprintf("%d %d %s\n", rank, outs[rank], strings.Repeat("x", number%200)), line)
		outs[rank]++
	}
	for line := range strings.Lines(got.stderr) {
		if strings.HasPrefix(line, "gorun: ") {
			continue
		}
		var rank, number int
		_, err := fmt.Sscan(line, &rank, &number)
		require.NoError(t, err, line)
		require.Equal(t, fmt.Sprintf("%d %d err\n", rank, errs[rank]), line)
		errs[rank]++
	}
	require.Equal(t, slices.Repeat([]int{manyLines}, ranks), outs)
	require.Equal(t, slices.Repeat([]int{manyLines}, ranks), errs)
}

// standardInput: one megabyte reaches the chosen rank on any host.
func standardInput(t *testing.T, f fleet) {
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	digest := fmt.Sprintf("%d %x <nil>", len(text), sha256.Sum256([]byte(text)))
	nothing := fmt.Sprintf("0 %x <nil>", sha256.Sum256(nil))
	for options, want := range map[string][]string{
		"0": {"0 " + digest, "1 " + nothing, "2 " + nothing}, "2": {"0 " + nothing, "1 " + nothing, "2 " + digest},
		"all": {"0 " + digest, "1 " + digest, "2 " + digest},
	} {
		j := f.gorun("-H", "h1:1,h2:1,h3:1", "--stdin", options, self(t)).with(roleVariable + "=digest")
		j.stdin = strings.NewReader(text)
		got := j.run(t)
		require.Zero(t, got.code, got.stderr)
		require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(got.stdout), "\n"), options)
	}
}

// logFiles: each host writes the log files of its own ranks, whether or not the hosts share the directory.
func logFiles(t *testing.T, f fleet) {
	shared := filepath.Join(f.Dir(), "logs")
	for _, dir := range []string{shared, "/tmp/logs of one host"} {
		got := f.gorun("-H", "h1:2,h2:1", "--log-dir", dir, "-r", "3", "sh", "-c",
			"echo out $RANK; echo err $RANK >&2").run(t)
		require.Zero(t, got.code, got.stderr)
		require.Empty(t, got.stdout)
		for host, ranks := range map[string][]int{"h1": {0, 1}, "h2": {2}} {
			for _, rank := range ranks {
				script := `cat "$1/$2.err" "$1/$2.out"`
				text, err := f.Command(host, "sh", "-c", script, "sh", dir, fmt.Sprint(rank)).CombinedOutput()
				require.NoError(t, err, "%s", text)
				require.Equal(t, fmt.Sprintf("err %d\nout %d\n", rank, rank), string(text))
			}
		}
		require.Equal(t, dir == shared, f.Command(testhosts.Head, "test", "-e", dir).Run() == nil)
	}
}

// failuresAndRestarts: the exit code of a remote rank becomes the status of the job, and the report names its host.
func failuresAndRestarts(t *testing.T, f fleet) {
	report := filepath.Join(f.Dir(), "report.json")
	run := func(options, script string) result {
		args := append(words("-H h1:2,h2:2 --report "+report+" "+options), "sh", "-c", script)
		return f.gorun(args...).run(t)
	}
	var jobReport struct {
		Cause string
		Code  int `json:"exit_code"`
		First struct {
			Rank int
			Host string
		} `json:"first_failure"`
	}
	reported := func() {
		text, err := os.ReadFile(report)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &jobReport))
	}
	got := run("", "[ $RANK != 3 ] || exit 7; exec sleep 60")
	require.Equal(t, 7, got.code, got.stderr)
	require.Regexp(t,
		`(?s)gorun: rank 3 failed first: exit code 7 \(h2, pid \d+, after \S+\)\n`+
			`  others +3 ranks stopped by gorun: \[0-2\]\n$`,
		got.stderr)
	reported()
	require.Equal(t, []any{"rank failed", 7, 3, "h2"},
		[]any{jobReport.Cause, jobReport.Code, jobReport.First.Rank, jobReport.First.Host})

	got = run("", "[ $RANK != 2 ] || kill -SEGV $$; exec sleep 60")
	require.Equal(t, 139, got.code, got.stderr)
	require.Contains(t, got.stderr, "SIGSEGV")

	flaky := "[ $RANK$TORCHELASTIC_RESTART_COUNT != 30 ] || exit 9; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep " +
		"60; echo $RANK $(hostname)"
	got = run("--max-restarts 2 --restart-delay 0", flaky)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "h1 h1 h2 h2", whereabouts(t, got), "the same ranks on the same hosts")
	require.Contains(t, got.stderr, "rank 3 (h2) failed after ")

	got = run("--max-restarts 1 --restart-delay 0", "exit 4")
	require.Equal(t, 4, got.code, got.stderr)
	require.Contains(t, got.stderr, "restart 1 of 1")
}

// signals: signals reach the ranks of all hosts.
func signals(t *testing.T, f fleet) {
	script := `trap 'echo usr1 $RANK' USR1; trap 'echo int $RANK; exit 0' INT; echo ready; while :; do sleep 0.05; done`
	r := f.gorun("-H", "h1:2,h2:2", "sh", "-c", script).start(t)
	require.True(t, r.until(t, &r.stdout, "ready", 4), r.stderr.String())
	r.signal(t, syscall.SIGUSR1)
	require.True(t, r.until(t, &r.stdout, "usr1", 4), r.stderr.String())
	r.signal(t, syscall.SIGINT)
	got := r.wait(t)
	require.Equal(t, 130, got.code, got.stderr)
	for rank := range 4 {
		require.Contains(t, got.stdout, fmt.Sprintf("usr1 %d\n", rank))
		require.Contains(t, got.stdout, fmt.Sprintf("int %d\n", rank))
	}
	require.Contains(t, got.stderr, "gorun: stopped by SIGINT after ")
}

// missing: gorun names the hosts that lack something once, with a hint.
func missing(t *testing.T, f fleet) {
	for _, host := range []string{testhosts.Head, "h2", "h3"} {
		require.NoError(t, f.Command(host, "sh", "-c", "mkdir -p /tmp/only/here && cp /bin/true /tmp/only/prog").Run())
	}
	const missing = "gorun: h[1,4]: /tmp/only/prog: no such file\n" +
		"gorun: hint: add `--copy /tmp/only/prog` to send this host's file to the others\n"
	got := f.gorun("-H", "h[1-4]", "/tmp/only/prog").run(t)
	require.Equal(t, 127, got.code)
	require.Equal(t, missing, got.stderr)
	got = f.gorun("-H", "h1,h4", "/tmp/only/prog").run(t)
	require.Equal(t, 127, got.code)
	require.Equal(t, missing, got.stderr, "all of the hosts, but this one has it")

	for _, host := range words("h1 h2") {
		require.NoError(t, f.Command(host, "sh", "-c", "mkdir -p /tmp/tools && ln -s /bin/hostname /tmp/tools/a-tool").Run())
	}
	got = f.gorun("-H", "h1,h2", "a-tool").with("PATH=/tmp/tools:" + os.Getenv("PATH")).run(t)
	require.Zero(t, got.code, "programs are found by the PATH of the terminal, not by that of ssh: %s", got.stderr)
	got = f.gorun("-H", "h1,h2", "a-tool").run(t)
	require.Equal(t, 127, got.code)
	require.Contains(t, got.stderr, "gorun: h[1-2]: a-tool: not found in PATH or the working directory\n")

	within := f.gorun("-H", "h[1-3]", "--", "true")
	within.argv = slices.Concat([]string{"sh", "-c", `cd /tmp/only/here && exec "$@"`, "sh"}, within.argv)
	got = within.run(t)
	require.Equal(t, 125, got.code)
	require.Equal(t, "gorun: h1: the working directory /tmp/only/here: no such file or directory\n"+
		"gorun: hint: add `--chdir DIR` to name a directory that each host has\n", got.stderr)

	got = f.gorun("-H", "h[1-3]", "--chdir", "/usr", "pwd").run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "/usr\n/usr\n/usr\n", got.stdout)
}

// externalPrograms: external programs replace gorun's own SSH.
func externalPrograms(t *testing.T, f fleet) {
	pids := map[string]int{}
	for _, host := range []string{"h1", "h2"} { // the first process of a host is the ancestor of all others
		pids[host] = f.PID(host)
	}
	enter := f.write(t, "enter", fmt.Sprintf("#!/bin/sh\nhost=$1; shift\ncase $host in h1) pid=%d;; h2) pid=%d;; esac\n"+
		"exec nsenter -t $pid -n -u -i -m -p -- \"$@\"\n", pids["h1"], pids["h2"]))
	require.NoError(t, os.Chmod(enter, 0o755))
	for _, program := range []string{f.SSH(), "ssh -F " + f.SSHConfig(), enter + " {host}"} {
		j := gorun("--ssh", program, "-x", "INTEROP_*", "-H", "h1:2,h2:1", "sh", "-c", where[2]+"; exit 0")
		j.hosts = f.Set
		got := j.run(t)
		require.Zero(t, got.code, "%s\n%s", program, got.stderr)
		require.Equal(t, "h1 h1 h2", whereabouts(t, got), program)
	}
	for program, says := range map[string]string{
		"ssh -F /nope":   `^gorun: h\[1-2\]: start: .*(ended|exit).* 255.*/nope`,
		"no-such-ssh":    `^gorun: h\[1-2\]: connect: --ssh: no-such-ssh is not installed here\n$`,
		enter + " h1 no": `^gorun: h\[1-2\]: `,
	} {
		j := gorun("--ssh", program, "-H", "h1:2,h2:1", "true")
		j.hosts = f.Set
		got := j.run(t)
		require.Equal(t, 125, got.code, got.stderr)
		require.Regexp(t, says, got.stderr, program)
	}
}

// programsBesideRanks: the launcher's own host has ranks too. Their orphans end with them, but the programs that
// connect to other hosts keep running.
func programsBesideRanks(t *testing.T, f fleet) {
	jump := f.configure(t, "Host h1", "ProxyCommand ssh -F "+f.SSHConfig()+" -W %h:%p h2", "Host *")
	kept := f.configure(t, "Host h1", "ControlMaster auto", "ControlPersist 60", "ControlPath "+f.Dir()+"/kept-%n",
		"Host *")
	for name, options := range map[string][]string{
		"--ssh": {"--ssh", f.SSH()}, "proxy": {"--ssh-config", jump}, "kept connection": {"--ssh", "ssh -F " + kept},
	} {
		j := gorun(append(options, "-x", "INTEROP_*", "-H", "localhost:1,h1:2", "sh", "-c", where[2]+`
			[ $RANK != 0 ] || env -i setsid -f sh -c 'exec sleep 1000 >/dev/null 2>&1 </dev/null'`)...)
		j.hosts = f.Set
		for range 3 {
			got := j.run(t)
			require.Zero(t, got.code, "%s: %s", name, got.stderr)
			require.Equal(t, "head h1 h1", whereabouts(t, got), name)
		}
	}
	setUp(t, "ssh", "-F", kept, "-O", "exit", "h1") // it belongs to the user and must still run
}

// emptyCaches: two jobs that both copy gorun to a host do not disturb each other.
func emptyCaches(t *testing.T, f fleet) {
	const user = "eve" // no other test needs her cache
	var jobs []*running
	for range 2 {
		jobs = append(jobs, f.gorun(append(words("--chdir / -H eve@h1,eve@h2,eve@h3,eve@h4"), where...)...).start(t))
	}
	for _, r := range jobs {
		got := r.wait(t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, "h1 h2 h3 h4", whereabouts(t, got))
	}
	for _, host := range f.Hosts() {
		out, err := f.Command(host, "find", "/run/home/"+user+"/.cache/gorun", "-type", "f").Output()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(out), "\n"), "%s: %s", host, out)
	}
}
