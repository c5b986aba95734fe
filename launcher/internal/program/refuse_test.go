package program

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
)

const chmodNotes = "run `chmod +x ./notes.txt` if it is a program"

func TestRefuse(t *testing.T) {
	long := strings.Repeat("/long", 60)
	sh := "#!/bin/sh\n"
	dir := folder(t, map[string]string{
		"trainer*": binaryHead(nil), "train.py": "x\n", "notes.txt": "hello\n", "solve.f90": "end\n", "two words*": sh,
		"norun": sh, "norun.sh": "echo\n", "elf": binaryHead(nil),
		"empty*": "", "text*": "echo hello\n", "text.pl*": "print 1\n", "noise*": "\x00\x01\x02\x00",
		"dangling": "->nowhere", "loop": "->loop",
		"mac*": "\xcf\xfa\xed\xfe\x00\x00\x00\x00", "windows*": "MZ\x00\x00",
		"cut*": "\x7fELF\x02\x01\x01", "foreign*": binaryHead(func(h []byte) { binary.LittleEndian.PutUint16(h[18:], 243) }),
		"big*":    binaryHead(func(h []byte) { h[5] = 2; h[18], h[19] = 0, 22 }),
		"object*": binaryHead(func(h []byte) { h[16] = byte(elf.ET_REL) }),
		"core*":   binaryHead(func(h []byte) { h[16] = byte(elf.ET_CORE) }),
		"musl*":   withLoader("/lib/ld-musl-of-no-machine.so.1"), "nix*": withLoader("/nix/store/x/ld.so"),
		"segments*": binaryHead(func(h []byte) { h[32], h[56] = 0xff, 3 }), "odd*": binaryHead(func(h []byte) { h[54] = 1 }),
		"far*":   binaryHead(func(h []byte) { h[39], h[56] = 0xff, 1 }),
		"badsh*": "#!/no/such/sh\n", "noname*": "#! \n", "crlf*": "#!/bin/sh\r\n",
		"envcrlf*": "#!/usr/bin/env python3\r\n", "envgone*": "#!/usr/bin/env nopython\n",
		"envargs*": "#!/usr/bin/env sh -e\n", "envempty*": "#!/usr/bin/env brokencmd\n", "toolong*": "#!" + long + "\n",
		"shdir*": "#!/bin\n", "viadata*": "#!./notes.txt\n", "self*": "#!./self\n",
		"data/x.csv": "", "pydir/__main__.py": "", "golib/a.go": "package lib\n", "gotest/a_test.go": "package main\n",
		"file/x": "", "venv/bin/python": "->/no/base/python3", "nopy/bin/python": "x",
		"bin/python3*": binaryHead(nil), "bin/brokencmd*": "", "bin/nccl-test*": sh, "bin/locked": sh, "bin/env*": sh,
	})
	require.NoError(t, unix.Mkfifo(dir+"/fifo", 0o755))
	t.Chdir(dir)
	for name, test := range map[string]struct {
		name             string
		args             []string
		start            spec.Start
		interpreter, dir string
		path             string // PATH, "" is bin
		code             int
		reason, hint     string
	}{
		"empty name": {name: "", code: 127, reason: `"": empty program name`},
		"missing":    {name: "./nosuch", code: 127, reason: "./nosuch: no such file"},
		"missing everywhere": {
			name: "nosuch", code: 127, reason: "nosuch: not found in PATH or the working directory",
		},
		"mistyped": {
			name: "./trianer", code: 127, reason: "./trianer: no such file", hint: "did you mean ./trainer?",
		},
		"mistyped plain": {
			name: "Trainer", code: 127, reason: "Trainer: not found in PATH or the working directory",
			hint: "did you mean ./trainer?",
		},
		"ending left out": {
			name: "train", code: 127, reason: "train: not found in PATH or the working directory",
			hint: "did you mean ./train.py?",
		},
		"in the wrong directory": {
			name: "build/trainer", code: 127, reason: "build/trainer: no such file",
			hint: "did you mean ./trainer?",
		},
		"source": {
			name: "./solve.f90", code: 126, reason: "./solve.f90: is no program yet",
			hint: "compile it first: `mpifort -o ./solve ./solve.f90`",
		},
		"not built": {
			name: "solve", code: 127, reason: "solve: not found in PATH or the working directory",
			hint: "compile it first: `mpifort -o ./solve ./solve.f90`",
		},
		"not quoted": {
			name: "./two", args: []string{"words", "-v"}, code: 127, reason: "./two: no such file",
			hint: "quote its name, which has a blank: './two words'",
		},
		"mistyped in PATH": {
			name: "ncl-test", code: 127, reason: "ncl-test: not found in PATH or the working directory",
		},
		"control bytes": {
			name: "./\x1b[31mred\n", code: 127, reason: `"./\x1b[31mred\n": no such file`,
		},
		"below a file": {
			name: "file/x/y", code: 126, reason: "file/x/y: file/x is not a directory",
		},
		"dangling": {
			name: "./dangling", code: 127,
			reason: "./dangling: is a symbolic link to nowhere, which does not exist",
		},
		"dangling plain": {
			name: "dangling", code: 127,
			reason: "dangling: is a symbolic link to nowhere, which does not exist",
		},
		"loop": {
			name: "./loop", code: 126, reason: "./loop: its symbolic links form a loop",
		},
		"long name": {
			name: "./" + strings.Repeat("a", 300), code: 126, reason: "./" + strings.Repeat("a", 300) +
				": file name too long",
		},
		"no run bit": {
			name: "./norun", code: 126, reason: "./norun: permission denied: not executable",
			hint: "run `chmod +x ./norun`",
		},
		"no run bit, plain": {
			name: "elf", code: 126, reason: "elf: permission denied: not executable",
			hint: "run `chmod +x ./elf`",
		},
		"no run bit in PATH": {
			name: "locked", code: 126, reason: "locked: permission denied: not executable",
			hint: "run `chmod +x " + dir + "/bin/locked`",
		},
		"no run bit, shell": {
			name: "norun.sh", code: 126,
			reason: "norun.sh: permission denied: not executable, and without a #! line", hint: "run `gorun sh ./norun.sh`",
		},
		"no run bit, data": {
			name: "notes.txt", code: 126, reason: "notes.txt: permission denied: not executable",
			hint: chmodNotes,
		},
		"--no-python with a script": {
			name: "train.py", start: spec.StartExec, code: 126,
			reason: "train.py: permission denied: not executable, and without a #! line", hint: "run `gorun python3 ./train.py`",
		},
		"--no-python with a directory": {
			name: "golib", start: spec.StartExec, code: 126, reason: "golib: is a directory",
		},
		"empty": {name: "./empty", code: 126, reason: "./empty: is an empty file"},
		"text": {
			name: "text", code: 126,
			reason: "text: is a text without a #! line, so the kernel does not know what runs it",
			hint:   "run `gorun sh ./text`, or begin the file with #!/bin/sh",
		},
		"perl text": {
			name: "text.pl", code: 126,
			reason: "text.pl: is a text without a #! line, so the kernel does not know what runs it",
			hint:   "run `gorun perl ./text.pl`, or begin the file with a line such as #!/usr/bin/env perl",
		},
		"noise": {
			name: "noise", code: 126, reason: "noise: is neither a program for this machine nor a script",
		},
		"macOS": {
			name: "mac", code: 126, reason: "mac: is a program for macOS, this is Linux",
		},
		"Windows": {
			name: "windows", code: 126, reason: "windows: is a program for Windows, this is Linux",
		},
		"named pipe": {name: "fifo", code: 126, reason: "fifo: is not a file but a named pipe"},
		"device": {
			name: "/dev/null", code: 126, reason: "/dev/null: is not a file but a device",
		},
		"cut off": {
			name: "cut", code: 126, reason: "cut: is a damaged program: it ends within its header",
		},
		"another machine": {
			name: "foreign", code: 126, reason: "foreign: is built for riscv64, this host is ",
		},
		"another order of bytes": {
			name: "big", code: 126, reason: "big: is built for s390x, this host is ",
		},
		"object file": {
			name: "object", code: 126, reason: "object: is an object file: link it first",
		},
		"core": {name: "core", code: 126, reason: "core: is a core dump"},
		"no loader": {
			name: "nix", code: 127, reason: "nix: needs the loader /nix/store/x/ld.so: no such file",
		},
		"musl": {
			name: "musl", code: 127,
			reason: "musl: needs the loader /lib/ld-musl-of-no-machine.so.1: no such file",
			hint:   "link it statically or build it on this system: it was linked with musl (Alpine)",
		},
		"segments beyond the end": {
			name: "segments", code: 126,
			reason: "segments: is a damaged program: its segments are not where its header says",
		},
		"segments far beyond": {
			name: "far", code: 126,
			reason: "far: is a damaged program: its segments are not where its header says",
		},
		"segments of an odd size": {
			name: "odd", code: 126,
			reason: "odd: is a damaged program: its segments are not where its header says",
		},
		"no interpreter": {
			name: "badsh", code: 127, reason: "badsh: its #! line needs /no/such/sh: no such file",
		},
		"no interpreter's name": {
			name: "noname", code: 126, reason: "noname: its #! line has no interpreter",
		},
		"interpreter's name too long": {
			name: "toolong", code: 126,
			reason: "toolong: its #! line is longer than the 256 bytes that the kernel reads",
		},
		"interpreter is a directory": {
			name: "shdir", code: 126,
			reason: "shdir: its #! line needs /bin: is not a file but a directory",
		},
		"interpreter is data": {
			name: "viadata", code: 126,
			reason: "viadata: its #! line needs ./notes.txt: permission denied: not executable", hint: chmodNotes,
		},
		"interpreter is itself": {
			name: "self", code: 126, reason: "its interpreters are scripts, more than five deep",
		},
		"CR LF": {
			name: "crlf", code: 127,
			reason: `crlf: its lines end in CR LF, as on Windows, so its #! line asks for "/bin/sh\r"`,
			hint:   "run `sed -i 's/\\r$//' crlf`",
		},
		"CR LF with env": {
			name: "envcrlf", code: 127,
			reason: `envcrlf: its lines end in CR LF, as on Windows, so its #! line asks for "/usr/bin/env python3\r"`,
			hint:   "run `sed -i 's/\\r$//' envcrlf`",
		},
		"env finds nothing": {
			name: "envgone", code: 127, reason: "envgone: its #! line needs nopython, which is not in PATH",
		},
		"env with arguments": {
			name: "envargs", code: 127,
			reason: `envargs: its #! line has env look for one command named "sh -e"`,
			hint:   "write `#!/usr/bin/env -S sh -e`, which splits it into words",
		},
		"env finds an empty file": {
			name: "envempty", code: 126, reason: "envempty: its #! line needs brokencmd: is an empty file",
		},
		"directory": {
			name: "data", code: 126, reason: "data: is a directory, without a Go program",
		},
		"directory with tests": {
			name: "./gotest", code: 126, reason: "./gotest: is a directory, without a Go program",
		},
		"Python directory": {
			name: "pydir", code: 126, reason: "pydir: is a directory, without a Go program",
			hint: "run `gorun python3 ./pydir` to start its __main__.py",
		},
		"Go library": {
			name: "golib", code: 126,
			reason: "golib: holds the Go package lib, which is not a program (package main)",
		},
		"torchrun with a binary": {
			name: "trainer", start: spec.StartPython, code: 126,
			reason: "trainer: is a compiled program, not a Python script", hint: "add `--no-python` to run it as it is",
		},
		"torchrun with a directory": {
			name: "data", start: spec.StartPython, code: 126,
			reason: "data: is a directory without a __main__.py",
		},
		"torchrun, missing": {
			name: "trian.py", start: spec.StartPython, code: 127, reason: "trian.py: no such file",
			hint: "did you mean ./train.py?",
		},
		"torchrun with a command": {
			name: "nccl-test", start: spec.StartPython, code: 127, reason: "nccl-test: no such file",
			hint: "add `--no-python` to run nccl-test from PATH as it is",
		},
		"torchrun, nothing like it": {
			name: "ncl-test", start: spec.StartPython, code: 127, reason: "ncl-test: no such file",
		},
		"-m with a path": {
			name: "./train.py", start: spec.StartModule, code: 127,
			reason: "./train.py: is a path, not the name of a Python module (-m takes package.module)",
			hint:   "leave out `-m` to run a file",
		},
		"-m with a file": {
			name: "train.py", start: spec.StartModule, code: 127,
			reason: "train.py: is a file, not the name of a Python module", hint: "did you mean `-m train`?",
		},
		"no python3": {
			name: "train.py", path: "/nowhere", code: 127,
			reason: "train.py: its interpreter python3: not found in PATH",
		},
		"no python3 for a module": {
			name: "json", start: spec.StartModule, path: "/nowhere", code: 127,
			reason: "-m json: its interpreter python3: not found in PATH",
		},
		"no interpreter of that name": {
			name: "train.py", interpreter: "/opt/py", code: 127,
			reason: "train.py: its interpreter /opt/py: no such file",
		},
		"interpreter is no program": {
			name: "train.py", interpreter: "./notes.txt", code: 126,
			reason: "train.py: its interpreter ./notes.txt: permission denied: not executable", hint: chmodNotes,
		},
		"broken environment": {
			name: "train.py", path: "VIRTUAL_ENV=venv", code: 127,
			reason: "train.py: its interpreter venv/bin/python: is a symbolic link to /no/base/python3, which does not exist",
		},
		"no working directory": {
			name: "trainer", dir: "nowhere", code: 127,
			reason: "trainer: the working directory nowhere does not exist",
		},
		"working directory is a file": {
			name: "trainer", dir: "train.py", code: 126,
			reason: "trainer: the working directory train.py is not a directory",
		},
		"working directory below one": {
			name: "trainer", dir: "train.py/x", code: 126,
			reason: "trainer: the working directory train.py/x: train.py is not a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(spec.Command{
				Name: test.name, Args: test.args, Start: test.start, Interpreter: test.interpreter, Dir: test.dir,
			}, func(name string) string {
				variable, value, ok := strings.Cut(test.path, "=")
				switch {
				case ok && name == variable:
					return value
				case name != "PATH":
					return ""
				case test.path == "":
					return dir + "/bin"
				}
				return test.path
			})
			require.Zero(t, got)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Error(), test.reason)
			require.Equal(t, test.hint, e.Hint)
			require.Equal(t, test.code, e.Code)
		})
	}
}

