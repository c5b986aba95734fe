package dialect

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// TestSpareHosts: hosts, how many of them have ranks, and without how many the job ends.
func TestSpareHosts(t *testing.T) {
	for line, want := range map[string]string{
		"gorun -H a,b,c --nnodes 1:2 x":             "a b c 2 1",
		"gorun -H a,b --nnodes 1:3 x":               "a b 2 1",
		"gorun -H a --nnodes 1:3 x":                 "a 1 1",
		"gorun -H a,b,c --spares 1 x":               "a b c 2 2",
		"gorun -H a,b,c --min-nodes 2 x":            "a b c 3 2",
		"gorun -H a,b,c --spares 1 --min-nodes 1 x": "a b c 2 1",
		"gorun -H a,b,c --nnodes 2:2 x":             "a b 2 0",
		"gorun -H a,b,c --nnodes 2 --min-nodes 1 x": "a b c 2 1",
		"gorun -H a,b,c --exclude b --nnodes 1:3 x": "a c 2 1",
		"gorun -H a,b --nnodes 3:4 x":               "! --nnodes 3:4: it takes 3 hosts; -H a,b names 2",
		"gorun -H a,b --spares 2 x":                 "! --spares 2: it takes 3 hosts; -H a,b names 2",
		"gorun -H a,b,c --nnodes 3 --spares 1 x":    "! --spares 1: it takes 4 hosts; -H a,b,c names 3",
	} {
		inv, err := parse(line)
		if problem, wrong := strings.CutPrefix(want, "! "); wrong {
			require.EqualError(t, err, problem)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want, fmt.Sprint(listed(inv.Spec.Hosts), " ", inv.Spec.NumNodes, " ", inv.Spec.MinNodes), line)
	}
}

