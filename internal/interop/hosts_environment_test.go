package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// Ranks have the numbers that torchrun would give them, and the interface of their own host.
func placesAndEnvironment(t *testing.T, f fleet) {
	ranks := f.gorun("-H", "h1:2,h2:1,h3:1", "--rdzv-id", "place", self(t)).tell(t)
	require.Len(t, ranks, 4)
	hosts, local, sizes, group := words("h1 h1 h2 h3"), words("0 1 0 0"), words("2 2 1 1"), words("0 0 1 2")
	for i, r := range ranks {
		for name, want := range map[string]string{
			"RANK": fmt.Sprint(i), "WORLD_SIZE": "4", "LOCAL_RANK": local[i], "LOCAL_WORLD_SIZE": sizes[i],
			"GROUP_RANK": group[i], "GROUP_WORLD_SIZE": "3",
			"ROLE_RANK": fmt.Sprint(i), "MASTER_ADDR": f.Address("h1"), "MASTER_PORT": ranks[0].Environ["MASTER_PORT"],
			"TORCHELASTIC_RUN_ID": "place",
			"GLOO_SOCKET_IFNAME":  "eth0", "TP_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0",
		} {
			require.Equal(t, want, r.Environ[name], "%s of rank %d on %s", name, i, hosts[i])
		}
		require.NotEmpty(t, r.Environ["GORUN_JOB_KEY"])
		require.Equal(t, ranks[0].Dir, r.Dir)
	}
}

// forwarded compares the environments of ranks on this host and on another.
func forwarded(t *testing.T, f fleet) {
	outer := []string{
		"NCCL_DEBUG=WARN", "OMP_NUM_THREADS=3", "TORCH_LOGS=x", "LD_LIBRARY_PATH=/a:/b c", "EMPTY_THING=", "MY_SETTING=1",
		"PREFIX_A=1", "PREFIX_B=2",
		"DISPLAY=:7", "SSH_AUTH_SOCK=/n", "TMPDIR=/var/tmp", "NCCL_X_PASSWORD=hush", "WANDB_API_KEY=hush",
		"http_proxy=http://u:p@proxy", "SLURM_JOB_ID=5",
	}
	see := func(options ...string) (here, there map[string]string) {
		ranks := f.gorun(slices.Concat([]string{"-H", "localhost:1,h2:1"}, options, []string{self(t)})...).with(
			outer...).tell(t)
		require.Len(t, ranks, 2)
		return ranks[0].Environ, ranks[1].Environ
	}
	check := func(environ map[string]string, has, lacks string) {
		t.Helper()
		for _, name := range words(has) {
			i := slices.IndexFunc(outer, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
			require.Equal(t, outer[i], name+"="+environ[name])
		}
		for _, name := range words(lacks) {
			require.NotContains(t, environ, name)
		}
	}
	const listed, secret = "NCCL_DEBUG OMP_NUM_THREADS TORCH_LOGS LD_LIBRARY_PATH", "NCCL_X_PASSWORD WANDB_API_KEY " +
		"http_proxy"
	const others, bound = "EMPTY_THING MY_SETTING PREFIX_A PREFIX_B", "DISPLAY SSH_AUTH_SOCK SLURM_JOB_ID"

	here, there := see()
	check(here, strings.Join([]string{listed, secret, others, bound}, " "), "")
	check(there, listed, strings.Join([]string{secret, others, bound, "TMPDIR"}, " "))
	require.Equal(t, here["PATH"], there["PATH"])
	_, there = see("-x", "MY_SETTING", "-x", "PREFIX_*", "-x", "DISPLAY", "-x", "WANDB_API_KEY", "-x",
		"NCCL_DEBUG=INFO now", "-x", "NEW=")
	check(there, "MY_SETTING PREFIX_A PREFIX_B DISPLAY WANDB_API_KEY OMP_NUM_THREADS",
		"EMPTY_THING NCCL_X_PASSWORD SSH_AUTH_SOCK")
	require.Equal(t, "INFO now", there["NCCL_DEBUG"])
	require.Contains(t, there, "NEW")
	_, there = see("--export-all")
	check(there, listed+" "+others, bound+" TMPDIR")
}

// dryRun: the plan is the same twice, masks secrets and starts nothing.
func dryRun(t *testing.T, f fleet) {
	plan := func(more ...string) string {
		args := slices.Concat(more, []string{
			"--dry-run", "-v", "-H", "h1:2,h2:1", "-x", "WANDB_API_KEY", "-x", "PLAIN", "touch",
			"/tmp/a file",
		})
		return f.gorun(args...).with("WANDB_API_KEY=hush-1", "PLAIN=to see", "NCCL_PASSWORD=hush-2", "GORUN_TOKEN=hush-3",
			"AWS_SECRET=hush-4").succeed(t)
	}
	text, again := plan(), plan()
	require.Equal(t, text, again)
	machine := plan("--json")
	require.Equal(t, machine, plan("--json"))
	require.True(t, json.Valid([]byte(machine)), machine)
	require.NotContains(t, text+machine, "hush")
	require.Contains(t, text, "touch '/tmp/a file'")
	require.Regexp(t, `(?m)^2 +h2 +0 `, text)
	require.Regexp(t, `(?m)^PLAIN +to see +-x `, text)
	require.Contains(t, text, " for this host only: ")
	require.Contains(t, machine, `"NCCL_PASSWORD"`, "what is withheld is named")
	require.Error(t, f.Command("h1", "test", "-e", "/tmp/a file").Run())
}

// oddTexts contain characters that are special to shells.
var oddTexts = []string{
	"", " ", "a b", "it's", `"quoted"`, "$(touch /tmp/pwned)", "`touch /tmp/pwned`", "$HOME", "${RANK}", "a\nb", "\n",
	"\t\r\n", `\`, `\n`, "a;b", "&&", "|", "*", "~",
	"-n", "--", "--np=3", "-x", "!", "#", "%s", "ünïcödé", "\xff\xfe\x80", "\x01\x1b[31m", "'\"'\"'", "a=b",
	"{a,b}", "[x]", "<in", ">out", strings.Repeat("long ", 2000),
}

// randomText is a string of any bytes but NUL, which no argument can hold.
func randomText(r *rand.Rand) string {
	const liked = " '\"\\$`\n-;&|*?~!#(){}[]<>%=,:@"
	text := make([]byte, r.IntN(40))
	for i := range text {
		if text[i] = liked[r.IntN(len(liked))]; r.IntN(2) == 0 {
			text[i] = byte(1 + r.IntN(255))
		}
	}
	return string(text)
}

// oddBytes: no shell interprets the content of an argument, a variable or a path (S7).
func oddBytes(t *testing.T, f fleet) {
	r := testneeds.Rand(t)
	texts := slices.Clone(oddTexts)
	for range testneeds.Count(100, 2000) {
		texts = append(texts, randomText(r))
	}
	dir := filepath.Join(f.Dir(), "-n $(touch ${HOME}) 'odd' \"dir\"\n*")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Symlink(self(t), filepath.Join(dir, "-x; my 'program' $(id)")))

	args := []string{"-H", "h1:1,h2:1"}
	want := append([]string{dir}, texts...)
	for i, text := range texts {
		variable := fmt.Sprintf("%s%04d=%s", oddPrefix, i, text)
		args, want = append(args, "-x", variable), append(want, variable)
	}
	j := f.gorun(slices.Concat(args, []string{"--", "./-x; my 'program' $(id)"}, texts)...).with(roleVariable + "=bytes")
	j.dir = dir
	got := j.run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, strings.Repeat(inHex(want)+"\n", 2), got.stdout, "the seed above repeats it")
	for _, host := range []string{"h1", "h2", testhosts.Head} {
		require.Error(t, f.Command(host, "test", "-e", "/tmp/pwned").Run(), host)
	}
	// These host names look like options or commands of ssh.
	for _, name := range []string{
		"-oProxyCommand=touch /tmp/pwned", "$(touch /tmp/pwned)", "h1;touch", "h1 h2", "-h1",
		"@h1", "ann@-h1", "a'b",
	} {
		for _, more := range [][]string{nil, {"--ssh", f.SSH()}} {
			got := f.gorun(slices.Concat(more, []string{"-H", "h2," + name, "true"})...).run(t)
			require.Contains(t, []int{2, 125}, got.code, "%q: %s", name, got.stderr)
			require.Contains(t, got.stderr, "gorun: ", "%q", name)
		}
	}
	require.Error(t, f.Command(testhosts.Head, "test", "-e", "/tmp/pwned").Run())
}