func TestRefuseWithoutPermission(t *testing.T) {
	dir := folder(t, map[string]string{
		"closed/trainer*": binaryHead(nil), "mine*": "#!/bin/sh\n", "secret.py": "",
		"work/x": "",
	})
	require.NoError(t, os.Chmod(dir+"/mine", 0o700))
	require.NoError(t, os.Chmod(dir+"/secret.py", 0o600))
	require.NoError(t, os.Chmod(dir+"/closed", 0o600))
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o700) })
	if os.Geteuid() != 0 { // then the owner is the other user
		require.NoError(t, os.Chmod(dir+"/mine", 0o070))
		require.NoError(t, os.Chmod(dir+"/secret.py", 0o060))
	}
	for name, want := range map[string]string{
		"closed/trainer": "permission denied: the directory " + dir + "/closed is not accessible to this user",
		"mine":           "permission denied: this user may not execute it",
		"secret.py":      "permission denied: Python could not read it",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unprivileged(t, dir, spec.Command{Name: dir + "/" + name})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, dir+"/"+name+": "+want, e.Error())
			require.Equal(t, 126, e.Code)
		})
	}
	_, err := unprivileged(t, dir, spec.Command{Name: "x", Dir: dir + "/closed/work"})
	require.EqualError(t, err, "x: the working directory "+dir+"/closed/work: permission denied: the directory "+dir+
		"/closed is not accessible to this user")
}