// TestOtherHosts: hosts of a command line; a star marks this host.
func TestOtherHosts(t *testing.T) {
	for line, want := range map[string]string{
		"gorun -H a:4,b x":                                 "a:4 b",
		"gorun -H a,here,b,localhost:2,127.0.0.1 x":        "a here:4* b",
		"gorun -H node[01-03,20]:8 x":                      "node01:8 node02:8 node03:8 node20:8",
		"gorun -H n[1-9]:2 --exclude n[2-8] x":             "n1:2 n9:2",
		"gorun -H n1,here,n2 --exclude localhost x":        "n1 n2",
		"gorun -H n1,n2 --exclude n1 --exclude n3 x":       "! --exclude n3: n3: not among the hosts of -H n1,n2",
		"gorun --hostfile cluster.txt --exclude node[2] x": "node1:2 node3:2 node4:2",
		"gorun --hostfile cluster.txt --nnodes 2 x":        "node1:2 node2:2",
		"gorun --hostfile cluster.txt -H node[2-3]:7 x":    "node2:7 node3:7",
		"gorun -H n[1-4] --nnodes 2 --exclude n1 x":        "n2 n3",
		"gorun -H a -H b,a x":                              "a:2 b",
		"gorun -H a,b -n 3 --nproc-per-node 2 x":           "a b",
		"gorun -H a:*,b x":                                 "a:* b",
		"mpirun -H a:*,b,here:* x":                         "a:* b:1 here:**",
		"mpiexec -ppn 2 -n 4 -H a:*,b x":                   "a:2 b:2",

		"gorun -H a,b --nnodes 3 x":             "! --nnodes 3: there are 2 hosts in -H a,b",
		"gorun -H a,b --exclude a --nnodes 2 x": "! --nnodes 2: there are 1 hosts in -H a,b --exclude a",
		"gorun -H a --exclude a x":              "! --exclude a leaves none of the hosts of -H a",
		"gorun -H a --exclude a:0,1 x": "! --exclude a:0,1: --exclude takes names of whole hosts and ranges of " +
			"them, separated by commas: no GPUs, which are chosen by --gpus, no users, no ports",
		"gorun -H a --exclude n[2-1] x": "! --exclude n[2-1]: \"n[2-1]\": [2-1] ends before it starts: write [1-2]",
		"gorun --exclude a x":           "! --exclude a leaves out hosts, and none were named: add -H or --hostfile",
		"gorun --exclude= -H a x":       "! --exclude=: the value is empty",
		"gorun -H n[1-999999999] x": "! -H n[1-999999999]: \"n[1-999999999]\": [1-999999999] is more than 65536 " +
			"hosts, the limit of a list or file",
		"gorun -H a,b --standalone x": "! --standalone is one node, and -H a,b names 2: keep one of them",
		"gorun -H a,b --node-rank 1 x": "! --node-rank 1 is for nodes that are started one by one, and gorun " +
			"starts those of -H a,b itself: keep one of them",
		"gorun -H a,b -n 5 --nproc-per-node 2 x":  "! -n 5 contradicts --nproc-per-node 2, which makes 4 on 2 hosts",
		"gorun --hostfile cluster.txt -H node9 x": "! -H node9: the host file does not have node9",
	} {
		t.Run(line, func(t *testing.T) {
			inv, err := parse(line)
			if problem, wrong := strings.CutPrefix(want, "! "); wrong {
				require.EqualError(t, err, problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, listed(inv.Spec.Hosts))
			require.Equal(t, strings.Contains(line, "127.0.0.1"), inv.Notes != nil, inv.Notes)
		})
	}
	inv, err := parse("gorun -H a,b x", "GORUN_EXCLUDE=b,c[1-9]")
	require.NoError(t, err, "a variable may name what is broken anywhere")
	require.Equal(t, "a", listed(inv.Spec.Hosts))
	require.Empty(t, mustParse(t, "gorun x", "GORUN_EXCLUDE=b").Notes)
}

// TestProgramsWithHostFiles: each program may have its own host file, and -H selects hosts from it. A host file
// before the first program belongs to that program.
func TestProgramsWithHostFiles(t *testing.T) {
	files := map[string]string{
		"f1": "a slots=2\nb slots=4\n", "f2": "b slots=3\nc max_slots=2\n",
		"open": "a\nd slots=2\n",
	}
	here := around()
	here.ReadFile = func(name string) ([]byte, error) {
		text, found := files[name]
		if !found {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	for line, want := range map[string][]string{
		"mpirun -n 1 --hostfile f1 x : -n 1 --hostfile f2 y":      {"a:2 b:4 c:2", "a:2 b:4", "b:3 c:2"},
		"mpiexec -n 1 -f f1 x : -n 1 -f f2 y":                     {"a:2 b:4 c:2", "a:2 b:4", "b:3 c:2"},
		"mpirun -n 1 --hostfile f1 -H b x : -n 1 -machine ./f1 y": nil,
		"mpirun -n 1 --hostfile f1 -H b x : -n 1 -hostfile f2 y":  {"b:4 c:2", "b:4", "b:3 c:2"},
		"mpirun -n 1 -H d,d x : -n 1 -hostfile f1 y : -n 1 z":     {"d:2 a:2 b:4", "d:2", "a:2 b:4", ""},
		"mpirun -n 1 -H b x : -n 1 -hostfile f1 y : -n 1 -H b z":  {"b:4 a:2", "b", "a:2 b:4", "b"},
		"gorun -n 1 --hostfile f1 x : -n 1 y":                     {"a:2 b:4", "", ""},
		"gorun -n 1 x : -n 1 --hostfile open y":                   {"a d:2", "", "a d:2"},
		"mpirun -n 1 x : -n 1 --hostfile open y":                  {"a:* d:2", "", "a d:2"},
		"mpirun --hostfile open y":                                {"a:* d:2", ""},
	} {
		words := strings.Fields(line)
		inv, err := Parse(words[0], words[1:], here)
		if want == nil {
			require.ErrorContains(t, err, "-machine ./f1: file does not exist", line)
			continue
		}
		require.NoError(t, err, line)
		got := []string{listed(inv.Spec.Hosts)}
		for _, app := range inv.Spec.Apps {
			got = append(got, listed(app.Hosts))
		}
		require.Equal(t, want, got, line)
		require.Equal(t, job.CountUnset, inv.Spec.PerNode.Kind, line)
	}
}

// listed formats hosts for -H, and marks this host with a star.
func listed(all []hosts.Host) string {
	words := make([]string, len(all))
	for i, h := range all {
		words[i] = h.Name
		if h.CoreSlots {
			words[i] += ":*"
		}
		if h.Slots > 0 {
			words[i] += ":" + strconv.Itoa(h.Slots)
		}
		if h.Here {
			words[i] += "*"
		}
	}
	return strings.Join(words, " ")
}

func TestHostsWithUsersAndPorts(t *testing.T) {
	inv := mustParse(t, "gorun -H user@node2:2222:4,[fe80::1%eth0]:4,bob@localhost:22:2 x")
	from := "-H user@node2:2222:4,[fe80::1%eth0]:4,bob@localhost:22:2"
	require.Equal(t, []hosts.Host{
		{Name: "node2", User: "user", Port: 2222, Slots: 4, From: from},
		{Name: "fe80::1%eth0", Slots: 4, From: from},
		{Name: "localhost", Slots: 2, Here: true, From: from},
	}, inv.Spec.Hosts)
	require.Equal(t,
		[]string{from + ": localhost is this host, which needs no login: its user and port are ignored"}, inv.Notes)
}

func TestMaxSlotsOfSeveralHosts(t *testing.T) {
	around := around()
	around.ReadFile = func(string) ([]byte, error) { return []byte("n[1-2] slots=1 max-slots=2\n"), nil }
	_, err := Parse("gorun", []string{"--hostfile", "h", "-n", "5", "x"}, around)
	require.EqualError(t, err, "5 ranks are more than the max-slots=4 of n[1-2] together (--hostfile h)")
	_, err = Parse("gorun", []string{"--hostfile", "h", "--nproc-per-node", "3", "x"}, around)
	require.EqualError(t, err,
		"3 ranks are more than max-slots=2 of n1 (h:1)\n3 ranks are more than max-slots=2 of n2 (h:1)")
	_, err = Parse("gorun", []string{"--hostfile", "h", "-n", "4", "x"}, around)
	require.NoError(t, err)
}

// -v prints the dialect of a host file.
func TestHostFileDialect(t *testing.T) {
	require.Equal(t, []string{"cluster.txt: the host file's dialect: Open MPI or DeepSpeed"},
		mustParse(t, "gorun -v --hostfile cluster.txt x").Notes)
}

// TestReach: each option about other hosts sets its part of the Spec.
func TestReach(t *testing.T) {
	for line, want := range map[string]job.Spec{
		"gorun --ssh-config f --ssh-accept-new x":  {Reach: job.ReachSpec{SSHConfig: "f", AcceptNew: true}},
		"gorun --ssh-at-once 8 --ssh-timeout 90 x": {Reach: job.ReachSpec{AtOnce: 8, Timeout: 90 * time.Second}},
		"gorun --agent /opt/gorun --copy a --copy=b/ x": {
			Reach: job.ReachSpec{Agent: "/opt/gorun", Copy: []string{"a", "b/"}},
		},
		"gorun --ssh kubectl x":                {Reach: job.ReachSpec{Command: []string{"kubectl"}}},
		"gorun --export-all --oversubscribe x": {ExportAll: true, Oversubscribe: true},
		"gorun -genvall x":                     {ExportAll: true},
		"gorun --heartbeat 500ms --logs-to head x": {
			Heartbeat: 500 * time.Millisecond, Output: job.OutputSpec{LogsToHead: true},
		},
		"gorun --logs-to head --logs-to node x":         {},
		"gorun --ssh-accept-new=0 --export-all=false x": {},
		"mpirun --ssh-config f -oversubscribe -envall x": {
			Reach: job.ReachSpec{SSHConfig: "f"}, MPIRequested: true, LenientExports: true, Oversubscribe: true, ExportAll: true,
			Store: job.StoreSpec{Mode: job.StoreRank0}, PerNode: job.Count{Kind: job.CountCore, From: "mpirun's default"},
			TimeoutCode: 110,
		},
		"gorun --ssh docker --ssh-timeout 1 --agent ./g ": {
			Reach: job.ReachSpec{Command: []string{"docker"}, Timeout: time.Second, Agent: "./g"},
		},
	} {
		t.Run(line, func(t *testing.T) {
			inv := mustParse(t, strings.TrimSuffix(strings.TrimSuffix(line, "x"), " ")+" x")
			want.Apps = []job.App{{Program: "x", Args: []string{}}}
			require.Equal(t, want, inv.Spec)
		})
	}
	for line, want := range map[string]string{
		"gorun --heartbeat 0 x":   "--heartbeat 0: not a time from 100ms to 10m0s",
		"gorun --heartbeat 1h x":  "--heartbeat 1h: not a time from 100ms to 10m0s",
		"gorun --ssh-timeout 0 x": "--ssh-timeout 0: not a time from 100ms to 24h0m0s",
		"gorun --ssh-at-once 0 x": "--ssh-at-once 0: not a number from 1 to 1048576",
		"gorun --logs-to me x":    "--logs-to me: not one of node, head",
		"gorun --agent=-x x": "--agent=-x: a path that begins with a dash would be taken for an option " +
			"there: write ./ before it",
		"gorun --copy= x": "--copy=: the value is empty",
		"gorun --ssh ssh --ssh-config f x": "--ssh-config f is for gorun's own SSH, and --ssh ssh takes another " +
			"program's: write it into the command, such as --ssh 'ssh -F FILE'",
		"gorun --ssh ssh --ssh-accept-new x": "--ssh-accept-new is for gorun's own SSH, and --ssh ssh takes another " +
			"program's: write it into the command, such as --ssh 'ssh -o StrictHostKeyChecking=accept-new'",
		"gorun --nolocal x": "--nolocal leaves out this host, and no other is named: add -H or --hostfile",
	} {
		require.Equal(t, []string{want}, problems(t, line))
	}
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"ssh -K":                            {"ssh", "-K"},
		" kubectl  exec -i {host} -- ":      {"kubectl", "exec", "-i", "{host}", "--"},
		`ssh -o 'ProxyCommand nc %h %p' ""`: {"ssh", "-o", "ProxyCommand nc %h %p", ""},
		`ssh -o "User $x"`:                  nil,
		`a "b\"c\d"e\ f`:                    {"a", `b"c\de f`},
		`a 'it'\''s'`:                       {"a", "it's"},
		"a '$HOME | x'":                     {"a", "$HOME | x"},
		"":                                  nil, " ": nil, "''": nil, "a 'b": nil, `a "b`: nil, `a b\`: nil, "a | b": nil,
		"a $(b)": nil, "a > b": nil, "a; b": nil, "a `b`": nil,
	} {
		got, err := splitCommand(line)
		require.Equal(t, want == nil, err != nil, line)
		require.Equal(t, want, got, line)
	}
	_, err := Parse("gorun", []string{"--ssh", "ssh 'x", "p"}, around())
	require.EqualError(t, err, "--ssh ssh 'x: a ' is not closed")
	_, err = Parse("gorun", []string{"--ssh", "a | b", "p"}, around())
	require.EqualError(t, err, "--ssh a | b: '|' is shell syntax, but no shell runs this command: put it in single "+
		"quotes, or the command in a script")
}

// Quoting the words of a command and splitting them again gives the same words. The seeds are in testdata/fuzz.
func FuzzSplitCommand(f *testing.F) {
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitCommand(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = shellwords.QuotePOSIX(w)
		}
		again, err := splitCommand(strings.Join(quoted, " "))
		require.NoError(t, err)
		require.Equal(t, words, again)
	})
}
