package diagnosis

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// hintOf is the hint for lines alone.
func hintOf(lines []string) string {
	text, _ := Hint(lines, 0, 0, maps.All(map[int][]string{}))
	return text
}

func lines(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }

func TestSignalName(t *testing.T) {
	for number, want := range map[syscall.Signal][2]string{
		syscall.SIGSEGV: {"SIGSEGV", "invalid memory access"},
		syscall.SIGABRT: {"SIGABRT", "it called abort"},
		syscall.SIGKILL: {"SIGKILL", ""},
		syscall.SIGTERM: {"SIGTERM", ""},
		40:              {"signal 40", ""},
		0:               {"signal 0", ""},
	} {
		name, meaning := SignalName(number)
		require.Equal(t, want, [2]string{name, meaning})
	}
	for number := syscall.Signal(1); number < 32; number++ {
		name, _ := SignalName(number)
		require.True(t, strings.HasPrefix(name, "SIG"), "%d is %s", number, name)
	}
}

func TestClean(t *testing.T) {
	for line, want := range map[string]string{
		"plain grün 日本":                             "plain grün 日本",
		"  indented \t ":                            "  indented",
		"\tx":                                       "    x",
		"a\x1b[31;1mred\x1b[0m b":                   "ared b",
		"\x1b]0;title\ax\x1b]8;;u\x1b\\y":           "xy",
		"\x1b]never ends":                           "",
		"\x1b(Bx\x1bcy\x1b":                         "xy",
		"\u009b31mred":                              "red",
		"bell\a, back\b\b, del\x7f, \x00null":       "bell, back, del, null",
		"over\rwritten\n":                           "overwritten",
		"bad \xff\xfe utf8":                         "bad \ufffd\ufffd utf8",
		"turned \u202eround\u2066":                  "turned round",
		"nbsp\u00a0and\u2003em":                     "nbsp and em",
		"[rank0]: Traceback":                        "Traceback",
		"[rank12]:   File \"x\"":                    "  File \"x\"",
		"[rank0]: ":                                 "",
		"[rankx]: a":                                "[rankx]: a",
		"[rank]: a":                                 "[rank]: a",
		"[rank0] a":                                 "[rank0] a",
		strings.Repeat("long", 1000):                strings.Repeat("long", lineLimit/4),
		"\x1b[" + strings.Repeat("1;", 1000) + "mx": "x",
	} {
		require.Equal(t, want, clean(line), "%q", line)
	}
}

func FuzzClean(f *testing.F) {
	f.Fuzz(func(t *testing.T, line string) {
		got := clean(line)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), lineLimit+8)
		require.False(t, strings.ContainsFunc(got, unicode.IsControl), "%q", got)
		_, _ = PythonTraceback(strings.Split(line, "\n"))
		_, _ = GoPanic(strings.Split(line, "\n"))
		require.False(t, strings.ContainsFunc(hintOf(strings.Split(line, "\n")), unicode.IsControl))
	})
}

const chained = `
Starting
Traceback (most recent call last):
  File "/home/u/t1.py", line 4, in f
    try: inner()
         ^^^^^^^
  File "/home/u/t1.py", line 2, in inner
    return {}["x"]
           ~~^^^^^
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/u/t1.py", line 7, in <module>
    f()
  File "/home/u/t1.py", line 6, in f
    raise RuntimeError("two\nlines") from e
RuntimeError: two
lines
[W1121 socket.cpp:1] something afterwards: x
`

const spawned = `
Traceback (most recent call last):
  File "/home/u/t5.py", line 3, in <module>
    if __name__=="__main__": mp.spawn(w,nprocs=1)
                             ^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 220, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException: 

-- Process 0 terminated with the following error:
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 89, in _wrap
    fn(i, *args)
  File "/home/u/t5.py", line 2, in w
    def w(i): raise ValueError("in worker")
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: in worker

`

const inLibrary = `
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/u/t8.py", line 3, in <module>
[rank0]:     json.loads("{")
[rank0]:   File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
[rank0]:     return _default_decoder.decode(s)
[rank0]:            ^^^^^^^^^^^^^^^^^^^^^^^^^^
[rank0]:   File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
[rank0]:     obj, end = self.scan_once(s, idx)
[rank0]:                ^^^^^^^^^^^^^^^^^^^^^^
[rank0]: json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)
`

