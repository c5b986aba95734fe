package signature

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExitCode(t *testing.T) {
	for words, want := range map[string]struct {
		code  string
		whole bool
	}{
		"137": {"137", true}, " 137. ": {"137", true}, "0": {"0", true}, "-9": {"137", true}, "-11": {"139", true},
		"0:9": {"137", true}, "2:0": {"2", true},
		"0:125": {"0:125", true}, "0:53": {"0:53", true}, "-65": {"", false}, "256": {"", false}, "0:99": {"", false},
		"": {"", false}, "x": {"", false},
		"exit 1": {"1", true}, "exit code 139": {"139", true}, "exit code: 139": {"139", true},
		"exit status 2": {"2", true}, "exit_code=143": {"143", true},
		"exitcode: -9": {"137", true}, "exitcode  : -9 (pid: 4711)": {"137", false}, "exited with code 137": {"137", true},
		"exited with exit code 1": {"1", true},
		"exited with 3":           {"3", true}, "exits with status 3": {"3", true},
		"Process exited with code 134.": {"134", false},
		"returncode=1":                  {"1", true},
		"ExitCode=0:9":                  {"137", true}, "ExitCode 9:0": {"9", true}, "return code 255": {"255", true},
		"rc=124": {"124", true}, "status 126": {"126", true},
		"EXIT CODE: 139": {"139", true}, "signal 9": {"137", true}, "killed by signal 11": {"139", false},
		"Signal 15 (SIGTERM) received by PID 8": {"143", false},
		"signal 99":                             {"", false}, "exit code 300": {"", false}, "exit code 1234567": {"", false},
		"step 137": {"", false}, "error code 12": {"", false}, "arc 12": {"", false}, "status of 12 ranks": {"", false},
		"train loss 0:9": {"", false},
	} {
		code, whole := ExitCode(words)
		assert.Equal(t, want.code, code, words)
		assert.Equal(t, want.whole, whole, words)
	}
}

// Each exit code that there can be is explained, and each of one record's.
func TestEachExitCodeIsExplained(t *testing.T) {
	seen := map[string]string{}
	for _, s := range All() {
		for _, code := range s.Codes {
			require.Empty(t, seen[code], "%s and %s share %s", seen[code], s.ID, code)
			seen[code] = s.ID
			asked, whole := ExitCode(code)
			require.True(t, whole, code)
			require.Equal(t, code, asked, s.ID)
		}
	}
	for n := range 256 {
		m, ok := Lookup("exit code " + strconv.Itoa(n))
		require.True(t, ok, n)
		require.Equal(t, "exit", m.Family)
	}
	for code, id := range map[string]string{
		"124": "exit-timeout", "125": "exit-launcher", "127": "exit-not-found",
		"150": anySignal, "193": anyCode, "3": anyCode,
	} {
		m, ok := ByCode(code)
		require.True(t, ok)
		require.Equal(t, id, m.ID)
	}
}

// What says too little gives no hint: no line of a report's is of it by Find, or none that counts.
func TestVague(t *testing.T) {
	seen := map[string]string{}
	for _, s := range All() {
		for _, text := range s.Vague {
			require.Empty(t, seen[lower(text)], text)
			seen[lower(text)] = s.ID
			assert.Empty(t, ids(Find(text)), text)
			m, ok := Vague(text)
			require.True(t, ok, text)
			assert.Equal(t, s.ID, m.ID, text)
		}
	}
	require.Greater(t, len(seen), 20)
	for line, id := range map[string]string{
		"killed": "exit-sigkill", "[rank3]: Killed": "exit-sigkill", " [ 3] Aborted (core dumped)": "exit-sigabrt",
		"read: Connection reset by peer.":   "system-peer-gone",
		"cat: x: No such file or directory": "system-no-file",
		"12 processes were killed":          "", "": "", "No such file or directory: 'x'": "", "Killed 3": "",
	} {
		m, ok := Vague(line)
		assert.Equal(t, id != "", ok, line)
		if ok {
			assert.Equal(t, id, m.ID, line)
		}
	}
}

// How a process ended, and what leaves too much open, is for reports no hint.
func TestInReports(t *testing.T) {
	for line, want := range map[string]bool{
		"./run.sh: line 3:  4711 Killed                  python3 train.py":          false,
		"MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD":            false,
		"x [0] enqueue.cc:1552 NCCL WARN Cuda failure 1 'invalid argument'":         false,
		"NCCL INFO Using network Socket":                                            false,
		"OSError: [Errno 24] Too many open files: 'x'":                              true,
		"RuntimeError: CUDA error: an illegal memory access was encountered":        true,
		"slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of them": true,
	} {
		m, ok := Best(line)
		require.True(t, ok, line)
		assert.Equal(t, want, m.InReports(), line)
	}
	require.True(t, slices.ContainsFunc(All(), func(s Signature) bool { return s.NoHint }))
}
