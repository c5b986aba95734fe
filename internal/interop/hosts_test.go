package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// fleet is a set of hosts with a real sshd each, and a head that starts gorun.
type fleet struct{ *testhosts.Set }

// raise makes a fleet. When the test ends, no process of gorun may run on any of its hosts.
func raise(t *testing.T, config testhosts.Config) fleet {
	t.Helper()
	config.PrivateTmp, config.PrivateHome = true, true
	config.Keep = append(config.Keep, bin)
	f := fleet{testhosts.Up(t, config)}
	t.Cleanup(func() {
		for _, host := range append(f.Hosts(), testhosts.Head) {
			var left []testhosts.Process
			assert.Eventually(t, func() bool {
				var err error
				left, err = f.Processes(host)
				return err == nil && len(left) == 0
			}, leaving, 20*time.Millisecond, "%s: %v", host, &left)
		}
	})
	return f
}

// gorun is a job that starts on the head. The test variables reach its ranks on all hosts.
func (f fleet) gorun(args ...string) job {
	return f.under(f.SSHConfig(), args...)
}

// under is gorun with another ssh configuration.
func (f fleet) under(config string, args ...string) job {
	j := gorun(append([]string{"--ssh-config", config, "-x", "INTEROP_*"}, args...)...)
	j.hosts = f.Set
	return j
}

// write writes a file that all hosts can read, and returns its path.
func (f fleet) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(f.Dir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// configure makes an ssh configuration: lines that precede those of the set.
func (f fleet) configure(t *testing.T, lines ...string) string {
	t.Helper()
	own, err := os.ReadFile(f.SSHConfig())
	require.NoError(t, err)
	name := "config-" + strings.ReplaceAll(t.Name(), "/", "-")
	return f.write(t, name, strings.Join(lines, "\n")+"\n"+string(own))
}

// where is a rank that prints its number and its host.
var where = []string{"sh", "-c", `echo "$RANK $(hostname)"`}

// whereabouts returns the hosts of such ranks in rank order, such as "h1 h1 h2".
func whereabouts(t *testing.T, got result) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	hosts := make([]string, len(lines))
	for _, line := range lines {
		var rank int
		var host string
		_, err := fmt.Sscan(line, &rank, &host)
		require.NoError(t, err, "%q\n%s", line, got.stderr)
		require.Less(t, rank, len(hosts), got.stdout)
		hosts[rank] = host
	}
	return strings.Join(hosts, " ")
}

// saidBy returns the messages of gorun, without the prefix of each line.
func saidBy(got result) []string {
	text := strings.TrimSuffix(got.stderr, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll("\n"+text, "\ngorun: ", "\n")[1:], "\n")
}

// form is a way to name hosts.
type form struct {
	options []string
	want    string   // hosts of the ranks
	says    []string // all messages of gorun
}

func (c form) check(t *testing.T, j job) {
	t.Helper()
	j.argv = append(append(j.argv, c.options...), where...)
	got := j.run(t)
	require.Zero(t, got.code, "%v\n%s", c.options, got.stderr)
	require.Equal(t, c.want, whereabouts(t, got), "%v", c.options)
	require.Equal(t, c.says, saidBy(got), "%v", c.options)
}

func words(line string) []string { return strings.Fields(line) }

// several runs tests that share one set of hosts, two at a time on a machine with two cores.
func several(t *testing.T, f fleet, tests map[string]func(t *testing.T, f fleet)) {
	t.Helper()
	t.Run("hosts", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, f)
			})
		}
	})
}

// TestHosts runs jobs over four hosts.
func TestHosts(t *testing.T) {
	python := ""
	if found, err := filepath.EvalSymlinks(filepath.Join(testneeds.Repository(t), ".venv", "bin", "python")); err == nil {
		python = filepath.Dir(filepath.Dir(found)) // a private home directory may hide it
	}
	f := raise(t, testhosts.Config{Hosts: 4, Keep: []string{python, venv(t)}, SSHD: []string{"Port 22", "Port 2222"}})
	require.NoError(t, f.AddAddress(testhosts.Head, "eth0", "fd77::ff/64"))
	for i, host := range f.Hosts() {
		for id, name := range []string{"ann", "eve"} {
			_, err := f.AddUser(host, testhosts.User{Name: name, UID: 2042 + id})
			require.NoError(t, err)
		}
		require.NoError(t, f.AddAddress(host, "eth0", fmt.Sprintf("fd77::%d/64", i+1)))
		require.NoError(t,
			f.AddInterface(host, testhosts.Interface{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}}))
	}
	several(t, f, map[string]func(*testing.T, fleet){
		"every form of -H":               forms,
		"host files":                     hostFiles,
		"more and fewer ranks":           counts,
		"refusals":                       refusals,
		"places and environment":         placesAndEnvironment,
		"what is forwarded":              forwarded,
		"the plan":                       dryRun,
		"bytes of arguments":             oddBytes,
		"output":                         wholeOutput,
		"standard input":                 standardInput,
		"log files":                      logFiles,
		"failures and restarts":          failuresAndRestarts,
		"signals":                        signals,
		"secrets and other hosts":        secretsAndOtherHosts,
		"missing programs and folders":   missing,
		"an external program for ssh":    externalPrograms,
		"programs beside ranks":          programsBesideRanks,
		"two launches with empty caches": emptyCaches,
		"collectives":                    collectives,
		"PyTorch":                        pytorchOverHosts,
		"functions of Python":            pythonAPI,
	})
}