func TestPythonCrash(t *testing.T) {
	const head, current = "Fatal Python error: Aborted", "Current thread 0x00007f (most recent call first):"
	const library = `  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at`
	const raised = `  File "a.py", line 5 in step`
	const outer = `  File "a.py", line 9 in <module>`
	summary, rest, ok := PythonCrash([]string{"terminate called", head, current, library, raised, outer})
	assert.True(t, ok)
	assert.Equal(t, []string{head, library, raised}, summary)
	assert.Equal(t, []string{"terminate called"}, rest)
	summary, _, _ = PythonCrash([]string{head, current, raised, outer})
	assert.Equal(t, []string{head, raised}, summary)
	_, _, ok = PythonCrash([]string{head, current, "<no Python frame>"})
	assert.False(t, ok)
	_, _, ok = PythonCrash([]string{raised})
	assert.False(t, ok)
}

func TestPythonTraceback(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"chained": {chained, `
  File "/home/u/t1.py", line 6, in f
    raise RuntimeError("two\nlines") from e
RuntimeError: two`},
		"in another process": {spawned, `
  File "/home/u/t5.py", line 2, in w
    def w(i): raise ValueError("in worker")
ValueError: in worker`},
		"in a library": {inLibrary, `
  File "/home/u/t8.py", line 3, in <module>
    json.loads("{")
  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
    obj, end = self.scan_once(s, idx)
json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)`},
		"heading lost": {strings.Join(lines(chained)[15:], "\n"), `
  File "/home/u/t1.py", line 6, in f
    raise RuntimeError("two\nlines") from e
RuntimeError: two`},
		"syntax error": {"  File \"t2.py\", line 1\n    x = (\n        ^\nSyntaxError: '(' was never closed", `
  File "t2.py", line 1
    x = (
SyntaxError: '(' was never closed`},
		"repeated": {"Traceback (most recent call last):\n  File \"t3.py\", line 1, in r\n    def r(n): return " +
			"r(n+1)\n  [Previous line repeated 996 more times]\nRecursionError: maximum", `
  File "t3.py", line 1, in r
    def r(n): return r(n+1)
RecursionError: maximum`},
		"without source": {"Traceback (most recent call last):\n  File \"<string>\", line 1, in " +
			"<module>\nKeyboardInterrupt", `
  File "<string>", line 1, in <module>
KeyboardInterrupt`},
		"a name in small letters": {
			"  File \"a.py\", line 1, in <module>\nsocket.timeout: timed out",
			"  File \"a.py\", line 1, in <module>\nsocket.timeout: timed out",
		},
		"text on the next line": {
			"  File \"a.py\", line 1, in <module>\nRuntimeError: \n\n  detail\nmore",
			"  File \"a.py\", line 1, in <module>\nRuntimeError:\n  detail",
		},
		"only the library": {"  File \"/x/site-packages/y.py\", line 1, in z\n    q()\nValueError: v", `
  File "/x/site-packages/y.py", line 1, in z
    q()
ValueError: v`},
		"escape sequences": {
			"  File \"\x1b[35ma.py\x1b[0m\", line 1\nValueError: \x1b[31mred\a", "  File \"a.py\", line 1\nValueError: red",
		},

		"no traceback":        {"hello\nValueError: x", ""},
		"indented words":      {"usage: x\n  -h  help\nerror: bad", ""},
		"nothing":             {"", ""},
		"frames and no error": {"  File \"a.py\", line 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := PythonTraceback(lines(test.text))
			require.Equal(t, test.want != "", ok)
			require.Equal(t, strings.TrimPrefix(test.want, "\n"), strings.Join(got, "\n"))
			require.LessOrEqual(t, len(got), 7)
		})
	}
}