// secretsAndOtherHosts: other users cannot read any secret (S3), and the store accepts hosts of the job only (S5).
func secretsAndOtherHosts(t *testing.T, f fleet) {
	const token = "tok-2f1b8c-known"
	report := filepath.Join(f.Dir(), "report-of-secrets.json")
	r := f.gorun("-v", "-H", "h1:1,h2:1", "--report", report, self(t)).with(roleVariable+"=stay",
		"GORUN_TOKEN="+token).start(t)
	require.True(t, r.until(t, &r.stdout, "\n", 2), r.stderr.String())
	found := regexp.MustCompile(`(?m)^0 (\S+) (\S+)$`).FindStringSubmatch(r.stdout.String())
	require.NotNil(t, found, r.stdout.String())
	store, path := found[1], found[2]
	key := keyOf(t, f, path)
	for _, place := range processTexts(t, f, r.command.Process.Pid) {
		require.NotContains(t, place.text, token, place.name)
		require.NotContains(t, place.text, key, place.name)
	}
	outsider := f.Command("h4", self(t), store)
	outsider.Env = append(os.Environ(), roleVariable+"=outsider")
	answer, err := outsider.CombinedOutput()
	require.NoError(t, err, "%s", answer)
	require.Equal(t, "false <nil>\n", string(answer), "h4 is not of the job")
	require.True(t, r.until(t, &r.stderr, "refused a connection from "+f.Address("h4"), 1), r.stderr.String())

	r.signal(t, syscall.SIGTERM)
	got := r.wait(t)
	require.Equal(t, 143, got.code, got.stderr)
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	for _, secret := range []string{token, key} {
		require.NotContains(t, string(text)+got.stderr, secret)
	}
}

// keyOf reads the job's key on h1.
func keyOf(t *testing.T, f fleet, path string) string {
	t.Helper()
	text, err := f.Command("h1", "cat", path).Output()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(bytes.TrimSpace(text)), 16, "%q", text)
	mode, err := f.Command("h1", "stat", "-c", "%a", path).Output()
	require.NoError(t, err)
	require.Regexp(t, `^[46]00\n$`, string(mode))
	return string(bytes.TrimSpace(text))
}

// processText is the command line or environment of a process.
type processText struct{ name, text string }

// processTexts reads those of all processes of a fleet, except the environment of the launcher, which the user set.
func processTexts(t *testing.T, f fleet, launcher int) (all []processText) {
	t.Helper()
	for _, host := range append(f.Hosts(), testhosts.Head) {
		processes, err := f.Processes(host)
		require.NoError(t, err)
		for _, p := range processes {
			for _, file := range []string{"cmdline", "environ"} {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, file))
				if err == nil && (p.PID != launcher || file != "environ") { // the process may have ended
					all = append(all, processText{host + " " + file + " of " + p.String(), string(text)})
				}
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}