// venv is the real path of the virtual environment, which a private folder may hide too.
func venv(t *testing.T) string {
	t.Helper()
	path := filepath.Join(testneeds.Repository(t), ".venv")
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// slots is the message of gorun if it starts one rank per slot.
func slots(n int, from string) []string {
	return []string{fmt.Sprintf("%d ranks: one per slot (%s)", n, from)}
}

func forms(t *testing.T, f fleet) {
	onePerNode := func(n int) []string { return []string{fmt.Sprintf("%d ranks: one per node (no GPU found)", n)} }
	config := f.configure(t, "Host fd77::*", "  HostKeyAlias h1")
	for _, c := range []form{
		{words("-H h1:2,h2:1,h3"), "h1 h1 h2 h3", slots(4, "-H h1:2,h2:1,h3")},
		{words("-host h2,h1"), "h2 h1", onePerNode(2)},
		{words("--host=h[1-2,4]"), "h1 h2 h4", onePerNode(3)},
		{words("-H h[1-4] --exclude h[2-3]"), "h1 h4", onePerNode(2)},
		{words("-H h[1-2]:2 --exclude h1"), "h2 h2", slots(2, "-H h[1-2]:2")},
		{words("-H h1:1,h2:1,h1:1"), "h1 h1 h2", slots(3, "-H h1:1,h2:1,h1:1")},
		{words("-H root@h1:22:2,h2:2222:1"), "h1 h1 h2", slots(3, "-H root@h1:22:2,h2:2222:1")},
		{words("--chdir / -H ann@h1,h2"), "h1 h2", onePerNode(2)},
		{words("-H 10.77.1.1:1,10.77.1.2:1"), "h1 h2", slots(2, "-H 10.77.1.1:1,10.77.1.2:1")},
		{words("-H [fd77::1]:2"), "h1 h1", slots(2, "-H [fd77::1]:2")},
		{words("-H [fd77::1]:2222:1"), "h1", []string{"1 rank: one per slot (-H [fd77::1]:2222:1)"}},
		{words("-H localhost:2,h1:1"), "head head h1", slots(3, "-H localhost:2,h1:1")},
		{words("-H head,127.0.0.1,h2"), "head head h2", append(
			[]string{"head and 127.0.0.1 are the same machine: their slots add up to 2"}, slots(3, "-H head,127.0.0.1,h2")...)},
		{words("-H h[1-4]:2 --nnodes 2"), "h1 h1 h2 h2", slots(4, "-H h[1-4]:2")},
		{words("-H h[1-4] --nproc-per-node 2 --nnodes=2"), "h1 h1 h2 h2", nil},
	} {
		c.check(t, f.under(config))
	}
	c := form{want: "h3 h3", says: slots(2, "GORUN_HOST=h3:2")}
	c.check(t, f.gorun().with("GORUN_HOST=h3:2"))
}

func hostFiles(t *testing.T, f fleet) {
	for name, c := range map[string]struct {
		text, options, want, dialect string
	}{
		"open-mpi":  {"# two\nh1 slots=2 max-slots=3\n\nh2 slots=1 port=2222 username=root\n", "", "h1 h1 h2", "Open MPI"},
		"deepspeed": {"h1 slots=1\nh2 slots=1\n", "", "h1 h2", "Open MPI or DeepSpeed"},
		"mpich":     {"h1:2\nh2:1 ifhn=10.77.1.2\n", "", "h1 h1 h2", "MPICH"},
		"names":     {"h1\nh1\nh2\n", "", "h1 h1 h2", ""},
		"ranges":    {"h[1-3] slots=1\r\n", "--exclude h2", "h1 h3", "Open MPI or DeepSpeed"},
		"chosen":    {"h1:4\nh2:3\n", "-H h2", "h2 h2 h2", "MPICH"},
	} {
		path := f.write(t, "hostfile-"+name, c.text)
		got := f.gorun(slices.Concat([]string{"-v", "--hostfile", path}, words(c.options), where)...).run(t)
		require.Zero(t, got.code, "%s\n%s", name, got.stderr)
		require.Equal(t, c.want, whereabouts(t, got), name)
		if c.dialect != "" {
			require.Contains(t, got.stderr, "gorun: "+path+": the host file's dialect: "+c.dialect+"\n")
		}
	}
}

// TestInterfaceOfHostFile: ifhn= names the address at which other hosts reach a host with several networks.
func TestInterfaceOfHostFile(t *testing.T) {
	t.Parallel()
	f := raise(t, testhosts.Config{Hosts: 2})
	for i, host := range f.Hosts() {
		require.NoError(t,
			f.AddInterface(host, testhosts.Interface{
				Name: fmt.Sprint("ib", i), Bridge: "fabric",
				Addresses: []string{fmt.Sprintf("10.9.0.%d/24", i+1)},
			}))
	}
	path := f.write(t, "hostfile-interfaces", "h1:1 ifhn=10.9.0.1\nh2:1 ifhn=10.9.0.2\n")
	got := f.gorun("--machinefile", path, "sh", "-c",
		"echo $RANK $MASTER_ADDR $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME").run(t)
	require.Zero(t, got.code, got.stderr)
	require.ElementsMatch(t, []string{"0 10.9.0.1 ib0 =ib0\n", "1 10.9.0.1 ib1 =ib1\n"},
		slices.Collect(strings.Lines(got.stdout)))
	require.Equal(t, slots(2, "--machinefile "+path), saidBy(got))
}

// TestHostsOfPrograms: each program of a job has its own hosts and variables, and gorun looks for it on those hosts
// only.
func TestHostsOfPrograms(t *testing.T) {
	t.Parallel()
	f := raise(t, testhosts.Config{Hosts: 2})
	got := f.gorun("-H", "h1", "-n", "1", "-x", "WHO=server", "sh", "-c", "echo $RANK $LOCAL_RANK $(hostname) $WHO",
		":", "-H", "h2:2", "-x", "WHO=client", "-n", "2", "sh", "-c", "echo $RANK $LOCAL_RANK $(hostname) $WHO").run(t)
	require.Zero(t, got.code, got.stderr)
	require.ElementsMatch(t, []string{"0 0 h1 server\n", "1 0 h2 client\n", "2 1 h2 client\n"},
		slices.Collect(strings.Lines(got.stdout)))
	only := f.write(t, "only-here", "")
	got = f.gorun("-H", "h1", "-n", "1", "cat", only, ":", "-H", "h2", "-n", "1", "/no/such/program").run(t)
	require.Equal(t, 127, got.code)
	require.NotContains(t, got.stderr, "h1: ")
}

func counts(t *testing.T, f fleet) {
	const (
		six  = "2 of 8 slots stay idle: did you mean -np 8?"
		four = "4 of 8 slots stay idle, all ranks are on h1: did you mean -np 8?"
	)
	for _, c := range []form{
		{words("-H h1:4,h2:4 -np 6 --bind-to none"), "h1 h1 h1 h1 h2 h2", []string{six}},
		{words("-H h1:4,h2:4 -np 6 --bind-to none --map-by node"), "h1 h2 h1 h2 h1 h2", []string{six}},
		{words("-H h1:4,h2:4 -np 4 --bind-to none"), "h1 h1 h1 h1", []string{four}},
		{words("-H h1,h2 -np 4 --bind-to none"), "h1 h1 h2 h2", nil},
		{words("-H h1:4,h2:4 --nproc-per-node 1"), "h1 h2", nil},
		{
			words("-H h1:1,h2:1 -np 3 --bind-to none --oversubscribe"), "h1 h1 h2",
			[]string{"3 ranks share 2 slots (-H h1:1,h2:1)"},
		},
		{
			words("-H h1,h2 -np 24 --bind-to none"), strings.TrimSpace(strings.Repeat("h1 ", 12) + strings.Repeat("h2 ", 12)),
			nil,
		},
	} {
		c.check(t, f.gorun())
	}
	many := 2 * (runtime.NumCPU() + 1)
	got := f.gorun("-H", "h1,h2", "-np", fmt.Sprint(many), "true").run(t)
	require.Len(t, saidBy(got), 1, "what two hosts have to say is said once: %s", got.stderr)
	require.Regexp(t, fmt.Sprintf(`^gorun: %d ranks share \d+ CPUs? on each of 2 nodes, so no rank is bound to CPUs\n$`,
		many/2), got.stderr)
}

func refusals(t *testing.T, f fleet) {
	for line, says := range map[string]string{
		"-H h1:4,h2:4 -np 20 true": "-np 20 is more than the 8 slots of 2 nodes (-H h1:4,h2:4): use -np 8 or --oversubscribe",
		"-H h1 --exclude h1 true":  "--exclude h1 leaves none of the hosts of -H h1",
		"-H h1:0 true":             `-H h1:0: "h1:0": the number of slots is "0", not a number from 1 to 1048576`,
		"-H h[1- true":             `-H h[1-: "h[1-": missing ]`,
		"-H h1 --hostfile /n true": "--hostfile /n: no such file or directory",
		"-H h1,h5 true":            "h5: cannot resolve host name: ",
	} {
		got := f.gorun(words(line)...).run(t)
		require.Contains(t, []int{2, 125}, got.code, line)
		require.True(t, strings.HasPrefix(got.stderr, "gorun: "+says), "%s\n%s", line, got.stderr)
		require.Empty(t, got.stdout)
	}
}