func TestGoPanic(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"panic": {`
step 3
panic: first
	line
	panic: second

goroutine 1 [running]:
main.main.func1()
	/home/u/pp.go:3 +0x39
panic({0x4ab520?, 0x4d1238?})
	/usr/local/go/src/runtime/panic.go:860 +0x13a
exit status 2`, `
panic: first
    line
    panic: second
main.main.func1()
    /home/u/pp.go:3 +0x39`},
		"memory": {`
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4]

goroutine 4 [running]:
sync.(*WaitGroup).Go.func1.1()
	/usr/local/go/src/sync/waitgroup.go:251 +0x45
panic({0x484be0?, 0x523ae0?})
	/usr/local/go/src/runtime/panic.go:860 +0x13a
main.step(...)
	/home/u/p.go:3
created by sync.(*WaitGroup).Go in goroutine 1
	/usr/local/go/src/sync/waitgroup.go:238 +0x73`, `
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4]
main.step(...)
    /home/u/p.go:3`},
		"deadlock": {"fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [select (no " +
			"cases)]:\nmain.main()\n\t/home/u/q.go:2 +0xf", `
fatal error: all goroutines are asleep - deadlock!
main.main()
    /home/u/q.go:2 +0xf`},
		"only the library": {
			"panic: x\n\ngoroutine 1 [running]:\nos.f()\n\t/usr/local/go/src/os/x.go:1\nos.g()\n\t/usr/local/go/src/os/x.go:2",
			"panic: x\nos.f()\n    /usr/local/go/src/os/x.go:1",
		},
		"cut off": {"panic: x\n\ngoroutine 1 [running]:", "panic: x"},
		"a word":  {"panic: on the Titanic", ""},
		"nothing": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := GoPanic(lines(test.text))
			require.Equal(t, test.want != "", ok)
			require.Equal(t, strings.TrimPrefix(test.want, "\n"), strings.Join(got, "\n"))
		})
	}
}

func TestErrorFile(t *testing.T) {
	at := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		data, msg string
		stack     []string
		at        time.Time
		ok        bool
	}{
		"as @record writes it": {
			`{"message": {"message": "ValueError: bad \u001b[31m value", "extraInfo": {"py_callstack": "Traceback:\n  ` +
				`File \"x\"\nValueError: v\n", "timestamp": "1700000000"}}}`,
			"ValueError: bad  value",
			[]string{"Traceback:", `  File "x"`, "ValueError: v"},
			at, true,
		},
		"as the agent adds to it": {
			`{"message": {"message": "E: x", "errorCode": 7, "extraInfo": {"py_callstack": "", "timestamp": 1700000000}}}`,
			"E: x", nil, at, true,
		},
		"a plain message": {`{"message": "text\nmore", "timestamp": "1700000000"}`, "text", nil, at, true},
		"a number, a fraction": {
			`{"message": "text", "timestamp": 1700000000.5}`, "text", nil, at.Add(time.Second / 2), true,
		},
		"no time":            {`{"message": "text"}`, "text", nil, time.Time{}, true},
		"an impossible time": {`{"message": "text", "timestamp": "1e300"}`, "text", nil, time.Time{}, true},
		"no number":          {`{"message": "text", "timestamp": "NaN"}`, "text", nil, time.Time{}, true},
		"only a stack": {
			`{"message": {"extraInfo": {"py_callstack": "a\nb"}}}`, "", []string{"a", "b"}, time.Time{}, true,
		},
		"half":             {`{"message": {"mess`, "", nil, time.Time{}, false},
		"another shape":    {`{"message": [1]}`, "", nil, time.Time{}, false},
		"no message":       {`{"error": "x"}`, "", nil, time.Time{}, false},
		"an empty message": {`{"message": " \n"}`, "", nil, time.Time{}, false},
		"null":             {`{"message": null}`, "", nil, time.Time{}, false},
		"an array":         {`[]`, "", nil, time.Time{}, false},
		"empty":            {``, "", nil, time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			msg, stack, at, ok := ErrorFile([]byte(test.data))
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.msg, msg)
			require.Equal(t, test.stack, stack)
			require.True(t, test.at.Equal(at), "%v", at)
		})
	}
}

func FuzzErrorFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		msg, stack, at, ok := ErrorFile(data)
		for _, line := range append(stack, msg) {
			require.False(t, strings.ContainsFunc(line, unicode.IsControl), "%q", line)
			require.True(t, utf8.ValidString(line))
		}
		require.Equal(t, msg != "" || stack != nil, ok)
		require.LessOrEqual(t, len(stack), stackLimit)
		require.True(t, at.IsZero() || at.Year() < 2300)
	})
}

