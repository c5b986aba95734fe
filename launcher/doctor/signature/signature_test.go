package signature

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func ids(found []Match) []string {
	var list []string
	for _, m := range found {
		list = append(list, m.ID)
	}
	return list
}

func TestEmbeddedFilesCanBeRead(t *testing.T) {
	list := All()
	require.GreaterOrEqual(t, len(list), 100)
	seen, asked := map[string]bool{}, map[string]string{}
	for _, s := range list {
		assert.False(t, seen[s.ID], "%s is there twice", s.ID)
		seen[s.ID] = true
		for _, ask := range s.Ask {
			assert.Empty(t, asked[strings.ToLower(ask)], "%s and %s share %q", s.ID, asked[strings.ToLower(ask)], ask)
			asked[strings.ToLower(ask)] = s.ID
		}
		assert.Less(t, len(s.ID), 32)
		for _, text := range []string{s.Means, s.Cause, s.Check, s.Fix, s.Hint} {
			assert.Equal(t, 0, strings.Count(text, "`")%2, "%s: %s", s.ID, text)
			assert.Equal(t, strings.Count(text, "[["), strings.Count(text, "]]"), "%s: %s", s.ID, text)
		}
		assert.NotRegexp(t, `[.]$`, s.Means, s.ID)
		assert.NotRegexp(t, `[.]$`, s.Hint, s.ID)
		assert.LessOrEqual(t, len(s.Means), 90, s.ID)
		m := Match{Signature: &s}
		assert.LessOrEqual(t, len(m.Advice()), 330, s.ID)
		for _, text := range []string{s.Cause, s.Check, s.Fix} {
			assert.GreaterOrEqual(t, len(m.Text(text)), 8, "%s: nothing is left of %s", s.ID, text)
			assert.Regexp(t, `^["A-Za-z0-9#./*-]`, m.Text(text), s.ID)
		}
	}
}

// What a text says of a line must be in a pattern of that record.
func TestTextsNameWhatPatternsRead(t *testing.T) {
	name := regexp.MustCompile(`\{([a-z]+)#?\}`)
	for _, s := range All() {
		read := map[string]bool{}
		for _, line := range s.Lines {
			for _, m := range name.FindAllStringSubmatch(line, -1) {
				read[m[1]] = true
			}
		}
		for _, text := range []string{s.Means, s.Cause, s.Check, s.Fix, s.Hint} {
			for _, m := range name.FindAllStringSubmatch(text, -1) {
				assert.True(t, read[m[1]], "%s: no line reads {%s}: %s", s.ID, m[1], text)
			}
		}
	}
}

func TestEachExampleIsOfItsSignatureAlone(t *testing.T) {
	for _, s := range All() {
		for _, example := range s.Examples {
			assert.Equal(t, []string{s.ID}, ids(Find(example)), example)
			assert.Equal(t, []string{s.ID}, ids(Find(Plain("\x1b[31m[rank3]: "+example+"\x1b[0m\r", MaxLine))), example)
		}
	}
}

// A record's first example is of one of its own lines.
func TestPatternsMeetExamples(t *testing.T) {
	for _, s := range All() {
		if len(s.Lines) == 0 {
			continue
		}
		met := slices.ContainsFunc(s.patterns, func(p pattern) bool {
			_, ok := p.match(s.Examples[0], lower(s.Examples[0]))
			return ok
		})
		assert.True(t, met, s.ID)
	}
}

func TestUnrelatedLines(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "unrelated.txt"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	require.GreaterOrEqual(t, len(lines), 50)
	for _, line := range lines {
		assert.Empty(t, ids(Find(Plain(line, MaxLine))), line)
	}
}

