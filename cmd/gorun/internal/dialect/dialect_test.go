package dialect

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
)

// around returns surroundings with some variables, given as NAME=VALUE, on a
// host called here.
func around(variables ...string) Surroundings {
	values := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return Surroundings{
		Lookup: func(name string) (string, bool) {
			value, given := values[name]
			return value, given
		},
		Names: func() []string { return slices.Sorted(maps.Keys(values)) },
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "here.txt":
				return []byte("here slots=2 max-slots=4\nlocalhost slots=1\n"), nil
			case "train.py", "train":
				return []byte("import argparse\nparser.add_argument('--node_rank')\n"), nil
			case "main.py":
				return []byte("from local import main\n"), nil
			case "wrapper", "local/__init__.py":
				return []byte("#!/bin/sh\n"), nil
			case "there.txt":
				return []byte("here\nthere slots=x\n"), nil
			case "ranks.txt":
				return []byte("rank 0=here slot=0\nrank 1=here slot=1\n"), nil
			case "cluster.txt":
				return []byte("node[1-4] slots=2\n"), nil
			case "tune.conf":
				return []byte("# comment\npml = ob1\n-mca btl tcp,self -x A=1\n"), nil
			case "programs":
				return []byte("# two programs\n-n 1 ./a 'one word'\n\n-n 2 -env A 1 ./b \\\n  $HOME\n"), nil
			case "odd.txt":
				return []byte("here:2 binding=rr\n"), nil
			}
			return nil, fs.ErrNotExist
		},
		UID:        7,
		ReadToken:  tokenFile,
		IsThisHost: func(name string) bool { return name == "here" },
		LookPath: func(name string) (string, error) {
			if slices.Contains(variables, "PATH=") {
				return "", fs.ErrNotExist
			}
			return "/usr/bin/" + name, nil
		},
	}
}

// tokenFile is a file with a secret, owned by user 7.
func tokenFile(name string) (TokenFile, error) {
	file, found := map[string]TokenFile{
		"token": {Mode: 0o600, UID: 7}, "pod": {Mode: 0o440}, "open": {Mode: 0o644, UID: 7},
		"group": {Mode: 0o640, UID: 7}, "shared": {Mode: 0o660},
		"theirs": {Mode: 0o600, UID: 8}, "pipe": {Mode: fs.ModeNamedPipe | 0o600, UID: 7},
		"empty":                        {Mode: 0o600, UID: 7, Content: []byte(" \n")},
		"long":                         {Mode: 0o600, UID: 7, Content: []byte("two words")},
		"/home/me/.config/gorun/token": {Mode: 0o600, UID: 7, Content: []byte(otherToken)},
		"/conf/gorun/token":            {Mode: 0o600, UID: 7}, "/open/gorun/token": {Mode: 0o640, UID: 7},
	}[name]
	if !found {
		return file, fs.ErrNotExist
	}
	if file.Content == nil {
		file.Content = []byte(" " + fileToken + "\n")
	}
	return file, nil
}

// parse parses a command line that starts with the name, split at blanks.
func parse(line string, variables ...string) (Invocation, error) {
	words := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, Launch.Name+" "):
		words = append([]string{"torch.distributed.launch"}, words[2:]...)
	case strings.HasPrefix(line, Run.Name+" "):
		words = append([]string{Run.Name}, words[2:]...)
	}
	return Parse(words[0], words[1:], around(variables...))
}

func mustParse(t *testing.T, line string, variables ...string) Invocation {
	t.Helper()
	inv, err := parse(line, variables...)
	require.NoError(t, err)
	return inv
}

// problems returns the problems of a command line.
func problems(t *testing.T, line string, variables ...string) []string {
	t.Helper()
	_, err := parse(line, variables...)
	var usage *UsageError
	require.ErrorAs(t, err, &usage, line)
	require.NotNil(t, usage.Dialect)
	require.Equal(t, strings.Join(usage.Lines(), "\n"), usage.Error())
	return usage.Lines()
}

func fixed(n int, from string) job.Count { return job.Count{Kind: job.CountFixed, N: n, From: from} }