func TestHint(t *testing.T) {
	for text, want := range map[string]string{
		"./m: error while loading shared libraries: libfoo.so.1: cannot open shared object file: No such file or " +
			"directory": "`-x LD_LIBRARY_PATH=DIR`, with the directory of libfoo.so.1, lets",
		"ImportError: libcudnn.so.9: cannot open shared object file: No such file or " +
			"directory": "libcudnn.so.9",
		"./m: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./m)": "needs GLIBC_2.38",
		"./m: libfoo.so: version `FOO_2' not found (required by ./m)":                            "",
		"ModuleNotFoundError: No module named " +
			"'torch'": "no module torch:",
		"torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: " +
			"49455, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use": "`ss -ltnp 'sport = " +
			":49455'` shows who uses port 49455;",
		"OSError: [Errno 98] Address already in use": "a program that " +
			"leaves MASTER_PORT to gorun gets a free port",
		"bind: Address already in use, port: $(reboot), x": "a program that " +
			"leaves MASTER_PORT to gorun gets a free port",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": "nvidia-smi " +
			"--query-compute-apps",
		"torch.OutOfMemoryError: HIP out of memory. Tried":                                      "rocm-smi",
		"RuntimeError: CUDA error: invalid device ordinal":                                      "--nproc-per-node gpu",
		"ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000": "torch.cuda.set_device",
		"train.py: error: unrecognized arguments: --local-rank=0":                               "--use-env",
		"OSError: [Errno 24] Too many open files: 'x'":                                          "ulimit -Sn $(ulimit -Hn)",
		"libgomp: Thread creation failed: Resource temporarily unavailable":                     "ulimit -Su",
		"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.":               "df -h /dev/shm",
		"RuntimeError: unable to write to file </torch_1_2_3>: No space left on device (28)":    "df -h /dev/shm",
		"OSError: [Errno 28] No space left on device: " +
			"'/home/u/x'": "`df -h` and `quota -s` show what is full",
		"ncclSystemError: System call (e.g. socket, malloc) or external library call failed":      "-x NCCL_DEBUG=INFO",
		"ModuleNotFoundError: No module named 'a'\nsomething\nOSError: Too many open files\nlast": "ulimit -Sn",
		"[cli_0]: write_line error; fd=3 buf=:cmd=init pmi_version=1 pmi_subversion=1\n:\n" +
			"system msg for write_line failure : Bad file descriptor\n[cli_0]: Unable to write to " +
			"PMI_fd": "`--pmi-port` does without it",
		"system msg for write_line failure : Broken pipe": "",
		"hello":                            "",
		"":                                 "",
		": cannot open shared object file": "",
	} {
		got := hintOf(strings.Split(text, "\n"))
		if want == "" {
			require.Empty(t, got, text)
			continue
		}
		assert.Contains(t, got, want, text)
	}
}

func TestHintNamesWhereThereIsMore(t *testing.T) {
	require.Equal(t, "this Python has no module torch: activate the environment that has it, or name its interpreter: "+
		"`gorun /path/to/python train.py` (`gorun explain python-missing-module`)",
		hintOf([]string{"ModuleNotFoundError: No module named 'torch'"}))
}