func TestValues(t *testing.T) {
	for line, want := range map[string]struct{ id, advice string }{
		"The server socket has failed to listen on any local network address. port: 49455, useIpv6: false, code: -98, " +
			"name: EADDRINUSE": {
			"torch-port-taken", "`ss -ltnp 'sport = :49455'` shows who uses port 49455; a program",
		},
		"OSError: [Errno 98] Address already in use": {
			"system-port-taken", "a program that leaves MASTER_PORT to gorun gets a free port",
		},
		"bind: Address already in use, port: $(reboot), x": {
			"system-port-taken", "a program that leaves MASTER_PORT to gorun gets a free port",
		},
		"ImportError: libcudnn.so.9: cannot open shared object file: No": {
			"loader-missing-library", "`-x LD_LIBRARY_PATH=DIR`, with the directory of libcudnn.so.9, lets",
		},
		"x: $(y): cannot open shared object file":                {"", ""},
		"bash: line 3: -rf: command not found":                   {"", ""},
		"ssh: Could not resolve hostname -oProxyCommand=x: Name": {"", ""},
		"[Rank 0]: Rank 12 failed to pass monitoredBarrier in 2000 ms": {
			"gloo-monitored-barrier", "rank 12 is late",
		},
		"version `GLIBC_2.38' not found (required by ./m)": {
			"loader-glibc", "the program needs GLIBC_2.38, newer",
		},
		"version `FOO_2' not found (required by ./m)":                 {"", ""},
		"NVRM: Xid (PCI:0000:1a:00): 790, x":                          {"", ""},
		strings.Repeat("x", 301) + ": cannot open shared object file": {"", ""},
		"undefined symbol: " + strings.Repeat("x", 301):               {"", ""},
	} {
		m, ok := Best(line)
		if want.id == "" {
			assert.False(t, ok, "%s: %v", line, m)
			continue
		}
		require.True(t, ok, line)
		assert.Equal(t, want.id, m.ID, line)
		assert.True(t, strings.HasPrefix(m.Advice(), want.advice), m.Advice())
	}
}

func TestAsked(t *testing.T) {
	for words, id := range map[string]string{
		"NCCL timeout": "torch-watchdog-timeout", " nccl  TIMEOUT ": "torch-watchdog-timeout",
		"could not enable P2P": "nccl-p2p-failed",
		"137":                  "exit-sigkill", "exit code 139": "exit-sigsegv", "SIGBUS": "exit-sigbus",
		"136":          "exit-sigfpe",
		"ExitCode=0:9": "exit-sigkill", "42": "exit-own",
		"OUT_OF_MEMORY": "slurm-oom",
	} {
		m, ok := Lookup(words)
		require.True(t, ok, words)
		assert.Equal(t, id, m.ID)
	}
	for _, words := range []string{"", "256", "timeout of NCCL", "step 137"} {
		_, ok := Lookup(words)
		assert.False(t, ok, words)
	}
	m, ok := Best("ibv_create_qp failed")
	require.True(t, ok)
	assert.Equal(t, "nccl-ib-memlock", m.ID)
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		status, signal int
		id             string
	}{
		{137, 0, "exit-sigkill"},
		{0, 7, "exit-sigbus"},
		{135, 0, "exit-sigbus"},
		{0, 9, ""},
		{0, 15, ""},
		{1, 0, ""},
		{0, 0, ""},
		{139, 9, ""},
	} {
		m, ok := ByExit(c.status, c.signal)
		assert.Equal(t, c.id != "", ok, c)
		if ok {
			assert.Equal(t, c.id, m.ID)
			assert.NotEmpty(t, m.Hint)
		}
	}
}

func TestFamilies(t *testing.T) {
	require.Contains(t, Families(), "Open MPI")
	require.Equal(t, len(InFamily("Open MPI")), len(InFamily("openmpi")))
	require.NotEmpty(t, InFamily("open-mpi"))
	require.Empty(t, InFamily("moon"))
	total := 0
	for _, family := range Families() {
		total += len(InFamily(family))
	}
	require.Len(t, All(), total)
	m, ok := ByID("NCCL-shm-full")
	require.True(t, ok)
	require.Equal(t, "nccl-shm-full", m.ID)
	_, ok = ByID("")
	require.False(t, ok)
}

func TestText(t *testing.T) {
	m := Match{Signature: &Signature{}, Values: map[string]string{"port": "29500"}}
	for template, want := range map[string]string{
		"port {port} on {host}":     "port 29500 on HOST",
		"[[{port} ]][[{host} ]]end": "29500 end",
		"`ss {port}` [[at {host}":   "ss 29500",
		"{port":                     "29500",
		"":                          "",
	} {
		assert.Equal(t, want, m.Text(template), template)
	}
}

func TestParse(t *testing.T) {
	list := parse("a-1\n  family  F\n  cause  c\n    goes on\n  kind victim\n  hint none\n  status 3\n  see A B\n")
	require.Equal(t, []Signature{{
		ID: "a-1", Family: "F", Cause: "c goes on", Class: "user", Kind: Victim, NoHint: true, Statuses: []int{3},
		Variables: []string{"A", "B"},
	}}, list)
	require.Panics(t, func() { parse("a\n  colour red\n") })
}