// TestSpec: each option sets its part of the Spec.
func TestSpec(t *testing.T) {
	one := job.Count{Kind: job.CountFixed, N: 1, From: "mpiexec's default"}
	for line, want := range map[string]job.Spec{
		"gorun x":                                {},
		"gorun -n 4 x":                           {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-n 4"},
		"gorun -np 4 x":                          {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-np 4"},
		"gorun --np=4 x":                         {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "--np=4"},
		"gorun --n 4 x":                          {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "--n 4"},
		"gorun -c 4 x":                           {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-c 4"},
		"gorun -n4 x":                            {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-n4"},
		"gorun -np4 x":                           {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-np4"},
		"gorun -np=4 x":                          {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-np=4"},
		"gorun -n 4 -np 4 x":                     {Apps: []job.App{{NumRanks: 4}}, RanksFrom: "-np 4"},
		"gorun --nproc-per-node 4 x":             {PerNode: fixed(4, "--nproc-per-node 4")},
		"gorun --nproc_per_node=4 x":             {PerNode: fixed(4, "--nproc_per_node=4")},
		"gorun -nproc-per-node auto x":           {PerNode: job.Count{Kind: job.CountAuto, From: "-nproc-per-node auto"}},
		"gorun --nproc-per-node gpu x":           {PerNode: job.Count{Kind: job.CountGPU, From: "--nproc-per-node gpu"}},
		"gorun --nproc-per-node cpu x":           {PerNode: job.Count{Kind: job.CountCPU, From: "--nproc-per-node cpu"}},
		"gorun --nproc-per-node 2 --nnodes 1:1 ": {PerNode: fixed(2, "--nproc-per-node 2"), NumNodes: 1},
		"gorun -np 2 --nproc-per-node 2 x": {
			Apps: []job.App{{NumRanks: 2}}, RanksFrom: "-np 2", PerNode: fixed(2, "--nproc-per-node 2"),
		},

		"gorun -H localhost:4 x": {
			Hosts: []hosts.Host{{Name: "localhost", Slots: 4, Here: true, From: "-H localhost:4"}}, HostsFrom: "-H " +
				"localhost:4",
		},
		"gorun -host here,127.0.0.1:2 x": {
			Hosts:     []hosts.Host{{Name: "here", Slots: 3, Here: true, From: "-host here,127.0.0.1:2"}},
			HostsFrom: "-host here,127.0.0.1:2",
		},
		"gorun --hosts [::1] -H ::1 x": {
			Hosts: []hosts.Host{{Name: "::1", Slots: 2, Here: true, From: "--hosts [::1]"}}, HostsFrom: "--hosts [::1] -H ::1",
		},
		"gorun --hostfile here.txt x": {
			Hosts: []hosts.Host{{Name: "here", Slots: 3, Here: true, From: "here.txt:1"}}, HostsFrom: "--hostfile here.txt",
		},
		"gorun -machinefile here.txt -H here ": {
			Hosts:     []hosts.Host{{Name: "here", Slots: 2, MaxSlots: 4, Here: true, From: "-H here"}},
			HostsFrom: "-H here -machinefile here.txt",
		},
		"gorun --node-rank 0 --nnodes=1 x": {NumNodes: 1},

		"gorun -m x":                  {Apps: []job.App{{Start: job.StartModule}}},
		"gorun --module x":            {Apps: []job.App{{Start: job.StartModule}}},
		"gorun --no-python x":         {Apps: []job.App{{Start: job.StartExec}}},
		"gorun --module=false x":      {},
		"gorun --chdir /d x":          {Dir: "/d"},
		"gorun -wdir /d x":            {Dir: "/d"},
		"gorun --wd=/d x":             {Dir: "/d"},
		"gorun --role r x":            {Role: "r"},
		"gorun --virtual_local_rank ": {VirtualLocalRank: true},
		"gorun -x A=1 -x B= -x C* -x H": {Exports: []job.Export{
			{Name: "A", Value: "1", HasValue: true}, {Name: "B", HasValue: true}, {Name: "C*"}, {Name: "H"},
		}},

		"gorun --store gorun x": {Store: job.StoreSpec{Mode: job.StoreGorun}},
		"gorun --store=rank0 x": {Store: job.StoreSpec{Mode: job.StoreRank0}},
		"gorun --store auto x":  {},
		"gorun --on-failure continue --min-success 3 --early-exit fail x": {
			Policy: job.Policy{Continue: true, MinSuccess: 3, EarlyExit: job.EarlyFail},
		},
		"gorun --max-restarts 3 --restart-delay 2 --restart-window 1h x": {
			Restarts: job.Restarts{Max: 3, Delay: 2 * time.Second, Window: time.Hour},
		},
		"gorun --restart-delay 0 x":             {Restarts: job.Restarts{Delay: -1}},
		"gorun --warm-imports torch,torch.nn x": {WarmImports: []string{"torch", "torch.nn"}},
		"gorun --store-report 5m x":             {Store: job.StoreSpec{Report: 5 * time.Minute}},
		"gorun --store-report 0 x":              {Store: job.StoreSpec{Report: -1}},
		"gorun --allow-from 10.1.2.3/8 --allow-from ::1,10.0.0.9 x": {
			Store: job.StoreSpec{Allow: networks("10.0.0.0/8", "::1/128", "10.0.0.9/32")},
		},
		"gorun --allow-local-users x": {Store: job.StoreSpec{AllowLocalUsers: true}},
		"gorun --master-addr a x": {
			Store: job.StoreSpec{Addr: "a", From: "--master-addr a"},
		},
		"gorun --master_port=29500 x": {
			Store: job.StoreSpec{Port: 29500, From: "--master_port=29500"},
		},
		"gorun --master-addr [::1] --master-port 1 x": {
			Store: job.StoreSpec{Addr: "::1", Port: 1, From: "--master-addr [::1] --master-port 1"},
		},
		"gorun --rdzv-endpoint localhost:0 x": {
			Store: job.StoreSpec{Addr: "localhost", From: "--rdzv-endpoint localhost:0"},
		},
		"gorun --rdzv-endpoint [::1]:5 x": {
			Store: job.StoreSpec{Addr: "::1", Port: 5, From: "--rdzv-endpoint [::1]:5"},
		},
		"gorun --rdzv-endpoint ::1 x": {
			Store: job.StoreSpec{Addr: "::1", From: "--rdzv-endpoint ::1"},
		},
		"gorun --rdzv-endpoint h x": {Store: job.StoreSpec{Addr: "h", From: "--rdzv-endpoint h"}},
		"gorun --rdzv-endpoint= x":  {},
		"gorun --local-addr 10.0.0.1 x": {
			Store: job.StoreSpec{Addr: "10.0.0.1", From: "--local-addr 10.0.0.1"},
		},
		"gorun --local-addr a --master-addr b x": {Store: job.StoreSpec{Addr: "b", From: "--master-addr b"}},
		"gorun --local-addr a --master-port 7 x": {
			Store: job.StoreSpec{Addr: "a", Port: 7, From: "--local-addr a --master-port 7"},
		},
		"gorun --rdzv-endpoint a:1 --master-port 1 x": {
			Store: job.StoreSpec{Addr: "a", Port: 1, From: "--rdzv-endpoint a:1"},
		},
		"gorun --rdzv-backend c10d --rdzv-id j x":               {RunID: "j"},
		"gorun --rdzv_backend=static --rdzv_conf=timeout=9 x":   {},
		"gorun --rdzv-conf join_timeout=9,is_host=1 x":          {},
		"gorun --standalone --rdzv-id j --master-port 5 x":      {},
		"gorun --standalone --rdzv-endpoint a:5 --role trainer": {Role: "trainer"},

		"gorun --stdin all x":    {Stdin: job.StdinSpec{Kind: job.StdinAll}},
		"gorun --stdin none x":   {Stdin: job.StdinSpec{Kind: job.StdinNone}},
		"gorun --stdin 3 x":      {Stdin: job.StdinSpec{Rank: 3}},
		"gorun --stdin 1,3-4 x":  {Stdin: job.StdinSpec{Kind: job.StdinSome, Ranks: []int{1, 3, 4}}},
		"gorun --label=always x": {Output: job.OutputSpec{Label: job.LabelAlways}},
		"gorun --label never x":  {Output: job.OutputSpec{Label: job.LabelNever}},
		"gorun -l x":             {Output: job.OutputSpec{Label: job.LabelAlways}},
		"gorun -tag-output x": {
			Output: job.OutputSpec{Label: job.LabelAlways, Pattern: "[1,%r]<%s>:"},
		},
		"gorun --pty x": {Output: job.OutputSpec{PTY: true}},
		"gorun -t 3 x":  {Output: job.OutputSpec{LogsByRank: true, Tee: job.StreamMap{All: 3}}},
		"gorun -r1 x": {
			Output: job.OutputSpec{LogsByRank: true, Redirect: job.StreamMap{All: job.Stdout}},
		},
		"gorun --redirects 0:3,12:2 x": {
			Output: job.OutputSpec{LogsByRank: true, Redirect: job.StreamMap{Ranks: map[int]job.Streams{0: 3, 12: 2}}},
		},
		"gorun -r0:1 x": {
			Output: job.OutputSpec{LogsByRank: true, Redirect: job.StreamMap{Ranks: map[int]job.Streams{0: 1}}},
		},
		"gorun --log-dir /l x":                       {Output: job.OutputSpec{LogsByRank: true, LogDir: "/l"}},
		"gorun --local-ranks-filter 0,2 x":           {Output: job.OutputSpec{ShowLocalRanks: []int{0, 2}}},
		"gorun --local-ranks-filter= x":              {},
		"gorun --log-line-prefix-template -${rank} ": {Output: job.OutputSpec{Template: "-${rank}"}},
		"gorun --duplicate-stdout-filters a,b,,c x":  {Output: job.OutputSpec{DuplicateStdout: []string{"a", "b,c"}}},
		"gorun --duplicate_stderr_filters=e x":       {Output: job.OutputSpec{DuplicateStderr: []string{"e"}}},

		"gorun --timeout 90 x":                     {Timeout: 90 * time.Second},
		"gorun --timeout 1h30m x":                  {Timeout: 90 * time.Minute},
		"gorun --grace 1.5 x":                      {Grace: 1500 * time.Millisecond},
		"gorun --grace 0 x":                        {Grace: none},
		"gorun --grace 5 --grace 6 x":              {Grace: 6 * time.Second},
		"gorun --shutdown-timeout 5 x":             {Grace: 5 * time.Second},
		"gorun --shutdown-timeout 5 --grace 5s x":  {Grace: 5 * time.Second},
		"gorun --signals-to-handle SIGUSR1,term x": {SignalsToHandle: []string{"SIGUSR1", "SIGTERM"}},

		"gorun --max-restarts 0 --monitor-interval 0.1 --start-method fork --event-log-handler null --logs-specs " +
			"default x": {},
		"gorun --run-path -m --no-python --nproc-per-node xpu x": {
			Apps: []job.App{{Program: "x", Start: job.StartPython}}, PerNode: job.Count{
				Kind: job.CountDevice, Device: "xpu",
				From: "--nproc-per-node xpu",
			},
		},
		"gorun --allow-run-as-root --rdzv-conf timeout=5,is_host=1 x": {},
		"gorun -use-hwthread-cpus x": {
			Place: job.PlacementSpec{Request: placement.Request{MapBy: placement.MapBy{Threads: true}}},
		},
		"gorun -bind-to none -map-by slot x": {Place: job.PlacementSpec{Request: placement.Request{
			BindTo: placement.BindTo{Given: true, From: "-bind-to none"},
			MapBy:  placement.MapBy{Object: placement.BySlot, From: "-map-by slot"},
		}}},
		"gorun --map-by :OVERSUBSCRIBE --map-by node:oversubscribe x": {Place: job.PlacementSpec{Request: placement.Request{
			MapBy: placement.MapBy{Object: placement.ByNode, Oversubscribe: true, From: "--map-by node:oversubscribe"},
		}}},
		"gorun --numa-binding exclusive x": {
			Place: job.PlacementSpec{Request: placement.Request{NUMABinding: "exclusive"}},
		},
		"gorun --bind-mem bind --cpus-per-rank 2 --gpus-per-rank=2 --gpus 2,4-5 --report-bindings x": {
			Place: job.PlacementSpec{
				Request: placement.Request{
					CPUsPerRank: 2, GPUsPerRank: 2,
					GPUs: placement.GPUChoice{Indices: []int{2, 4, 5}, From: "--gpus 2,4-5"},
				},
				Memory: job.MemoryBind, Report: true,
			},
		},

		"gorun --pmi-port x":             {PMIPort: true},
		"gorun --mpi pmi2 --world app x": {MPI: job.MPIPMI2, WorldPerApp: true},
		"gorun --mpi=pmix_v4 x":          {MPI: job.MPIPMIx},
		"gorun --mpi none --world=job x": {MPI: job.MPINone},
		"gorun --usize SYSTEM x":         {Universe: job.UniverseSlots},
		"gorun --usize INFINITE x":       {},
		"gorun --usize 7 x":              {Universe: 7},

		"mpirun -np 2 x": {
			Apps: []job.App{{NumRanks: 2}}, RanksFrom: "-np 2", Store: job.StoreSpec{Mode: job.StoreRank0}, MPIRequested: true,
			LenientExports: true, Oversubscribe: true, TimeoutCode: 110,
		},
		"/usr/bin/mpiexec --store gorun ": {
			Store: job.StoreSpec{Mode: job.StoreGorun}, PerNode: one, MPIRequested: true, LenientExports: true,
			Oversubscribe: true, TimeoutCode: 255, ExportUnlisted: true,
		},
		"mpiexec.hydra --store=auto x": {
			Store: job.StoreSpec{Mode: job.StoreRank0}, PerNode: one, MPIRequested: true, LenientExports: true,
			Oversubscribe: true, TimeoutCode: 255, ExportUnlisted: true,
		},
	} {
		t.Run(line, func(t *testing.T) {
			if strings.HasSuffix(line, " ") || !strings.HasSuffix(line, " x") {
				line += " x"
			}
			if want.Apps == nil {
				want.Apps = []job.App{{}}
			}
			want.Apps[0].Program, want.Apps[0].Args = "x", []string{}
			inv := mustParse(t, line)
			require.Equal(t, want, inv.Spec)
			require.Nil(t, inv.Print)
		})
	}
}

// TestTorchrunSpec shows torchrun's conventions.
func TestTorchrunSpec(t *testing.T) {
	standard := func(app job.App) job.Spec {
		app.SubstituteLocalRank = true
		return job.Spec{
			Apps: []job.App{app}, PerNode: fixed(1, "torchrun's default"), Grace: 30 * time.Second,
			SignalsToHandle: []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}, MPI: job.MPINone,
			MPIWhy: "torchrun has none; start the program by gorun -np N PROGRAM",
		}
	}
	script := job.App{Program: "x.py", Args: []string{"--n", "4"}, Start: job.StartPython}
	require.Equal(t, standard(script), mustParse(t, "torchrun x.py --n 4").Spec)
	require.Equal(t, standard(script), mustParse(t, "/usr/local/bin/torchrun --stand x.py --n 4").Spec)

	module := job.App{Program: "pkg.x", Args: []string{}, Start: job.StartModule, Interpreter: "py"}
	require.Equal(t, standard(module), mustParse(t, "torchrun -m pkg.x", "PYTHON_EXEC=py").Spec)
	require.Equal(t, standard(module), mustParse(t, "torchrun -m pkg.x", "PYTHON_EXEC=other", "GORUN_PYTHON=py").Spec)

	require.Equal(t, standard(job.App{Program: "x", Args: []string{}, Start: job.StartExec}),
		mustParse(t, "torchrun --no_python x").Spec)

	spec := mustParse(t, "torchrun --nproc 4 --shutdown-timeout 0 x.py").Spec
	require.Equal(t, fixed(4, "--nproc 4"), spec.PerNode)
	require.Equal(t, none, spec.Grace)
	require.Equal(t, job.MPIAuto, mustParse(t, "torchrun --mpi auto x.py").Spec.MPI)
	require.Equal(t, []string{"SIGUSR1"}, mustParse(t, "torchrun --signals-to-handle SIGUSR1 x.py").Spec.SignalsToHandle)
}

// TestLaunchSpec shows the conventions of torch.distributed.launch.
func TestLaunchSpec(t *testing.T) {
	for line, flag := range map[string]bool{
		"gorun launch --nproc_per_node 2 x.py":                       true,
		"gorun launch --use-env --nproc_per_node 2 x.py":             false,
		"torch.distributed.launch --nproc_per_node 2 x.py":           true,
		"torch.distributed.launch --use_env --nproc-per-node=2 x.py": false,
	} {
		spec := mustParse(t, line).Spec
		require.Equal(t,
			[]job.App{{
				Program: "x.py", Args: []string{}, Start: job.StartPython, LocalRankFlag: flag,
				SubstituteLocalRank: true,
			}}, spec.Apps, line)
		require.Equal(t, 2, spec.PerNode.N)
		require.Equal(t, 30*time.Second, spec.Grace)
	}
	require.Equal(t, job.StartExec, mustParse(t, "gorun launch --use-env --no-python x").Spec.Apps[0].Start)
	require.Equal(t, fixed(1, "gorun launch's default"), mustParse(t, "gorun launch x.py").Spec.PerNode)
}

func TestInvocation(t *testing.T) {
	for line, want := range map[string]Invocation{
		"gorun --dry-run --json x":           {DryRun: true, JSON: true},
		"gorun -q x":                         {Quiet: true},
		"gorun -v x":                         {Verbose: 1},
		"gorun -vv --verbose x":              {Verbose: 3},
		"gorun --report r.json x":            {Report: "r.json"},
		"gorun --print-completion bash --np": {},
	} {
		t.Run(line, func(t *testing.T) {
			inv, err := parse(line)
			if strings.HasSuffix(line, "--np") {
				require.Error(t, err, "completion is no excuse for mistakes")
				return
			}
			require.NoError(t, err)
			inv.Spec, inv.typed = job.Spec{}, nil
			if want.Dialect == nil {
				want.Dialect = Gorun
			}
			require.Equal(t, want, inv)
		})
	}
}

// TestPrinted: help, version and completion replace a job, even if other options are wrong.
func TestPrinted(t *testing.T) {
	for line, want := range map[string]string{
		"gorun --help":                     Gorun.Overview(nil),
		"gorun -h --bogus":                 Gorun.Overview(nil),
		"gorun --version --max-restarts 3": version.Line() + "\n",
		"gorun --print-completion fish":    Gorun.Completion("fish"),
		"gorun launch --help":              Launch.Help(nil),
		"torchrun --help":                  Torchrun.Help(nil),
		"torchrun --print_completion bash": Torchrun.Completion("bash"),
		"mpirun --version":                 Mpirun.versionText(),
	} {
		require.Equal(t, want, mustParse(t, line).Print(), line)
	}
}

// To run a program with the name of a subcommand, put an option first, or use its path.
func TestSubcommandsAreFirstWordsOnly(t *testing.T) {
	for _, line := range []string{
		"gorun -np 4 doctor", "gorun -np 4 version", "gorun -- help", "gorun -n1 launch x.py",
		"gorun ./version",
	} {
		inv := mustParse(t, line)
		require.Equal(t, job.StartAuto, inv.Spec.Apps[0].Start, line)
	}
	require.Equal(t, "launch", mustParse(t, "torchrun launch").Spec.Apps[0].Program, "torchrun has none")
	require.True(t, mustParse(t, "gorun --no-registry ./ps").Unlisted)
}

// Options that only launchers have are noted among the arguments of a program that does not mention them.
func TestTrailingLauncherOptions(t *testing.T) {
	const before = "write options before the program"
	for line, want := range map[string]string{
		"gorun train.py --nproc-per-node 4":                "--nproc-per-node: gorun --nproc-per-node 4 train.py",
		"gorun run train.py --nproc_per_node=4":            "--nproc_per_node: gorun run --nproc_per_node=4 train.py",
		"gorun python3 train.py --nnodes 1":                "--nnodes: gorun --nnodes 1 python3 train.py",
		"gorun train.py --nnodes 1 --map-by numa":          "--nnodes and --map-by: gorun --nnodes 1 --map-by numa train.py",
		"gorun -v -- ./train --bind-to core -- -n":         "--bind-to: gorun -v --bind-to core ./train -- -n",
		"gorun -n 1 x : -n 1 train.py --standalone":        "--standalone: gorun -n 1 --standalone x : -n 1 train.py",
		"gorun -n 1 x : -n 1 train.py --map-by numa -- -n": "--map-by: gorun -n 1 x : -n 1 --map-by numa train.py -- -n",
		"gorun --chdir . train.py --max-restarts 2":        "--max-restarts: gorun --chdir . --max-restarts 2 train.py",
		"gorun train.py --node-rank 1":                     "", // its own
		"gorun train.py --gpus=0 -n 1 -x":                  "--gpus and -n: gorun --gpus=0 -n 1 train.py -x",
		"gorun -n 1 train.py -np 2 -H a --dry_run --help":  "-np, -H and --dry_run: " + before,
		"gorun ./train --dry-run --timeout 5 -n 2":         "--dry-run: gorun --dry-run ./train --timeout 5 -n 2",
		// A local module may take the other one.
		"gorun main.py --timeout 5 --standalone":   "--standalone: gorun --standalone main.py --timeout 5",
		"gorun train.py -- --nnodes 2":             "",
		"gorun train --nnodes 2":                   "", // of PATH
		"gorun ./wrapper --nnodes 2":               "",
		"gorun nowhere.py --nnodes 2":              "",
		"gorun -m train --nnodes 2":                "",
		"gorun ./mpirun --nnodes 2":                "",
		"torchrun train.py --nnodes 2":             "",
		"mpirun -n 1 ./train --map-by numa":        "",
		"gorun launch train.py --nproc-per-node 2": "",
	} {
		noted := strings.Join(mustParse(t, line).Notes, "\n")
		_, noted, _ = strings.Cut(noted, " gets ")
		noted = strings.NewReplacer("; for gorun run `", ": ", "`", "", "; for gorun ", ": ").Replace(noted)
		require.Equal(t, want, noted, line)
	}
}

// gorun passes the arguments after the program unchanged.
func TestProgramsArgumentsAreNeverTouched(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "4", "--nproc_per_node=2", "--"},
		{"--help"},
		{":", "x", ":"},
		{"a", ":", "--frobnicate", "-n", "2"},
		{":"},
		{":", "--", "-n", "2"},
		{"", " ", "\x00", "\xff"},
		{"-n4", ": ", ":-n"},
		{"--", "-n", "2"},
	} {
		inv, err := Parse("gorun", append([]string{"-n", "2", "x"}, args...), around())
		require.NoError(t, err)
		require.Equal(t, args, inv.Spec.Apps[0].Args)
	}
	inv := mustParse(t, "gorun -n 1 -- x a : -n 2 y")
	require.Equal(t, []job.App{{Program: "x", Args: []string{"a", ":", "-n", "2", "y"}, NumRanks: 1}}, inv.Spec.Apps,
		"after -- a colon is an argument")
	inv = mustParse(t, "torchrun x.py : -n 2 y.py")
	require.Equal(t, []string{":", "-n", "2", "y.py"}, inv.Spec.Apps[0].Args, "torchrun has no colon")
}

func TestSeveralPrograms(t *testing.T) {
	spec := mustParse(t,
		"gorun -H localhost:6 -n 1 -wdir /s ./server --port 1 : -n2 -m pkg.client : -np 3 --no-python c.py -n",
		"GORUN_PYTHON=py").Spec
	require.Equal(t, []job.App{
		{Program: "./server", Args: []string{"--port", "1"}, NumRanks: 1, Dir: "/s", Interpreter: "py"},
		{Program: "pkg.client", Args: []string{}, NumRanks: 2, Start: job.StartModule, Interpreter: "py"},
		{Program: "c.py", Args: []string{"-n"}, NumRanks: 3, Start: job.StartExec, Interpreter: "py"},
	}, spec.Apps)
	require.Empty(t, spec.Dir, "a directory before the first program is that program's")

	require.Equal(t, []string{
		"--timeout 3 applies to the whole job: put it before the first program",
		"a has no number of ranks: with several programs each needs its own -n: write `-n N a : ...`; for a : that is " +
			"an argument put -- before the first program",
		"program 3 of 3 is missing: write `: -n N PROGRAM`; for a : that is an argument put -- before the first program",
	}, problems(t, "gorun a : -n 2 --timeout 3 b : -n 2"))
	require.Equal(t, []string{"--nproc-per-node 3 does not go with several programs: each has its own -n"},
		problems(t, "gorun -n 1 --nproc-per-node 3 a : -n 2 b"))
	require.Equal(t, []job.App{
		{Program: "a", Args: []string{}, NumRanks: 1},
		{Program: "b", Args: []string{}, NumRanks: 2},
	},
		mustParse(t, "gorun -n 1 a : -n 2 b", "GORUN_NP=7").Spec.Apps, "a variable gives no program its number")
}

// A lone colon begins another program if options with -n follow it. Under the name mpirun it always does.
func TestColons(t *testing.T) {
	two := func(second job.App) []job.App {
		second.Program, second.Args, second.NumRanks = "b", []string{}, 2
		return []job.App{{Program: "a", Args: []string{}, NumRanks: 1}, second}
	}
	for line, want := range map[string][]job.App{
		"gorun -n 1 a : --chdir / -n 2 b":   two(job.App{Dir: "/"}),
		"gorun -n 1 a : -wdir=/ -np2 b":     two(job.App{Dir: "/"}),
		"gorun -n 1 a : --no-python -n 2 b": two(job.App{Start: job.StartExec}),
		"mpirun -n 1 a : -wdir / -np 2 b":   two(job.App{Dir: "/"}),
		"gorun -n 1 a : -x A=1 -n 2 b":      two(job.App{Exports: []job.Export{{Name: "A", Value: "1", HasValue: true}}}),
		"mpiexec a : -np 2 b":               two(job.App{}),
		"mpirun -n 1 -- a : b":              {{Program: "a", Args: []string{":", "b"}, NumRanks: 1}},
		"gorun -n 1 a : b":                  {{Program: "a", Args: []string{":", "b"}, NumRanks: 1}},
		"gorun -n 1 -- a : --chdir / -n 2 pwd": {
			{Program: "a", Args: []string{":", "--chdir", "/", "-n", "2", "pwd"}, NumRanks: 1},
		},
	} {
		require.Equal(t, want, mustParse(t, line).Spec.Apps, line)
	}
	const write = "write `: -n N %s`; for a : that is an argument put -- before the first program"
	for line, want := range map[string][]string{
		"gorun -n 1 a : --tee 3 -n 2 b":        {"--tee 3 applies to the whole job: put it before the first program"},
		"gorun -n 1 a : -wdir / -n 2 --frob b": {"unknown option --frob"},
		"gorun -n 1 a : -n": {
			"-n needs a value: -n N", fmt.Sprintf("program 2 of 2 is missing: "+write, "PROGRAM"),
		},
		"gorun -n 1 a : --chdir / b": {
			fmt.Sprintf("--chdir after a lone colon: another program needs its number of ranks: "+write, "PROGRAM"),
		},
		"gorun -n 1 a : -q": {
			fmt.Sprintf("-q after a lone colon: another program needs its number of ranks: "+write, "PROGRAM"),
		},
		"gorun -n 1 a : -vv": {
			fmt.Sprintf("-vv after a lone colon: another program needs its number of ranks: "+write, "PROGRAM"),
		},
		"gorun -n 1 a : --chdir / b : -n 2 c": {
			fmt.Sprintf("--chdir after a lone colon: another program needs its number of ranks: "+write, "PROGRAM"),
		},
		"gorun -n 1 : -n 2 b": {fmt.Sprintf("program 1 of 2 is missing: "+write, "PROGRAM")},
		"mpirun -n 1 a : b": {
			fmt.Sprintf("b has no number of ranks: with several programs each needs its own -n: "+write, "b"),
		},
		"mpirun -n 1 a : -wdir / b : -n 1 c": {
			fmt.Sprintf("b has no number of ranks: with several programs each needs its own -n: "+write, "b"),
		},
		"mpirun -n 1 a :": {fmt.Sprintf("program 2 of 2 is missing: "+write, "PROGRAM")},
	} {
		require.Equal(t, want, problems(t, line), line)
	}
}

func TestNotes(t *testing.T) {
	for line, want := range map[string][]string{
		"gorun --event-log-handler console x": {"--event-log-handler console has no effect: gorun writes no " +
			"torchelastic events; --report FILE writes how the job ended as JSON"},
		"gorun --rdzv-conf speed=1 x": {"--rdzv-conf speed=1: speed is not a key of torchrun's rendezvous and has no " +
			"effect"},
		"gorun --hostfile odd.txt x":       {"odd.txt:1: binding=rr has no meaning in a host file"},
		"gorun -x HERE --standalone x":     nil,
		"gorun --standalone --rdzv-id 7 x": {"--rdzv-id 7 is ignored beside --standalone (as in torchrun)"},
		"gorun --rdzv-endpoint a:1 --master-addr b --master-port 2 x": {
			"--master-addr b is ignored beside --rdzv-endpoint a:1 (as in torchrun)",
			"--master-port 2 is ignored beside --rdzv-endpoint a:1 (as in torchrun)",
		},
	} {
		require.Equal(t, want, mustParse(t, line, "HERE=1").Notes, line)
	}
}

func TestUsageErrorUnwraps(t *testing.T) {
	_, err := parse("gorun --hostfile missing.txt x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var usage *UsageError
	require.True(t, errors.As(err, &usage))
	require.Empty(t, usage.Hint(), "the help does not have that file")
}

// TestHints: errors about existing options suggest --help.
func TestHints(t *testing.T) {
	for line, want := range map[string]string{
		"mpirun -n 2":                  "run `mpirun --help`",
		"mpirun --nonsense x":          "run `mpirun --help`",
		"mpiexec -n 1 a : --nosense b": "run `mpiexec --help`",
		"gorun -np x y":                "",
		"mpirun -H a:x y":              "",
	} {
		_, err := parse(line)
		var usage *UsageError
		require.ErrorAs(t, err, &usage, line)
		require.Equal(t, want, usage.Hint(), line)
	}
}

// Two tokens for tests only.
const (
	fileToken  = "gorun1_bsvytpibgiqz7nt5gl44quew63zb26czjrgztibhef5ovd5yo2abdz2yee"
	otherToken = "gorun1_y4wuhfw55uoj425hj6zs33bhkfbfaxfp5imypuxo7vipmoc2mrpnpc7jui"
)

func networks(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}