func TestHintOfARank(t *testing.T) {
	const (
		cause   = "OSError: [Errno 24] Too many open files: 'x'"
		symptom = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
		victim  = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2531"
		silent  = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a " +
			"network error"
	)
	for name, c := range map[string]struct {
		own            []string
		status, signal int
		others         [][]string
		want           string
	}{
		"a cause before all that follows": {own: []string{cause, symptom, victim}, want: "run `ulimit -Sn"},
		"a victim beside a cause": {
			own: []string{victim}, others: [][]string{{"hello"}, {symptom}, {"x", cause}}, want: "rank 2: run `ulimit -Sn",
		},
		"a victim alone": {
			own: []string{victim}, others: [][]string{{victim}}, want: "a rank that closed its connection may have ended early",
		},
		"a victim that says nothing":           {own: []string{silent}, others: [][]string{{"hello"}}},
		"a victim is no way in which it ended": {own: []string{silent}, status: 137},
		"a comment": {
			own: []string{"node1:17:45 [0] NCCL INFO Using network Socket", "ValueError: x"},
		},
		"a symptom of its own": {
			own: []string{symptom}, others: [][]string{{cause}},
			want: "a line with NCCL WARN above says which call failed; `-x NCCL_DEBUG=INFO`",
		},
		"a signal":           {own: []string{"hello"}, signal: 7, want: "`df -h /dev/shm`"},
		"a status":           {status: 139, want: "run `ulimit -c unlimited`"},
		"somebody's SIGKILL": {signal: 9},
		"any status":         {status: 1, own: []string{"ValueError: x"}},
	} {
		got, _ := Hint(c.own, c.status, c.signal, slices.All(c.others))
		if c.want == "" {
			require.Empty(t, got, name)
			continue
		}
		assert.True(t, strings.HasPrefix(got, c.want), "%s: %s", name, got)
	}
}

// What real interpreters print today is what the tables above are made of.
func TestRealPython(t *testing.T) {
	python := testneeds.Program(t, testneeds.LayerPython, "python3")
	for script, last := range map[string]string{
		"def f():\n    return {}['x']\nf()\n":                        "KeyError: 'x'",
		"import json\njson.loads('{')\n":                             "json.decoder.JSONDecodeError: ",
		"x = (\n":                                                    "SyntaxError: ",
		"import struct\nstruct.unpack('i', b'')\n":                   "struct.error: ",
		"def f(n):\n    return f(n + 1)\nf(0)\n":                     "RecursionError: ",
		"try:\n    1 / 0\nexcept ZeroDivisionError:\n    int('x')\n": "ValueError: ",
	} {
		path := filepath.Join(t.TempDir(), "x.py")
		require.NoError(t, os.WriteFile(path, []byte(script), 0o644))
		words, err := exec.Command(python, path).CombinedOutput()
		require.Error(t, err)
		got, ok := PythonTraceback(lines(string(words)))
		require.True(t, ok, "%s", words)
		require.True(t, strings.HasPrefix(got[len(got)-1], last), "%s", got)
		require.True(t, strings.HasPrefix(got[0], `  File "`+path+`", line `), "%s", got)
	}
}

func TestPeerLost(t *testing.T) {
	for text, want := range map[string]bool{
		"":                             false,
		"ValueError: shard 7 is empty": false,
		"ConnectionResetError: [Errno 104] Connection reset by peer": true,
		"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer " +
			"[127.0.0.1]:2531": true,
		"torch.distributed.DistBackendError: NCCL error in: x.cpp:2251, remote process exited " +
			"or there was a network error": true,
		"panic: read tcp 127.0.0.1:4->127.0.0.1:5: read: connection reset by peer\n\ngoroutine 1 " +
			"[running]:\nmain.main()": true,
		"Connection reset by peer, trying again\n1\n2\n3\n4\nKeyError: " +
			"'loss'": false,
	} {
		assert.Equal(t, want, PeerLost(strings.Split(text, "\n")), text)
	}
}

// The file that real PyTorch writes.
func TestRealErrorFile(t *testing.T) {
	python := testneeds.Torch(t)
	dir := t.TempDir()
	script, file := filepath.Join(dir, "x.py"), filepath.Join(dir, "error.json")
	require.NoError(t, os.WriteFile(script, []byte(`
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("bad \x1b[31m value")

main()
`), 0o644))
	cmd := exec.Command(python, script)
	cmd.Env = append(os.Environ(), "TORCHELASTIC_ERROR_FILE="+file)
	words, err := cmd.CombinedOutput()
	require.Error(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err, "%s", words)

	msg, stack, at, ok := ErrorFile(data)
	require.True(t, ok)
	require.Equal(t, "ValueError: bad  value", msg)
	require.WithinDuration(t, time.Now(), at, 10*time.Minute)
	summary, ok := PythonTraceback(stack)
	require.True(t, ok)
	require.Equal(t, []string{
		`  File "` + script + `", line 6, in main`, `    raise ValueError("bad \x1b[31m value")`,
		msg,
	}, summary)
}