// Each record says what a reader needs, and is found by an example or by a name.
func TestRecords(t *testing.T) {
	for _, s := range All() {
		require.Regexp(t, "^[a-z0-9-]+$", s.ID)
		for _, text := range []string{s.Family, s.Means, s.Cause, s.Check, s.Fix} {
			require.NotEmpty(t, text, s.ID)
		}
		require.Contains(t, []string{"user", "node", "network", "launcher", "scheduler"}, s.Class, s.ID)
		require.Less(t, int(s.Kind), len(kindNames), s.ID)
		if len(s.Lines) > 0 {
			require.NotEmpty(t, s.Examples, s.ID)
		} else {
			require.NotEmpty(t, slices.Concat(s.Ask, s.Vague, s.Codes), s.ID)
		}
	}
}

func TestPatternProblems(t *testing.T) {
	for text, want := range map[string]string{
		"abc":           "no literal text of 4 bytes or more",
		"text {x}{y}":   "{y} follows another without text between them",
		"text {":        "{: a name in small letters has to stand between braces",
		"text * * text": "a piece without text",
	} {
		_, err := compile(text)
		require.EqualError(t, err, want, text)
	}
}

// Each NCCL variable that a record names is in the library that it is read by.
func TestVariablesAreNCCLs(t *testing.T) {
	library := filepath.Join(filepath.Dir(filepath.Dir(testneeds.Torch(t))), "lib")
	found, err := filepath.Glob(filepath.Join(library, "python3.*", "site-packages", "nvidia", "nccl", "lib",
		"libnccl.so.2"))
	require.NoError(t, err)
	if len(found) == 0 {
		testneeds.Skip(t, testneeds.LayerTorch, "this PyTorch brings no libnccl")
	}
	binary, err := os.ReadFile(found[0])
	require.NoError(t, err)
	text := string(binary)
	for _, s := range All() {
		for _, name := range s.Variables {
			if strings.HasPrefix(name, "NCCL_") {
				assert.Contains(t, text, name, s.ID)
			}
		}
	}
}

// What people paste from terminals and reports of bugs.
func TestPastedTexts(t *testing.T) {
	for text, id := range map[string]string{
		"RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, internal error, NCCL " +
			"version 2.14.3": "nccl-internal-error",
		"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, invalid usage, NCCL version " +
			"2.18.1": "nccl-invalid-usage",
		"RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error, " +
			"NCCL version 2.7.8": "nccl-system-error",
		"ncclUnhandledCudaError: Call to CUDA function " +
			"failed.": "nccl-cuda-error",
		"Last error: Cuda failure 999 'unknown " +
			"error'": "nccl-cuda-failure",
		"Cuda failure 'out of memory'": "nccl-out-of-memory",
		"CUDA error: an illegal memory access was " +
			"encountered": "cuda-illegal-access",
		"misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 10.0.0.1<47611> failed : Software caused connection " +
			"abort": "nccl-connect-unreachable",
		"NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129":    "nccl-ib-retry-exceeded",
		"NET/IB : Got completion with error 5, opcode 1, len 32537, vendor err 244": "nccl-ib-flushed",
		"slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have been OOM " +
			"Killed.": "slurm-oom",
		"RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: " +
			"store_based_barrier_key:1 (world_size=2": "torch-store-timeout",
		"torch.distributed.DistStoreError: Socket " +
			"Timeout": "torch-store-timeout",
		"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal " +
			"SIGKILL": "torch-child-signal",
		"WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 3456 closing signal " +
			"SIGTERM": "torch-child-failed",
		"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": "torch-cublas",
		"RuntimeError: received 0 items of ancdata": "system-o" +
			"pen-files",
		"RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0], but store->get('0') got " +
			"error: Connection reset by peer": "system-peer-gone",
		"munmap_chunk(): invalid pointer":                                            "system-heap",
		"subprocess.CalledProcessError: Command 'x' died with <Signals.SIGABRT: 6>.": "exit-sigabrt",
	} {
		found, _, err := Scan(strings.NewReader(text))
		require.NoError(t, err)
		require.Len(t, found, 1, text)
		assert.Equal(t, id, found[0].ID, text)
	}
}