func TestRefuseInRemovedDirectory(t *testing.T) {
	dir := t.TempDir() + "/gone"
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Chdir(dir)
	require.NoError(t, os.Remove(dir))
	_, err := Resolve(spec.Command{Name: "./trainer"}, noEnvironment)
	require.EqualError(t, err, "./trainer: not found: the working directory was removed")
	_, err = Resolve(spec.Command{Name: "sh"}, noEnvironment)
	require.NoError(t, err, "what is not in it runs all the same")
}

// What is refused here is refused by the kernel, with the error that the code is for.
func TestKernelAgrees(t *testing.T) {
	dir := folder(t, map[string]string{
		"empty*": "", "text*": "echo\n", "noise*": "\x00\x01", "cut*": "\x7fELF\x02\x01\x01",
		"musl*":  withLoader("/lib/ld-musl-of-no-machine.so.1"),
		"badsh*": "#!/no/such/sh\n", "noname*": "#! \n", "crlf*": "#!/bin/sh\r\n", "shdir*": "#!/bin\n",
		"norun": "#!/bin/sh\n", "dangling": "->nowhere",
		"foreign*": binaryHead(func(h []byte) {
			binary.LittleEndian.PutUint16(h[18:], 243)
		}), "toolong*": "#!" + strings.Repeat("/long", 60) + "\n",
		"self*": "#!self\n", "segments*": binaryHead(func(h []byte) { h[32], h[56] = 0xff, 3 }),
	})
	t.Chdir(dir)
	names, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range names {
		t.Run(entry.Name(), func(t *testing.T) {
			_, err := Resolve(spec.Command{Name: "./" + entry.Name(), Start: spec.StartExec}, noEnvironment)
			var e *Error
			require.ErrorAs(t, err, &e)
			_, err = syscall.ForkExec("./"+entry.Name(), []string{entry.Name()}, &syscall.ProcAttr{})
			require.Error(t, err)
			require.Equal(t, e.Code == 127, errors.Is(err, syscall.ENOENT), "%v, and the kernel says %v", e, err)
		})
	}
}

func TestKernelRuns(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	require.True(t, kernelRuns(self))
	dir := folder(t, map[string]string{"text*": "echo\n"})
	require.False(t, kernelRuns(dir+"/text"))
}

// A program that the kernel is asked about must not do anything.
func TestKernelRunsNothing(t *testing.T) {
	dir := folder(t, map[string]string{"touch*": "#!/bin/sh\necho ran > \"$0.ran\"\n"})
	require.True(t, kernelRuns(dir+"/touch"))
	require.NoFileExists(t, dir+"/touch.ran")
	var status syscall.WaitStatus
	_, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	require.ErrorIs(t, err, syscall.ECHILD, "it has been waited for")
}

func TestWord(t *testing.T) {
	for name, want := range map[string]string{
		"./a-b_c.py": "./a-b_c.py", "my prog": "'my prog'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "-x": "./-x",
		"grün":   "'grün'",
		"a\x1bb": `'"a\x1bb"'`,
	} {
		require.Equal(t, want, word(name))
	}
}
